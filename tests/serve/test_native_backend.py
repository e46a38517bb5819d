"""The backend that serves a format, server options, unsupported cases, and real native backends."""

import dataclasses
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import toy
from tests.build.conversions import MICRO, UP_TO_32
from tests.helpers import NATIVE_PROGRAM, present
from tests.serve.programs import program_of, script
from tests.whole_runs.suite import suite
from tritonproof.base.errors import NotAvailableError
from tritonproof.build.builds import CaseBuild
from tritonproof.cases import cases_of, profile_of
from tritonproof.formats import all_formats
from tritonproof.frameworks import gpu_libraries
from tritonproof.frameworks.gpu_libraries import TensorRT
from tritonproof.host import scratch
from tritonproof.host.targets import CPU, recognise
from tritonproof.models import all_models
from tritonproof.run.converted_case import pool_options, server_variables
from tritonproof.serve.container import docker_program
from tritonproof.serve.kinds import ContainerImage, Ports
from tritonproof.serve.launch import native_backend
from tritonproof.serve.loading import check_supported, load_build
from tritonproof.serve.local import local_backends
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerKind, ServerSetup, ServerSpec, parse_server
from tritonproof.spec import Case

FORMATS = {format_.name: format_ for format_ in all_formats()}
MODELS = {model.name: model for model in all_models()}
ONNX = FORMATS["onnx"]
A100 = recognise("NVIDIA A100")
MIB = 2**20


def installed(folder: Path, *backends: str) -> ServerSpec:
    """A local Triton with these backends, whose files are empty."""
    program = script(folder / "bin" / "tritonserver", "exit 0")
    for name in backends:
        file = "triton_python_backend_stub" if name == "python" else f"libtriton_{name}.so"
        script(folder / "backends" / name / file, "")
    return ServerSpec("local", str(program))


def test_native_backend_is_preferred_to_own_runtime(tmp_path: Path) -> None:
    local = installed(tmp_path, "python")
    assert native_backend(local, ONNX) is None
    installed(tmp_path, "onnxruntime")
    assert native_backend(local, ONNX) is native_backend(ServerSpec("docker"), ONNX) is ONNX.backend
    assert native_backend(ServerSpec("embedded"), ONNX) is None


def test_server_without_a_backend_is_refused_with_those_that_it_has(tmp_path: Path) -> None:
    local = installed(tmp_path, "pytorch", "identity")
    with pytest.raises(NotAvailableError, match="identity, pytorch"):
        native_backend(local, ONNX)
    with pytest.raises(NotAvailableError, match="onnx"):
        native_backend(ServerSpec("docker"), dataclasses.replace(ONNX, backend=None))


def test_backends_are_next_to_program_or_in_default_folder(tmp_path: Path) -> None:
    spec = installed(tmp_path / "moved")
    assert local_backends(spec.location, default=tmp_path) == tmp_path
    (tmp_path / "moved" / "backends").mkdir()
    assert local_backends(spec.location, default=tmp_path) == tmp_path / "moved" / "backends"


@pytest.mark.parametrize(
    ("model", "format_", "target", "kept"),
    [
        ("resnet50-micro", "ts-trace", CPU, True),
        ("nnunet", "ts-trace", CPU, False),  # the suite's runtime does not keep it either
        ("resnet50-micro", "onnx", CPU, False),  # ONNX Runtime has its own arena
        ("resnet50-micro", "ts-trace", A100, False),
    ],
)
def test_freed_memory_is_kept_for_native_pytorch(
    tmp_path: Path, model: str, format_: str, target: Any, kept: bool
) -> None:
    """The suite's own runtime keeps it too, in any server."""
    case = Case(target, MODELS[model], FORMATS[format_], None, "fp32")
    native, own = installed(tmp_path, "onnxruntime", "pytorch"), installed(tmp_path / "other", "python")
    variables = server_variables(native, case, UP_TO_32)
    assert ("MALLOC_TRIM_THRESHOLD_" in variables) is kept
    for spec in (own, ServerSpec("embedded"), ServerSpec("remote", "host:8001")):
        assert server_variables(spec, case, UP_TO_32) == {}


def test_local_python_backend_finds_python_and_its_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tritonproof.serve.wheels.libpython", lambda: Path("/of/python/lib"))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/of/triton/lib")
    with_python, without = installed(tmp_path, "python"), installed(tmp_path / "native", "onnxruntime")
    environment = program_of(with_python, tmp_path).environment
    assert environment["PATH"].split(":")[0] == str(Path(sys.executable).parent)
    assert environment["LD_LIBRARY_PATH"] == "/of/triton/lib:/of/python/lib", "the server's own come first"
    environment = program_of(without, tmp_path).environment
    assert (environment["PATH"], environment["LD_LIBRARY_PATH"]) == (os.environ["PATH"], "/of/triton/lib")


def test_memory_pools_hold_largest_batches() -> None:
    """Small models keep Triton's default sizes."""

    def pools(model: str) -> dict[str, int]:
        case = next(case for case in cases_of(A100) if case.model.name == model)
        options = pool_options(case, profile_of(case.model, A100).deployment)
        pairs = (option.split("=") for option in options)
        return {name: int(value.rpartition(":")[2]) for name, value in pairs}

    assert pool_options(next(iter(cases_of(CPU))), UP_TO_32) == []
    assert pools("resnet50-micro") == {
        "--pinned-memory-pool-byte-size": 256 * MIB,
        "--cuda-memory-pool-byte-size": 64 * MIB,
    }
    deployment = profile_of(MODELS["nnunet"], A100).deployment
    volumes = deployment.max_batch_size * MODELS["nnunet"].inputs[0].row_bytes
    assert volumes > 64 * MIB
    for size in pools("nnunet").values():
        assert 2 * deployment.instances * volumes < size < 16 * 2**30


