"""The history on a branch: what many jobs add to it at once, each measurement there once and none lost."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from reports.__main__ import main
from reports.record.files import RecordError
from reports.trend import files, sharing
from tests.git import git
from tests.trend import past

ROOT = Path(__file__).parents[2]


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """A repository with one commit."""
    git(tmp_path, "init", "--quiet", "--bare", "remote.git")
    git(tmp_path, "clone", "--quiet", "remote.git", "first")
    (tmp_path / "first" / "file").write_text("content")
    git(tmp_path / "first", "add", "file")
    git(tmp_path / "first", "commit", "--quiet", "-m", "A file")
    git(tmp_path / "first", "push", "--quiet", "origin", "HEAD:main")
    return tmp_path / "remote.git"


def checkout(remote: Path, name: str) -> Path:
    git(remote.parent, "clone", "--quiet", "--depth=1", "--branch=main", f"file://{remote}", name)
    return remote.parent / name


def test_a_later_job_has_what_an_earlier_one_measured(remote: Path) -> None:
    one, other = checkout(remote, "one"), checkout(remote, "other")
    files.append(one / "history", past.rows([100.0, 101.0]))
    assert sharing.share(one / "history", "kept", one) == (2, 0)
    files.append(other / "history", past.rows([90.0], host="ci-2"))
    assert sharing.share(other / "history", "kept", other) == (1, 2)
    assert len(files.read(other / "history").rows) == 3


def test_what_is_shared_again_is_there_once(remote: Path) -> None:
    one = checkout(remote, "one")
    files.append(one / "history", past.rows([100.0]))
    sharing.share(one / "history", "kept", one)
    before = git(remote, "rev-parse", "kept")
    assert sharing.share(one / "history", "kept", one) == (0, 0)
    assert git(remote, "rev-parse", "kept") == before


def test_neither_the_checkout_nor_its_index_is_touched(remote: Path) -> None:
    one = checkout(remote, "one")
    (one / "other").write_text("being worked on")
    git(one, "add", "other")
    before = git(one, "status", "--porcelain", "--branch"), git(one, "rev-parse", "HEAD")
    files.append(remote.parent / "history", past.rows([100.0]))
    sharing.share(remote.parent / "history", "kept", one)
    assert (git(one, "status", "--porcelain", "--branch"), git(one, "rev-parse", "HEAD")) == before
    assert git(remote, "ls-tree", "-r", "--name-only", "main").split() == ["file"]


def test_jobs_that_share_at_once_lose_nothing(remote: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from reports.trend import sharing\n"
        "here = Path(sys.argv[1]); sharing.share(here / 'history', 'kept', here)\n"
    )
    started = []
    for number in range(4):
        here = checkout(remote, f"job-{number}")
        files.append(here / "history", past.rows([100.0] * 3, host=f"ci-{number}"))
        started.append(subprocess.Popen([sys.executable, "-c", program, str(here)], cwd=ROOT))
    assert [one.wait(timeout=120) for one in started] == [0] * 4
    last = checkout(remote, "last")
    assert sharing.share(last / "history", "kept", last) == (0, 12)
    assert {row.host for row in files.read(last / "history").rows} == {f"ci-{n}" for n in range(4)}


def test_a_push_that_another_job_overtook_is_made_again(remote: Path) -> None:
    one, other = checkout(remote, "one"), checkout(remote, "other")
    files.append(one / "history", past.rows([100.0]))
    files.append(other / "history", past.rows([100.0], host="ci-2"))
    program = (
        "import sys; from pathlib import Path; from reports.trend import sharing\n"
        "sharing.share(Path(sys.argv[1]) / 'history', 'kept', Path(sys.argv[1]))\n"
    )
    overtake = shlex.join([sys.executable, "-c", program, str(other)])
    hook = one / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        f"#!/bin/sh\n[ -e overtaken ] && exit 0\ntouch overtaken\nunset GIT_DIR\ncd {shlex.quote(str(ROOT))} && {overtake}\n"
    )
    hook.chmod(0o755)
    assert sharing.share(one / "history", "kept", one) == (1, 1)
    assert (one / "overtaken").exists()
    assert len(git(remote, "ls-tree", "--name-only", "kept").split()) == 2


def test_a_branch_that_may_not_be_pushed_to_is_told_in_the_words_of_git(remote: Path) -> None:
    hook = remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'this branch is protected' >&2\nexit 1\n")
    hook.chmod(0o755)
    one = checkout(remote, "one")
    files.append(one / "history", past.rows([100.0]))
    with pytest.raises(RecordError, match="this branch is protected"):
        sharing.share(one / "history", "kept", one, pause_s=0.0)
    with pytest.raises(RecordError, match="check-ref-format"):
        sharing.share(one / "history", "no such..branch", one)


def test_a_remote_that_never_answers_is_given_up_and_named(
    remote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = checkout(remote, "one")
    git(one, "remote", "set-url", "origin", "ext::sleep 600")
    git(one, "config", "protocol.ext.allow", "always")
    files.append(one / "history", past.rows([100.0]))
    with pytest.raises(RecordError, match=r"git ls-remote.*did not end within 1 s"):
        sharing.share(one / "history", "kept", one, limit_s=1.0)


def test_a_remote_that_sends_without_end_is_given_up_and_named(remote: Path, tmp_path: Path) -> None:
    one = checkout(remote, "one")
    without_end = tmp_path / "talks"
    without_end.write_text("#!/bin/sh\nexec yes 'talking on and on' >&2\n")
    without_end.chmod(0o755)
    git(one, "remote", "set-url", "origin", f"ext::{without_end}")
    git(one, "config", "protocol.ext.allow", "always")
    files.append(one / "history", past.rows([100.0]))
    with pytest.raises(RecordError, match=r"git ls-remote.*printed more than"):
        sharing.share(one / "history", "kept", one)


def test_a_link_on_the_branch_leads_nowhere(remote: Path) -> None:
    one = checkout(remote, "one")
    files.append(one / "secret", past.rows([100.0]))
    (one / "cpu.jsonl").symlink_to(one / "secret" / "cpu.jsonl")
    git(one, "add", "cpu.jsonl")
    git(one, "commit", "--quiet", "-m", "A link")
    git(one, "push", "--quiet", "origin", "HEAD:kept")
    assert sharing.share(one / "history", "kept", one) == (0, 0)


def test_the_command_shows_the_runs_of_all_jobs(
    remote: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(2):
        here = checkout(remote, f"job-{number}")
        files.append(here / "history", [past.row(number)])
        monkeypatch.chdir(here)
        assert main(["trend", "--history", "history", "--share", "kept"]) == 0
    found = capsys.readouterr()
    assert "2 runs of 2 commits" in found.out
    assert "branch kept: added 1 measurements to it, and 1 of it to history" in found.err
