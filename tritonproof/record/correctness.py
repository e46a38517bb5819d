"""What a record says of the answers: are they right, and do they equal another server's?"""

from typing import Literal

from tritonproof.record.fields import Better, Count, Name, Number, Struct, Text
from tritonproof.record.setup import Origin


class OutputDifference(Struct, frozen=True):
    """The differences of an output from the previous stage's, on all samples: the converted model's from the
    framework's, or the served model's from the same file's in process. If a row's integers differ, except
    classes of scores, its floating-point outputs do not count: a longer duration moves all later ones."""

    output: Text
    kind: Literal["error", "differing"]
    """What `largest` and `mean` are. error: the largest difference of a floating-point number beyond
    rounding, as a share of its column's spread over all samples, and the mean difference as a share of the
    mean magnitude; differing: the share of unequal integers in the worst (or a wrong) row and in all."""
    largest: Number
    largest_limit: Number
    mean: Number
    mean_limit: Number
    sample: Text
    """The id of the row with the largest difference; empty if nothing differs."""
    expected: Number
    """The previous stage's value at the index of the largest difference; `actual` is this stage's."""
    actual: Number
    source: Text
    compared_share: Number = 1.0
    """The share of rows that were compared; for floating-point outputs only rows whose integers agree."""
    compared_share_limit: Number = 0.0

    @property
    def passed(self) -> bool:
        """Whether the largest and the mean difference, and the share of compared rows, keep their limits."""
        is_within = self.largest <= self.largest_limit and self.mean <= self.mean_limit
        return is_within and self.compared_share >= self.compared_share_limit


class Conversion(Struct, frozen=True):
    """The converted model in process compared with the framework, on the same samples."""

    samples: Count
    relative_error: Number | None
    """The error of the floating-point output nearest to its limit: the largest absolute difference beyond
    rounding, as a share of the spread of its column over all samples. None without such an output."""
    relative_error_limit: Number
    agreement: Number | None
    """The mean fraction of equal decisions per sample; None for a model that decides nothing."""
    agreement_limit: Number | None
    """The least agreement that passes; None without decisions, and for random weights, which decide ties."""
    origin: Origin | None = None
    precision_cost: Number | None = None
    """The cost of the precision for the output that suffers most: the mean absolute error of the framework's
    network with values rounded to the precision, or of FP32 from FP64, over the mean absolute value. None
    without floating-point outputs or without a known framework network."""
    error_in_costs: Number | None = None
    """The converted model's mean error of that output over `precision_cost`; about 1 if it is right."""
    error_in_costs_limit: Number | None = None
    outputs: tuple[OutputDifference, ...] = ()
    is_users_file: bool = False
    """Whether the artifact is the user's ONNX file itself, so that only optimisation makes differences."""

    @property
    def passed(self) -> bool:
        """Whether the error, the agreement and every output keep their limits."""
        is_near = self.relative_error is None or self.relative_error <= self.relative_error_limit
        agrees = self.agreement is None or self.agreement >= (self.agreement_limit or 0.0)
        return is_near and agrees and all(output.passed for output in self.outputs)


class Disagreement(Struct, frozen=True):
    """Samples for which two neighbouring stages decide differently."""

    between: tuple[Text, Text]
    """The two stages: framework and converted, or converted and served."""
    count: Count
    """The number of samples with at least one decision that differs."""
    lost: Count
    """The number of these samples that score worse in the second stage, by the ledger's first metric."""
    gained: Count
    sample_ids: tuple[Text, ...]
    """The ids of the samples that differ, at most the first hundred."""
    agreement: Number
    agreement_limit: Number | None

    @property
    def passed(self) -> bool:
        return self.agreement_limit is None or self.agreement >= self.agreement_limit


class Limit(Struct, frozen=True):
    """The worst score that passes, and where the figure comes from."""

    value: Number
    source: Text


