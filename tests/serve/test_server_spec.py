"""What the value of `--triton` asks for."""

from pathlib import Path

import pytest

from fixtures.errors import InputError
from fixtures.serve.backends import local_backends
from fixtures.serve.server_spec import EMBEDDED_TRITON, Choice, in_words, parse_choice
from tests.serve.programs import script

EMBEDDED = Choice("embedded")


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("embedded", Choice("embedded")),
        ("docker", Choice("docker")),
        ("docker:my/triton:1", Choice("docker", "my/triton:1")),
        ("localhost:8001", Choice("remote", "localhost:8001")),
        ("10.0.0.7:65535", Choice("remote", "10.0.0.7:65535")),
        ("gpu-box_2.example.org:8001", Choice("remote", "gpu-box_2.example.org:8001")),
        ("[::1]:8001", Choice("remote", "[::1]:8001")),
    ],
)
def test_an_option_names_a_server(text: str, choice: Choice) -> None:
    assert parse_choice(text) == choice


@pytest.mark.parametrize("text", ["docker:", "local:"])
def test_a_variable_that_is_not_set_is_no_image_and_no_program(text: str) -> None:
    with pytest.raises(InputError, match="a variable not set"):
        parse_choice(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "embeded",
        "embedded:1",
        ":8001",
        "host",
        "host:",
        "host:0",
        "host:65536",
        "host:http",
    ],
)
def test_an_option_that_names_no_server_says_what_would(text: str) -> None:
    with pytest.raises(
        InputError, match=r"unknown server .*\n.*--triton\n.*embedded, local\[:PATH\], docker"
    ):
        parse_choice(text)


@pytest.mark.parametrize("text", ["http://host:8001", "grpc://host:8001/", "https://host:8001/v2"])
def test_a_scheme_is_to_be_left_out(text: str) -> None:
    with pytest.raises(InputError, match="unknown server") as raised:
        parse_choice(text)
    assert f"{text.partition('://')[0]}://" in raised.value.fix
    assert raised.value.fix.endswith("--triton host:8001")


@pytest.mark.parametrize("host", ["h" * 10_000, "[" + ":" * 10_000 + "]"], ids=["name", "address"])
def test_a_host_is_no_longer_than_a_name_or_an_address_can_be(host: str) -> None:
    with pytest.raises(InputError, match="unknown server") as raised:
        parse_choice(f"{host}:8001")
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("text", ["--privileged", "-v/:/host", "a b", "triton;id", "image\n", "$(id)"])
def test_what_docker_would_take_for_an_option_is_no_image(text: str) -> None:
    with pytest.raises(InputError, match="unknown server"):
        parse_choice(f"docker:{text}")


@pytest.mark.parametrize(
    "image", ["localhost:5000/a/triton:24.10-py3", "nvcr.io/nvidia/t@sha256:" + "0" * 64]
)
def test_an_image_may_have_registry_tag_and_digest(image: str) -> None:
    assert parse_choice(f"docker:{image}") == Choice("docker", image)


def test_a_local_server_is_found_by_path_and_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = script(tmp_path / "bin" / "tritonserver", "exit 0")
    assert parse_choice(f"local:{program}") == Choice("local", str(program))
    monkeypatch.setenv("PATH", str(program.parent))
    assert parse_choice("local") == Choice("local", "tritonserver")
    assert local_backends("tritonserver") == tmp_path / "backends"


def test_a_local_server_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no program .*\n.*where: --triton local:/nowhere/triton"):
        parse_choice("local:/nowhere/triton")


def test_the_default_is_local_where_tritonserver_is_on_path_else_embedded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert parse_choice(None) == EMBEDDED
    script(tmp_path / "tritonserver", "exit 0")
    assert parse_choice(None) == Choice("local", "tritonserver")


def test_the_environment_names_another_default_than_what_is_on_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = script(tmp_path / "opt" / "tritonserver", "exit 0")
    script(tmp_path / "bin" / "tritonserver", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("TRITONPROOF_TRITON", str(program))
    assert parse_choice(None) == Choice("local", str(program))
    assert parse_choice("embedded") == EMBEDDED
    monkeypatch.setenv("TRITONPROOF_TRITON", "/nowhere/triton")
    with pytest.raises(
        InputError, match=r"no program '/nowhere/triton'\n.*where: TRITONPROOF_TRITON=/nowhere"
    ) as raised:
        parse_choice(None)
    assert "its path: TRITONPROOF_TRITON=/opt/" in str(raised.value), "and the fix is the variable's"


def test_each_choice_is_described_by_what_was_asked_for() -> None:
    assert EMBEDDED_TRITON in in_words(EMBEDDED)
    assert "/opt/t" in in_words(Choice("local", "/opt/t"))
    assert "my/triton:1" in in_words(Choice("docker", "my/triton:1"))
    assert "host:8001" in in_words(Choice("remote", "host:8001"))
