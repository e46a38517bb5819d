"""A network for runs that can use any model, and a run of a PyTorch model."""

import re
from pathlib import Path

import pytest

from tests.classifier import write_network
from tests.whole_runs.suite import FAST, PAGE, Run, suite
from tritonproof import new


@pytest.fixture(scope="session")
def given(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The options of a run of the case GIVEN."""
    path = tmp_path_factory.mktemp("given") / "classifier.onnx"
    write_network(path)
    return ("--onnx", f"classifier={path}")


@pytest.fixture(scope="session")
def biopsy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the model of docs/model-in-python.md, as tritonproof.new writes it, alone in a folder."""
    file = tmp_path_factory.mktemp("mine") / "biopsy.py"
    assert new.main(["biopsy", "--to", str(file)]) == 0
    return file


@pytest.fixture(scope="session")
def first(biopsy: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of the page's selection of this model, in fresh folders, with all reports of pytest's plugins."""
    folder = tmp_path_factory.mktemp("first")
    results = folder / "results"
    results.mkdir()
    (selection,) = re.findall(r'--models \S+ -k "(.+?)"\n', PAGE.read_text())
    reports = ("--benchmark-json", str(results / "benchmark.json"), "--junit-xml", str(results / "junit.xml"))
    options = ("--models", str(biopsy), "-v", "-k", selection, *FAST, "--price-per-hour", "0.09", *reports)
    return suite(*options, repos=folder / "repos", results=results)
