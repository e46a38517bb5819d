"""The worked example of docs/own-model.md works as it stands there."""

import re
import shutil
from pathlib import Path

import pytest

from reports.words.shown import shown
from tests.whole_runs.suite import ROOT, suite

CASE = "cpu-biopsy-onnx-fp32"
COPIED = ("benchmarks", "fixtures", "reports", "model_repos/runtimes", "conftest.py", "pyproject.toml")
FAST = ("--point-budget-s", "0.5", "--batches", "8", "--concurrencies", "4")


def block(text: str, language: str) -> str:
    """The one code block of a language in a markdown text."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "docs" / "own-model.md").read_text()


@pytest.fixture(scope="module")
def checkout(page: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this checkout in which the page has been followed."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in COPIED:
        source, copy = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__", "results"))
        else:
            shutil.copyfile(source, copy)
    (place,) = re.findall(r"save the following as `(.+?)`", page)
    (folder / place).write_text(block(page, "python"))
    return folder


def test_its_model_is_proven_and_measured(page: str, checkout: Path) -> None:
    (selection,) = re.findall(r'tox run -e benchmarks -- -k "(.+?)"', block(page, "sh"))

    done = suite("-k", f"({selection}) and not efficiency and not online", *FAST, checkout=checkout)

    assert done.status == 0, done.text
    found = done.record(CASE)
    assert not shown(found).no_speed
    assert found.accuracy is not None
    assert found.accuracy.samples == 190
    assert [(load.scenario, load.batch) for load in found.loads] == [("offline", 8)]


def test_its_model_has_every_format_of_its_framework(checkout: Path) -> None:
    listed = suite("-k", "biopsy and conversion", "--collect-only", "-q", checkout=checkout).text

    names = set(re.findall(r"test_conversion\[cpu-biopsy-(.+)\]", listed))
    assert {"onnx-fp32", "onnx-int8", "pt2-fp32", "ts-script-fp32", "ts-trace-fp32"} <= names


def test_its_figures_are_those_of_the_recipe(page: str) -> None:
    """The score in the text of the limit is the one that the page shows."""
    (stated,) = re.findall(r"reaches ([\d.]+) %", block(page, "python"))

    assert f"{stated} % framework" in block(page, "text")
