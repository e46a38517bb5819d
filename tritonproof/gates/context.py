"""What gates get: a loaded model, its answers to samples sent alone, and the comparison with these."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tritonproof.accuracy.answer_comparison import AnswerFinding, ExpectedAnswers
from tritonproof.accuracy.expected import ExpectedGroup, expect_by_signature
from tritonproof.accuracy.limits import CaseLimits
from tritonproof.accuracy.outputs import beyond_rounding, differences
from tritonproof.accuracy.precisions import PRECISIONS
from tritonproof.client.input_data import InputData
from tritonproof.client.requests import IN_FLIGHT, IN_FLIGHT_BYTES, Answer, LoadedAs, ServedModel
from tritonproof.record.correctness import AnswerComparison, GateResult
from tritonproof.serve.messages import content_size_bytes
from tritonproof.spec import Arrays, Samples

_STEADY_SHARE = 0.99
"""The least share of equal integers in repeated answers with which the unequal ones count as noise."""


@dataclass(frozen=True, kw_only=True)
class SingleAnswers:
    """The answers to samples that were each sent alone, with which gates compare all other answers."""

    by_sample: Mapping[int, Arrays]
    """One answer to each sample, by the sample's index: outputs without the batch axis."""
    across_kernels: ExpectedAnswers
    """The answers, with the limits for answers that other kernels may compute: the noise or wider."""
    within_noise: ExpectedAnswers
    """The answers, with the limits where only noise may change one: a multiple of `noise`, usually 0."""
    noise: float = 0.0
    """How far answers to a repeated request typically differ, as a share of the spread."""
    repeats: Sequence[Answer] = ()
    """The answers to the same requests, sent again in the same order, from which the noise is known."""


