"""The shapes of a model's inputs in its record, which are as long as Triton's configuration may have them."""

import dataclasses
from pathlib import Path

import pytest

from reports.record import decoding, files
from tests import samples


@pytest.mark.parametrize("msgspec", [decoding.msgspec, None], ids=["msgspec", "bare"])
def test_an_axis_of_any_length_is_read_again(
    msgspec: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "msgspec", msgspec)
    record = samples.record()
    build = dataclasses.replace(record.build, inputs={"INPUT0": (-1, 3, 0), "SCALAR": ()})
    files.write(dataclasses.replace(record, build=build), tmp_path / "case.json")

    assert files.read(tmp_path / "case.json").build.inputs == build.inputs


def test_no_axis_is_shorter_than_that(tmp_path: Path) -> None:
    record = samples.record()
    build = dataclasses.replace(record.build, inputs={"INPUT0": (-2,)})
    files.write(dataclasses.replace(record, build=build), tmp_path / "case.json")

    with pytest.raises(files.RecordError, match=r"inputs\.INPUT0\[0\]"):
        files.read(tmp_path / "case.json")
