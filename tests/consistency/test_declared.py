"""Is an answer what the model declares? Answers made up, each with one fault, and what is said of it."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from fixtures.accuracy.compare_answers import Answer
from fixtures.consistency import declared
from fixtures.consistency.replies import Reply
from fixtures.consistency.served import ServedModel
from fixtures.measure.load_data import LoadData
from fixtures.spec import Tensor
from reports.record.schema import AnswerGate
from tests.consistency.stand_in import alone, served_model

Change = Callable[[Any], None]
"""What is done to an answer before it is looked at."""
Gate = Callable[..., tuple[AnswerGate, list[Any]]]


def answer_to(request: Any, *, batched: bool = True) -> Any:
    """Twice the input, and how many elements that are, as the model below declares it."""
    values = np.frombuffer(request.raw_input_contents[0], np.float32).reshape(-1, 4)
    rows = [len(values)] if batched else []
    response = service_pb2.ModelInferResponse(model_name="toy")
    response.outputs.add(name="OUT", datatype="FP32", shape=[*rows, 4])
    response.raw_output_contents.append((2 * values).tobytes())
    response.outputs.add(name="COUNT", datatype="INT64", shape=[*rows, 1])
    response.raw_output_contents.append(np.full(len(values), 4).tobytes())
    return response


def given_alone(count: int = 8) -> dict[int, dict[str, np.ndarray]]:
    """The right answers to so many samples, each sent alone."""
    return {n: {**outputs, "COUNT": np.array([4])} for n, outputs in alone(count).rows.items()}


def model(shape: tuple[int, ...] = (4,), **changes: Any) -> ServedModel:
    """A model of two outputs, the first of which is of this shape."""
    one = served_model(**changes)
    outputs = (Tensor("OUT", "FP32", shape), Tensor("COUNT", "INT64", (1,)))
    return dataclasses.replace(
        one, job=dataclasses.replace(one.job, model=dataclasses.replace(one.job.model, outputs=outputs))
    )


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """`gate(change, to, model)`: what is said where the answer to the request of this number is changed; and the requests."""

    def run(
        change: Change = lambda _response: None, to: int = 0, served: ServedModel | None = None
    ) -> tuple[AnswerGate, list[Any]]:
        served = served or model()
        sent: list[Any] = []

        def send(job: Any, requests: Any) -> list[Reply]:
            sent[:] = requests
            answers = [answer_to(one, batched=job.model.batched) for one in sent]
            change(answers[to])
            return [Reply(one) for one in answers]

        monkeypatch.setattr(declared, "send", send)
        return declared.declared(served, given_alone(served.samples)), sent

    return run


def test_an_answer_that_is_as_declared_passes_in_a_batch_too(gate: Gate) -> None:
    found, sent = gate()

    assert (found.wrong, found.requests) == ("", 5)
    assert [list(one.inputs[0].shape) for one in sent] == [[1, 4]] * 4 + [[2, 4]]
    assert sent[4].raw_input_contents[0] == sent[0].raw_input_contents[0] + (
        model().job.data.rows["IN"][7].tobytes()
    ), "the first and the last sample"
    assert "OUT (FP32)" in found.tried
    assert "COUNT (INT64)" in found.tried


def test_a_model_without_batches_is_asked_for_samples_alone(gate: Gate) -> None:
    assert len(gate(served=model(largest=1))[1]) == 4
    found, sent = gate(served=model(batched=False))
    assert (found.wrong, len(sent)) == ("", 4)
    assert len(gate(served=model(count=2))[1]) == 3


def rename(response: Any) -> None:
    response.outputs[1].name = "OTHER"


def retype(response: Any) -> None:
    response.outputs[0].datatype = "INT32"


def reshape(response: Any) -> None:
    response.outputs[0].shape[-1] = 2


def more_axes(response: Any) -> None:
    response.outputs[0].shape.append(1)


def cut(response: Any) -> None:
    response.raw_output_contents[0] = response.raw_output_contents[0][:-4]


def no_number(response: Any) -> None:
    values = np.frombuffer(response.raw_output_contents[0], np.float32).copy()
    values[[1, 2]] = np.inf, np.nan
    response.raw_output_contents[0] = values.tobytes()


FAULTS: dict[str, tuple[Change, str]] = {
    "lacks an output": (rename, "the answer to {} lacks the output COUNT"),
    "another type": (retype, "OUT is declared as FP32, and the answer to {} gives INT32"),
    "another shape": (reshape, "and the answer to {} gives ["),
    "another rank": (more_axes, "and the answer to {} gives ["),
    "too few bytes": (cut, "OUT has not as many bytes as its type and shape say, in the answer to {}"),
    "no number": (no_number, "OUT holds inf in the answer to {} (2 of "),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_not_as_declared_is_said_with_the_request_it_answers(gate: Gate, name: str) -> None:
    change, said = FAULTS[name]
    assert said.format("sample row-0") in gate(change, 0)[0].wrong
    assert said.format("sample row-3") in gate(change, 3)[0].wrong
    assert said.format("2 samples in a batch") in gate(change, 4)[0].wrong
    assert said.format("sample row-0") in gate(change, 0, model(batched=False))[0].wrong


@pytest.mark.parametrize("given", ["BF16", "FP16", "FP64", "INT32", "UINT8", "BYTES"])
def test_any_other_type_than_the_declared_one_is_found(gate: Gate, given: str) -> None:
    def retyped(response: Any) -> None:
        response.outputs[0].datatype = given

    assert gate(retyped)[0].wrong.endswith(f"gives {given}")


def test_a_shape_is_told_with_its_rows(gate: Gate) -> None:
    wrong = gate(reshape, 4)[0].wrong
    assert "OUT should be [2, 4]" in wrong
    assert "gives [2, 2]" in wrong


def test_an_answer_with_the_rows_of_another_batch_is_not_as_declared(gate: Gate) -> None:
    def one_row(response: Any) -> None:
        response.outputs[0].shape[0] = 1

    assert "OUT should be [2, 4]" in gate(one_row, 4)[0].wrong


def test_a_length_that_is_declared_as_any_may_be_any(gate: Gate) -> None:
    assert gate(served=model((-1,)))[0].wrong == ""
    assert "OUT should be [1, -1]" in gate(more_axes, 0, model((-1,)))[0].wrong
    assert "OUT should be [1, 5]" in gate(served=model((5,)))[0].wrong
    assert "OUT should be [1, 3]" in gate(served=model((3,)))[0].wrong


def test_a_refusal_is_told_in_the_servers_words(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = [Reply(None, "no room")] * 5
    monkeypatch.setattr(declared, "send", lambda _job, _requests: refused)

    assert (
        declared.declared(model(), given_alone()).wrong == "the request of sample row-0 was refused: no room"
    )


def test_answers_that_were_given_before_have_to_be_finite_too(gate: Gate) -> None:
    gate()  # its answers stand in for the server's
    given = given_alone()
    given[6]["OUT"] = np.array([1.0, -np.inf, 2.0, 3.0])

    found = declared.declared(model(), given)

    assert found.wrong == "OUT holds -inf in the answer to sample row-6 (1 of 4 elements are not finite)"


def test_an_output_that_the_answer_to_one_sample_lacks_is_found(gate: Gate) -> None:
    gate()
    given = given_alone()
    del given[7]["COUNT"]

    assert declared.declared(model(), given).wrong == "the answer to sample row-7 lacks the output COUNT"


@pytest.mark.parametrize("wrong", [None, 137])
def test_every_sample_s_answer_has_to_be_finite_not_only_those_that_other_gates_send(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, wrong: int | None
) -> None:
    gate()
    ids = [f"row-{n}" for n in range(200)]
    rest = [
        LoadData(Path(), ids[start : start + 64], {"IN": np.zeros((len(ids[start : start + 64]), 4))})
        for start in (8, 72, 136)
    ]
    asked: list[str] = []

    def ask(served: ServedModel, which: list[list[int]], in_flight: int) -> list[Answer]:
        assert in_flight == 64
        names = [served.job.data.ids[one] for (one,) in which]
        asked.extend(names)
        outputs = [np.full((1, 4), np.nan if name == f"row-{wrong}" else 1.0) for name in names]
        return [
            Answer(np.array(samples), {"OUT": values, "COUNT": np.array([[4]])})
            for samples, values in zip(which, outputs, strict=True)
        ]

    monkeypatch.setattr(declared, "ask", ask)

    found = declared.declared(model(), given_alone(), rest)

    assert asked == ids[8:]
    assert found.requests == 5 + 192
    assert ("row-137" in found.wrong) == (wrong is not None)


def test_whole_numbers_and_texts_are_always_numbers_enough(gate: Gate) -> None:
    gate()
    given = {0: {"OUT": np.array([1, 2]), "COUNT": np.array([b"nan"], object)}}

    assert declared.declared(model(), given).wrong == ""


def test_an_axis_too_few_is_not_as_declared(gate: Gate) -> None:
    def fewer(response: Any) -> None:
        del response.outputs[0].shape[0]

    assert "OUT should be [1, 4], and the answer to sample row-0 gives [4]" in gate(fewer)[0].wrong
