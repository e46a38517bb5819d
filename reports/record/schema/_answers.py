"""Whether the answers are right: in process, through the server, under load, and as far as this can be checked without labels."""

from typing import Literal

from reports.record.schema._base import Count, Name, Number, Struct, Text
from reports.record.schema._cases import Origin

#: Gates that need no ground truth, by AnswerGate.gate, and what each asks for.
GATES = {
    "repeated": "a request that is sent again, after others, gets the same answer",
    "in-flight": "a request gets the same answer alone and with up to 64 in flight",
    "batches": "a sample gets the same answer alone and in batches, at any place and beside any others",
    "transports": "a request gets the same answer over gRPC and HTTP, with and without shared memory",
    "declared": "answers have the outputs, types and shapes that are declared, and finite numbers",
    "largest-batch": "batches of the declared sizes are answered, and one more row is refused",
    "malformed": "a malformed request is refused, and the next one gets its answer",
    "recorded": "answers are the recorded ones",
    "reloaded": "a request gets the same answer after the model was loaded anew",
}


class OutputDifference(Struct, frozen=True):
    """How far an output of a stage is from that of the stage before it, on all samples: of the converted model from the
    framework's, of the served one from the same file in process.

    Where integers differ that are no classes of scores beside them, the floating-point outputs of the same row are not
    compared: a duration rounded up moves all that follows it.
    """

    output: Text
    """The output's name."""
    kind: Literal["error", "differing"]
    """What `largest` and `mean` are. error: the largest absolute difference of a floating-point number beyond rounding, as
    a share of the spread of its column over all samples, and the mean difference as a share of the mean magnitude;
    differing: the fraction of integers that are not equal, of the worst row and of all. A wrong row counts as the worst."""
    largest: Number
    largest_limit: Number
    mean: Number
    mean_limit: Number
    sample: Text
    """The id of the row with the largest difference; empty where nothing differs."""
    expected: Number
    """What the stage before gave at the place of the largest difference."""
    given: Number
    """What this stage gave there."""
    source: Text
    """Where the limits come from, in words."""
    compared: Number = 1.0
    """The share of rows that were compared: of a floating-point output those whose integers agree."""
    compared_limit: Number = 0.0
    """The least share of rows that must be."""


class Parity(Struct, frozen=True):
    """The converted model in process against the framework, on the same samples."""

    samples: Count
    relative_error: Number | None
    """The largest absolute difference beyond rounding, as a share of the spread of its column over all samples, of the
    floating-point output that comes nearest to its limit; None where the model has none."""
    relative_error_limit: Number
    """The largest relative error that passes."""
    agreement: Number | None
    """The mean fraction of decisions per sample that are equal; None of a model that decides nothing."""
    agreement_limit: Number | None
    """The least agreement that passes; None where nothing is decided, and where weights are random, as their decisions are
    ties that any rounding breaks."""
    passed: bool
    origin: Origin | None = None
    """Where it comes from; the recorder adds it."""
    precision_cost: Number | None = None
    """What the precision itself costs the output that is the worst by it: the mean absolute error of the framework's own
    network with its values rounded as the precision holds them, or for FP32 beside the same network in FP64, over the mean
    absolute value. None where no output is a floating-point number, and where no framework's network is known."""
    error_in_costs: Number | None = None
    """The mean error of that output of the converted model, in such costs; about 1 for a right one."""
    error_in_costs_limit: Number | None = None
    """The largest `error_in_costs` that passes."""
    outputs: tuple[OutputDifference, ...] = ()
    """How far each output is from the framework's, with its limits."""
    same_file: bool = False
    """Whether nothing was converted: it is the user's ONNX file, and what differs is what ONNX Runtime optimises."""


class Disagreement(Struct, frozen=True):
    """Samples on which two neighbouring stages decide differently."""

    between: tuple[Text, Text]
    """The two stages: framework and converted, or converted and served."""
    count: Count
    """How many samples have at least one decision that differs."""
    lost: Count
    """How many of these samples scored worse in the second stage than in the first, by the ledger's first metric."""
    gained: Count
    """How many of these samples scored better in the second stage than in the first, by the same metric."""
    samples: tuple[Text, ...]
    """The ids of these samples, at most the first hundred."""
    agreement: Number
    """The mean fraction of decisions per sample that are equal."""
    agreement_limit: Number | None
    """The least agreement that passes; None where none is asked for."""


class Limit(Struct, frozen=True):
    """The worst score that passes, and where the figure comes from."""

    value: Number
    source: Text


class Score(Struct, frozen=True):
    """One metric after each stage."""

    metric: Text
    better: Literal["higher", "lower"]
    """Which way the metric is better. higher: it is a fraction from 0 to 1, shown in percent; lower: it is an error,
    shown as a number."""
    framework: Number | None
    """None for a model that is served as it was found, as is `converted`."""
    converted: Number | None
    served: Number
    limits: tuple[Limit, ...]
    passed: bool


