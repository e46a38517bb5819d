"""Recorded answers: their file, later comparisons with them, and refused files."""

import dataclasses
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.gates import made_up_model
from tests.gates.made_up_model import ROWS, AnswerRule
from tritonproof.accuracy.limits import AnswerLimits, CaseLimits, NumberLimits
from tritonproof.base.errors import InputError
from tritonproof.client.input_data import InputData
from tritonproof.gates import recorded
from tritonproof.gates.context import GateContext, make_single_answers
from tritonproof.gates.recorded import RecordedAnswers
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSpec
from tritonproof.spec import Tensor

TEXTS = np.array([[f"text {n}".encode()] for n in range(8)], object)
CASE_ID = "cpu-toy-onnx-fp32"
NARROW = AnswerLimits(NumberLimits(0.01, 0.002))
LIMITS = CaseLimits(NARROW, NARROW)
FINE = AnswerLimits(NumberLimits(0.5, 0.02), {"TEXT": 0.98}, by_output={"OUT": NumberLimits(0.01, 0.002)})


def answering(outputs: np.ndarray = ROWS, texts: np.ndarray = TEXTS) -> AnswerRule:
    """The rule of a model that gives these answers."""
    return lambda samples, _in_flight: {"OUT": outputs[samples], "TEXT": texts[samples]}


AS_RECORDED = answering()


def context_of(
    rule: AnswerRule = AS_RECORDED, inputs: np.ndarray = ROWS, limits: CaseLimits = LIMITS, **changes: Any
) -> GateContext:
    """What the gate gets of a model that answers numbers and a text, without a server."""
    data = InputData([f"row-{n}" for n in range(8)], {"IN": inputs})
    server = Server(ServerSpec("embedded"), "127.0.0.1:1", "2.51.0", None, None)
    served = made_up_model.served_model(data=data, server=server, rule=rule)
    fields: dict[str, Any] = {"outputs": (Tensor("OUT", "FP32", (4,)), Tensor("TEXT", "BYTES", (1,)))}
    model = dataclasses.replace(served.model, **(fields | changes))
    alone = make_single_answers(data.ids, {n: {"OUT": ROWS[n], "TEXT": TEXTS[n]} for n in range(8)}, limits)
    return made_up_model.gate_context(dataclasses.replace(served, model=model), alone, 8, limits=limits)


@pytest.fixture
def kept(tmp_path: Path) -> tuple[Path, RecordedAnswers]:
    """A file of recorded answers."""
    path = recorded.answers_path(tmp_path, "toy")
    write(path)
    return path, recorded.read(path)


def write(path: Path, limits: CaseLimits = LIMITS) -> None:
    path.write_bytes(recorded.encoded(recorded.answers_to_record(context_of(limits=limits), CASE_ID, "r1")))


def test_recorded_answers_round_trip(kept: Any) -> None:
    path, answers = kept
    gate = recorded.compare_with_recorded(context_of(), CASE_ID, answers, path).result
    assert recorded.read(path).limits == context_of().limits
    assert answers.rows.keys() == {f"row-{n}" for n in range(8)}
    assert len(set(answers.digests.values())) == 8
    assert (gate.gate, gate.requests, gate.fault) == ("recorded", 8, "")
    assert CASE_ID in gate.tried
    assert "2.51.0" in gate.tried


def test_recorded_texts_count_by_their_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "_MAX_BYTES", 5 * (16 + 8))
    rows = recorded.answers_to_record(context_of(), CASE_ID, "r1").rows
    assert len(rows) == 4, "each has 10 bytes of text"


@pytest.mark.parametrize(
    "changed",
    [{"outputs": ROWS + 0.3 * (np.arange(8) == 5)[:, None].astype(np.float32)}, {"texts": TEXTS[::-1]}],
    ids=["a number", "texts"],
)
def test_answer_unlike_the_recorded_one_is_found(
    kept: tuple[Path, RecordedAnswers], changed: dict[str, np.ndarray]
) -> None:
    context = context_of(answering(**changed))
    assert "row-" in recorded.compare_with_recorded(context, CASE_ID, kept[1], kept[0]).result.fault


def test_looser_of_two_tolerances_applies_to_recorded_answers(kept: tuple[Path, RecordedAnswers]) -> None:
    """FINE has one of its own for the output. Another case's answers have the limits of a conversion."""
    changed = answering(outputs=ROWS * np.float32(1.05))
    path, _ = kept
    wide = dataclasses.replace(FINE, by_output={})
    wide_for_output = dataclasses.replace(FINE, by_output={"OUT": FINE.widest})
    passing = ((wide, NARROW), (NARROW, wide), (wide_for_output, FINE))
    for pair in (*passing, (NARROW, NARROW), (FINE, FINE)):
        other = NARROW if pair in passing else wide
        of_same = [CaseLimits(each, other) for each in pair]
        of_another = [CaseLimits(other, each) for each in pair]
        for precision, (limits, of_file) in (("fp32", of_same), ("int8", of_another)):
            write(path, of_file)
            context, answers = context_of(changed, limits=limits), recorded.read(path)
            gate = recorded.compare_with_recorded(context, f"cpu-toy-onnx-{precision}", answers, path).result
            assert (gate.fault == "") is (pair in passing)


@pytest.mark.parametrize(
    "other",
    [
        *(context_of(inputs=ROWS + (np.arange(8) == row)[:, None].astype(np.float32)) for row in (0, 7)),
        context_of(inputs=ROWS.reshape(8, 2, 2)),
        context_of(name="other"),
        context_of(outputs=(Tensor("MORE", "FP32", (4,)),)),
    ],
    ids=["the first sample", "the last sample", "the shape of samples", "another model", "other outputs"],
)
def test_recorded_answers_of_other_samples_or_model_are_refused(kept: Any, other: GateContext) -> None:
    path, answers = kept
    with pytest.raises(InputError, check=lambda error: error.where == str(path)) as refused:
        recorded.compare_with_recorded(other, CASE_ID, answers, path)
    assert "--record-answers" in refused.value.fix


def rewritten(content: bytes, **changes: Any) -> bytes:
    """The file with changed fields."""
    return zlib.compress(msgspec.msgpack.encode(msgspec.msgpack.decode(zlib.decompress(content)) | changes))


FAULTS: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda content: content[: len(content) // 2],
    "a byte changed": lambda content: content[:40] + bytes([content[40] ^ 255]) + content[41:],
    "nothing compressed": lambda _content: b"text",
    "empty": lambda _content: b"",
    "a short output": lambda content: rewritten(content, rows={"row-0": {"OUT": ["FP32", [4], b"cut"]}}),
    "more than a run would record": lambda data: rewritten(data, more=bytes((64 << 20) + 1)),
    "an older form": lambda content: rewritten(content, version=8),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_damaged_answers_file_is_refused_and_recorded_anew(
    fault: str, kept: tuple[Path, RecordedAnswers]
) -> None:
    path, _ = kept
    path.write_bytes(FAULTS[fault](path.read_bytes()))
    with pytest.raises(InputError, check=lambda error: error.where == str(path)):
        recorded.read(path)
    finding = recorded.recorded_gate(context_of(), path.parent, CASE_ID, "r2", on_wait=print)
    assert finding.result.fault == ""
    assert recorded.read(path).run_id == "r2"
