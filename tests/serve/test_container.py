"""NVIDIA's container on a scripted Docker engine, and options, GPUs and libraries of its releases."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fake_nvml import Nvml
from tests.serve.programs import IMAGE, FakeDocker, script
from tritonproof.base.errors import SetupError
from tritonproof.frameworks import NO_TELEMETRY
from tritonproof.serve import container
from tritonproof.serve.container import RELEASES, Release, docker_program, image_of, libraries
from tritonproof.serve.kinds import ContainerImage, Ports, ServerProgram
from tritonproof.serve.launch import serve
from tritonproof.serve.server_spec import ServerSetup, ServerSpec


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    fake = FakeDocker(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return fake


def test_container_that_outlives_its_client_is_removed(docker: FakeDocker) -> None:
    docker.start()
    info, inspect, run, remove = docker.calls
    name = next(part for part in run if part.startswith("--name=")).partition("=")[2]
    assert (info, inspect) == (["info", "--format", "{{json .}}"], ["image", "inspect", IMAGE])
    assert remove == ["rm", "--force", name]


def test_docker_gets_gpu_memory_and_release_options(
    docker: FakeDocker, nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.uuids = ("GPU-1", "GPU-2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-2")
    docker.say({"Config": {"Env": ["NVIDIA_TRITON_SERVER_VERSION=26.04"]}})
    variables = {"NVIDIA_TF32_OVERRIDE": "0"}
    docker.start("my/triton:1", device="cuda", shared_memory="cuda", variables=variables)
    run = docker.calls[2]
    before = run[: run.index("my/triton:1")]
    assert {'--gpus="device=GPU-2"', "--pid=host", "--env=NVIDIA_TF32_OVERRIDE=0"} < {*before}
    assert f"--env={'='.join(*NO_TELEMETRY.items())}" in before
    assert f"--mount=type=bind,source={docker.folder}/models,target=/models,readonly" in before
    assert {"--model-control-mode=explicit", "--allow-client-shm=true"} < {*run} - {*before}


def test_unsupported_image_is_refused_with_one_that_runs(docker: FakeDocker, nvml: Nvml) -> None:
    nvml.capabilities = {"GPU-aaaa": (10, 0)}
    fitting = image_of(ServerSpec("docker"))
    assert fitting == "nvcr.io/nvidia/tritonserver:25.02-py3"
    with pytest.raises(SetupError, check=lambda error: fitting in str(error.fix)):
        docker.prepare(IMAGE, "cuda")


VERSIONS = ["PATH=/bin", "NVIDIA_TRITON_SERVER_VERSION=24.10", "TRT_VERSION=10.5.0.18"]
DIGESTS = ["mirror.example.org/triton@sha256:1", "nvcr.io/nvidia/tritonserver@sha256:2"]
ABOUT = {"RepoDigests": DIGESTS, "Config": {"Env": VERSIONS}}


@pytest.mark.parametrize(
    ("name", "about", "known"),
    [
        (IMAGE, ABOUT, ContainerImage(IMAGE, "sha256:2", "24.10", "10.5.0.18")),
        (IMAGE, {}, ContainerImage(IMAGE, release="24.10")),
        (IMAGE, None, ContainerImage(IMAGE)),  # which is no description
        ("own", {"RepoDigests": None, "Config": None}, ContainerImage("own")),
        ("own", {"Config": {"Env": ["TRT_VERSION=\x1b[31m", "TRT_VERSION"]}}, ContainerImage("own")),
    ],
)
def test_image_is_identified_by_digest_release_and_tensorrt(
    docker: FakeDocker, name: str, about: object, known: ContainerImage
) -> None:
    docker.say(about)
    assert docker.prepare(name) == known


def started_with(gpus: Sequence[str] = (), image: ContainerImage | None = None, **options: Any) -> list[str]:
    """The command for a repository below the working directory."""
    image = image or ContainerImage(IMAGE, release="24.10")
    setup, folder = ServerSetup(Path("models"), Path("log"), "cuda", **options), Path("tritonproof-1")
    return [*docker_program(image, gpus, setup, Ports(50000, 50001, 50002), folder.absolute()).arguments]


@pytest.mark.parametrize("name", ["models", "a:b", "a,b", 'a"b', "ä b"])
def test_model_folder_of_any_name_is_mounted_read_only(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    (mount,) = [part for part in started_with() if part.startswith("--mount")]
    # As docker/cli reads it, opts/mount.go: a line of CSV.
    (fields,) = csv.reader([mount.removeprefix("--mount=")])
    source = f"source={tmp_path / name}/tritonproof-1/models"
    assert fields == ["type=bind", source, "target=/models", "readonly"]


@pytest.mark.parametrize(
    ("shared_memory", "options"),
    [("system", "--ipc=host --init"), ("none", "--shm-size=2g --init"), ("cuda", "--ipc=host --pid=host")],
)
def test_container_shares_what_shared_memory_needs_and_ports_on_loopback(
    shared_memory: str, options: str
) -> None:
    every = {"--ipc=host", "--pid=host", "--shm-size=2g", "--init"}
    command = started_with(shared_memory=shared_memory)
    assert every & set(command) == set(options.split())
    published = [part for part in command if part.startswith(("--publish", "--net"))]
    assert published == [f"--publish=127.0.0.1:5000{n}:800{n}" for n in range(3)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "No such file"),
        ("echo 'WARNING: x' >&2; echo 'permission denied at docker.sock' >&2; exit 1", "permission denied"),
        ("exit 7", "7"),
    ],
)
def test_missing_docker_engine_gives_reason_of_client(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, why: str
) -> None:
    (tmp_path / "bin").mkdir()
    if text is not None:
        script(tmp_path / "bin" / "docker", text)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with (
        pytest.raises(SetupError, check=lambda error: why in error.what) as caught,
        serve(ServerSpec("docker", IMAGE), ServerSetup(tmp_path, tmp_path / "log", "cpu")),
    ):
        pass
    assert caught.value.where == "--triton docker"
    assert list(temporary.glob("*/runs/*")) == []


def test_container_gets_gpus_of_the_run() -> None:
    gpus = ["GPU-1", "MIG-2"]
    (option,) = [part for part in started_with(gpus) if part.startswith("--gpus")]
    # docker/cli, opts/gpus.go: the value is one line of CSV whose fields are KEY=VALUE.
    ((field,),) = csv.reader([option.removeprefix("--gpus=")])
    assert field == f"device={','.join(gpus)}"
    podman = started_with(gpus, image=ContainerImage(IMAGE, release="24.10", in_podman=True))
    devices = [part for part in podman if part.startswith(("--gpus", "--device"))]
    assert devices == [f"--device=nvidia.com/gpu={gpu}" for gpu in gpus]
    hidden = "--env=NVIDIA_VISIBLE_DEVICES=void"
    assert [part for part in started_with() if part.startswith("--gpus") or part == hidden] == [hidden]
    assert hidden not in started_with(gpus)


OPTIONS = Path(__file__).with_name("server_options.txt")


@pytest.mark.parametrize("release", RELEASES, ids=lambda value: value.name)
@pytest.mark.parametrize("shared_memory", ["system", "none"])
def test_each_release_knows_its_options(release: Release, shared_memory: str) -> None:
    command = started_with(image=ContainerImage("any", release=release.name), shared_memory=shared_memory)
    options = {part.partition("=")[0] for part in command[command.index("tritonserver") + 1 :]}
    lines = [line.split() for line in OPTIONS.read_text().splitlines() if not line.startswith("#")]
    known = {f"--{name}" for name, since in lines if since <= release.name}
    assert options <= known
    wants_memory = shared_memory != "none" and "--allow-client-shm" in known
    assert ("--allow-client-shm" in options) is wants_memory


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("nvcr.io/nvidia/tritonserver:26.04-trtllm-python-py3", "26.04"),
        ("mirror.example.org:5000/nvidia/tritonserver:25.02", "25.02"),
        ("my/mytritonserver:25.02", None),
        ("nvcr.io/nvidia/tritonserver:99.01-py3", None),
        ("tritonserver:25.021-py3", None),
    ],
)
def test_release_is_read_only_from_nvidia_image_tags(image: str, release: str | None) -> None:
    assert container.release_of_image(image) == release


@pytest.mark.parametrize(
    ("capability", "image"), [(None, "24.10"), ((7, 0), "24.10"), ((8, 0), "24.10"), ((10, 0), "25.02")]
)
def test_default_image_is_embedded_release_unless_gpu_needs_newer(
    capability: tuple[int, int] | None, image: str
) -> None:
    assert container.default_image(capability) == f"nvcr.io/nvidia/tritonserver:{image}-py3"


OF_24_10 = {"onnxruntime": "1.19.2", "torch": "2.5.0a0+e000cf0ad9"}


def test_server_libraries_are_those_of_its_release() -> None:
    image = ContainerImage("my/triton", release="24.10", tensorrt="10.5.0.18")
    program = ServerProgram(image=image, tensorrt=image.tensorrt)
    assert libraries(program, "2.51.0.mine") == OF_24_10 | {"tensorrt": "10.5.0.18"}
    assert libraries(ServerProgram(), "2.55.0") == {"onnxruntime": "1.20.1"}
    assert libraries(ServerProgram(image=ContainerImage("my/triton")), "1.0") == {}


def test_local_server_reports_only_libraries_it_has(tmp_path: Path) -> None:
    """Whatever version Triton reports, its backends may have been built with this machine's PyTorch."""
    program = ServerProgram(backends=tmp_path)
    assert libraries(program, "2.51.0") == {}
    for library in ("onnxruntime/libonnxruntime.so", "pytorch/libtorch_cpu.so"):
        (tmp_path / library).parent.mkdir()
        (tmp_path / library).touch()
    assert libraries(program, "2.51.0") == OF_24_10
    (tmp_path / "onnxruntime" / "libonnxruntime.so.1.20.1").touch()
    assert libraries(program, "2.51.0") == OF_24_10 | {"onnxruntime": "1.20.1"}
