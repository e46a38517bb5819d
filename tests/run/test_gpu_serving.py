"""Server options and deployment of a GPU case, on stand-ins for NVML and the server."""

import contextlib
import dataclasses
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.build import runtimes
from fixtures.efficiency import interleaved
from fixtures.efficiency.interleaved import PeakKind
from fixtures.frameworks import tensorrt
from fixtures.frameworks.tensorrt import TensorRT
from fixtures.host import locks
from fixtures.plugin import selection
from fixtures.run import efficiency, model_run, serving
from fixtures.serve.releases import Image
from fixtures.spec import Case, Deployment
from reports.record.schema import Estimate
from tests import examples
from tests.helpers import ROOT, WITHOUT
from tests.host.fake_nvml import Nvml, in_place_of_nvml

TEST = """
    from pathlib import Path
    import pytest
    import weakref
    from types import SimpleNamespace
    from tests import examples
    from tests.run.test_gpu_serving import SEEN

    @pytest.fixture(scope="session")
    def run(run):
        run.build = SimpleNamespace(
            case=run.case, digest="0f3c", reused=True, folder=Path("models", str(run.case)), artifact=None
        )
        run.timed_answer = lambda batch: (0.001, {})
        return run

    @pytest.mark.stage("accuracy")
    def test_deployed(run):
        SEEN["deployment"] = run.deployment
        SEEN["deployed"] = run.deploy("online")


    @pytest.mark.stage("accuracy")
    def test_alone(run):
        SEEN["opened"] = [weakref.ref(one) for one in (run.converted, run.of_model.reference)]
        run.deploy("online")


    @pytest.mark.stage("efficiency")
    def test_beside(run):
        run.known_loads = lambda: [examples.load("online", 8, 100.0)]
        run.of_model.operations = None
        run.measure_efficiency()
        SEEN["servers after"] = SEEN["servers"]
    """
SEEN: dict[str, Any] = {}
"""What a test's run recorded."""


def server_of(**fields: Any) -> Any:
    return dataclasses.make_dataclass("Server", fields)(**fields)


class Opened:
    """A model that is open on a GPU."""


@pytest.fixture(autouse=True)
def two_a100s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A machine with two A100s and all packages; its container, of release 25.02, has TensorRT 10.8.0.43."""
    nvml = Nvml(lambda: 0.0, "GPU-1", "GPU-2")
    nvml.names = dict.fromkeys(nvml.uuids, "NVIDIA A100-SXM4-80GB")
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    image = Image("tritonserver:25.02-py3", "sha256:0f3c", "25.02", "10.8.0.43")

    @contextlib.contextmanager
    def serve(*_arguments: Any, **keywords: Any) -> Iterator[Any]:
        SEEN.update(keywords)
        SEEN["servers"] = SEEN.get("servers", 0) + 1
        yield server_of(
            kind=SEEN["kind"],
            called="",
            version="2.55.0",
            backends=None,
            image=image if SEEN["kind"] == "docker" else None,
            ready_s=1.0,
            load=load,
            is_on_this_host=True,
            check_running=lambda: None,
        )
        SEEN["servers"] -= 1

    def load(*_arguments: Any) -> Any:
        SEEN["left"] = [reference for reference in SEEN.get("opened", ()) if reference() is not None]
        return SEEN["backend"]

    @contextlib.contextmanager
    def in_process(*_arguments: Any, **options: Any) -> Iterator[Any]:
        SEEN["in process"] = options
        yield SimpleNamespace(wait_ready=lambda: None)

    def find_reference(_run: Any, case: Case) -> Any:
        build = SimpleNamespace(case=case, digest="0f3c", folder=tmp_path / str(case))
        return build, examples.load("online", 8, 100.0)

    def beside(*_arguments: Any) -> None:
        SEEN["servers beside"] = SEEN["servers"]

    def peak_per_s(kind: PeakKind) -> Estimate:
        assert "options" not in SEEN, "a server is there, which needs the GPU's memory"
        SEEN["peak"] = kind
        return Estimate(1e12, 1e12, 1e12)

    (other_machine := tmp_path / "machine").mkdir()  # no test waits for measurements on this one
    monkeypatch.setattr(locks, "machine", lambda: other_machine)
    monkeypatch.setattr(interleaved, "peak_per_s", peak_per_s)
    monkeypatch.setattr(serving, "serve", serve)
    monkeypatch.setattr(efficiency, "in_process", in_process)
    monkeypatch.setattr(interleaved, "best_points", lambda _case, loads: loads)
    monkeypatch.setattr(runtimes, "open_in_process", lambda *_arguments: Opened())
    monkeypatch.setattr(model_run, "reference_on", lambda *_arguments: Opened())
    monkeypatch.setattr(efficiency, "find_reference", find_reference)
    monkeypatch.setattr(efficiency, "in_use", lambda build, **_report: contextlib.nullcontext(build))
    monkeypatch.setattr(efficiency, "_beside", beside)
    monkeypatch.setattr(selection, "why_not", lambda *_arguments, **_keywords: None)
    SEEN.clear()
    SEEN["backend"] = "onnxruntime"
    SEEN["kind"] = "docker"
    with in_place_of_nvml(nvml, monkeypatch):
        yield


def run(folder: Path, case: str, *arguments: str, test: str = "test_deployed") -> int:
    """Run a test that deploys one case of the A100, or measures it beside the machine's peak."""
    file = folder / "test_of_a_server.py"
    file.write_text(textwrap.dedent(TEST))
    names = [f"{file}::{test}[{case}]", "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml")]
    return pytest.main([*names, "-q", "-p", "conftest", *WITHOUT, "--triton", "docker", *arguments])


