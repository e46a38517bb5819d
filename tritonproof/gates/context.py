"""What gates get: a loaded model, its answers to samples sent alone, and how others are held to these."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec import structs

from tritonproof.accuracy.expected import ExpectedBySignature, expect_by_signature
from tritonproof.accuracy.limits import MIN_NOISE, NOISE_FACTOR, AnswerLimits, NumberLimits, inferred_limits
from tritonproof.accuracy.sameness import (
    AnswerComparison,
    Mismatch,
    answers_to,
    compare_groups,
    typical_difference,
)
from tritonproof.client.in_flight import IN_FLIGHT, IN_FLIGHT_BYTES
from tritonproof.client.input_data import InputData
from tritonproof.client.requests import Answer, ServedModel, ask_samples
from tritonproof.host.locks import OnWait
from tritonproof.record.schema import GateResult, SameAnswers
from tritonproof.serve.messages import content_bytes
from tritonproof.serve.server import LoadedCase
from tritonproof.spec import Arrays


def ask(
    served: ServedModel, sample_indices: Sequence[Sequence[int] | np.ndarray], in_flight: int = 1
) -> list[Answer]:
    """The answers to requests for samples, by index, `in_flight` at once, as they come. Raises ProofError."""
    requests = [np.asarray(samples, int) for samples in sample_indices]
    rows = max(map(len, requests), default=1)
    where = f"{served.name}, {'alone' if rows == in_flight == 1 else f'b{rows:03d}-c{in_flight:03d}'}"
    return ask_samples(served, requests, in_flight, where)


_STEADY_SHARE = 0.99
"""The least share of equal elements in the answers to a repeated request, for the others to be noise."""
AnswersBySample = Mapping[int, Arrays]
"""One answer to each sample, by the sample's index: its outputs without the batch axis."""


@dataclass(frozen=True, kw_only=True)
class SingleAnswers:
    """The answers to samples that were each sent alone: gates hold all other answers to them."""

    rows: AnswersBySample
    groups: ExpectedBySignature
    wide_limits: AnswerLimits
    """Those of GateContext, inferred from the answers if need be, and at least as wide as their noise."""
    noise_limits: AnswerLimits
    """How far answers may differ if nothing may change them: the noise of the same request, mostly none."""
    noise: float = 0.0
    """How far repeated answers typically are from the first, as a share of the spread."""
    repeats: Sequence[Answer] = ()
    """The answers to the same requests, sent again in the same order, which show the noise."""

    @property
    def tells_apart(self) -> bool:
        """Whether different samples get different answers."""
        return len(self.groups) > 1 or any(expected.tells_apart for _, expected in self.groups.values())


@dataclass(frozen=True)
class AnswersFolder:
    """A folder that keeps the answers of models to those that later runs give."""

    path: Path
    case: str
    """The id of the case whose answers are held to them."""
    run_id: str | None
    """The id of the run, if it records answers; None if it only compares them."""
    on_wait: OnWait
    """Called while another run records."""


