"""A program that is run for what it prints is given up where it does not end or prints without end, and read whatever it prints."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from fixtures.errors import SetupError
from fixtures.host.process import guarded
from fixtures.host.programs import ProgramError, run
from fixtures.serve import container
from fixtures.serve.server_spec import parse_choice
from tests.helpers import wait_until

ENDED_S = 60.0
"""Bounds a hang; what is waited for takes a second."""
WITHOUT_END = "while True: print('y' * 1000)"


def python(source: str) -> list[str]:
    return [sys.executable, "-S", "-c", source]


def test_what_a_program_prints_is_kept_with_its_status() -> None:
    ended = run(
        python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"), limit_s=ENDED_S
    )
    assert (ended.status, ended.text, ended.error_text) == (3, "out\n", "err\n")


def test_bytes_that_are_no_text_are_read() -> None:
    ended = run(python(r"import os; os.write(1, b'a\xff\xfeb'); os.write(2, b'\x80')"), limit_s=ENDED_S)
    assert re.fullmatch("a.+b", ended.text)
    assert ended.error_text


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_program_that_prints_without_end_is_ended_and_named(stream: str) -> None:
    source = f"import sys\nwhile True: print('y' * 1000, file=sys.{stream})"
    with pytest.raises(ProgramError, match=r"python\S* printed more than 1 MiB"):
        run(python(source), limit_s=ENDED_S, largest_bytes=2**20)


def test_a_program_that_never_ends_is_ended_with_what_it_has_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    source = (
        "import os, time; first = os.getpid(); child = os.fork(); "
        f"open({str(pids)!r}, 'a').write(f'{{os.getpid()}} '); time.sleep(600)"
    )
    with pytest.raises(ProgramError, match=r"did not end within 2 s"):
        run(python(source), limit_s=2)
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 2
    wait_until(lambda: not any(map(is_running, started)))


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(ProgramError, match="nowhere cannot be started"):
        run(["/nowhere"], limit_s=ENDED_S)


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`docker(body)`: puts a script in the place of Docker's client."""

    def put(body: str) -> None:
        program = tmp_path / "docker"
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return put


def test_a_docker_client_that_prints_without_end_is_one_sentence(
    docker: Callable[[str], None], tmp_path: Path
) -> None:
    docker("exec yes")
    with pytest.raises(SetupError, match=r"no Docker engine answers.*docker printed more than"):
        container.prepare_image(parse_choice("docker:image:1"), "cpu", tmp_path / "log")


def test_an_image_of_which_docker_says_bytes_that_are_no_text_is_of_no_known_release(
    docker: Callable[[str], None], tmp_path: Path
) -> None:
    docker(r"printf '\377\376'")
    image = container.prepare_image(parse_choice("docker:image:1"), "cpu", tmp_path / "log")
    assert (image.release, image.digest) == (None, None)


def test_a_guarded_program_that_prints_without_end_is_ended_and_little_of_it_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with (
        log.open("wb") as output,
        guarded(
            python(WITHOUT_END), environment=os.environ, output=output, grace_s=0.2, largest_bytes=2**20
        ) as process,
    ):
        assert process.wait(ENDED_S)
    lines = log.read_bytes().splitlines()
    assert re.match(rb"ended, as it had printed [\d,]+ MiB", lines[-1])
    assert lines[0] == b"y" * 1000


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
