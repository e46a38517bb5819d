"""Recorded answers: what is kept of them, what later answers are held to, and what is refused as no such file."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.accuracy.compare_answers import Answer, Closeness
from fixtures.consistency import recorded
from fixtures.consistency.recorded import RecordedAnswers
from fixtures.consistency.repeat_bounds import Rows
from fixtures.consistency.served import ServedModel
from fixtures.errors import InputError, NotAvailableError
from fixtures.measure.load_data import LoadData
from fixtures.serve.server import Server
from fixtures.spec import Tensor
from tests.consistency import stand_in
from tests.consistency.stand_in import ROWS

TEXTS = np.array([[f"text {n}".encode()] for n in range(8)], object)
NEAR = Closeness(0.01, 0.01, 1.0)


def served_model(inputs: np.ndarray = ROWS, **changes: Any) -> ServedModel:
    """A model that answers with numbers and a text; nobody speaks to it."""
    data = LoadData(Path(), [f"row-{n}" for n in range(8)], {"IN": inputs})
    server = Server("embedded", "127.0.0.1:1", "2.51.0", None, None)
    one = stand_in.served_model(largest=8, data=data, server=server)
    fields: dict[str, Any] = {"outputs": (Tensor("OUT", "FP32", (4,)), Tensor("TEXT", "BYTES", (1,)))}
    model = dataclasses.replace(one.job.model, **(fields | changes))
    return dataclasses.replace(one, job=dataclasses.replace(one.job, model=model), near=NEAR)


def alone(outputs: np.ndarray = ROWS, texts: np.ndarray = TEXTS) -> Rows:
    return {n: {"OUT": outputs[n], "TEXT": texts[n]} for n in range(8)}


@pytest.fixture
def kept(tmp_path: Path) -> tuple[Path, RecordedAnswers]:
    """Answers in a file."""
    path = recorded.path_of(tmp_path, "toy")
    path.write_bytes(recorded.encoded(recorded.record(served_model(), alone(), "cpu-toy-onnx-fp32", "run-1")))
    return path, recorded.read(path)


def answering(monkeypatch: pytest.MonkeyPatch, outputs: np.ndarray = ROWS, texts: np.ndarray = TEXTS) -> None:
    """Have the server answer so."""

    def ask(_model: ServedModel, which: Any, _in_flight: int = 1) -> list[Answer]:
        return [Answer(np.asarray(one), {"OUT": outputs[one], "TEXT": texts[one]}) for one in which]

    monkeypatch.setattr(recorded, "ask", ask)


def test_answers_come_back_from_their_file_as_they_were(
    kept: tuple[Path, RecordedAnswers], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, found = kept
    answering(monkeypatch)

    gate = recorded.hold_to(served_model(), found, path)

    assert found.rows.keys() == {f"row-{n}" for n in range(8)}
    assert (gate.gate, gate.requests, gate.wrong) == ("recorded", 8, "")
    assert "cpu-toy-onnx-fp32" in gate.tried
    assert "2.51.0" in gate.tried


@pytest.mark.parametrize(
    "changed",
    [{"outputs": ROWS + 0.3 * (np.arange(8) == 5)[:, None].astype(np.float32)}, {"texts": TEXTS[::-1]}],
    ids=["a number", "texts"],
)
def test_another_answer_than_the_recorded_one_is_found(
    kept: tuple[Path, RecordedAnswers], changed: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, **changed)

    gate = recorded.hold_to(served_model(), kept[1], kept[0])

    assert "row-" in gate.wrong
    assert "recorded" in gate.wrong


def test_a_format_may_differ_by_what_its_own_tolerance_lets(
    kept: tuple[Path, RecordedAnswers], monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, outputs=ROWS * np.float32(1.05))
    coarse = dataclasses.replace(served_model(), near=Closeness(0.5, 0.1, 0.98))

    assert recorded.hold_to(served_model(), kept[1], kept[0]).wrong
    assert not recorded.hold_to(coarse, kept[1], kept[0]).wrong


def test_an_output_may_differ_by_what_either_tolerance_lets_it(
    kept: tuple[Path, RecordedAnswers], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, outputs=ROWS * np.float32(1.05))
    fine = Closeness(0.5, 0.1, 0.98, by_output={"OUT": (0.01, 0.01)})
    path = tmp_path / "fine.npz"
    path.write_bytes(recorded.encoded(dataclasses.replace(kept[1], near=fine)))
    found = recorded.read(path)
    served = dataclasses.replace(served_model(), near=fine)
    coarse = dataclasses.replace(fine, by_output={"OUT": (0.5, 0.1)})

    assert found.near == fine
    assert recorded.hold_to(served, found, path).wrong
    assert not recorded.hold_to(dataclasses.replace(served, near=coarse), found, path).wrong


def test_answers_to_other_samples_are_refused_with_the_file_and_a_cure(
    kept: tuple[Path, RecordedAnswers],
) -> None:
    path, found = kept

    with pytest.raises(InputError, match="other samples") as refused:
        recorded.hold_to(served_model(inputs=ROWS + 1), found, path)

    assert str(path) in str(refused.value)
    assert "--record-answers" in str(refused.value)


@pytest.mark.parametrize("sample", range(8))
def test_one_sample_that_is_another_one_is_refused_and_named(
    kept: tuple[Path, RecordedAnswers], sample: int
) -> None:
    changed = ROWS + (np.arange(8) == sample)[:, None].astype(np.float32)

    with pytest.raises(InputError, match=f"'row-{sample}' is not among those of this run"):
        recorded.hold_to(served_model(inputs=changed), kept[1], kept[0])


def test_answers_of_another_model_are_refused(kept: tuple[Path, RecordedAnswers]) -> None:
    with pytest.raises(
        InputError, match="another model: of 'toy' with the outputs OUT, TEXT; this is other with OUT, TEXT"
    ):
        recorded.hold_to(served_model(name="other"), kept[1], kept[0])
    with pytest.raises(InputError, match="another model"):
        recorded.hold_to(served_model(outputs=(Tensor("MORE", "FP32", (4,)),)), kept[1], kept[0])


@pytest.mark.parametrize(
    "fault",
    ["cut off", "a byte changed", "no NPZ", "empty", "other arrays", "an array of objects", "other answers"],
)
def test_a_damaged_file_is_refused_with_its_name(fault: str, kept: tuple[Path, RecordedAnswers]) -> None:
    path, _ = kept
    content = path.read_bytes()
    if fault == "other answers":
        with np.load(path) as arrays:
            first = np.arange(arrays["content"].size) == 0  # a digit of the first number
            np.savez(path, about=arrays["about"], content=arrays["content"] ^ first.astype(np.uint8))
    elif fault == "other arrays":
        np.savez(path, x=np.zeros(3))
    elif fault == "an array of objects":
        np.savez(path, about=TEXTS, content=TEXTS)
    else:
        middle = len(content) // 3
        path.write_bytes(
            {
                "cut off": content[: len(content) // 2],
                "a byte changed": content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :],
                "no NPZ": b"text",
                "empty": b"",
            }[fault]
        )

    with pytest.raises(InputError, match="cannot be read") as refused:
        recorded.read(path)

    assert str(path) in str(refused.value)


def test_an_answer_that_is_larger_than_all_that_are_kept_is_not_available() -> None:
    with pytest.raises(NotAvailableError, match="more than the 16 MiB that are recorded"):
        recorded.record(served_model(), {0: {"OUT": np.zeros((16 << 20) + 1, np.uint8)}}, "case", "run")


@pytest.mark.parametrize("version", [1, 3])
def test_a_file_of_an_older_or_a_newer_form_is_refused(
    kept: tuple[Path, RecordedAnswers], version: int
) -> None:
    path, _ = kept
    with np.load(path) as arrays:
        about = json.loads(arrays["about"].tobytes()) | {"version": version}
        np.savez(path, about=np.frombuffer(json.dumps(about).encode(), np.uint8), content=arrays["content"])

    with pytest.raises(InputError, match=f"version {version}, not 2"):
        recorded.read(path)


def test_as_many_bytes_of_answers_are_kept_as_fit_whatever_their_number() -> None:
    """16 MiB in all: four of 4 MiB, and not a fifth; what was kept can be read again."""
    large = np.zeros((8, 1 << 20), np.float32)

    def kept(samples: int) -> int:
        rows = {n: {"OUT": large[n]} for n in range(samples)}
        found = recorded.record(served_model(), rows, "case", "run")
        assert found.digests.keys() == found.rows.keys()
        return len(found.rows)

    assert [kept(samples) for samples in (3, 4, 5)] == [3, 4, 4]
    two = {n: {"OUT": large[n], "TEXT": large[n]} for n in range(8)}
    assert len(recorded.record(served_model(), two, "case", "run").rows) == 2


def test_a_file_of_more_than_a_run_would_record_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "toy.npz"
    for name in ("about", "content"):
        parts = {"about": np.zeros(2, np.uint8), "content": np.zeros(2, np.uint8)}
        np.savez_compressed(path, **(parts | {name: np.zeros((64 << 20) + 1, np.uint8)}))
        with pytest.raises(InputError, match=f"{name} is larger than 64 MiB"):
            recorded.read(path)


def test_a_digest_tells_samples_apart_by_content_and_shape(
    kept: tuple[Path, RecordedAnswers],
) -> None:
    assert len(set(kept[1].digests.values())) == 8
    with pytest.raises(InputError, match="other samples"):
        recorded.hold_to(served_model(inputs=ROWS.reshape(8, 2, 2)), kept[1], kept[0])
