"""--soak: nothing is soaked without it."""

import pytest

from tests.helpers import Collect

CASE = "cpu-resnet50-micro-onnx-fp32"


def test_the_soak_comes_last_and_only_where_it_is_asked_for(collect: Collect) -> None:
    asked = collect("-k", CASE, "--soak", "10m")
    without = collect("-k", CASE)

    assert asked.names == [*without.names, f"test_soak[{CASE}]"]
    assert "soak" not in without.text


def test_the_soak_alone_is_selected_by_its_name_and_refused_without_a_time(
    collect: Collect,
) -> None:
    alone = collect("-k", f"{CASE} and soak", "--soak", "10m")
    refused = collect("-k", f"{CASE} and soak")

    assert alone.names == [f"test_soak[{CASE}]"]
    assert refused.status == pytest.ExitCode.USAGE_ERROR
    assert "add --soak TIME" in refused.text
