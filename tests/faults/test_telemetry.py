"""The telemetry of ONNX Runtime is off and leaves no files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.host.process import minimal_environment
from fixtures.serve.command import Ports, docker_command
from fixtures.serve.server_spec import ContainerImage
from tests.helpers import ROOT

SWITCH = "ORT_DISABLE_TELEMETRY"


def test_onnx_runtime_leaves_no_telemetry_files(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    inherited = {name: value for name, value in os.environ.items() if name not in (SWITCH, "CI")}
    subprocess.run(
        [sys.executable, "-c", "import fixtures, onnxruntime"],
        cwd=ROOT,
        env=inherited | {"TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
        check=True,
    )

    assert list(tmp_path.iterdir()) == []


def test_installed_onnx_runtime_knows_telemetry_switch() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    (library,) = (Path(onnxruntime.__file__).parent / "capi").glob("onnxruntime_pybind11_state*.so")
    content = library.read_bytes()
    if b"events.data.microsoft.com" not in content:
        pytest.skip(f"ONNX Runtime {onnxruntime.__version__} reports nothing")

    assert SWITCH.encode() in content


def test_servers_and_containers_get_telemetry_switch() -> None:
    command = docker_command(
        ContainerImage("tritonserver:24.10-py3"),
        Path("models"),
        Ports(1, 2, 3),
        shared_memory="none",
        name="one",
    )

    assert minimal_environment()[SWITCH] == "1"
    assert f"--env={SWITCH}=1" in command[: command.index("tritonserver")]
