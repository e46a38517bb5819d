"""The model that tritonproof.new writes is the page's example, and passes with the page's changes."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from tests.whole_runs.suite import FAST, PAGE, suite
from tritonproof.reports.publishable import publishable

NETWORK = """
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 26**2, 10))

    def forward(self, x):
        return self.body(x)
"""


def python_of_page() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_page_shows_code_and_score_of_new_model(biopsy: Path) -> None:
    """The page shows the score that the text of the limit states."""
    shown_there, _ = python_of_page()
    (stated,) = re.findall(r"reaches ([\d.]+) %", shown_there)
    assert biopsy.read_text().endswith(shown_there)
    assert f"{stated} % framework" in PAGE.read_text()


@pytest.mark.campaign
def test_own_network_passes_when_edited_as_documented(
    biopsy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its labels are its own decisions, so all are right."""
    (tmp_path / "net.py").write_text(NETWORK)
    monkeypatch.syspath_prepend(tmp_path)
    network = importlib.import_module("net").Net().eval()
    safetensors.torch.save_model(network, str(tmp_path / "net.safetensors"))
    for seed, split in enumerate(("training", "evaluation")):
        rows = torch.randn(64, 1, 28, 28, generator=torch.Generator().manual_seed(seed))
        np.savez(tmp_path / f"{split}.npz", rows=rows, labels=network(rows).argmax(axis=1))
    text = biopsy.read_text().replace("(30,)", "(1, 28, 28)").replace("(2,)", "(10,)")
    text = text.replace("import torch\n", "import torch\n    from net import Net\n", 1)
    text = re.sub(r"self\.layers = .+", "self.layers = Net()", text).replace("layers[0]", "layers.body[0]")
    _, functions = python_of_page()
    replacements = {function.partition("(")[0]: function for function in functions.strip().split("\n\n\n")}
    text = "\n\n\n".join(replacements.pop(part.partition("(")[0], part) for part in text.split("\n\n\n"))
    assert not replacements
    (tmp_path / "digits.py").write_text(text)
    keywords = "(onnx or ts-trace or pt2) and fp32 and not efficiency"
    selected = ("--models", str(tmp_path / "digits.py"), "-k", keywords)

    done = suite(*selected, *FAST, repos=tmp_path / "repos", results=tmp_path / "results")

    assert done.status == 0, done.text
    for name in ("onnx", "ts-trace", "pt2"):
        record = publishable(done.record(f"cpu-biopsy-{name}-fp32"))
        assert not record.why_no_speed
        assert len(record.points) == 3
