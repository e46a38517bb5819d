"""`--triton` is parsed; options, GPUs and libraries of NVIDIA's releases are known."""

from pathlib import Path

import pytest

from tests.serve.programs import script
from tritonproof.base.errors import InputError
from tritonproof.serve import server_spec
from tritonproof.serve.backends import local_backends
from tritonproof.serve.command import Ports
from tritonproof.serve.connection import ServerAccess
from tritonproof.serve.container import docker_command
from tritonproof.serve.server_spec import (
    RELEASES,
    ContainerImage,
    Release,
    ServerSpec,
    libraries,
    parse_server,
)

EMBEDDED = ServerSpec("embedded")
PINNED = f"nvcr.io/nvidia/t@sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("embedded", EMBEDDED),
        ("docker", ServerSpec("docker")),
        (f"docker:{PINNED}", ServerSpec("docker", PINNED)),
        ("gpu-box_2.example.org:8001", ServerSpec("remote", "gpu-box_2.example.org:8001")),
        ("[::1]:8001", ServerSpec("remote", "[::1]:8001")),
        ("grpc://host:8001", ServerSpec("remote", "host:8001")),  # the scheme may be left out
        ("grpcs://[::1]:443", ServerSpec("remote", "[::1]:443", ServerAccess(tls=True))),
    ],
)
def test_option_names_a_server(text: str, spec: ServerSpec) -> None:
    assert parse_server(text) == spec
    assert str(spec) == text.removeprefix("grpc://")


@pytest.mark.parametrize(
    "text",
    [
        *("", "embedded:1", ":8001", "host:", "host:0", "host:65536", "host:http"),
        *("docker:", "local:", "local:/nowhere/triton", "http://host:8001", "grpc://host:8001/"),
        *("h" * 10_000 + ":8001", "host:" + "9" * 5000),
        # Docker would read an option, or a shell more than a name.
        *("docker:--privileged", "docker:triton;id", "docker:image\n", "docker:$(id)"),
    ],
)
def test_invalid_server_value_is_refused(text: str) -> None:
    with pytest.raises(InputError, check=lambda error: error.where.startswith("--triton")) as raised:
        parse_server(text)
    assert raised.value.fix
    assert len(str(raised.value)) < 1000


def test_local_server_is_found_by_path_or_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = script(tmp_path / "bin" / "tritonserver", "exit 0")
    assert parse_server(f"local:{program}") == ServerSpec("local", str(program))
    monkeypatch.setenv("PATH", str(program.parent))
    assert parse_server("local") == ServerSpec("local", "tritonserver")
    assert local_backends("tritonserver") == tmp_path / "backends"


def test_default_server_follows_environment_then_path_then_embedded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert parse_server(None) == EMBEDDED
    script(tmp_path / "tritonserver", "exit 0")
    assert parse_server(None) == ServerSpec("local", "tritonserver")
    program = script(tmp_path / "opt" / "tritonserver", "exit 0")
    monkeypatch.setenv("TRITONPROOF_TRITON", str(program))
    assert parse_server(None) == ServerSpec("local", str(program))
    assert parse_server("embedded") == EMBEDDED
    variable = "TRITONPROOF_TRITON=/nowhere/triton"
    monkeypatch.setenv(*variable.split("="))
    with pytest.raises(InputError, check=lambda error: error.where == variable):
        parse_server(None)


OPTIONS = Path(__file__).with_name("server_options.txt")


@pytest.mark.parametrize("release", RELEASES, ids=lambda value: value.name)
@pytest.mark.parametrize("shared_memory", ["system", "none"])
def test_each_release_knows_its_options(release: Release, shared_memory: str) -> None:
    image = ContainerImage("any", release=release.name)
    command = docker_command(image, Ports(1, 2, 3), Path("proof"), (), shared_memory, {}, "key")
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
    assert server_spec.release_of_image(image) == release


@pytest.mark.parametrize(
    ("capability", "image"), [(None, "24.10"), ((7, 0), "24.10"), ((8, 0), "24.10"), ((10, 0), "25.02")]
)
def test_default_image_is_embedded_release_unless_gpu_needs_newer(
    capability: tuple[int, int] | None, image: str
) -> None:
    assert server_spec.default_image(capability) == f"nvcr.io/nvidia/tritonserver:{image}-py3"


OF_24_10 = {"onnxruntime": "1.19.2", "torch": "2.5.0a0+e000cf0ad9"}


def test_server_libraries_are_those_of_its_release() -> None:
    image = ContainerImage("my/triton", release="24.10", tensorrt="10.5.0.18")
    assert libraries("docker", "2.51.0.mine", image) == OF_24_10 | {"tensorrt": "10.5.0.18"}
    assert libraries("remote", "2.55.0", None) == {"onnxruntime": "1.20.1"}
    assert libraries("docker", "1.0", ContainerImage("my/triton")) == {}


def test_local_server_reports_only_libraries_it_has(tmp_path: Path) -> None:
    """Whatever version Triton reports, its backends may have been built with this machine's PyTorch."""
    assert libraries("local", "2.51.0", None, tmp_path) == {}
    for library in ("onnxruntime/libonnxruntime.so", "pytorch/libtorch_cpu.so"):
        (tmp_path / library).parent.mkdir()
        (tmp_path / library).touch()
    assert libraries("local", "2.51.0", None, tmp_path) == OF_24_10
    (tmp_path / "onnxruntime" / "libonnxruntime.so.1.20.1").touch()
    assert libraries("local", "2.51.0", None, tmp_path) == OF_24_10 | {"onnxruntime": "1.20.1"}
