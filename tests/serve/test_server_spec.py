"""Parsing of `--triton`."""

from pathlib import Path

import pytest

from fixtures.errors import InputError
from fixtures.serve.backends import local_backends
from fixtures.serve.connection import Access
from fixtures.serve.server_spec import Choice, parse_choice
from tests.serve.programs import script

EMBEDDED = Choice("embedded")


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("embedded", EMBEDDED),
        ("docker", Choice("docker")),
        ("docker:my/triton:1", Choice("docker", "my/triton:1")),
        (
            "docker:localhost:5000/a/triton:24.10-py3",
            Choice("docker", "localhost:5000/a/triton:24.10-py3"),
        ),
        (
            f"docker:nvcr.io/nvidia/t@sha256:{'0' * 64}",
            Choice("docker", f"nvcr.io/nvidia/t@sha256:{'0' * 64}"),
        ),
        ("localhost:8001", Choice("remote", "localhost:8001")),
        ("10.0.0.7:65535", Choice("remote", "10.0.0.7:65535")),
        ("gpu-box_2.example.org:8001", Choice("remote", "gpu-box_2.example.org:8001")),
        ("[::1]:8001", Choice("remote", "[::1]:8001")),
    ],
)
def test_option_names_a_server(text: str, choice: Choice) -> None:
    assert parse_choice(text) == choice
    assert str(choice) == text


def test_scheme_sets_encryption() -> None:
    assert parse_choice("grpc://host:8001") == parse_choice("host:8001") == Choice("remote", "host:8001")
    choice = parse_choice("grpcs://[::1]:443")
    assert (choice.detail, choice.access, str(choice)) == ("[::1]:443", Access(tls=True), "grpcs://[::1]:443")


@pytest.mark.parametrize(
    "text",
    [
        *("", "embeded", "embedded:1", ":8001", "host", "host:", "host:0", "host:65536", "host:http"),
        *("docker:", "local:", "local:/nowhere/triton"),
        *("http://host:8001", "https://host:8001/v2", "grpc://host:8001/", "grpcs://host"),
        *("h" * 10_000 + ":8001", "[" + ":" * 10_000 + "]:8001"),
        # Docker would read an option, or a shell more than a name.
        *(
            "docker:--privileged",
            "docker:-v/:/host",
            "docker:a b",
            "docker:triton;id",
            "docker:image\n",
            "docker:$(id)",
        ),
    ],
)
def test_invalid_server_value_is_refused(text: str) -> None:
    with pytest.raises(InputError, check=lambda error: error.where.startswith("--triton")) as raised:
        parse_choice(text)
    assert raised.value.fix
    assert len(str(raised.value)) < 1000


def test_local_server_is_found_by_path_or_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = script(tmp_path / "bin" / "tritonserver", "exit 0")
    assert parse_choice(f"local:{program}") == Choice("local", str(program))
    monkeypatch.setenv("PATH", str(program.parent))
    assert parse_choice("local") == Choice("local", "tritonserver")
    assert local_backends("tritonserver") == tmp_path / "backends"


def test_default_server_follows_environment_then_path_then_embedded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert parse_choice(None) == EMBEDDED
    script(tmp_path / "tritonserver", "exit 0")
    assert parse_choice(None) == Choice("local", "tritonserver")
    program = script(tmp_path / "opt" / "tritonserver", "exit 0")
    monkeypatch.setenv("TRITONPROOF_TRITON", str(program))
    assert parse_choice(None) == Choice("local", str(program))
    assert parse_choice("embedded") == EMBEDDED
    variable = "TRITONPROOF_TRITON=/nowhere/triton"
    monkeypatch.setenv(*variable.split("="))
    with pytest.raises(InputError, check=lambda error: error.where == variable) as raised:
        parse_choice(None)
    assert "TRITONPROOF_TRITON=" in str(raised.value.fix), "the fix is the variable's"
