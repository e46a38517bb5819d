"""Folders of common files as evaluation data."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import present
from tests.user_models.written_files import names, write_tokenizer
from tritonproof.base.errors import InputError
from tritonproof.spec import Tensor
from tritonproof.user_models.network_samples import split_samples, synthetic_samples
from tritonproof.user_models.samples import read_samples, sized_inputs

LEFT, RIGHT = Tensor("LEFT", "FP32", (2, 3)), Tensor("RIGHT", "INT64", (-1,))
TWO = np.arange(12, dtype=np.float32).reshape(2, 2, 3)


def save(path: Path, values: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, values)


def picture(path: Path, pixels: np.ndarray, orientation: int = 1) -> None:
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = orientation
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, exif=exif)


def test_input_folders_hold_a_file_per_sample(tmp_path: Path) -> None:
    for name, row in (("a", TWO[0]), ("a (1)", TWO[1])):
        save(tmp_path / "LEFT" / f"{name}.npy", row.astype(np.float64))
        save(tmp_path / "in/RIGHT" / f"{name}.npy", np.array([1, 2, 3, 4], np.int32))
    inputs = LEFT, replace(RIGHT, name="in/RIGHT")
    samples = read_samples(tmp_path, inputs)
    assert list(samples.ids) == ["a", "a (1)"], "in the order of the names, without `.npy`"
    rows = samples.read([1, 0])
    assert list(rows) == ["LEFT", "in/RIGHT"]
    np.testing.assert_array_equal(rows["LEFT"], TWO[::-1])
    assert (rows["LEFT"].dtype, rows["in/RIGHT"].dtype) == (np.float32, np.int64)
    assert [tensor.shape for tensor in sized_inputs(inputs, samples)] == [(2, 3), (4,)]


def test_archive_holds_one_or_many_samples(tmp_path: Path) -> None:
    np.savez(tmp_path / "many.npz", LEFT=TWO, RIGHT=np.ones((2, 4), int))
    with (tmp_path / "one.NPZ").open("wb") as file:
        np.savez(file, LEFT=TWO[1], RIGHT=np.zeros(4, int))
    samples = read_samples(tmp_path, (LEFT, RIGHT))
    assert list(samples.ids) == ["many-0000", "many-0001", "one"]
    np.testing.assert_array_equal(samples.read([1, 2])["LEFT"], TWO[[1, 1]])
    np.testing.assert_array_equal(samples.read([0, 2])["RIGHT"].sum(axis=1), [4, 0])
    np.savez(tmp_path / "many.npz", LEFT=TWO, RIHGT=np.ones((2, 4), int))
    with pytest.raises(InputError, match="RIHGT"):
        read_samples(tmp_path, (LEFT, replace(RIGHT, optional=True)))


def test_single_input_needs_no_folder_and_takes_no_labels_and_answers(tmp_path: Path) -> None:
    save(tmp_path / "x.npy", TWO[0])
    save(tmp_path / ".hidden" / "y.npy", TWO)
    for link, target in (("license_plates", ".hidden"), ("second", ".hidden"), ("circle", ".")):
        (tmp_path / link).symlink_to(target)
    save(tmp_path / "answers" / "z.npy", TWO[0])
    (tmp_path / "labels.csv").write_text("x,1\n")
    samples = read_samples(tmp_path, (LEFT,))
    assert list(samples.ids) == ["license_plates/y-0000", "license_plates/y-0001", "x"]
    np.testing.assert_array_equal(samples.read([1])["LEFT"], TWO[1:])
    assert "z" in read_samples(tmp_path, (replace(LEFT, name="answers"),)).ids, "it has the input's name"


def test_optional_input_may_be_missing_from_all_samples_and_not_from_some(tmp_path: Path) -> None:
    save(tmp_path / "LEFT" / "a.npy", TWO[0])
    inputs = LEFT, replace(RIGHT, optional=True)
    samples = read_samples(tmp_path, inputs)
    assert list(samples.read([0])) == ["LEFT"]
    assert sized_inputs(inputs, samples) == (LEFT,)
    save(tmp_path / "LEFT" / "b.npy", TWO[1])
    save(tmp_path / "RIGHT" / "b.npy", np.ones(4, int))
    with pytest.raises(InputError, check=lambda error: "RIGHT" in error.what):
        read_samples(tmp_path, inputs)


@pytest.mark.parametrize("shape", [(3, 4, 4), (4, 4, 3), (1, 3, 4, 4)])
def test_pictures_match_layout_and_size_of_input(tmp_path: Path, shape: tuple[int, ...]) -> None:
    pixels = np.zeros((4, 8, 3), np.uint8)
    pixels[:, 2:6] = (255, 0, 51)  # the middle, which cutting to a square keeps
    picture(tmp_path / "cat.png", pixels)
    rows = read_samples(tmp_path, (Tensor("X", "FP32", shape),)).read([0])["X"]
    assert rows.shape == (1, *shape)
    channels = np.moveaxis(rows.reshape(shape[-3:]), shape[-3:].index(3), 0)
    np.testing.assert_allclose(channels.mean(axis=(1, 2)), [1.0, 0.0, 0.2], atol=0.02)
    with pytest.raises(InputError, check=lambda error: "layout" not in error.fix):
        read_samples(tmp_path, (Tensor("X", "FP32", (2, 3, 4, 4)),))


def test_size_of_a_picture_is_that_when_upright(tmp_path: Path) -> None:
    picture(tmp_path / "turned.jpg", np.zeros((4, 8, 3), np.uint8), orientation=6)
    assert read_samples(tmp_path, (Tensor("X", "FP32", (3, -1, -1)),)).read([0])["X"].shape == (1, 3, 8, 4)


@pytest.mark.parametrize("std", ["2", "[2.0]", "[1, 1, 2]"])
def test_settings_file_normalizes_pictures(std: str, tmp_path: Path) -> None:
    (tmp_path / "calibration").mkdir()
    for name in ("p.png", "calibration/p.png"):
        picture(tmp_path / name, np.full((6, 6, 3), (10, 20, 30), np.uint8))
    settings = '[image]\nsize = [2, 5]\nchannels = "BGR"\nscale = 1.0\nmean = [30, 20, 0]\n'
    (tmp_path / "samples.toml").write_text(f"{settings}std = {std}\n")
    both = split_samples(tmp_path, (Tensor("X", "FP32", (3, -1, -1)),), None, calibrates=True)[1:]
    for rows in (present(samples).read([0])["X"] for samples in both):
        assert rows.shape == (1, 3, 2, 5)
        np.testing.assert_allclose(rows[0, :, 1, 3], [0, 0, 5])


def test_request_files_are_read_as_by_perf_analyzer(tmp_path: Path) -> None:
    raw = base64.b64encode(TWO[1].tobytes()).decode()
    nested, flat = TWO[0].tolist(), TWO[0].ravel().tolist()
    large, half = Tensor("LARGE", "UINT64", (2,)), Tensor("HALF", "BF16", (-1,))
    more = {"LARGE": [1, 2**63 + 5], "HALF": {"b64": base64.b64encode(b"\xc0\x3f\x00\xc0").decode()}}
    steps = [
        {"LEFT": flat, "RIGHT": [5, 6], **more},
        [{"LEFT": nested, "RIGHT": {"content": [7, 8], "shape": [2]}, **more}],
        {"LEFT": {"b64": raw}, "RIGHT": {"content": {"b64": base64.b64encode(bytes(16)).decode()}}, **more},
    ]
    (tmp_path / "load.json").write_text(json.dumps({"data": steps}))
    samples = read_samples(tmp_path, (LEFT, RIGHT, large, half))
    assert list(samples.ids) == ["load-0000", "load-0001", "load-0002"]
    rows = samples.read([0, 1, 2])
    np.testing.assert_array_equal(rows["LEFT"], TWO[[0, 0, 1]])
    np.testing.assert_array_equal(rows["RIGHT"], [[5, 6], [7, 8], [0, 0]])
    assert (rows["LARGE"][0].tolist(), rows["HALF"][0].tolist()) == ([1, 2**63 + 5], [1.5, -2.0])


def test_each_text_line_is_a_sample(tmp_path: Path) -> None:
    (tmp_path / "questions.txt").write_text("Wer?\n\nWas für einer?\n", encoding="utf-8")
    samples = read_samples(tmp_path, (Tensor("TEXT", "BYTES", (1,)),))
    assert list(samples.ids) == ["questions-0001", "questions-0003"]
    assert samples.read([1])["TEXT"].tolist() == [["Was für einer?".encode()]]


TOKENS = [Tensor(name, "INT64", (-1,)) for name in ("input_ids", "attention_mask", "token_type_ids")]


@pytest.mark.parametrize("pads", [True, False], ids=["by the tokenizer", "by its settings"])
def test_tokenizer_pads_texts_to_one_length(pads: bool, tmp_path: Path) -> None:
    write_tokenizer(tmp_path / "model", pads=pads)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "t.txt").write_text("a b\na b b\ta\n")
    if not pads:
        with pytest.raises(InputError, check=lambda error: "pad_token" in error.fix):
            read_samples(tmp_path / "texts", TOKENS, tokenizer=tmp_path / "model")
        settings = tmp_path / "model" / "tokenizer_config.json"
        settings.write_text("[]")
        with pytest.raises(InputError, check=lambda error: str(error.where) == str(settings)):
            read_samples(tmp_path / "texts", TOKENS, tokenizer=tmp_path / "model")
        settings.write_text('{"pad_token": {"content": "[PAD]"}}')
    samples = read_samples(tmp_path / "texts", TOKENS, tokenizer=tmp_path / "model")
    rows = samples.read([0, 1])
    assert rows["input_ids"].tolist() == [[1, 2, 0, 0], [1, 2, 2, 1]]
    assert rows["attention_mask"].tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]
    assert rows["token_type_ids"].tolist() == [[0, 0, 0, 0], [0, 0, 0, 1]], "a tab separates a pair"
    fixed = [Tensor(tensor.name, tensor.dtype, (3,)) for tensor in TOKENS]
    cut = read_samples(tmp_path / "texts", fixed, tokenizer=tmp_path / "model")
    assert cut.read([0, 1])["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    right, left = [[1, 2, 0], [1, 2, 1]], [[0, 1, 2], [2, 2, 1]]
    for side, written, expected in (
        ("right", "{}", right),
        ("left", "{}", left),
        ("right", '{"padding_side": "left", "truncation_side": "left"}', left),
    ):
        write_tokenizer(tmp_path / "model", most_tokens=3, side=side)
        (tmp_path / "model" / "tokenizer_config.json").write_text(written)
        cut = read_samples(tmp_path / "texts", TOKENS, tokenizer=tmp_path / "model")
        assert cut.read([0, 1])["input_ids"].tolist() == expected


def cut_off(path: Path) -> None:
    save(path / "x.npy", TWO[0])
    (path / "x.npy").write_bytes((path / "x.npy").read_bytes()[:-5])


def pickled(path: Path) -> None:
    np.save(path / "x.npy", np.array([print, {}], object), allow_pickle=True)


def two_of_a_name(path: Path) -> None:
    picture(path / "x.png", np.zeros((2, 3), np.uint8))
    picture(path / "x.jpg", np.zeros((2, 3), np.uint8))


def beside(file: str, content: str) -> Callable[[Path], None]:
    """A right sample, and another file."""

    def write(path: Path) -> None:
        save(path / "x.npy", TWO[0])
        (path / file).write_text(content)

    return write


BAD = {
    "nothing there": (lambda _path: None, ""),
    "another kind of file": (beside("x.wav", "?"), "x.wav"),
    "two kinds": (beside("t.txt", "t"), ""),
    "another shape": (lambda path: save(path / "x.npy", np.ones((3, 3))), "3 x 3"),
    "a fraction for a whole number": (lambda path: save(path / "x.npy", np.full((2, 3), 0.5)), "float64"),
    "too large a number": (lambda path: save(path / "x.npy", np.full((2, 3), 300)), "300"),
    "a file that is cut off": (cut_off, "x.npy"),
    "Python's objects": (pickled, "x.npy"),
    "two samples of a name": (two_of_a_name, "'x'"),
    "no requests": (lambda path: (path / "x.json").write_text("[1]"), "`data`"),
    "no such input": (lambda path: (path / "x.json").write_text('{"data": [{"Y": [1]}]}'), "data[0]"),
    "too few values": (lambda path: (path / "x.json").write_text('{"data": [{"X": [1, 2]}]}'), "data[0].X"),
    "a key that is none": (lambda path: (path / "x.json").write_text('{"data":[{"X":{"y":[1]}}]}'), "`y`"),
    "settings that are none": (beside("samples.toml", "[image]\nsise = 3"), "sise"),
    "texts for a model of numbers": (lambda path: (path / "x.txt").write_text("t"), "BYTES"),
}


@pytest.mark.parametrize(("write", "named"), BAD.values(), ids=BAD)
def test_invalid_samples_are_refused_with_reason_and_fix(tmp_path: Path, write: Any, named: str) -> None:
    write(tmp_path)
    with pytest.raises(InputError, check=lambda error: names(error, named, tmp_path)):
        read_samples(tmp_path, (Tensor("X", "UINT8", (2, 3)),)).read([0])


def test_samples_of_two_lengths_are_refused_with_both_files(tmp_path: Path) -> None:
    save(tmp_path / "RIGHT" / "a.npy", np.ones(3, int))
    save(tmp_path / "RIGHT" / "b.npy", np.ones(4, int))
    files = (tmp_path / "RIGHT" / name for name in ("a.npy", "b.npy"))
    with pytest.raises(InputError, check=lambda error: names(error, *files)):
        read_samples(tmp_path, (RIGHT,))


@pytest.mark.parametrize(("numbers", "count"), [(4, 64), (1 << 20, 8), (1 << 24, 4)])
def test_fewer_of_large_samples_are_made_up(numbers: int, count: int) -> None:
    assert len(synthetic_samples((Tensor("X", "FP32", (numbers,)),), {}, 16)) == count


def test_sample_is_read_on_demand(tmp_path: Path) -> None:
    save(tmp_path / "a.npy", TWO[0])
    save(tmp_path / "b.npy", TWO[1])
    samples = read_samples(tmp_path, (LEFT,))
    (tmp_path / "b.npy").unlink()
    np.testing.assert_array_equal(samples.read([0])["LEFT"][0], TWO[0])
    with pytest.raises(InputError, check=lambda error: error.where == str(tmp_path / "b.npy")):
        samples.read([1])
