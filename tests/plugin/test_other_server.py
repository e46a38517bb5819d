"""The server of what is compared with: started again once where it has ended, with words that tell it from the case's own."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.build.repository import BuiltModel
from fixtures.errors import ProofError
from fixtures.plugin.comparing import CALLED, OtherServer
from fixtures.plugin.restarting import kept_running
from fixtures.serve.choice import Choice
from fixtures.serve.launch import serve
from fixtures.serve.server import Server
from fixtures.spec import Scenario
from tests.conftest import DEPLOYMENT, DOUBLING, MakeBuild
from tests.serve.programs import doubled_by, process_of

TEXT = "cpu-m-onnx-fp32 against HEAD~1"


class Notes:
    """As much of a narrator as is told of a server's end."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def build(make_build: MakeBuild, tmp_path: Path) -> BuiltModel:
    return make_build(tmp_path / "models", "doubling", DOUBLING)


def test_the_other_server_that_is_killed_is_followed_by_another_and_two_ends_are_told_as_its_own(
    build: BuiltModel, tmp_path: Path
) -> None:
    notes: Any = Notes()

    def load(server: Server, scenario: Scenario) -> None:
        server.load(build, DEPLOYMENT, scenario)

    def serving(log: str) -> contextlib.AbstractContextManager[Server]:
        return serve(Choice("embedded"), tmp_path / "models", tmp_path / log, device="cpu")

    with kept_running(CALLED, TEXT, "against", serving, notes) as restarts:
        other = OtherServer(restarts, "HEAD~1", tmp_path, 8, load)
        first = other.loaded_for("online")
        process_of(first).kill()
        with pytest.raises(ProofError, match=r"the other Triton \(.* against HEAD~1\) was ended by SIGKILL"):
            doubled_by(first, build)

        second = other.loaded_for("offline")

        assert second is not first
        assert doubled_by(second, build)
        process_of(second).kill()
        for _again in range(2):
            with pytest.raises(ProofError, match=r"^the other Triton .* SIGKILL.* in an earlier test"):
                other.loaded_for("online")
    (line,) = notes.lines
    assert line.startswith(f"{TEXT}: the other Triton was ended by SIGKILL")


def test_another_s_server_is_not_started_again(tmp_path: Path) -> None:
    @contextlib.contextmanager
    def serving(_log: str) -> Iterator[Server]:
        yield Server("remote", "127.0.0.1:1", "2.51.0", None, None)

    notes: Any = Notes()
    with kept_running(CALLED, TEXT, "against", serving, notes) as restarts:
        assert not restarts.may_start()
