"""`-k`, as pytest parses it, selects hardware by the words that it asks for, never by those it excludes."""

import dataclasses
import itertools

import pytest

from fixtures.selection import contains_name, id_words, positive_words, select_targets
from tests import toy
from tests.helpers import Collect
from tritonproof.base.errors import InputError
from tritonproof.host.targets import CPU, EVERY_TARGET, present_targets

BY_NAME = {target.name: target for target in EVERY_TARGET}


@pytest.mark.parametrize("wrong", ["a100 and", "(a100", "a100 t4", "a100(x=)"])
def test_invalid_expression_selects_no_hardware(wrong: str, collect: Collect) -> None:
    collected = collect("-k", wrong)
    assert collected.status == pytest.ExitCode.USAGE_ERROR
    assert collected.targets == {present_targets()[0].name}


@pytest.mark.parametrize(
    ("keywords", "named"),
    [
        ("A100", "a100"),
        ("a100-resnet50-onnx", "a100"),
        ("test_online[l4-", "l4"),
        ("(a100 and onnx) or t4", "a100 t4"),
        ("not (not a30 or l4)", "a30"),
        ("[t4- or (A30)", "t4 a30"),
        ("not(not(v100))and a.b::c", "v100"),
        ("a10", ""),
        ("bert-dist4l", ""),
        ("test_cpu", ""),
        ("not (a100 and (t4 or v100))", ""),
        ("onnx and not (resnet50 or not (onnx and not a100))", ""),
        ("  ", ""),
        (" and ".join(["onnx"] * 150 + ["t4"]), "t4"),
        ("T4-Detector or cpu-monitor", ""),
        ("h100-cpu-monitor-asis", "h100"),
        ("t4-detector and t4", "t4"),
        ("h100", ""),
        ("h100-t4-detector", "h100"),
        ("h100-onnx", ""),
    ],
)
def test_hardware_is_named_by_whole_words_outside_of_models_names(keywords: str, named: str) -> None:
    expected = tuple(target for target in EVERY_TARGET if target.name in named.split())
    models = [dataclasses.replace(toy.model(), name=name) for name in ("cpu-monitor", "T4-Detector", "h100")]
    here = (BY_NAME["a100"],)
    assert select_targets(positive_words(keywords), (), here, models) == (expected or here)


def test_target_option_and_keywords_intersect() -> None:
    targets = (BY_NAME["a100"], BY_NAME["t4"])
    assert select_targets((), (), targets) == targets[:1]
    assert select_targets((), targets, (CPU,)) == targets
    assert select_targets(("t4", "v100"), targets, (CPU,)) == (BY_NAME["t4"],)
    with pytest.raises(InputError, check=lambda error: error.where == "--target a100, t4"):
        select_targets(("cpu",), targets, (CPU,))


def test_no_target_name_is_part_of_another() -> None:
    pairs = itertools.permutations((target.name for target in EVERY_TARGET), 2)
    assert not [(name, other) for name, other in pairs if contains_name(other, name)]


def test_test_id_selects_hardware_but_folder_brackets_do_not() -> None:
    words = id_words(["/tmp/[t4]/benchmarks", "benchmarks/test_speed.py::test_online[a30-bert-onnx-fp16]"])
    assert [target.name for target in select_targets(words, (), (CPU,))] == ["a30"]


def test_empty_selection_states_the_reason(collect: Collect) -> None:
    own = present_targets()[0].name
    collected = collect("-k", f"not {own}")
    assert collected.status == pytest.ExitCode.NO_TESTS_COLLECTED
    assert f'-k "not {own}"' in collected.text
    assert "nothing is selected" not in collect("-k", "onnx").text


def test_other_tests_are_filtered_as_usual(collect: Collect) -> None:
    collected = collect("-k", "a100 or brackets", paths=("tests/plugin/test_keywords.py",))
    assert any("brackets" in name for name in collected.names)
    assert "--target" not in collected.text