@pytest.mark.parametrize(("kind", "accelerator"), [("embedded", "trt"), ("docker", "trt"), ("docker", None)])
def test_engine_cache_folder_depends_on_server_kind(
    kind: ServerKind, accelerator: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "user_folder", lambda: tmp_path / "tritonproof")
    config: dict[str, Any] = {}
    client = SimpleNamespace(load_model=lambda _name, **given: config.update(json.loads(given["config"])))
    case = Case(A100, MICRO, ONNX, accelerator, "fp16")
    built = CaseBuild(case, tmp_path / str(case), toy.FACTS)
    load_build(Server(ServerSpec(kind), "127.0.0.1:1", "2.51.0", None, client), built, toy.ONLINE)
    # The container mounts no other folder, and ONNX Runtime makes only the last one of the path.
    here, there = str(tmp_path / "tritonproof" / "engines"), "/tmp/tritonproof-engines-0f3c"
    expected = [here if kind == "embedded" else there] if accelerator else []
    assert [folder for folder in (here, there) if folder in json.dumps(config)] == expected
    assert (tmp_path / "tritonproof").exists() == (here in expected)


@pytest.fixture
def built_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine builds engines with TensorRT 10.16.1.11."""
    monkeypatch.setattr(gpu_libraries, "installed_tensorrt", lambda: TensorRT("tensorrt-cu13", "10.16.1.11"))


def refusal(server: Any, case: Case) -> str:
    """Why a server cannot serve a case; empty if it can. Uncaught, the error would skip a test."""
    try:
        check_supported(server, case)
    except NotAvailableError as error:
        return str(error)
    return ""


def container(version: str | None = None, release: str | None = None) -> Server:
    """A container whose image states this TensorRT version and this release."""
    image = ContainerImage("image", release=release, tensorrt=version)
    program = docker_program(image, (), ServerSetup(Path(), Path(), "cuda"), Ports(1, 2, 3), Path("proof"))
    return Server(ServerSpec("docker"), "", "", None, None, program=program)


def case_of(name: str, accelerator: str | None = None, gpus: int = 1) -> Case:
    return Case(dataclasses.replace(CPU, device="cuda"), MICRO, FORMATS[name], accelerator, "fp32", gpus)


def test_incompatible_tensorrt_of_container_is_skipped_with_a_fix(built_by: None) -> None:
    for version in ("10.16.1.11", None):  # of an unknown one the server decides
        assert not refusal(container(version), case_of("trt"))
    assert not refusal(container("10.5.0.18"), case_of("onnx"))
    assert "install TensorRT 10.5.0.18" in refusal(container("10.5.0.18"), case_of("trt"))


def test_tensorrt_of_release_that_uses_one_gpu_of_several_is_skipped() -> None:
    assert not refusal(container(release="25.03"), case_of("onnx", "trt", 1))
    assert not refusal(container(release="25.03"), case_of("onnx", None, 2))
    assert not refusal(container(release="25.04"), case_of("onnx", "trt", 2))
    assert "25.03" in refusal(container(release="25.03"), case_of("onnx", "trt", 2))


def test_local_native_backend_uses_tensorrt_of_image(
    built_by: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = installed(tmp_path, "tensorrt", "python")
    server = Server(spec, "", "2.51.0", None, None, program=program_of(spec, tmp_path))
    assert not refusal(server, case_of("trt"))
    monkeypatch.setenv("TRT_VERSION", "10.5.0.18")
    server.program = program_of(spec, tmp_path)
    assert refusal(server, case_of("trt"))
    (tmp_path / "backends" / "tensorrt" / "libtriton_tensorrt.so").unlink()
    assert not refusal(server, case_of("trt"))


# --- real native backends, which no wheel has, but NVIDIA's containers ---------------------------------------

NATIVE = [
    case
    for case in cases_of(CPU)
    if case.model.micro and case.precision == "fp32" and case.format.name in ("onnx", "ts-trace", "ts-script")
]


@pytest.mark.skipif(
    NATIVE_PROGRAM is None,
    reason="needs a Triton with native backends: set TRITONPROOF_TRITON to the path of its tritonserver",
)
@pytest.mark.parametrize("native", NATIVE, ids=str)
def test_native_backend_proves_a_micro_model(native: Case, tmp_path: Path) -> None:
    spec = parse_server(f"local:{NATIVE_PROGRAM}")
    backend = present(native.format.backend).name
    if not [*local_backends(spec.location).glob(f"{backend}/libtriton_*.so")]:
        pytest.skip(f"{spec.location} has no {backend} backend")
    if reason := native.format.why_missing("cpu", None, native.precision):
        pytest.skip(reason)
    folders = {"repos": tmp_path / "repos", "results": tmp_path / "results"}
    run = suite("--triton", str(spec), "-m", "not speed", "-k", str(native), **folders)
    assert run.status == 0, run.text
    assert present(run.record(str(native)).serving).backend == backend