class Score(Struct, frozen=True):
    """One metric after each stage."""

    metric: Text
    better: Better
    """higher: a fraction from 0 to 1, shown in percent; lower: an error, shown as a number."""
    framework: Number | None
    """The score of the framework; None, as `converted`, for a model that is served as it is."""
    converted: Number | None
    served: Number
    limits: tuple[Limit, ...]

    @property
    def passed(self) -> bool:
        return all(meets(self.better, self.served, limit.value) for limit in self.limits)

    @property
    def tightest_limit(self) -> Limit | None:
        """The strictest limit; None if there is none."""
        choose = max if self.better == "higher" else min
        return choose(self.limits, key=lambda limit: limit.value, default=None)


def meets(better: str, score: float, limit: float) -> bool:
    """Whether a score is no worse than a limit."""
    return score >= limit if better == "higher" else score <= limit


class WrongAnswer(Struct, frozen=True):
    """An answer that differs from the expected one: see `AnswerComparison.expected_from`."""

    sample: Text
    output: Text
    """The output and the element that differs most: `OUTPUT__0[3]`."""
    expected: Text
    """The element's expected value, as a text since it may not be finite; `actual` is the server's."""
    actual: Text


class AnswerComparison(Struct, frozen=True):
    """Answers compared with the expected ones to the same samples, by gates or between a point's passes."""

    count: Count
    """The number of compared answers, to all samples in all ways; each row of a batch is one."""
    wrong: Count = 0
    relative_difference: Number | None = None
    """The difference nearest to its limit, beyond rounding, as a share of the spread of its column over all
    samples; None without floating-point outputs, or if one is not a number."""
    limit: Number | None = None
    """The largest `relative_difference` of the same output that passes; None without
    floating-point outputs."""
    agreement: Number | None = None
    """The least share of elements of an integer or text output that equal the expected ones; None if nothing
    was compared."""
    left_out: Count = 0
    """The number of answers whose floating-point outputs were not compared, as some integers differ."""
    sample: Text = ""
    """The sample whose answers differ most."""
    first_wrong: WrongAnswer | None = None
    expected_from: Text = "alone"
    """Where the expected answers are from: alone, the server's to single requests, or in an earlier batch; in
    process, the converted model's; recorded; or by another repository or Triton."""
    tells_apart: bool = True
    """Whether different samples get answers that differ by more than rounding; else swaps go unnoticed."""

    @property
    def first_wrong_text(self) -> str:
        """The first wrong answer and the expected one, as the end of a sentence; empty if none is known."""
        if (first := self.first_wrong) is None:
            return ""
        values = f"{first.output} is {first.actual}, and {first.expected} {self.expected_from}"
        return f", the first to sample {first.sample}: {values}"


class Ledger(Struct, frozen=True):
    """The task's metrics after each stage, on the same samples."""

    scores: tuple[Score, ...]
    """The scores of every metric; tables show the first."""
    samples: Count
    disagreements: tuple[Disagreement, ...]
    requests: Count
    """The number of requests, of mixed batch sizes and with many in flight."""
    origin: Origin | None = None
    outputs: tuple[OutputDifference, ...] = ()
    """The differences from the converted model in process; empty for a model that is served as it is."""

    @property
    def passed(self) -> bool:
        """Whether nothing in the ledger is wrong."""
        parts: tuple[Score | Disagreement | OutputDifference, ...]
        parts = (*self.scores, *self.disagreements, *self.outputs)
        return all(part.passed for part in parts)


class GateResult(Struct, frozen=True):
    """The result of a gate, which needs no ground truth: see `tritonproof/gates/`."""

    gate: Name
    requests: Count
    tried: Text
    """The ways, batch sizes and faults that were tried, in words."""
    fault: Text = ""
    """What is wrong, as a sentence about the first fault; empty if the gate passed."""
    answer_comparison: AnswerComparison | None = None
    """The differences between answers to one sample; None for a gate that compares no single answers."""
    demand: Text = ""
    """What the gate demands of answers, in words. The recorder adds it, as it does `origin`."""
    origin: Origin | None = None
    compares_conversations: bool = False
    """Whether the gate compared the answers of conversations, which are no single answers."""

    @property
    def has_compared(self) -> bool:
        """Whether any answers were compared."""
        single = self.answer_comparison
        return self.compares_conversations or (single is not None and single.count > 0)
