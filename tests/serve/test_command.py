"""The ports that a server is started at, and the command of NVIDIA's container."""

import csv
import dataclasses
import json
import os
import shutil
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fixtures.cases import cases_of, matrix_of
from fixtures.errors import InputError, ProofError
from fixtures.host import machine
from fixtures.host.targets import recognise
from fixtures.serve.backends import server_variables
from fixtures.serve.choice import IMAGE, RELEASE, Choice, image_of
from fixtures.serve.command import Ports, docker_command, environment_of, free_ports
from fixtures.serve.container import check_docker, prepare_image
from fixtures.serve.launch import serve
from fixtures.serve.releases import Image
from tests.fake_nvml import Nvml
from tests.serve.programs import script

PORTS = Ports(http=50000, grpc=50001, metrics=50002)


def test_ports_are_three_and_free() -> None:
    ports = dataclasses.astuple(free_ports())
    assert len(set(ports)) == 3
    for port in ports:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))


@pytest.mark.parametrize("path", ["", "/nowhere"])
def test_an_embedded_server_finds_the_shell_that_starts_its_stubs_whatever_path_it_is_given(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", path)
    given = environment_of(Choice("embedded"), "cpu", tmp_path)["PATH"]
    assert shutil.which("bash", path=given)
    assert shutil.which("python3", path=given) == str(Path(sys.executable).with_name("python3"))


def docker(gpus: Sequence[str] = (), shared_memory: str = "system", **variables: str) -> list[str]:
    """The command for a repository below the working directory."""
    return docker_command(
        Image(IMAGE, release=RELEASE),
        Path("models"),
        PORTS,
        gpus=gpus,
        shared_memory=shared_memory,
        name="tritonproof-1",
        variables=variables,
    )


def test_the_container_is_named_removed_and_of_nvidia_s_release() -> None:
    command = docker()
    options, inside = command[: command.index("tritonserver")], command[command.index("tritonserver") :]
    assert options[:2] == ["docker", "run"]
    assert {"--rm", "--name=tritonproof-1"} <= set(options)
    assert options[-1] == IMAGE
    assert {"--id=tritonproof-1", "--model-repository=/models", "--model-control-mode=explicit"} <= set(
        inside
    )


def test_the_container_s_ports_are_published_on_loopback_alone() -> None:
    command = docker()
    published = [part for part in command if part.startswith(("--publish", "-p"))]
    assert published == [f"--publish=127.0.0.1:5000{n}:800{n}" for n in range(3)]
    assert not any(part.startswith(("--net", "-P")) for part in command)
    assert {"--http-port=8000", "--grpc-port=8001", "--metrics-port=8002"} <= set(command)


def test_the_models_are_mounted_read_only() -> None:
    assert mounted(docker()) == ["type=bind", f"source={Path.cwd()}/models", "target=/models", "readonly"]


def mounted(command: Sequence[str]) -> list[str]:
    """The fields of what is mounted, as docker/cli reads them: a line of CSV (opts/mount.go)."""
    (given,) = [part for part in command if part.startswith(("--mount", "--volume", "-v"))]
    (fields,) = csv.reader([given.removeprefix("--mount=")])
    return fields


@pytest.mark.parametrize("name", ["a:b", "a,b", 'a"b', "ä b"])
def test_a_folder_of_any_name_is_mounted_and_nothing_else(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert mounted(docker()) == ["type=bind", f"source={folder}/models", "target=/models", "readonly"]


@pytest.mark.parametrize("gpus", [["GPU-1"], ["GPU-1", "GPU-2"], ["MIG-1"]])
def test_the_container_gets_the_gpus_of_the_run_as_docker_reads_a_list(gpus: list[str]) -> None:
    (given,) = [part for part in docker(gpus) if part.startswith("--gpus")]
    # docker/cli, opts/gpus.go: the value is one line of CSV whose fields are KEY=VALUE.
    ((field,),) = csv.reader([given.removeprefix("--gpus=")])
    assert field == f"device={','.join(gpus)}"


def test_the_container_gets_no_gpu_where_the_target_is_the_cpu() -> None:
    assert not [part for part in docker() if part.startswith("--gpus")]


@pytest.mark.parametrize(
    ("shared_memory", "options"),
    [
        ("system", {"--ipc=host", "--init"}),
        ("none", {"--shm-size=2g", "--init"}),
        ("cuda", {"--ipc=host", "--pid=host"}),
    ],
)
def test_the_container_shares_of_the_host_what_the_way_of_tensors_needs(
    shared_memory: str, options: set[str]
) -> None:
    every = {"--ipc=host", "--pid=host", "--shm-size=2g", "--init"}
    assert every & set(docker(shared_memory=shared_memory)) == options


def test_the_container_gets_the_variables_of_its_server() -> None:
    command = docker(NVIDIA_TF32_OVERRIDE="0")
    assert "--env=NVIDIA_TF32_OVERRIDE=0" in command[: command.index(IMAGE)]


@pytest.mark.parametrize("text", [None, "echo 'Cannot connect to the Docker daemon' >&2; exit 1"])
def test_a_machine_without_a_docker_engine_gets_one_clear_line(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    (tmp_path / "bin").mkdir()
    if text is not None:
        script(tmp_path / "bin" / "docker", text)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(InputError) as caught:
        check_docker()
    assert str(caught.value).splitlines() == [
        "no Docker engine answers on this machine",
        "  where: --triton docker",
        "  cure:  start one, or use --triton embedded",
    ]
    with pytest.raises(InputError), serve(Choice("docker", IMAGE), tmp_path, tmp_path / "log", device="cpu"):
        pass
    assert list(temporary.iterdir()) == []


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
    assert (info, inspect) == (["info"], ["image", "inspect", IMAGE])
    assert remove == ["rm", "--force", name]


@pytest.mark.parametrize(("tf32", "given"), [(False, True), (True, False), (None, False)])
def test_a_server_that_is_to_compute_true_fp32_is_told_by_its_environment(
    tf32: bool | None, given: bool
) -> None:
    case = next(case for case in cases_of(recognise("NVIDIA A100")) if case.precision == "fp32")
    deployment = dataclasses.replace(matrix_of(case.model, case.target).deployment, tf32=tf32)
    for choice in (Choice("docker", IMAGE), Choice("embedded")):
        variables = server_variables(choice, case, deployment)
        assert ("--env=NVIDIA_TF32_OVERRIDE=0" in docker(**variables)) is given


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


@pytest.mark.parametrize("knows", [True, False])
def test_a_local_server_is_told_to_take_clients_memory_where_its_help_knows_of_it(
    tmp_path: Path, knows: bool
) -> None:
    program = script(
        tmp_path / "bin" / "tritonserver",
        f'[ "$1" = --help ] && {{ echo "{"--allow-client-shm" if knows else "--id"} <boolean>"; exit 0; }}\n'
        f'printf "%s\\n" "$@" > {tmp_path}/call; exit 1',
    )
    for shared_memory, expected in (("system", knows), ("none", False)):
        with (
            pytest.raises(ProofError),
            serve(
                Choice("local", str(program)),
                tmp_path,
                tmp_path / "log",
                device="cpu",
                shared_memory=shared_memory,
            ),
        ):
            pass
        assert ("--allow-client-shm=true" in (tmp_path / "call").read_text().splitlines()) is expected


@pytest.mark.parametrize("knows", [True, False])
def test_a_local_server_asks_for_a_key_where_its_help_knows_of_it(tmp_path: Path, knows: bool) -> None:
    said = "--grpc-restricted-protocol <string> --http-restricted-api <string>" if knows else "--id <string>"
    program = script(
        tmp_path / "bin" / "tritonserver",
        f'[ "$1" = --help ] && {{ echo "{said}"; exit 0; }}\nprintf "%s\\n" "$@" > {tmp_path}/call; exit 1',
    )
    choice = Choice("local", str(program))
    with pytest.raises(ProofError), serve(choice, tmp_path, tmp_path / "log", device="cpu"):
        pass
    asks = [part for part in (tmp_path / "call").read_text().splitlines() if "restricted" in part]
    assert len(asks) == (2 if knows else 0)
