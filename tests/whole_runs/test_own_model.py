"""A model that is written by fixtures.new is proven and measured as it is, where it lies, and is the one of
the page."""

import re
from pathlib import Path

import pytest

from fixtures import new
from reports.text.publishable import publishable
from tests.whole_runs.suite import ROOT, suite

CASE = "cpu-biopsy-onnx-fp32"
FAST = ("--point-budget-s", "0.5", "--batches", "8", "--concurrencies", "4")
NETWORK = """
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5))

    def forward(self, x):
        return self.body(x)
"""


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "docs" / "own-model.md").read_text()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a model of the page's name, in a folder that has nothing else."""
    file = tmp_path_factory.mktemp("mine") / "biopsy.py"
    assert new.main(["biopsy", "--to", str(file)]) == 0
    return file


def test_it_is_proven_and_measured(page: str, written: Path, tmp_path: Path) -> None:
    (selection,) = re.findall(r'--models \S+ -k "(.+?)"\n', page)
    selected = ("--models", str(written), "-k", f"({selection}) and not efficiency and not online")

    done = suite(*selected, *FAST, repos=tmp_path / "repos", results=tmp_path / "results")

    assert done.status == 0, done.text
    found = done.record(CASE)
    assert not publishable(found).no_speed
    assert found.accuracy is not None
    assert found.accuracy.samples == 190
    assert [(load.scenario, load.batch) for load in found.loads] == [("offline", 8)]


def test_the_page_shows_the_end_of_the_file_and_figures_of_its_recipe(page: str, written: Path) -> None:
    """The score in the text of the limit is the one that the page shows."""
    (shown_there,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (stated,) = re.findall(r"reaches ([\d.]+) %", shown_there)

    assert written.read_text().endswith(shown_there)
    assert f"{stated} % framework" in page


@pytest.mark.campaign
def test_a_network_of_one_s_own_is_measured_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NETWORK)
    around = ["--network", f"{tmp_path / 'net.py'}:Net", "--input", "1x8x8"]
    assert new.main(["digits", "--to", str(tmp_path / "digits.py"), *around]) == 0
    selected = (
        "--models",
        str(tmp_path / "digits.py"),
        "-k",
        "(onnx or ts-trace or pt2) and fp32 and not efficiency",
    )

    done = suite(*selected, *FAST, repos=tmp_path / "repos", results=tmp_path / "results")

    assert done.status == 0, done.text
    for name in ("onnx", "ts-trace", "pt2"):
        found = publishable(done.record(f"cpu-digits-{name}-fp32"))
        assert not found.no_speed
        assert len(found.loads) == 2
    assert "accuracy needs --checkpoint digits=PATH and --dataset digits=PATH" in done.text
