"""Parity and the ledger: every sample is judged once, by its own answer, and nothing wrong passes unnoticed."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.errors import ProofError
from fixtures.prove import accuracy, parity
from fixtures.prove.accuracy import Stage, Stages, in_process, item_scores, mixed_batches, served
from fixtures.prove.parity import compare_conversion
from fixtures.serve.server import Server
from fixtures.spec import Arrays, Case, Samples, Tolerance
from reports.record.schema import Accuracy, Limit
from tests import toy

CASE = toy.case()
COUNT = 40


def ledger(case: Case, samples: Samples, stages: Stages, *, labelled: bool = True) -> Accuracy:
    """The ledger of what each sample scored."""
    return accuracy.ledger(case, samples, stages, item_scores(case, samples, stages, labelled=labelled))


# --- a server that answers as it likes ---------------------------------------------------------------------


class Answer:
    """What tritonclient hands to a callback."""

    def __init__(self, request_id: str, outputs: Arrays) -> None:
        self.id, self._outputs = request_id, outputs

    def get_response(self) -> "Answer":
        return self

    def as_numpy(self, name: str) -> np.ndarray | None:
        return self._outputs.get(name)


class Client:
    """Answers requests in random order from a thread of its own; `change` may spoil what it answers.

    `change` takes the answer, or returns None for no answer at all, or an exception.
    """

    def __init__(self, change: Callable[[Answer], Answer | Exception | None] = lambda answer: answer) -> None:
        self._change = change
        self._waiting: list[tuple[Callable[..., None], Answer]] = []
        self._lock = threading.Lock()
        self._is_open = True
        self.sizes: list[int] = []
        self.most_in_flight = 0
        self.most_rows_in_flight = 0
        self.order: list[int] = []
        threading.Thread(target=self._answer, daemon=True).start()

    def async_infer(
        self, _name: str, inputs: list[Any], callback: Callable[..., None], **options: Any
    ) -> None:
        data = np.frombuffer(inputs[0]._get_content(), np.float32).reshape(inputs[0].shape())
        answer = Answer(options["request_id"], toy.network({toy.INPUT: data}))
        with self._lock:
            self.sizes.append(len(data))
            self._waiting.append((callback, answer))
            self.most_in_flight = max(self.most_in_flight, len(self._waiting))
            rows = sum(len(one.as_numpy(toy.OUTPUT)) for _, one in self._waiting)  # type: ignore[arg-type, misc]
            self.most_rows_in_flight = max(self.most_rows_in_flight, rows)

    def close(self) -> None:
        self._is_open = False

    def _answer(self) -> None:
        generator = random.Random(0)
        while self._is_open:
            time.sleep(0.001)
            with self._lock:
                if not self._waiting:
                    continue
                callback, answer = self._waiting.pop(generator.randrange(len(self._waiting)))
            self.order.append(int(answer.id))
            changed = self._change(answer)
            if isinstance(changed, Exception):
                callback(None, changed)
            elif changed is not None:
                callback(changed, None)


Connect = Callable[..., tuple[Client, Server]]


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    """A server whose client spoils its answers by a function."""
    clients: list[Client] = []
    log = tmp_path / "server.log"
    log.write_text("began\nthe last words\n")

    def connect(
        change: Callable[[Answer], Answer | Exception | None] = lambda answer: answer,
    ) -> tuple[Client, Server]:
        clients.append(Client(change))
        return clients[-1], Server("embedded", "127.0.0.1:1", "2.51.0", log, clients[-1])

    yield connect
    for client in clients:
        client.close()


# --- mixed batches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("largest", [1, 2, 8, 128])
@pytest.mark.parametrize("count", [1, 7, 500])
def test_mixed_batches_cover_every_sample_once(count: int, largest: int) -> None:
    batches = list(mixed_batches(count, largest))

    assert [index for batch in batches for index in batch] == list(range(count))
    assert {len(batch) for batch in batches} <= set(range(1, largest + 1))


def test_mixed_batches_are_of_all_sizes() -> None:
    sizes = [len(batch) for batch in mixed_batches(500, 8)]

    assert set(sizes) == set(range(1, 9))


def test_mixed_batches_are_the_same_each_time() -> None:
    assert list(mixed_batches(500, 8)) == list(mixed_batches(500, 8))


def test_the_last_batch_may_be_partial() -> None:
    whole = [len(batch) for batch in mixed_batches(500, 8)]
    first = next(i for i, size in enumerate(whole) if size > 1)

    assert len(list(mixed_batches(sum(whole[:first]) + 1, 8))[-1]) == 1


# --- the served stage --------------------------------------------------------------------------------------


def test_answers_in_any_order_meet_their_own_samples(connect: Connect) -> None:
    client, server = connect()
    samples = toy.samples(COUNT)

    stage = served(server, CASE, samples, 4)

    assert stage.decisions.tolist() == samples.labels.tolist()
    assert stage.kept["classes"].tolist() == samples.labels.tolist()
    assert client.order != sorted(client.order), "the answers came in order, so nothing was tried"
    assert stage.requests == len(client.order)


def test_each_sample_is_sent_once_in_batches_up_to_the_largest(connect: Connect) -> None:
    client, server = connect()

    served(server, CASE, toy.samples(COUNT), 4)

    assert sum(client.sizes) == COUNT
    assert set(client.sizes) == {1, 2, 3, 4}


def test_samples_without_labels_are_decided(connect: Connect) -> None:
    _, server = connect()
    labelled = toy.samples(COUNT)

    stage = served(server, CASE, Samples(labelled.ids, labelled.load), 4)

    assert stage.decisions.tolist() == labelled.labels.tolist()


def test_no_more_bytes_are_in_flight_than_allowed(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    row_bytes = 2 * toy.CLASSES * 4
    monkeypatch.setattr(accuracy, "IN_FLIGHT_BYTES", 6 * row_bytes + 1)
    client, server = connect()

    served(server, CASE, toy.samples(COUNT), 8)

    assert max(client.sizes) <= 6
    assert 2 <= client.most_rows_in_flight <= 6


def test_no_more_requests_are_in_flight_than_allowed(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accuracy, "IN_FLIGHT", 5)
    client, server = connect()

    served(server, CASE, toy.samples(COUNT), 1)

    assert client.most_in_flight == 5


def test_progress_reaches_the_last_sample(connect: Connect) -> None:
    _, server = connect()
    said: list[str] = []

    served(server, CASE, toy.samples(COUNT), 4, said.append)

    assert said[-1] == f"{COUNT} of {COUNT}"


def test_an_answer_to_no_request_is_an_error(connect: Connect) -> None:
    _, server = connect(lambda _answer: Answer("9999", {toy.OUTPUT: toy.rows([0])}))

    with pytest.raises(ProofError, match="answered a request nobody sent, '9999'"):
        served(server, CASE, toy.samples(COUNT), 4)


def test_the_same_answer_twice_is_an_error(connect: Connect) -> None:
    first: list[str] = []

    def repeat(answer: Answer) -> Answer:
        first.append(answer.id)
        answer.id = first[0]
        return answer

    _, server = connect(repeat)

    with pytest.raises(ProofError, match="answered a request nobody sent"):
        served(server, CASE, toy.samples(COUNT), 1)


def test_a_failed_request_is_an_error_with_the_log(connect: Connect) -> None:
    _, server = connect(lambda answer: RuntimeError("the model fell over") if answer.id == "7" else answer)

    with pytest.raises(ProofError, match=r"a request failed: the model fell over[^$]*the last words"):
        served(server, CASE, toy.samples(COUNT), 2)


def test_the_first_failure_is_the_one_reported(connect: Connect) -> None:
    _, server = connect()
    replies = accuracy._Replies(CASE, server)

    for number in range(3):
        replies.put(str(number), None, RuntimeError(f"failure {number}"))

    with pytest.raises(ProofError, match="a request failed: failure 0"):
        replies.take(wait=True)


def test_an_answer_without_an_output_is_an_error(connect: Connect) -> None:
    _, server = connect(lambda answer: Answer(answer.id, {}))

    with pytest.raises(ProofError, match=f"the answer lacks the output {toy.OUTPUT}"):
        served(server, CASE, toy.samples(COUNT), 2)


def test_an_unanswered_request_is_an_error_in_time(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "REQUEST_S", 0.3)
    _, server = connect(lambda answer: None if answer.id == "3" else answer)
    began = time.monotonic()

    with pytest.raises(ProofError, match="left requests unanswered"):
        served(server, CASE, toy.samples(COUNT), 2)

    assert time.monotonic() - began < 30


def test_an_answer_of_another_length_is_an_error(connect: Connect) -> None:
    _, server = connect(lambda answer: Answer(answer.id, {toy.OUTPUT: toy.rows([0, 1, 2])}))

    with pytest.raises(ProofError, match="the served outputs are 3 results for 1 samples"):
        served(server, CASE, toy.samples(COUNT), 1)


def test_a_server_that_swaps_rows_is_caught_by_the_ledger(connect: Connect) -> None:
    def swap(answer: Answer) -> Answer:
        values = answer.as_numpy(toy.OUTPUT)
        assert values is not None
        return Answer(answer.id, {toy.OUTPUT: values[::-1]})

    _, server = connect(swap)
    samples = toy.samples(COUNT)
    framework = in_process("framework", CASE.model, toy.network, samples, 8)
    converted = in_process("converted", CASE.model, toy.network, samples, 8)

    last = served(server, CASE, samples, 4)
    result = ledger(CASE, samples, (framework, converted, last))

    wrong = [
        samples.ids[batch[place]]
        for batch in mixed_batches(COUNT, 4)
        for place in range(len(batch))
        if (toy.rows([batch[place]]) != toy.rows([batch[-1 - place]])).any()
    ]
    assert wrong
    assert not result.passed
    assert result.scores[0].served == pytest.approx(1 - len(wrong) / COUNT)
    assert result.disagreements[1].agreement == pytest.approx(1 - len(wrong) / COUNT)
    assert result.disagreements[1].samples == tuple(wrong)
    assert (result.disagreements[1].lost, result.disagreements[1].gained) == (len(wrong), 0)


# --- not a number ------------------------------------------------------------------------------------------


def spoilt(value: float) -> Callable[[Arrays], Arrays]:
    """The model, with one value of the last sample replaced."""

    def run(inputs: Arrays) -> Arrays:
        outputs = toy.network(inputs)
        outputs[toy.OUTPUT][-1, 2] = value
        return outputs

    return run


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("stage", ["framework", "converted"])
def test_a_value_that_is_no_number_names_stage_output_and_sample(stage: str, value: float) -> None:
    with pytest.raises(ProofError) as caught:
        in_process(stage, toy.model(), spoilt(value), toy.samples(8), 8)

    assert f"the {stage} outputs hold NaN or infinity for 1 of 8 samples" in str(caught.value)
    assert f"output {toy.OUTPUT}, first sample toy-007" in str(caught.value)


def test_a_served_value_that_is_no_number_names_its_sample(connect: Connect) -> None:
    def spoil(answer: Answer) -> Answer:
        values = answer.as_numpy(toy.OUTPUT)
        assert values is not None
        return Answer(answer.id, {toy.OUTPUT: values * np.nan if answer.id == "3" else values})

    _, server = connect(spoil)

    with pytest.raises(ProofError) as caught:
        served(server, CASE, toy.samples(8), 1)

    assert "the served outputs hold NaN or infinity for 1 of 1 samples" in str(caught.value)
    assert f"output {toy.OUTPUT}, first sample toy-003" in str(caught.value)


@pytest.mark.parametrize("stage", ["framework", "converted"])
def test_parity_of_a_value_that_is_no_number_is_an_error(stage: str) -> None:
    good, bad = toy.network, spoilt(np.nan)
    weights = toy.weights(network=bad if stage == "framework" else good)

    with pytest.raises(ProofError, match=rf"the {stage} outputs hold NaN[^$]*first sample toy-007"):
        compare_conversion(CASE, weights, bad if stage == "converted" else good, toy.samples(8), 8)


# --- stages in process -------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 7, 40, 64])
def test_every_sample_counts_whatever_the_batch(batch: int) -> None:
    samples = toy.samples(COUNT)

    stage = in_process("framework", toy.model(), toy.network, samples, batch)

    assert stage.decisions.tolist() == samples.labels.tolist()
    assert len(stage.kept["classes"]) == COUNT


def test_a_model_that_drops_a_sample_is_an_error() -> None:
    with pytest.raises(ProofError, match="the converted outputs are 7 results for 8 samples"):
        in_process(
            "converted",
            toy.model(),
            lambda inputs: {toy.OUTPUT: inputs[toy.INPUT][1:]},
            toy.samples(COUNT),
            8,
        )


# --- conversion --------------------------------------------------------------------------------------------


def changed(error: float, wrong: int) -> Callable[[Arrays], Arrays]:
    """A conversion that adds `error` everywhere and decides the first `wrong` samples otherwise."""

    def run(inputs: Arrays) -> Arrays:
        values = inputs[toy.INPUT] + error
        values[:wrong] = np.roll(values[:wrong], 1, axis=1)
        return {toy.OUTPUT: values.astype(np.float32)}

    return run


def test_an_equal_conversion_passes() -> None:
    result = compare_conversion(CASE, toy.weights(), toy.network, toy.samples(100), 9)

    assert (result.samples, result.relative_error, result.agreement, result.passed) == (64, 0.0, 1.0, True)
    assert (result.relative_error_limit, result.agreement_limit) == (0.01, 0.95)


@pytest.mark.parametrize(("error", "passed"), [(0.009, True), (0.011, False)])
def test_the_error_has_a_limit(error: float, passed: bool) -> None:
    result = compare_conversion(CASE, toy.weights(), changed(error, 0), toy.samples(COUNT), 7)

    assert result.relative_error == pytest.approx(error, rel=1e-3)
    assert result.passed is passed


@pytest.mark.parametrize(("wrong", "passed"), [(2, True), (3, False)])
def test_the_agreement_has_a_limit(wrong: int, passed: bool) -> None:
    case = toy.case(tolerance=Tolerance(10, 0.95, "chosen"))

    result = compare_conversion(case, toy.weights(), changed(0, wrong), toy.samples(COUNT), COUNT)

    assert result.agreement == pytest.approx(1 - wrong / COUNT)
    assert result.passed is passed


def test_the_decisions_of_random_weights_have_no_limit() -> None:
    case = toy.case(tolerance=Tolerance(10, 0.95, "chosen"))

    result = compare_conversion(
        case, toy.weights(trained=False), changed(0, COUNT), toy.samples(COUNT), COUNT
    )

    assert result.agreement_limit is None
    assert result.agreement == 0.0
    assert result.passed


def test_the_error_is_relative_to_the_largest_value() -> None:
    weights = toy.weights(network=lambda inputs: {toy.OUTPUT: inputs[toy.INPUT] * 50})

    result = compare_conversion(
        CASE, weights, lambda inputs: {toy.OUTPUT: inputs[toy.INPUT] * 50 + 1}, toy.samples(8), 3
    )

    assert result.relative_error == pytest.approx(1 / 50)


@pytest.mark.parametrize(
    ("converted", "found"),
    [
        pytest.param(lambda _inputs: {}, "missing", id="no output"),
        pytest.param(
            lambda inputs: {toy.OUTPUT: inputs[toy.INPUT][:, :1]}, r"of shape \(8, 1\)", id="broadcasts"
        ),
    ],
)
def test_an_output_of_another_shape_is_an_error(converted: Callable[[Arrays], Arrays], found: str) -> None:
    with pytest.raises(ProofError, match=f"a converted output is {found}"):
        compare_conversion(CASE, toy.weights(), converted, toy.samples(8), 8)


# --- integer outputs ---------------------------------------------------------------------------------------

LENGTH = "LENGTH__0"


def with_length(change: Callable[[np.ndarray], np.ndarray] = lambda lengths: lengths) -> Any:
    """A network that gives an integer beside its numbers; where `change` alters it, the numbers move too."""

    def run(inputs: Arrays) -> Arrays:
        lengths = inputs[toy.INPUT].argmax(axis=1)
        changed = change(lengths)
        moved = 100.0 * (changed != lengths)[:, None]
        return {toy.OUTPUT: inputs[toy.INPUT] + moved, LENGTH: changed}

    return run


def test_rows_whose_integers_differ_count_as_disagreement_and_not_by_their_error() -> None:
    model = toy.model(keep=lambda outputs: {"lengths": outputs[LENGTH]}, decide=lambda kept: kept["lengths"])
    case = toy.case(model, tolerance=Tolerance(0.01, 0.99, "chosen"))
    once = iter([True])

    def one_longer(lengths: np.ndarray) -> np.ndarray:
        return lengths + (np.arange(len(lengths)) == 2) * next(once, False)

    result = compare_conversion(
        case, toy.weights(network=with_length()), with_length(one_longer), toy.samples(COUNT), 8
    )

    assert result.relative_error == 0
    assert result.agreement == pytest.approx(1 - 1 / COUNT)
    assert not result.passed


def test_integers_that_differ_everywhere_leave_nothing_to_compare() -> None:
    model = toy.model(keep=lambda outputs: {"lengths": outputs[LENGTH]}, decide=lambda kept: kept["lengths"])

    with pytest.raises(ProofError, match="no sample is left to compare"):
        compare_conversion(
            toy.case(model),
            toy.weights(network=with_length()),
            with_length(lambda lengths: lengths + 1),
            toy.samples(COUNT),
            8,
        )


@pytest.mark.parametrize(("wrong", "passed"), [(0, True), (3, False)])
def test_a_model_of_integers_alone_is_held_to_its_decisions_even_with_random_weights(
    wrong: int, passed: bool
) -> None:
    model = toy.model(keep=lambda outputs: outputs, decide=lambda kept: kept[LENGTH])
    case = toy.case(model, tolerance=Tolerance(0.01, 0.95, "chosen"))

    def classes(inputs: Arrays) -> Arrays:
        return {LENGTH: inputs[toy.INPUT].argmax(axis=1)}

    def others(inputs: Arrays) -> Arrays:
        return {LENGTH: classes(inputs)[LENGTH] + (np.arange(len(inputs[toy.INPUT])) < wrong)}

    weights = toy.weights(network=classes, trained=False)
    result = compare_conversion(case, weights, others, toy.samples(COUNT), COUNT)

    assert result.relative_error is None
    assert result.agreement_limit == 0.95
    assert result.passed is passed


def test_large_inputs_are_compared_on_fewer_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity, "_LARGEST_BYTES", 10 * toy.CLASSES * 4)

    result = compare_conversion(CASE, toy.weights(), toy.network, toy.samples(COUNT), 4)

    assert result.samples == 10


# --- the ledger --------------------------------------------------------------------------------------------


def stage(name: str, right: int, count: int = 100) -> Stage:
    """A stage that decides the first `right` samples rightly."""
    classes = np.where(np.arange(count) < right, toy.samples(count).labels, -1)
    return Stage(name, {"classes": classes}, classes, requests=9)


def stages(framework: int, converted: int, last: int) -> Stages:
    """Three stages by how many samples of 100 each gets right."""
    return stage("framework", framework), stage("converted", converted), stage("served", last)


def test_the_ledger_holds_the_score_of_each_stage() -> None:
    result = ledger(toy.case(), toy.samples(100), stages(98, 97, 96))

    (score,) = result.scores
    assert (score.framework, score.converted, score.served) == (0.98, 0.97, 0.96)
    assert (score.metric, result.samples, result.requests) == ("top-1", 100, 9)


def test_the_ledger_names_what_neighbours_decide_differently() -> None:
    samples = toy.samples(100)

    first, second = ledger(toy.case(), samples, stages(95, 93, 96)).disagreements

    assert (first.between, first.count, first.lost, first.gained) == (("framework", "converted"), 2, 2, 0)
    assert first.samples == ("toy-093", "toy-094")
    assert first.agreement == pytest.approx(0.98)
    assert (second.between, second.count, second.lost, second.gained) == (("converted", "served"), 3, 0, 3)


def test_two_wrong_answers_that_differ_are_neither_lost_nor_gained() -> None:
    one = Stage("framework", {"classes": np.array([7, 7, 7])}, np.array([7, 7, 7]))
    other = Stage("converted", {"classes": np.array([7, 8, 7])}, np.array([7, 8, 7]))

    (first, _) = ledger(toy.case(), toy.samples(3), (one, other, other)).disagreements

    assert (first.count, first.lost, first.gained) == (1, 0, 0)


def test_a_decision_of_many_parts_counts_once_per_sample_and_agrees_in_part() -> None:
    classes = {"classes": toy.samples(2).labels}
    masks = np.zeros((2, 5, 5))
    one = Stage("framework", classes, masks.copy())
    masks[1, 2:4, 3] = 1
    other = Stage("converted", classes, masks)

    (first, _) = ledger(toy.case(), toy.samples(2), (one, other, other)).disagreements

    assert (first.count, first.samples) == (1, ("toy-001",))
    assert first.agreement == pytest.approx(1 - 2 / 50)


def test_a_server_that_decides_otherwise_fails_even_where_its_score_is_as_good() -> None:
    result = ledger(toy.case(), toy.samples(100), stages(90, 90, 96))

    assert all(score.passed for score in result.scores)
    assert result.disagreements[1].agreement == pytest.approx(0.94)
    assert result.disagreements[1].agreement_limit == 0.95
    assert not result.passed


@pytest.mark.parametrize(
    ("precision", "framework", "last", "passed"),
    [
        pytest.param("fp32", 100, 100, True, id="equal"),
        pytest.param("fp32", 100, 99, False, id="fp32 below 99.9 % of the framework"),
        pytest.param("int8", 100, 99, True, id="int8 at 99 % of the framework"),
        pytest.param("int8", 100, 98, False, id="int8 below 99 % of the framework"),
        pytest.param("fp32", 90, 90, True, id="at the model's own floor"),
        pytest.param("fp32", 89, 89, False, id="below the model's own floor"),
        pytest.param("fp32", 91, 95, True, id="better than the framework"),
    ],
)
def test_the_ledger_passes_if_every_limit_is_kept(
    precision: str, framework: int, last: int, passed: bool
) -> None:
    result = ledger(toy.case(precision=precision), toy.samples(100), stages(framework, framework, last))

    (score,) = result.scores
    assert result.passed is score.passed is passed
    assert score.passed is all(score.served >= limit.value for limit in score.limits)
    assert [limit.source for limit in score.limits] == [
        "chosen",
        f"{accuracy.RELATIVE_LIMITS[precision]:.1%} of the framework's score on the same samples",
    ]


# --- several metrics, errors, and items of several rows ----------------------------------------------------


def distance(kept: Arrays, _labels: Any, framework: Arrays) -> np.ndarray:
    """An error against the framework: 1 for each sample that is decided otherwise."""
    return (kept["classes"] != framework["classes"]).astype(float)


TO_FRAMEWORK = toy.metric(
    name="error to framework",
    score=distance,
    limits={"fp32": Limit(0.01, "chosen")},
    better="lower",
    labelled=False,
)


@pytest.mark.parametrize(("last", "passed"), [(99, True), (97, False)])
def test_an_error_has_a_ceiling(last: int, passed: bool) -> None:
    case = toy.case(toy.model(metrics=(TO_FRAMEWORK,)))

    (score,) = ledger(case, toy.samples(100), stages(100, 100, last)).scores

    assert score.served == pytest.approx(1 - last / 100)
    assert [limit.value for limit in score.limits] == [0.01]
    assert score.passed is passed


def test_an_error_against_labels_is_held_to_the_framework_from_above() -> None:
    wrong = toy.metric(
        name="error",
        score=lambda kept, labels, _framework: (kept["classes"] != labels).astype(float),
        better="lower",
    )
    case = toy.case(toy.model(metrics=(wrong,)))

    better, worse = (ledger(case, toy.samples(100), stages(96, 96, last)) for last in (97, 95))

    assert better.scores[0].limits[1].value == pytest.approx(0.04 / 0.999)
    assert better.passed
    assert not worse.scores[0].passed
    assert (worse.disagreements[1].lost, worse.disagreements[1].gained) == (1, 0)


def test_every_metric_is_a_gate() -> None:
    case = toy.case(toy.model(metrics=(toy.metric(), TO_FRAMEWORK)))

    result = ledger(case, toy.samples(100), stages(92, 92, 96))

    assert [score.passed for score in result.scores] == [True, False]
    assert not result.passed


def test_a_precision_without_a_limit_is_held_to_the_framework_alone() -> None:
    case = toy.case(toy.model(metrics=(toy.metric(limits={}),)))

    (score,) = ledger(case, toy.samples(100), stages(50, 50, 50)).scores

    assert [limit.value for limit in score.limits] == [pytest.approx(0.4995)]
    assert score.passed


def test_without_labels_only_what_the_framework_tells_is_asked() -> None:
    case = toy.case(toy.model(metrics=(toy.metric(), TO_FRAMEWORK)))
    unlabelled = Samples(toy.samples(100).ids, toy.samples(100).load)

    result = ledger(case, unlabelled, stages(100, 100, 97), labelled=False)

    assert [score.metric for score in result.scores] == ["error to framework"]
    assert not result.passed


def test_without_labels_and_such_a_metric_the_decisions_are_compared() -> None:
    unlabelled = Samples(toy.samples(100).ids, toy.samples(100).load)

    result = ledger(toy.case(), unlabelled, stages(100, 100, 90), labelled=False)

    assert result.scores == ()
    assert (result.disagreements[1].count, result.passed) == (10, False)


def test_rows_of_one_item_are_scored_together() -> None:
    items = np.array([0, 0, 1, 2, 2, 2])
    rows = Samples([f"row-{i}" for i in range(6)], toy.samples().load, labels="three items", items=items)

    def by_item(kept: Arrays, _labels: Any, _framework: Arrays) -> np.ndarray:
        return np.array([float(kept["classes"][items == item].all()) for item in range(3)])

    case = toy.case(toy.model(metrics=(toy.metric(score=by_item),)))
    good = Stage("framework", {"classes": np.ones(6)}, np.ones(6))
    one_bad_row = np.array([1, 1, 1, 1, 0, 0])
    bad = Stage("served", {"classes": one_bad_row}, one_bad_row, requests=3)

    result = ledger(case, rows, (good, good, bad))

    assert result.samples == 3
    assert result.scores[0].served == pytest.approx(2 / 3)
    last = result.disagreements[1]
    assert (last.count, last.lost, last.samples) == (1, 1, ("row-3",))
    assert last.agreement == pytest.approx(4 / 6)


@pytest.mark.parametrize("scores", [np.ones(99), np.full(100, np.nan)])
def test_a_metric_without_a_finite_score_for_each_sample_is_an_error(scores: np.ndarray) -> None:
    case = toy.case(toy.model(metrics=(toy.metric(score=lambda *_arguments: scores),)))

    with pytest.raises(ProofError, match="not one finite score for each of 100 samples"):
        ledger(case, toy.samples(100), stages(98, 98, 98))
