"""The telemetry of ONNX Runtime is off and leaves no files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures import NO_TELEMETRY
from tests.whole_runs.suite import ROOT


def test_onnx_runtime_leaves_no_telemetry_files(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    inherited = {name: value for name, value in os.environ.items() if name not in (*NO_TELEMETRY, "CI")}
    subprocess.run(
        [sys.executable, "-c", "import fixtures, onnxruntime"],
        cwd=ROOT,
        env=inherited | {"TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
        check=True,
    )

    assert list(tmp_path.iterdir()) == []
