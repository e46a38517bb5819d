"""Commands and environments of servers on this machine."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.serve.programs import program_of, script
from tritonproof.serve.server_spec import ServerSpec


@pytest.mark.parametrize("path", ["", "/nowhere"])
def test_embedded_server_finds_shell_and_python_on_any_path(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", path)
    server_path = program_of(ServerSpec("embedded"), tmp_path).environment["PATH"]
    assert shutil.which("bash", path=server_path)
    assert shutil.which("python3", path=server_path) == str(Path(sys.executable).with_name("python3"))


RESTRICTED = {"--grpc-restricted-protocol", "--http-restricted-api"}


@pytest.mark.parametrize(
    ("known", "shared_memory", "given"),
    [
        ("--id", "system", set()),
        ("--allow-client-shm", "system", {"--allow-client-shm"}),
        ("--allow-client-shm", "none", set()),
        ("--grpc-restricted-protocol <string> --http-restricted-api", "none", RESTRICTED),
    ],
)
def test_local_server_gets_only_options_it_knows(
    tmp_path: Path, known: str, shared_memory: str, given: set[str]
) -> None:
    program = script(tmp_path / "bin" / "tritonserver", f'echo "{known} <boolean>"')
    arguments = program_of(ServerSpec("local", str(program)), tmp_path, shared_memory).arguments
    assert {part.partition("=")[0] for part in arguments} & {"--allow-client-shm", *RESTRICTED} == given
