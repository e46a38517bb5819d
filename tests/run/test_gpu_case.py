"""Server options and deployment of a GPU case, on stand-ins for NVML and the server."""

import contextlib
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests import sample_records, toy
from tests.fake_nvml import Nvml, in_place_of_nvml
from tests.helpers import present, preset, settings
from tests.run.stand_in_case import StandInServer
from tests.serve.programs import script
from tritonproof.base.errors import NotAvailableError
from tritonproof.build import builds, runtime_files
from tritonproof.build.builds import CaseBuild
from tritonproof.cases import cases_of
from tritonproof.efficiency.worker import peak_kind
from tritonproof.frameworks import gpu_libraries
from tritonproof.frameworks.gpu_libraries import TensorRT
from tritonproof.host import locks
from tritonproof.host.targets import recognise
from tritonproof.run import converted_case, measuring_efficiency, prepared_case
from tritonproof.run.case_run import CaseRun
from tritonproof.run.model_run import ModelRun, SuiteRun
from tritonproof.run.preparing import run_of_case
from tritonproof.serve.kinds import ContainerImage, ServerProgram
from tritonproof.serve.server_spec import ServerSetup, ServerSpec
from tritonproof.spec import Case

SEEN: dict[str, Any] = {}
"""What a test's run recorded."""
FP32, FP16 = "a100-resnet50-micro-onnx-fp32", "a100-resnet50-micro-onnx-fp16"


class Opened:
    """A model that is open on a GPU."""


@pytest.fixture(autouse=True)
def two_a100s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A machine with two A100s and all packages; its container, of release 25.02, has TensorRT 10.8.0.43."""
    nvml = Nvml(lambda: 0.0, "GPU-1", "GPU-2")
    nvml.names = dict.fromkeys(nvml.uuids, "NVIDIA A100-SXM4-80GB")
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    image = ContainerImage("tritonserver:25.02-py3", "sha256:0f3c", "25.02", "10.8.0.43")

    @contextlib.contextmanager
    def serve(spec: ServerSpec, setup: ServerSetup, _on_progress: Any) -> Iterator[Any]:
        SEEN.update(vars(setup))
        SEEN["servers"] = SEEN.get("servers", 0) + 1
        program = ServerProgram(image=image, tensorrt=image.tensorrt)
        if spec.kind == "local":
            program = ServerProgram(tensorrt="10.5.0.18")
        yield StandInServer(spec, version="2.55.0", program=program, ready_s=1.0)
        SEEN["servers"] -= 1

    def load_build(*_arguments: Any) -> str:
        SEEN["left"] = [reference for reference in SEEN.get("opened", ()) if reference() is not None]
        return str(SEEN["backend"])

    def worker_beside(*_arguments: Any, **options: Any) -> Any:
        SEEN["in process"] = options
        return contextlib.nullcontext(Mock())

    def find(case: Case, *_arguments: Any) -> CaseBuild:
        return CaseBuild(case, tmp_path / str(case), toy.FACTS)

    def beside(*_arguments: Any) -> None:
        SEEN["servers beside"] = SEEN["servers"]

    (other_machine := tmp_path / "machine").mkdir()  # no test waits for measurements on this one
    monkeypatch.setattr(locks, "MACHINE_LOCK", other_machine)
    monkeypatch.setattr(prepared_case, "serve", serve)
    monkeypatch.setattr(converted_case, "load_build", load_build)
    monkeypatch.setattr(measuring_efficiency, "artifact_worker", worker_beside)
    points = [sample_records.measured("online", 8, 100.0)]
    monkeypatch.setattr(measuring_efficiency, "known_results", lambda _run: points)
    monkeypatch.setattr(measuring_efficiency, "fastest_by_scenario", lambda _case, results: results)
    monkeypatch.setattr(runtime_files, "open_in_process", lambda *_arguments: Opened())
    monkeypatch.setattr("tritonproof.accuracy.stages.framework_model_on", lambda *_arguments: Opened())
    monkeypatch.setattr(builds, "reusable_build", find)
    monkeypatch.setattr(measuring_efficiency, "results_of", lambda *_arguments: points)
    monkeypatch.setattr(builds, "private_copy", lambda build, **_report: contextlib.nullcontext(build))
    monkeypatch.setattr(measuring_efficiency, "_measure", beside)
    SEEN.clear()
    SEEN["backend"] = "onnxruntime"
    with in_place_of_nvml(nvml, monkeypatch):
        yield


@contextlib.contextmanager
def run_on_a100(name: str, folder: Path, **options: str) -> Iterator[CaseRun]:
    """A run of a case of the A100, which is built already."""
    given = settings(**{"triton": "docker", "results": str(folder / "results"), **options})
    case = next(case for case in cases_of(recognise("NVIDIA A100"), given.gpus) if str(case) == name)
    with ModelRun(case.model, case.target, SuiteRun(given)) as model_run, run_of_case(case, model_run) as run:
        preset(run.prepared, build=CaseBuild(case, folder / name, toy.FACTS))
        preset(model_run, flops_per_inference=None)
        yield run


@pytest.mark.parametrize(
    ("name", "options", "tf32", "variables"),
    [
        (FP32, {}, True, {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1"}),
        (FP32, {"tf32": "off"}, False, {"NVIDIA_TF32_OVERRIDE": "0"}),
        (FP16, {"tf32": "off"}, None, {}),
    ],
)
def test_deployment_server_and_peak_agree_on_tf32(
    name: str, options: dict[str, str], tf32: bool | None, variables: dict[str, str], tmp_path: Path
) -> None:
    with run_on_a100(name, tmp_path, **options) as run:
        run.loader.ensure_loaded("online")
        assert run.deployment.tf32 is tf32
        assert SEEN["variables"] == variables
        assert peak_kind(run.case, run.deployment) == ("cuda", "tf32" if tf32 else name[-4:])


@pytest.mark.parametrize(("way", "resident"), [("cuda", True), ("system", False)])
def test_in_process_data_location_matches_shared_memory(way: str, resident: bool, tmp_path: Path) -> None:
    with run_on_a100(FP16, tmp_path, shared_memory=way) as run:
        measuring_efficiency.measure_efficiency(run)
        assert (SEEN["servers beside"], SEEN["servers"]) == (2, 1), "only while comparing"
    assert SEEN["in process"] == {"backend": "onnxruntime", "resident": resident}


def test_process_leaves_gpu_before_case_is_loaded_and_with_the_block(tmp_path: Path) -> None:
    """Its ONNX Runtime sessions take as much GPU memory as the server's."""
    with run_on_a100(FP16, tmp_path) as run:
        SEEN["opened"] = [weakref.ref(run.loader.infer_in_process)]
        SEEN["opened"] += [weakref.ref(run.model_run.framework_model_on_target)]
        run.loader.ensure_loaded("online")
        reopened = weakref.ref(run.loader.infer_in_process)
    assert (len(SEEN["opened"]), SEEN["left"]) == (2, [])
    assert reopened() is None


