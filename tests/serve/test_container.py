"""NVIDIA's container on a scripted Docker engine: start and image metadata."""

import os
from pathlib import Path

import pytest

from fixtures.errors import ProofError, SetupError
from fixtures.serve import container
from fixtures.serve.container import Engine, check_docker
from fixtures.serve.server_spec import IMAGE, ContainerImage, ServerSpec, image_of
from tests.host.fake_nvml import Nvml
from tests.serve.programs import FakeDocker, script


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    fake = FakeDocker(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return fake


@pytest.fixture
def second(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> Nvml:
    """A machine with two GPUs; the run uses the second."""
    nvml.uuids = ("GPU-1", "GPU-2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-2")
    return nvml


def test_container_that_outlives_its_client_is_removed(docker: FakeDocker) -> None:
    docker.start()
    info, inspect, run, remove = docker.calls
    name = next(part for part in run if part.startswith("--name=")).partition("=")[2]
    assert (info, inspect) == (["info", "--format", "{{json .}}"], ["image", "inspect", IMAGE])
    assert remove == ["rm", "--force", name]


def test_docker_gets_gpu_memory_and_release_options(docker: FakeDocker, second: Nvml) -> None:
    docker.say({"Config": {"Env": ["NVIDIA_TRITON_SERVER_VERSION=26.04"]}})
    variables = {"NVIDIA_TF32_OVERRIDE": "0"}
    docker.start("my/triton:1", device="cuda", shared_memory="cuda", variables=variables)
    run = docker.calls[2]
    name = next(part for part in run if part.startswith("--name=")).partition("=")[2]
    every_time_others = ("--publish", "--grpc-restricted-protocol", "--http-restricted-api")
    assert [part for part in run if not part.startswith(every_time_others)] == [
        *("run", "--rm", f"--name={name}", '--gpus="device=GPU-2"', "--ipc=host", "--pid=host"),
        *("--env=ORT_DISABLE_TELEMETRY=1", "--env=NVIDIA_TF32_OVERRIDE=0"),
        f"--mount=type=bind,source={docker.folder}/models,target=/models,readonly",
        *("my/triton:1", "tritonserver", f"--id={name}", "--model-repository=/models"),
        *("--model-control-mode=explicit", "--strict-readiness=false", "--exit-timeout-secs=3"),
        *("--http-address=0.0.0.0", "--http-port=8000", "--grpc-address=0.0.0.0", "--grpc-port=8001"),
        *("--metrics-address=0.0.0.0", "--metrics-port=8002", "--allow-client-shm=true"),
        "--disable-auto-complete-config",
    ]


@pytest.mark.parametrize(
    ("image", "variables", "allowed", "guessed"),
    [
        ("nvcr.io/nvidia/tritonserver:24.10-py3", [], False, False),
        ("nvcr.io/nvidia/tritonserver:26.04-py3", [], True, False),
        ("my/triton:1", ["NVIDIA_TRITON_SERVER_VERSION=24.10"], False, False),
        ("my/triton:1", [], True, True),
    ],
)
def test_unknown_image_gets_newest_options_with_a_notice(
    docker: FakeDocker, image: str, variables: list[str], allowed: bool, guessed: bool
) -> None:
    docker.say({"Config": {"Env": variables}})
    steps = docker.start(image)
    assert ("--allow-client-shm=true" in docker.calls[2]) is allowed
    assert any("no known release" in step for step in steps) is guessed


def test_missing_image_is_pulled_before_start(docker: FakeDocker) -> None:
    docker.image.unlink()
    (docker.folder / "refused").touch()
    with pytest.raises(ProofError, match="denied", check=lambda error: error.where == IMAGE):
        docker.prepare(IMAGE)
    (docker.folder / "refused").unlink()
    steps = docker.start()
    assert [call[0] for call in docker.calls[3:]] == ["info", "image", "pull", "image", "run", "rm"]
    assert f"pull {IMAGE}" in steps


def test_unsupported_image_is_refused_with_one_that_runs(docker: FakeDocker, second: Nvml) -> None:
    second.capabilities = {"GPU-2": (10, 0)}
    fitting = image_of(ServerSpec("docker"))
    assert fitting == "nvcr.io/nvidia/tritonserver:25.02-py3"
    with pytest.raises(SetupError, check=lambda error: fitting in str(error.fix)):
        docker.prepare(IMAGE, "cuda")


@pytest.mark.parametrize(("driver", "is_told"), [("470.57.02", True), ("560.35.03", False)])
def test_old_driver_is_reported_before_start(
    docker: FakeDocker, second: Nvml, monkeypatch: pytest.MonkeyPatch, driver: str, is_told: bool
) -> None:
    monkeypatch.setattr(second, "nvmlSystemGetDriverVersion", lambda: driver)
    steps: list[str] = []
    docker.prepare(IMAGE, "cuda", steps.append)
    assert any(driver in step for step in steps) is is_told


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
        ("own", {"RepoDigests": None, "Config": None}, ContainerImage("own")),
        ("own", {"RepoDigests": {}, "Config": [1]}, ContainerImage("own")),
        ("own", {"Config": {"Env": ["TRT_VERSION=\x1b[31m", "TRT_VERSION"]}}, ContainerImage("own")),
        ("own", [], ContainerImage("own")),
    ],
)
def test_image_is_identified_by_digest_release_and_tensorrt(
    docker: FakeDocker, name: str, about: object, known: ContainerImage
) -> None:
    docker.say(about or {})
    assert docker.prepare(name) == known


@pytest.mark.parametrize(
    ("said", "gives", "podman"),
    [
        ("{}", False, False),
        ("no JSON", False, False),
        ('{"Runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}', True, False),
        ('{"DiscoveredDevices": [{"ID": "nvidia.com/gpu=0"}]}', True, False),
        ('{"DiscoveredDevices": [{"ID": "vendor.com/net=0"}], "Runtimes": null}', False, False),
        ('{"host": {"os": "linux"}, "Runtimes": {"nvidia": {}}}', False, True),
    ],
)
def test_engine_reports_whether_it_gives_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, gives: bool, podman: bool
) -> None:
    monkeypatch.setattr(container, "CDI_FOLDERS", (tmp_path / "cdi",))
    script(tmp_path / "docker", f"echo '{said}'")
    monkeypatch.setenv("PATH", str(tmp_path))
    engine = check_docker()
    assert (engine.gives_gpus(), engine.is_podman) == (gives, podman)
    (tmp_path / "cdi").mkdir()
    (tmp_path / "cdi" / "nvidia.yaml").touch()
    assert Engine(host={}).gives_gpus()
