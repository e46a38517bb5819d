"""The ports that a server is started at, and the command of NVIDIA's container."""

import dataclasses
import os
import socket
from pathlib import Path

import pytest

from fixtures.errors import InputError, ProofError
from fixtures.serve.choice import IMAGE, Choice
from fixtures.serve.command import Ports, check_docker, docker_command, free_ports
from fixtures.serve.launch import serve
from tests.serve.programs import script

PORTS = Ports(http=50000, grpc=50001, metrics=50002)


def test_ports_are_three_and_free() -> None:
    ports = dataclasses.astuple(free_ports())
    assert len(set(ports)) == 3
    for port in ports:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))


def docker(device: str = "cuda", shared_memory: str = "system") -> list[str]:
    """The command for a repository below the working directory."""
    return docker_command(
        IMAGE,
        Path("models"),
        PORTS,
        device=device,  # type: ignore[arg-type]
        shared_memory=shared_memory,
        name="tritonproof-1",
    )


def test_the_container_is_named_removed_and_of_nvidia_s_release() -> None:
    command = docker()
    options, inside = command[: command.index("tritonserver")], command[command.index("tritonserver") :]
    assert options[:2] == ["docker", "run"]
    assert {"--rm", "--init", "--name=tritonproof-1"} <= set(options)
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
    assert f"--volume={Path.cwd()}/models:/models:ro" in docker()


@pytest.mark.parametrize(("device", "given"), [("cuda", True), ("cpu", False)])
def test_the_container_gets_gpus_where_the_target_is_one(device: str, given: bool) -> None:
    assert ("--gpus=all" in docker(device)) is given


@pytest.mark.parametrize(
    ("shared_memory", "option"),
    [("system", "--ipc=host"), ("none", "--shm-size=2g"), ("cuda", "--shm-size=2g")],
)
def test_the_container_shares_the_host_s_memory_when_tensors_go_through_it(
    shared_memory: str, option: str
) -> None:
    both = {"--ipc=host", "--shm-size=2g"}
    assert both & set(docker(shared_memory=shared_memory)) == {option}


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


def test_a_container_that_outlives_its_client_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(
        tmp_path / "bin" / "docker",
        f'echo "$@" >> {tmp_path}/calls; [ "$1" != run ] || {{ echo "no such image"; exit 125; }}',
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with (
        pytest.raises(ProofError, match=r"status 125 .*\n.*\n  \| no such image"),
        serve(Choice("docker", IMAGE), tmp_path, tmp_path / "log", device="cpu"),
    ):
        pass
    info, run, remove = (tmp_path / "calls").read_text().splitlines()
    name = next(part for part in run.split() if part.startswith("--name=")).partition("=")[2]
    assert info == "info"
    assert remove == f"rm --force {name}"
