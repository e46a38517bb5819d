"""The reproducer of a wrong answer: for two rows, with strings, and without a batch axis."""

import dataclasses
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests import sample_records, toy
from tests.helpers import present, settings
from tests.run.stand_in_case import prepare, running
from tritonproof.accuracy.answer_comparison import AnswerFinding, Mismatch
from tritonproof.accuracy.limits import AnswerLimits, NumberLimits
from tritonproof.client.requests import Answer
from tritonproof.gates.reproducer import write_reproducer
from tritonproof.run.proving import reproduce
from tritonproof.spec import Samples, Tensor

ROWS = {
    "IN": np.arange(8, dtype=np.float32).reshape(2, 4),
    "TEXT": np.array([[b"one"], [b"\xffthree\0\0"]], object),
}
INPUTS = (Tensor("IN", "FP32", (4,)), Tensor("TEXT", "BYTES", (1,)), Tensor("MORE", "FP32", (1,)))
MODEL = toy.model(inputs=INPUTS)
RIGHT = ROWS["IN"][1]
EXPECTED = {"OUT": RIGHT, "LABEL": b"cat\0", "GONE": RIGHT}
FOUND = Mismatch(batch=["a", "b"], row=1, expected=EXPECTED, actual={"OUT": 2 * RIGHT})


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.pbtxt"
    path.write_text("max_batch_size: 4")
    return path


def test_reproducer_round_trips_without_pickle(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "found"
    write_reproducer(folder, "toy", config, MODEL, ROWS, FOUND)
    names = ("request", "expected", "actual")
    arrays = {name: dict(np.load(folder / f"{name}.npz").items()) for name in names}
    np.testing.assert_array_equal(arrays["request"]["IN"], ROWS["IN"])
    ended = [[text + b"." for text in row] for row in ROWS["TEXT"].tolist()]
    assert arrays["request"]["TEXT"].tolist() == ended
    np.testing.assert_array_equal(2 * arrays["expected"]["OUT"], arrays["actual"]["OUT"])
    assert arrays["expected"]["LABEL"] == b"cat\0.", "a text for each row is ended too"
    assert (folder / "config.pbtxt").read_text() == "max_batch_size: 4"
    answer = SimpleNamespace(as_numpy={"OUT": ROWS["IN"], "LABEL": ROWS["TEXT"][:1]}.get)
    monkeypatch.setattr("tritonclient.grpc.InferenceServerClient.infer", lambda *_: answer)
    runpy.run_path(str(folder / "show.py"))
    said = [line.partition("[")[0].strip() for line in capsys.readouterr().out.splitlines()]
    assert said == ["OUT is as expected", "LABEL differs", "GONE differs"]
    assert len((folder / "show.py").read_text().splitlines()) <= 25


def test_reproducer_respects_missing_batch_axis(config: Path, tmp_path: Path) -> None:
    rows = {name: values[:1] for name, values in ROWS.items()}
    mismatch = dataclasses.replace(FOUND, batch=["a"], row=0)
    unbatched = dataclasses.replace(MODEL, batch_axis="none")
    write_reproducer(tmp_path / "found", "toy", config, unbatched, rows, mismatch)
    assert np.load(tmp_path / "found" / "request.npz")["IN"].shape == (4,)
    assert "ROW, TYPES = 'toy', None" in (tmp_path / "found" / "show.py").read_text()


def test_first_wrong_answer_is_kept_with_its_request() -> None:
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    actual = rows[[2, 0]] + np.array([[0], [1]], np.float32)
    limits = AnswerLimits(NumberLimits(1e-5, np.inf))
    expected = toy.expected_answers(["a", "b", "c"], {"OUT": rows}, limits)
    mismatch = present(expected.compare([Answer(np.array([2, 0]), {"OUT": actual})]).mismatch)
    assert (list(mismatch.batch), mismatch.row) == (["c", "a"], 1)
    np.testing.assert_array_equal(mismatch.actual["OUT"], actual[1])
    np.testing.assert_array_equal(mismatch.expected["OUT"], rows[0])


def test_answer_to_no_sample_of_the_case_has_no_reproducer(config: Path) -> None:
    """Such as a sample without an optional input; one of another shape than most has one."""
    samples = dataclasses.replace(toy.samples(), other_shapes=[Samples(["a", "b"], lambda _indices: ROWS)])
    gate = sample_records.gate("repeated", "1 of 2 differs")
    lacking = dataclasses.replace(FOUND, batch=["toy-000 without MORE"])
    how = prepare(samples=samples, folder=config.parent)
    with running(settings(results=str(config.parent)), how) as run:
        earlier = config.parent / run.case.target.name / f"{run.case}.reproducer" / "repeated" / "of-before"
        earlier.parent.mkdir(parents=True)
        earlier.touch()
        assert reproduce(run, AnswerFinding(gate, lacking)) == ""
        assert not earlier.exists()
        assert reproduce(run, AnswerFinding(gate, FOUND)).endswith("repeated")
