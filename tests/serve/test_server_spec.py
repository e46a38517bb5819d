"""`--triton` is parsed, and there is a default server."""

from pathlib import Path

import pytest

from tests.serve.programs import script
from tritonproof.base.errors import InputError
from tritonproof.serve.connection import ServerAccess
from tritonproof.serve.local import local_backends
from tritonproof.serve.server_spec import ServerSpec, parse_server

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
