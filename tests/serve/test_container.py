"""NVIDIA's container on a scripted Docker engine: start and image metadata."""

import os
from pathlib import Path

import pytest

from tests.host.fake_nvml import Nvml
from tests.serve.programs import FakeDocker
from tritonproof.base.errors import SetupError
from tritonproof.frameworks import NO_TELEMETRY
from tritonproof.serve.server_spec import IMAGE, ContainerImage, ServerSpec, image_of


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


@pytest.mark.parametrize(
    ("name", "about", "known"),
    [
        (
            IMAGE,
            {"RepoDigests": DIGESTS, "Config": {"Env": VERSIONS}},
            ContainerImage(IMAGE, "sha256:2", "24.10", "10.5.0.18"),
        ),
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