class SameAnswers(Struct, frozen=True):
    """Whether a sample gets the same answer however it is sent: alone, among others, at any place of a batch, with many
    requests in flight."""

    samples: Count
    """How many samples were sent in every way."""
    answers: Count
    """How many answers were compared, of all samples and ways."""
    relative_difference: Number | None
    """The largest difference beyond rounding between an answer and the first to the same sample, as a share of the spread
    of its column over all samples; of all floating-point outputs. None where the model has none, or where an answer was
    no number."""
    agreement: Number
    """The least share of equal elements between an integer or text output of an answer and of the first to the same
    sample."""
    passed: bool
    """Whether all answers are as near as they have to be."""
    sample: Text = ""
    """The id of the sample whose answers differ most; empty where none do."""
    limit: Number | None = None
    """The largest `relative_difference` that passes; None without floating-point outputs."""
    left_out: Count = 0
    """Answers whose floating-point outputs were not compared, as a few of their integers differ."""
    tells_apart: bool = True
    """Whether different samples get different answers: if they do not, nothing shows whose answer one is."""


class Accuracy(Struct, frozen=True):
    """The ledger: the task's metrics after each stage, on the same samples."""

    scores: tuple[Score, ...]
    """The scores of every metric; tables show the first."""
    samples: Count
    disagreements: tuple[Disagreement, ...]
    requests: Count
    """How many requests carried the samples, of mixed batch sizes and with many in flight."""
    passed: bool
    same_answers: SameAnswers | None = None
    """Whether a sample gets the same answer however it is sent; None where nothing was sent in several ways."""
    origin: Origin | None = None
    """Where it comes from; the recorder adds it."""
    outputs: tuple[OutputDifference, ...] = ()
    """How far each output of the served model is from the converted one's in process; empty of a model that is served as it was found."""


class AnswerGate(Struct, frozen=True):
    """What a gate that needs no ground truth found of a case's answers."""

    gate: Name
    """Which gate, one of GATES."""
    requests: Count
    """How many requests it sent."""
    tried: Text
    """What was tried, in words: ways, batch sizes, faults."""
    wrong: Text = ""
    """The first thing that was wrong, as a sentence; empty where the gate passed."""
    same: SameAnswers | None = None
    """How far answers to one sample were apart; None of a gate that compares none."""
    origin: Origin | None = None
    """Where it comes from."""


class WrongAnswer(Struct, frozen=True):
    """An answer under load that is not the one of the converted model in process to the same sample."""

    sample: Text
    """The id of the sample."""
    output: Text
    """The output, with the place of the element that differs most: `OUTPUT__0[3]`."""
    expected: Text
    """That element as the converted model in process gives it; a text, as it need not be finite."""
    given: Text
    """That element as the server gave it."""


class VerifiedAnswers(Struct, frozen=True):
    """What was found of a load point's answers: requests of the same batch, as many in flight, on the same data, were
    sent between its passes, and every answer was compared with the converted model's in process."""

    verified: Count
    """How many answers were compared: each row of a batch is one."""
    wrong: Count
    """How many of them were wrong."""
    requests: Count
    """How many requests they came in."""
    duration_s: Number
    """Seconds that this took, between the passes: no throughput is of this time."""
    first_wrong: WrongAnswer | None = None
    """The first wrong answer; None where there was none."""
    held_to: Literal["in process", "alone"] = "in process"
    """What they were compared with. in process: the converted model's answers in process; alone: the server's own to the same
    samples, one request at a time."""
    left_out: Count = 0
    """Answers whose floating-point outputs were not compared, as a few of their integers differ."""


class Conversation(Struct, frozen=True):
    """What a model that is not asked by single requests, each with one answer, said to the same messages again."""

    kind: Literal["decoupled", "sequence"]
    """decoupled: any number of answers to a request; sequence: requests that belong together."""
    requests: Count
    """How many requests were sent each time."""
    answers: Count
    """How many answers came the first time."""
    difference: Text
    """The first difference of the second time from the first, in words; empty where there was none."""
    passed: bool
    alone: bool = False
    """Whether no other sequence's messages came between, as the model takes one sequence at a time."""
    origin: Origin | None = None
    """Where it comes from."""


def within_limits(one: OutputDifference) -> bool:
    """Whether an output is as near to that in process as it has to be, on the mean and where it is the farthest off."""
    return (
        one.largest <= one.largest_limit and one.mean <= one.mean_limit and one.compared >= one.compared_limit
    )


def meets(better: str, score: float, limit: float) -> bool:
    """Whether a score is no worse than a limit."""
    return score >= limit if better == "higher" else score <= limit