@pytest.mark.parametrize(
    ("precision", "arguments", "tf32", "variables"),
    [
        ("fp32", (), True, {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1"}),
        ("fp32", ("--tf32", "off"), False, {"NVIDIA_TF32_OVERRIDE": "0"}),
        ("fp16", ("--tf32", "off"), None, {}),
    ],
)
def test_deployment_and_server_variables_agree_on_tf32(
    precision: str,
    arguments: tuple[str, ...],
    tf32: bool | None,
    variables: dict[str, str],
    tmp_path: Path,
) -> None:
    assert run(tmp_path, f"a100-resnet50-micro-onnx-{precision}", *arguments) == 0
    deployment: Deployment = SEEN["deployment"]
    assert deployment.tf32 is tf32
    assert SEEN["variables"] == variables


@pytest.mark.parametrize(("option", "tf32"), [("on", True), ("off", False)])
def test_peak_uses_tf32_as_the_case_does(option: str, tf32: bool, tmp_path: Path) -> None:
    assert run(tmp_path, "a100-resnet50-micro-onnx-fp32", "--tf32", option, test="test_beside") == 0
    assert SEEN["peak"] == ("cuda", "fp32", tf32)


@pytest.mark.parametrize(("way", "resident"), [("cuda", True), ("system", False)])
def test_in_process_data_location_matches_shared_memory(way: str, resident: bool, tmp_path: Path) -> None:
    case = "a100-resnet50-micro-onnx-fp32"
    assert run(tmp_path, case, "--shared-memory", way, test="test_beside") == 0
    assert SEEN["in process"] == {"backend": "onnxruntime", "resident": resident}


def test_process_leaves_gpu_before_case_is_loaded(tmp_path: Path) -> None:
    """Its ONNX Runtime sessions take as much GPU memory as the server's."""
    assert run(tmp_path, "a100-resnet50-micro-onnx-fp16", test="test_alone") == 0
    assert len(SEEN["opened"]) == 2
    assert SEEN["left"] == []


def test_reference_server_runs_only_while_comparing(tmp_path: Path) -> None:
    assert run(tmp_path, "a100-resnet50-micro-onnx-fp16", test="test_beside") == 0
    assert SEEN["servers beside"] == 2
    assert SEEN["servers after"] == 1


def test_server_has_memory_pools_on_each_gpu(tmp_path: Path) -> None:
    assert run(tmp_path, "a100-nnunet-micro-onnx-fp32-2gpus", "--gpus", "2") == 0
    pools = [option for option in SEEN["options"] if option.startswith("--cuda-memory-pool-byte-size=")]
    assert [pool.partition("=")[2].partition(":")[0] for pool in pools] == ["0", "1"]
    assert any(option.startswith("--pinned-memory-pool-byte-size=") for option in SEEN["options"])


@pytest.mark.parametrize(
    ("kind", "backend", "image", "tensorrt"),
    [
        ("docker", "onnxruntime", "tritonserver:25.02-py3", "10.8.0.43"),
        ("local", "onnxruntime", None, "10.5.0.18"),  # the suite runs in a container that says so
        ("docker", "python", "tritonserver:25.02-py3", None),  # it computes with this machine's libraries
    ],
)
def test_record_names_image_and_native_libraries(
    kind: str,
    backend: str,
    image: str | None,
    tensorrt: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRT_VERSION", "10.5.0.18")
    SEEN["kind"], SEEN["backend"] = kind, backend
    assert run(tmp_path, "a100-resnet50-micro-onnx-fp32") == 0
    serving = SEEN["deployed"].serving
    assert serving.image == image
    assert serving.versions.get("tensorrt") == tensorrt


def test_incompatible_engine_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tensorrt, "installed", lambda: TensorRT("tensorrt-cu13", "10.16.1.11"))
    run(tmp_path, "a100-resnet50-micro-trt-fp16")
    assert "deployed" not in SEEN
    assert "1 skipped" in capsys.readouterr().out
