"""Formats that this machine cannot build are named with what they lack."""

import dataclasses

import pytest

from fixtures.doctor import formats
from fixtures.formats import all_formats
from tests.doctor.findings import states


def test_formats_that_skip_are_named_with_their_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")

    found = formats.formats("cpu")

    assert states(found) == ["warning"]
    assert "pt2-fp32" in found.found
    assert "no-such-compiler is not on PATH" in found.cure


def test_formats_that_lack_nothing_are_well(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [
        dataclasses.replace(one, missing=lambda _device, _accelerator, _precision: None)
        for one in all_formats()
    ]
    monkeypatch.setattr("fixtures.formats.all_formats", lambda: whole)

    assert states(formats.formats("cpu")) == ["ok"]


def test_a_format_that_no_model_of_the_suite_has_is_no_reason_to_warn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lacking = [
        dataclasses.replace(one, missing=lambda _device, _accelerator, _precision: "needs what is not here")
        for one in all_formats()
        if one.frameworks == ("onnx",)
    ]
    assert lacking
    monkeypatch.setattr("fixtures.formats.all_formats", lambda: lacking)

    assert states(formats.formats("cpu")) == ["ok"]
