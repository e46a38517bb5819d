"""Ports of a server, and commands of containers and local servers."""

import csv
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.serve.programs import script
from tritonproof.base.errors import SetupError
from tritonproof.serve.command import Ports, docker_command, server_command, server_environment
from tritonproof.serve.launch import serve
from tritonproof.serve.server_spec import IMAGE, ContainerImage, ServerSpec


@pytest.mark.parametrize("path", ["", "/nowhere"])
def test_embedded_server_finds_shell_and_python_on_any_path(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", path)
    server_path = server_environment(ServerSpec("embedded"), "cpu", tmp_path, {})["PATH"]
    assert shutil.which("bash", path=server_path)
    assert shutil.which("python3", path=server_path) == str(Path(sys.executable).with_name("python3"))


def docker(gpus: Sequence[str] = (), image: ContainerImage | None = None, **options: Any) -> list[str]:
    """The command for a repository below the working directory."""
    image = image or ContainerImage(IMAGE, release="24.10")
    rest = {"shared_memory": "system", "variables": {}, **options}
    return docker_command(image, Ports(50000, 50001, 50002), Path("tritonproof-1").absolute(), gpus, **rest)


@pytest.mark.parametrize("name", ["models", "a:b", "a,b", 'a"b', "ä b"])
def test_model_folder_of_any_name_is_mounted_read_only(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    (mount,) = [part for part in docker() if part.startswith("--mount")]
    # As docker/cli reads it, opts/mount.go: a line of CSV.
    (fields,) = csv.reader([mount.removeprefix("--mount=")])
    assert fields == [
        "type=bind",
        f"source={tmp_path / name}/tritonproof-1/models",
        "target=/models",
        "readonly",
    ]


@pytest.mark.parametrize(
    ("shared_memory", "options"),
    [
        ("system", {"--ipc=host", "--init"}),
        ("none", {"--shm-size=2g", "--init"}),
        ("cuda", {"--ipc=host", "--pid=host"}),
    ],
)
def test_container_shares_what_shared_memory_needs_and_ports_on_loopback(
    shared_memory: str, options: set[str]
) -> None:
    every = {"--ipc=host", "--pid=host", "--shm-size=2g", "--init"}
    command = docker(shared_memory=shared_memory)
    assert every & set(command) == options
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
        serve(ServerSpec("docker", IMAGE), tmp_path, tmp_path / "log", device="cpu"),
    ):
        pass
    assert caught.value.where == "--triton docker"
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("known", "shared_memory", "given"),
    [
        ("--id", "system", set()),
        ("--allow-client-shm", "system", {"--allow-client-shm"}),
        ("--allow-client-shm", "none", set()),
        (
            "--grpc-restricted-protocol <string> --http-restricted-api",
            "none",
            {"--grpc-restricted-protocol", "--http-restricted-api"},
        ),
    ],
)
def test_local_server_gets_only_options_it_knows(
    tmp_path: Path, known: str, shared_memory: str, given: set[str]
) -> None:
    program = script(tmp_path / "bin" / "tritonserver", f'echo "{known} <boolean>"')
    spec = ServerSpec("local", str(program))
    command, _ = server_command(spec, None, Ports(1, 2, 3), tmp_path, "cpu", shared_memory, {}, "key")
    optional = {"--allow-client-shm", "--grpc-restricted-protocol", "--http-restricted-api"}
    assert {part.partition("=")[0] for part in command} & optional == given


def test_container_gets_gpus_of_the_run() -> None:
    gpus = ["GPU-1", "MIG-2"]
    (option,) = [part for part in docker(gpus) if part.startswith("--gpus")]
    # docker/cli, opts/gpus.go: the value is one line of CSV whose fields are KEY=VALUE.
    ((field,),) = csv.reader([option.removeprefix("--gpus=")])
    assert field == f"device={','.join(gpus)}"
    podman = docker(gpus, image=ContainerImage(IMAGE, release="24.10", in_podman=True))
    devices = [part for part in podman if part.startswith(("--gpus", "--device"))]
    assert devices == [f"--device=nvidia.com/gpu={gpu}" for gpu in gpus]
    assert not [part for part in docker() if part.startswith("--gpus")]
