"""A new model's file runs as written, and no file is overwritten."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import ROOT, Collect
from tritonproof import new


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as raised:
        new.main(arguments)
    assert raised.value.code == 4
    return capsys.readouterr().err


@pytest.mark.parametrize("name", ["m2", "shop_2-large"])
def test_new_model_has_every_format(tmp_path: Path, collect: Collect, name: str) -> None:
    file = tmp_path / "models" / "model.py"
    assert new.main([name, "--to", str(file)]) == 0
    collected = collect("--models", str(file), "--target", "cpu", "-k", "conversion")
    formats = {re.sub(rf".*\[cpu-{name}-(.+)\]", r"\1", test) for test in collected.names}
    assert {"onnx-fp32", "onnx-int8", "pt2-fp32", "ts-script-fp32", "ts-trace-fp32"} <= formats
    assert "biopsy" not in file.read_text().lower()


def test_new_model_file_needs_no_packages(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-m", "tritonproof", "new", "mine", "--to", str(tmp_path / "mine.py")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    assert str(tmp_path / "mine.py") in result.stdout, "and says how to prove it"
    assert (tmp_path / "mine.py").is_file()


def test_existing_file_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text("precious")
    (tmp_path / "link.py").symlink_to(tmp_path / "nowhere")
    for path in ("mine.py", "mine.py/other.py", "link.py", "link.py/other.py"):
        existing = str(tmp_path / path.partition("/")[0])
        assert existing in refusal(capsys, "mine", "--to", str(tmp_path / path))
    assert (tmp_path / "mine.py").read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    "arguments", [("../mine",), ("mine", "--to", "class.py"), ("mine", "--to", "my-model.py")]
)
def test_invalid_name_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refusal(capsys, *arguments)
    assert not [*tmp_path.iterdir()]
