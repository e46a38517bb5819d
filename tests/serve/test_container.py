"""NVIDIA's container on a Docker engine that a script stands for: what it is started with, and what is known of its image."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.errors import InputError, ProofError
from fixtures.host import machine
from fixtures.serve.container import prepare_image
from fixtures.serve.launch import serve
from fixtures.serve.releases import Image
from fixtures.serve.server_spec import IMAGE, Choice, image_of
from tests.host.fake_nvml import Nvml
from tests.serve.programs import script


def engine(
    folder: Path, monkeypatch: pytest.MonkeyPatch, about: object = None, *, needs_pull: bool = False
) -> Path:
    """A stand-in for docker on PATH whose containers end at once; returns the file of its calls, an argument a line."""
    calls, here = folder / "calls", folder / "image is here"
    if not needs_pull:
        here.touch()
    (folder / "about.json").write_text(json.dumps([about or {}]))
    script(
        folder / "bin" / "docker",
        f'''printf '%s\\n' "$@" END >> "{calls}"
case "$1" in
    image) [ -f "{here}" ] && cat "{folder}/about.json" ;;
    pull) [ ! -f "{folder}/refused" ] && touch "{here}" || {{ echo "denied"; exit 1; }} ;;
    run) echo "no such image"; exit 125 ;;
esac''',
    )
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    return calls


def calls_in(calls: Path) -> list[list[str]]:
    """The arguments of each call."""
    return [call.splitlines() for call in calls.read_text().split("END\n")[:-1]]


def start(tmp_path: Path, image: str = IMAGE, **options: Any) -> list[str]:
    """Start a container that ends at once; returns what was told of its steps."""
    steps: list[str] = []
    usual: dict[str, Any] = {"device": "cpu", "report": steps.append}
    with (
        pytest.raises(ProofError, match=r"status 125 .*\n.*\n  \| no such image"),
        serve(
            Choice("docker", image),
            tmp_path / "models",
            tmp_path / "log",
            **{**usual, **options},
        ),
    ):
        pass
    return steps


def test_a_container_that_outlives_its_client_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = engine(tmp_path, monkeypatch)
    start(tmp_path)
    info, inspect, run, remove = calls_in(calls)
    name = next(part for part in run if part.startswith("--name=")).partition("=")[2]
    assert (info, inspect) == (["info", "--format", "{{json .}}"], ["image", "inspect", IMAGE])
    assert remove == ["rm", "--force", name]


def test_on_a_gpu_docker_is_told_of_that_gpu_the_memory_and_the_release_s_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = Nvml(lambda: 0.0, "GPU-1", "GPU-2")
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-2")
    machine.gpus_of.cache_clear()
    calls = engine(tmp_path, monkeypatch, {"Config": {"Env": ["NVIDIA_TRITON_SERVER_VERSION=26.04"]}})
    start(
        tmp_path, "my/triton:1", device="cuda", shared_memory="cuda", variables={"NVIDIA_TF32_OVERRIDE": "0"}
    )
    machine.gpus_of.cache_clear()
    run = calls_in(calls)[2]
    port = next(part for part in run if part.endswith(":8001")).split(":")[1]
    name = next(part for part in run if part.startswith("--name=")).partition("=")[2]
    every_time_others = ("--publish", "--grpc-restricted-protocol", "--http-restricted-api")
    assert [part for part in run if not part.startswith(every_time_others)] == [
        *("run", "--rm", f"--name={name}", '--gpus="device=GPU-2"', "--ipc=host", "--pid=host"),
        *(
            *("--env=ORT_DISABLE_TELEMETRY=1", "--env=NVIDIA_TF32_OVERRIDE=0"),
            f"--mount=type=bind,source={tmp_path}/models,target=/models,readonly",
        ),
        *("my/triton:1", "tritonserver", f"--id={name}", "--model-repository=/models"),
        *("--model-control-mode=explicit", "--strict-readiness=false", "--exit-timeout-secs=3"),
        *("--http-address=0.0.0.0", "--http-port=8000", "--grpc-address=0.0.0.0", "--grpc-port=8001"),
        *("--metrics-address=0.0.0.0", "--metrics-port=8002", "--allow-client-shm=true"),
        "--disable-auto-complete-config",
    ]
    assert port.isdecimal()


@pytest.mark.parametrize(
    ("image", "variables", "allowed", "guessed"),
    [
        ("nvcr.io/nvidia/tritonserver:24.10-py3", [], False, False),
        ("nvcr.io/nvidia/tritonserver:26.04-py3", [], True, False),
        ("my/triton:1", ["NVIDIA_TRITON_SERVER_VERSION=24.10"], False, False),
        ("my/triton:1", [], True, True),
    ],
)
def test_an_image_of_no_known_release_gets_the_newest_one_s_options_and_this_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    image: str,
    variables: list[str],
    allowed: bool,
    guessed: bool,
) -> None:
    calls = engine(tmp_path, monkeypatch, {"Config": {"Env": variables}})
    steps = start(tmp_path, image)
    assert ("--allow-client-shm=true" in calls_in(calls)[2]) is allowed
    assert any("no known release" in step for step in steps) is guessed


def test_an_image_that_is_not_here_is_pulled_before_the_server_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = engine(tmp_path, monkeypatch, needs_pull=True)
    steps = start(tmp_path)
    assert [call[0] for call in calls_in(calls)] == ["info", "image", "pull", "image", "run", "rm"]
    assert f"pull {IMAGE}" in steps


def test_an_image_that_cannot_be_had_is_an_error_with_docker_s_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = engine(tmp_path, monkeypatch, needs_pull=True)
    (tmp_path / "refused").touch()
    with (
        pytest.raises(ProofError, match=r"docker pull ended with status 1\n.*\n  \| denied"),
        serve(Choice("docker", IMAGE), tmp_path, tmp_path / "log", device="cpu"),
    ):
        pass
    assert not [call for call in calls_in(calls) if call[0] == "run"]


def test_an_image_that_does_not_run_on_the_gpu_is_refused_with_one_that_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = Nvml(lambda: 0.0, "GPU-1")
    nvml.capabilities = {"GPU-1": (10, 0)}
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    machine.gpus_of.cache_clear()
    calls = engine(tmp_path, monkeypatch)
    with (
        pytest.raises(
            InputError, match=r"Triton 24\.10 does not run on this GPU.*\n.*\n.*tritonserver:25\.02-py3"
        ),
        serve(Choice("docker", IMAGE), tmp_path, tmp_path / "log", device="cuda"),
    ):
        pass
    assert image_of(Choice("docker")) == "nvcr.io/nvidia/tritonserver:25.02-py3"
    machine.gpus_of.cache_clear()
    assert not [call for call in calls_in(calls) if call[0] == "run"]


def test_what_is_known_of_an_image_is_its_digest_its_release_and_its_tensorrt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine(
        tmp_path,
        monkeypatch,
        {
            "RepoDigests": ["mirror.example.org/triton@sha256:1", "nvcr.io/nvidia/tritonserver@sha256:2"],
            "Config": {"Env": ["PATH=/bin", "NVIDIA_TRITON_SERVER_VERSION=24.10", "TRT_VERSION=10.5.0.18"]},
        },
    )
    found = prepare_image(Choice("docker", IMAGE), "cpu", tmp_path / "log")
    assert found == Image(IMAGE, "sha256:2", "24.10", "10.5.0.18")
    engine(tmp_path, monkeypatch, {"RepoDigests": None, "Config": None})
    assert prepare_image(Choice("docker", "own"), "cpu", tmp_path / "log") == Image("own")


@pytest.mark.parametrize(
    "about",
    [
        {"RepoDigests": [1, None, "a@\x1b[31m"], "Config": {"Env": [None, 5, "TRT_VERSION=\x1b[31m"]}},
        {"RepoDigests": "a@sha256:1", "Config": {"Env": "TRT_VERSION=1"}},
        {"RepoDigests": {}, "Config": [1], "Id": {}},
        {"Config": {"Env": ["NVIDIA_TRITON_SERVER_VERSION=" + "9" * 10_000, "TRT_VERSION"]}},
    ],
    ids=["of other types", "texts for lists", "lists for objects", "long"],
)
def test_what_an_image_says_of_itself_that_is_none_is_not_known(
    about: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine(tmp_path, monkeypatch, about)

    assert prepare_image(Choice("docker", "own"), "cpu", tmp_path / "log") == Image("own")
