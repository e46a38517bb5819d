"""A measurement says which run, machine and commit it comes from."""

import subprocess
from pathlib import Path

import pytest

from fixtures.host import origin
from fixtures.host.origin import commit_of


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A git repository of one commit."""
    for arguments in (
        ("init", "-q"),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first"),
    ):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)
    return tmp_path


def test_a_checkout_as_it_was_committed_is_clean(checkout: Path) -> None:
    commit, clean = commit_of.__wrapped__(checkout)
    assert commit is not None
    assert len(commit) == 40
    assert clean


def test_a_file_that_git_does_not_know_makes_it_unclean(checkout: Path) -> None:
    (checkout / "model.py").touch()
    assert commit_of.__wrapped__(checkout)[1] is False


def test_a_folder_outside_any_repository_has_no_commit(tmp_path: Path) -> None:
    assert commit_of.__wrapped__(tmp_path) == (None, None)


def test_the_environment_tells_the_commit_of_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(origin.COMMIT, "a" * 40 + "-dirty")
    assert commit_of.__wrapped__(tmp_path) == ("a" * 40, False)


def test_all_measurements_of_a_process_are_of_one_run() -> None:
    assert origin.origin("cpu") == origin.origin("cpu")
