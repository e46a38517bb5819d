"""A new model's file: the suite takes it as it is written, nothing is written over, and what cannot work is
refused."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures import new
from fixtures.errors import InputError
from tests.helpers import Collect

ROOT = Path(__file__).parents[2]
ROWS = 9
NETWORK = """
import torch


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(9, 4)
        self.unused = torch.nn.Embedding(20, 4)

    def forward(self, ids, scale):
        found = self.embedding(ids) * scale[:, :, None]
        return found, found.argmax(dim=-1)


class Bare(torch.nn.Linear):
    def __init__(self):
        super().__init__(3, 3)

    def forward(self, x):
        return super().forward(x).sum()
"""


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as raised:
        new.main(arguments)
    assert raised.value.code == 4
    return capsys.readouterr().err


@pytest.mark.parametrize("name", ["m2", "shop_2-large"])
def test_every_format_of_a_new_model_is_there_to_be_run(tmp_path: Path, collect: Collect, name: str) -> None:
    file = tmp_path / "models" / "model.py"
    assert new.main([name, "--to", str(file)]) == 0

    found = collect("--models", str(file), "--target", "cpu", "-k", "conversion")

    formats = {re.sub(rf".*\[cpu-{name}-(.+)\]", r"\1", one) for one in found.names}
    assert {"onnx-fp32", "onnx-int8", "pt2-fp32", "ts-script-fp32", "ts-trace-fp32"} <= formats
    assert "biopsy" not in file.read_text().lower()


def test_it_is_written_by_a_python_without_packages(tmp_path: Path) -> None:
    """As on a machine where nothing is installed yet."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from fixtures.new import main; "
        "sys.exit(main(sys.argv[2:]))"
    )
    command = [sys.executable, "-I", "-S", "-c", code, str(ROOT), "mine", "--to", str(tmp_path / "mine.py")]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "mine.py") in done.stdout, "and says how to prove it"
    assert (tmp_path / "mine.py").is_file()


def test_what_is_there_already_is_not_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text("precious")
    (tmp_path / "link.py").symlink_to(tmp_path / "nowhere")

    for place in ("mine.py", "mine.py/other.py", "link.py", "link.py/other.py"):
        named = str(tmp_path / place.partition("/")[0])
        assert named in refusal(capsys, "mine", "--to", str(tmp_path / place))
    assert (tmp_path / "mine.py").read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()


def test_a_network_s_inputs_and_outputs_are_those_of_the_model(
    tmp_path: Path, collect: Collect, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net.py").write_text(NETWORK)
    file = tmp_path / "two.py"
    given = ["--network", f"{tmp_path / 'net.py'}:Two", "--input", "INT64:6", "--input", "6"]
    assert new.main(["two", "--to", str(file), *given]) == 0

    (test, *_) = collect("--models", str(file), "--target", "cpu", "-k", "onnx and conversion").selected

    model = test.callspec.params["model"]  # type: ignore[attr-defined]
    assert [(one.dtype, one.shape) for one in model.inputs] == [("INT64", (6,)), ("FP32", (6,))]
    assert [(one.dtype, one.shape) for one in model.outputs] == [("FP32", (6, 4)), ("INT64", (6,))]
    ids = model.samples("evaluation", None, None).load(range(64))["input_0"]
    assert (ids.min(), ids.max()) == (0, ROWS - 1)
    with pytest.raises(InputError):
        model.samples("evaluation", tmp_path, None)
    monkeypatch.syspath_prepend(tmp_path)
    weights = model.load(None)
    assert (weights.trained, model.load(None).digest) == (False, weights.digest)


NETWORK_FILE = ("mine", "--to", "{0}/mine.py", "--network")


@pytest.mark.parametrize(
    "arguments",
    [
        ("../mine",),
        ("mine", "--to", "class.py"),
        ("mine", "--to", "my-model.py"),
        ("mine", "--input", "3x4"),
        (*NETWORK_FILE, "net.py:Bare"),
        (*NETWORK_FILE, "{0}/net.py:Gone", "--input", "3"),
        (*NETWORK_FILE, "{0}/net.py:Bare", "--input", "3y4"),
        (*NETWORK_FILE, "{0}/net.py:Bare", "--input", "4"),
        (*NETWORK_FILE, "{0}/net.py:Bare", "--input", "3"),
    ],
)
def test_what_cannot_work_is_refused_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    (tmp_path / "net.py").write_text(NETWORK)

    assert refusal(capsys, *(one.format(tmp_path) for one in arguments))
    assert not (tmp_path / "mine.py").exists()