@dataclass(frozen=True)
class GateContext:
    """What a gate gets: the loaded model, its answers to samples alone, and what some gates need."""

    served: ServedModel
    loaded: LoadedAs
    single_answers: SingleAnswers
    limits: CaseLimits
    kernels_may_change: bool = False
    """Whether loading the model again may change its kernels: on a GPU libraries try some and choose."""
    evaluation_samples: Samples | None = None
    """The evaluation samples, if no other check sends them; else None."""
    can_share_memory: bool = False
    """Whether requests may go through memory that the server and this process share."""

    @property
    def largest_batch(self) -> int:
        """The most rows of a request, by the model's configuration; 1 if its tensors have no batch axis."""
        return self.loaded.variant.deployment.max_batch_size

    @property
    def takes_batches(self) -> bool:
        return self.served.model.batched and self.largest_batch > 1

    @property
    def why_nothing_compared(self) -> str:
        """Why nothing can be compared, as a sentence: some output is in no answer given alone. Else empty."""
        names = {tensor.name for tensor in self.served.model.outputs}
        lacking = ", ".join(sorted(names.difference(*self.single_answers.by_sample.values())))
        return f"no answer could be read with a row of {lacking} for each sample" if lacking else ""

    @property
    def kernel_sizes(self) -> list[int]:
        """Batch sizes that decide which kernels run, however busy the machine is: 1, the powers of two, the
        preferred sizes and the largest size, each also with one row more and one less."""
        largest = min(self.largest_batch, self.most_rows)
        powers = (2**power for power in range(min(largest, 1024).bit_length()))
        chosen = {1, self.largest_batch, *powers, *self.loaded.variant.deployment.preferred_batch_sizes}
        sizes = {size + step for size in chosen for step in (-1, 0, 1)}
        return sorted(size for size in sizes if 1 <= size <= largest)

    @property
    def batch_sizes(self) -> list[int]:
        """The batch sizes to try: all up to 64, and the larger ones that decide which kernels run."""
        return sorted({*self.kernel_sizes, *range(1, min(self.largest_batch, 64, self.most_rows) + 1)})

    @functools.cached_property
    def most_rows(self) -> int:
        """The most rows of a batch, at least one, by the bytes of the largest sample and answer."""
        return self._most_rows(self.served.data.batchable_count)

    def most_in_flight(self, row_count: int) -> int:
        """The most requests in flight, of `row_count` rows each; at least two."""
        most_rows = self.most_rows if row_count > 1 else self._most_rows(len(self.served.data.ids))
        return max(2, min(IN_FLIGHT, most_rows // row_count))

    def answers_to(self, data: InputData) -> SingleAnswers:
        """The answers to the samples of `data`, each sent alone: the context's own if `data` is its load
        data, else answers that this asks for now."""
        if data is self.served.data:
            return self.single_answers
        return ask_one_by_one(dataclasses.replace(self.served, data=data), self.limits)

    def _most_rows(self, count: int) -> int:
        rows = (row for sample, row in self.single_answers.by_sample.items() if sample < count)
        row_bytes = max(self.served.data.sample_bytes[:count]) + max(map(content_size_bytes, rows), default=0)
        return max(1, min(1 << 20, IN_FLIGHT_BYTES // max(1, row_bytes)))  # a million take a gigabyte


def ask_one_by_one(served: ServedModel, limits: CaseLimits) -> SingleAnswers:
    """Ask for each sample alone, one after the other, and again in the same order; return the answers."""
    requests = [[sample] for sample in range(len(served.data.ids))]
    rows, repeats = rows_of(served.ask(requests)), served.ask(requests)
    return make_single_answers(served.data.ids, rows, limits, repeats)


def rows_of(answers: Iterable[Answer]) -> dict[int, Arrays]:
    """The first answer to each sample, by index. An output with more or fewer rows than sent is missing."""
    rows: dict[int, Arrays] = {}
    for answer in answers:
        for row, sample in enumerate(map(int, answer.sample_indices)):
            rows.setdefault(sample, {name: values[row, ...] for name, values in answer.outputs.items()})
    return rows


def make_single_answers(
    ids: Sequence[str], rows: Mapping[int, Arrays], limits: CaseLimits, repeats: Sequence[Answer] = ()
) -> SingleAnswers:
    """The answers `rows`, by sample index, with limits that allow the noise which `repeats` show."""
    limits = limits.inferred(rows.values())
    expected = expect_by_signature(rows, ids)
    noise = max((typical_difference(part, repeats) for part in expected.values()), default=0.0)
    # Where numbers are noisy, integers may tie, such as one voxel in two million of a mask without scores
    # among the outputs; without noise every integer must be equal.
    repeated = ExpectedAnswers(expected, limits.kernels).compare(repeats).result
    has_ties = noise > 0 or (not repeated.wrong and _STEADY_SHARE <= (repeated.agreement or 0.0) < 1)
    return SingleAnswers(
        by_sample=rows,
        across_kernels=ExpectedAnswers(expected, limits.across_kernels(noise), "alone"),
        within_noise=ExpectedAnswers(expected, limits.within_noise(noise, has_ties=has_ties), "alone"),
        noise=noise,
        repeats=repeats,
    )


def typical_difference(expected: ExpectedGroup, answers: Sequence[Answer]) -> float:
    """How far numbers typically differ from expected ones beyond FP32's rounding, as a share of the spread:
    the median over rows of a row's largest difference, so that a few wrong answers do not count as noise."""
    parts = []
    for answer in expected.rows_in(answers):
        largest = np.zeros(len(answer.sample_indices))
        for name, spread in expected.spreads.items():
            expected_rows, actual = expected.outputs[name][answer.sample_indices], answer.outputs.get(name)
            if actual is not None and actual.shape == expected_rows.shape and actual.dtype.kind == "f":
                rounding = PRECISIONS["fp32"].rounding
                beyond = beyond_rounding(differences(actual, expected_rows), spread, rounding)
                largest = np.maximum(largest, beyond.reshape(len(largest), -1).max(axis=1, initial=0.0))
        parts.append(largest)
    return float(np.median(np.concatenate(parts))) if parts else 0.0


def gate_finding(
    gate_name: str, context: GateContext, finding: AnswerFinding[AnswerComparison], requests: int, tried: str
) -> AnswerFinding[GateResult]:
    """The finding of the gate `gate_name`, from the `finding` of its comparison with expected answers."""
    fault = context.why_nothing_compared or wrong_text(finding.result)
    return AnswerFinding(GateResult(gate_name, requests, tried, fault, finding.result), finding.mismatch)


def wrong_text(comparison: AnswerComparison) -> str:
    """How many answers are wrong, and the first one, in words; empty if none is."""
    first = comparison.first_wrong_text
    return f"{comparison.wrong} of {comparison.count} answers differ{first}" if first else ""
