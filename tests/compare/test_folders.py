"""Which records of two folders, files or formats are compared, and which are refused."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from reports.record import files, per_sample
from reports.record.schema import Case
from tests import examples as sample
from tests.compare.test_records import CASE, store_samples


def test_records_of_different_formats_are_compared(
    tmp_path: Path, printed: Callable[..., str], refused: Callable[..., str]
) -> None:
    other = structs.replace(sample.record(), case=Case("h100", "resnet50", "trt", None, "fp16"))
    sample.store(tmp_path, sample.record(), other)
    first, second = (files.path_of(record.case, tmp_path) for record in (sample.record(), other))
    assert f"## {CASE} → h100-resnet50-trt-fp16\n" in printed("compare", first, second)
    nnunet = sample.store(tmp_path, sample.random_weights()) / "cpu" / "cpu-nnunet-ts-trace-fp32.json"
    assert refused("compare", first, nnunet).startswith(f"error: {nnunet}: ")


# What cannot be compared.


def test_records_without_common_cases_are_an_error(
    folders: tuple[Path, Path], refused: Callable[..., str]
) -> None:
    sample.store(folders[0], sample.record())
    sample.store(folders[1], sample.random_weights())
    text = refused("compare", *folders)
    assert text.startswith(f"error: {folders[1]}: ")


def test_folder_given_twice_is_an_error(tmp_path: Path, refused: Callable[..., str]) -> None:
    sample.store(tmp_path, sample.record())
    text = refused("compare", tmp_path, tmp_path / "a40" / ".." / "a40" / f"{CASE}.json")
    assert f"{CASE}.json: given twice" in text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("nowhere", None),
        ("empty", ""),
        ("notes.txt", "hello"),
        ("other.json", "[1]"),
        ("later.json", '{"schema": 3}'),
        ("cut.json", '{"schema": 1, "case'),
        ("hole.json", '{"schema": 1}'),
        ("x.samples.json", "{}"),
    ],
)
def test_non_record_is_named(
    name: str, content: str | None, tmp_path: Path, refused: Callable[..., str]
) -> None:
    good, bad = sample.store(tmp_path / "good", sample.record()), tmp_path / name
    if content == "":
        bad.mkdir()
    elif content is not None:
        bad.write_text(content)
    assert refused("compare", good, bad).startswith(f"error: {bad}: ")


def test_damaged_samples_are_named(folders: tuple[Path, Path], refused: Callable[..., str]) -> None:
    for folder in folders:
        sample.store(folder, sample.record())
        store_samples(folder, sample.record(), [1.0] * 500)
    damaged = per_sample.path_of(sample.record().case, folders[1])
    damaged.write_text(damaged.read_text()[:100])
    assert refused("compare", *folders).startswith(f"error: {damaged}: ")
