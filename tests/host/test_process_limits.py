"""Limits of a process in which no server runs are named, each with what lifts it."""

import resource
from pathlib import Path

import pytest

from fixtures.host.process_limits import cure_of_limits


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """The limits of this process, as the test sets them."""
    found = {resource.RLIMIT_NOFILE: 1024, resource.RLIMIT_FSIZE: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (found[kind], found[kind]))
    return found


def test_usual_limits_have_no_cure(limits: dict[int, int], tmp_path: Path) -> None:
    assert cure_of_limits(tmp_path) is None
    limits[resource.RLIMIT_NOFILE] = resource.RLIM_INFINITY
    assert cure_of_limits(tmp_path) is None


@pytest.mark.parametrize(
    ("kind", "command"), [(resource.RLIMIT_NOFILE, "ulimit -n"), (resource.RLIMIT_FSIZE, "ulimit -f")]
)
def test_a_limit_that_is_too_low_is_named_with_its_command(
    limits: dict[int, int], tmp_path: Path, kind: int, command: str
) -> None:
    limits[kind] = 64
    assert command in str(cure_of_limits(tmp_path))


def test_shared_memory_that_cannot_be_written_is_named(limits: dict[int, int], tmp_path: Path) -> None:
    assert str(tmp_path / "gone") in str(cure_of_limits(tmp_path / "gone"))