def test_server_has_memory_pools_on_each_gpu(tmp_path: Path) -> None:
    with run_on_a100("a100-nnunet-micro-onnx-fp32-2gpus", tmp_path, gpus="2") as run:
        run.loader.ensure_loaded("online")
    pools = [option for option in SEEN["options"] if option.startswith("--cuda-memory-pool-byte-size=")]
    assert [pool.partition("=")[2].partition(":")[0] for pool in pools] == ["0", "1"]
    assert any(option.startswith("--pinned-memory-pool-byte-size=") for option in SEEN["options"])


@pytest.mark.parametrize(
    ("triton", "backend", "image", "tensorrt"),
    [
        ("docker", "onnxruntime", "tritonserver:25.02-py3", "10.8.0.43"),
        # The suite runs in a container that says so.
        ("local:{}/bin/tritonserver", "onnxruntime", None, "10.5.0.18"),
        ("docker", "python", "tritonserver:25.02-py3", None),  # it computes with this machine's libraries
    ],
)
def test_record_names_image_and_native_libraries(
    triton: str, backend: str, image: str | None, tensorrt: str | None, tmp_path: Path
) -> None:
    SEEN["backend"] = backend
    for file in ("bin/tritonserver", "backends/onnxruntime/libtriton_onnxruntime.so"):
        script(tmp_path / file, "")
    with run_on_a100(FP32, tmp_path, triton=triton.format(tmp_path)) as run:
        run.loader.ensure_loaded("online")
        serving = present(run.loader.serving)
    assert (serving.image, serving.versions.get("tensorrt")) == (image, tensorrt)


def test_incompatible_engine_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_libraries, "installed_tensorrt", lambda: TensorRT("tensorrt-cu13", "10.16.1.11"))
    with run_on_a100("a100-resnet50-micro-trt-fp16", tmp_path) as run, pytest.raises(NotAvailableError):
        run.loader.ensure_loaded("online")