@dataclass(frozen=True)
class GateContext:
    """What a gate gets: the model as it is loaded, its answers before, and what single gates need."""

    served: ServedModel
    loaded: LoadedCase
    single_answers: SingleAnswers
    limits: AnswerLimits
    """How far answers to one sample may differ if other kernels may compute them."""
    min_noise: float = MIN_NOISE
    """How far answers may be apart in any case, as a share of the spread; the user may ask for more."""
    kernels_may_change: bool = False
    """Whether a loading may change kernels: on a GPU libraries choose them by trying some."""
    remaining_data: Callable[[], Iterable[InputData]] = tuple
    """Gives samples that no other check sends."""
    can_share_memory: bool = False
    """Whether the server and this process may share memory for requests."""
    answers_folder: AnswersFolder | None = None
    """None if the user gave none."""

    @property
    def largest_batch(self) -> int:
        """The most rows of a request by the model's configuration; 1 if its tensors have no batch axis."""
        return self.loaded.deployment.max_batch_size

    @property
    def takes_batches(self) -> bool:
        """Whether a request may hold several samples."""
        return self.served.model.batched and self.largest_batch > 1

    @property
    def why_nothing_compared(self) -> str:
        """That an output is in no answer given alone, so that nothing is compared, in words; else empty."""
        names = {tensor.name for tensor in self.served.model.outputs}
        lacking = ", ".join(sorted(names.difference(*self.single_answers.rows.values())))
        return f"no answer could be read with a row of {lacking} for each sample" if lacking else ""

    @property
    def kernel_sizes(self) -> list[int]:
        """Batch sizes that decide which kernels run, however busy the machine is: 1, the powers of two, the
        preferred sizes and the largest one, each with one more and one less."""
        largest = min(self.largest_batch, self.most_rows)
        powers = (2**power for power in range(min(largest, 1024).bit_length()))
        chosen = {1, self.largest_batch, *powers, *self.loaded.deployment.preferred_batch_sizes}
        sizes = {size + step for size in chosen for step in (-1, 0, 1)}
        return sorted(size for size in sizes if 1 <= size <= largest)

    @property
    def batch_sizes(self) -> list[int]:
        """The batch sizes to try: all up to 64, and of larger ones those that decide which kernels run."""
        return sorted({*self.kernel_sizes, *range(1, min(self.largest_batch, 64, self.most_rows) + 1)})

    @functools.cached_property
    def most_rows(self) -> int:
        """How many rows a batch may have, by the bytes of its largest sample and answer; one at least."""
        return self._most_rows(self.served.data.batchable)

    def most_in_flight(self, rows: int) -> int:
        """How many requests of so many rows may be in flight; two at least."""
        most_rows = self.most_rows if rows > 1 else self._most_rows(len(self.served.data.ids))
        return max(2, min(IN_FLIGHT, most_rows // rows))

    def _most_rows(self, count: int) -> int:
        answers = (content_bytes(row) for sample, row in self.single_answers.rows.items() if sample < count)
        row_bytes = max(self.served.data.sizes[:count]) + max(answers, default=0)
        return max(1, min(1 << 20, IN_FLIGHT_BYTES // max(1, row_bytes)))  # a million take a gigabyte


class GateFinding(NamedTuple):
    """What the check of a gate has found."""

    result: GateResult
    mismatch: Mismatch | None = None
    """The whole first wrong answer, if a single one is wrong."""


def ask_one_by_one(served: ServedModel, limits: AnswerLimits, min_noise: float = MIN_NOISE) -> SingleAnswers:
    """The answers to all samples, each sent alone, one after the other, and to the same requests again; the
    rest is as in GateContext."""
    requests = [[sample] for sample in range(len(served.data.ids))]
    rows, repeats = rows_of(ask(served, requests)), ask(served, requests)
    limits = inferred_limits(limits, rows.values())
    return make_single_answers(served.data.ids, rows, limits, repeats, min_noise)


def rows_of(answers: Iterable[Answer]) -> dict[int, Arrays]:
    """The first answer to each sample, of outputs that have as many rows as the request had."""
    rows: dict[int, Arrays] = {}
    for answer in answers:
        for row, sample in enumerate(map(int, answer.sample_indices)):
            rows.setdefault(sample, {name: values[row, ...] for name, values in answer.outputs.items()})
    return rows


def make_single_answers(
    ids: Sequence[str],
    rows: AnswersBySample,
    limits: AnswerLimits,
    repeats: Sequence[Answer] = (),
    min_noise: float = MIN_NOISE,
) -> SingleAnswers:
    """The answers `rows`, with the noise that `repeats` show; at least `min_noise` of the spread is
    allowed. More noise than other kernels may cause is a fault, and allows nothing more."""
    groups = expect_by_signature(rows, lambda sample: str(ids[sample]))
    noises = (typical_difference(expected, answers_to(keys, repeats)) for keys, expected in groups.values())
    noise = max(noises, default=0.0)
    largest = max(min_noise, min(NOISE_FACTOR * noise, limits.default.max_element))
    # Where numbers are noisy, classes may be tied, as one voxel in two million of a mask may be whose scores
    # are no output; without noise every integer is equal.
    same = compare_groups(groups, repeats, limits).same
    is_noisy = noise > 0 or (same.passed and _STEADY_SHARE <= same.agreement < 1)
    agreement = (limits.min_agreement, limits.agreement_by_output) if is_noisy else (1.0, {})
    noise_limits = AnswerLimits(NumberLimits(largest, np.inf), *agreement)
    limits = limits.at_least(largest)
    return SingleAnswers(
        rows=rows, groups=groups, wide_limits=limits, noise_limits=noise_limits, noise=noise, repeats=repeats
    )


def same_answers_entry(singles: SingleAnswers, comparison: AnswerComparison) -> SameAnswers:
    """The record's entry for a comparison with answers that were given alone."""
    largest = comparison.same.relative_difference
    return structs.replace(
        comparison.same,
        samples=len(singles.rows),
        relative_difference=largest if largest is not None and np.isfinite(largest) else None,
        tells_apart=singles.tells_apart,
    )
