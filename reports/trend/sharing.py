"""The history that many jobs share: a branch of the repository's remote, to which each adds a file of its own rows.

Branches outlive caches and artifacts, and a push that another overtook is refused, so that no job can lose another's rows.
Nothing is checked out and no file of the checkout is touched. It needs the standard library and git.
"""

import hashlib
import io
import os
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reports.record import untrusted
from reports.record.files import RecordError
from reports.record.programs import LARGEST_OUTPUT_BYTES, Ended, ProgramError, run
from reports.text.labels import grouped
from reports.trend import files
from reports.trend.rows import Row, encode, key

_ATTEMPTS = 5
"""Times that a push is tried while nobody else's gets through: a server may be busy with another's, or forbid it."""
_IDENTITY = {"NAME": "tritonproof", "EMAIL": "tritonproof@localhost.invalid"}
"""Who the commits are by: a CI job has no name."""
_LIMIT_S = 300.0
"""Seconds for one command of git: a remote answers within some, and one that is gone in none."""
_REMOTE = "origin"
_MOST_CHARACTERS = 300
"""The most characters of git's own message that an error shows."""


@dataclass(frozen=True)
class _Repository:
    """A checkout that git is asked about."""

    folder: Path
    limit_s: float
    """Seconds for each command."""


def share(
    folder: Path,
    branch: str,
    checkout: Path,
    pause_s: float = 1.0,
    limit_s: float = _LIMIT_S,
) -> tuple[int, int]:
    """Add the rows of a folder's history to a branch of a repository's remote, and the branch's to the folder, each
    once; returns how many were added to the branch, and to the folder.

    After a push that failed although nobody else's got through it waits `pause_s` seconds, and for each command of git
    `limit_s` at most. The branch is made where there is none. Raises RecordError with git's words where it cannot be read or
    pushed to, or git does not end, and OSError where the folder cannot be written.
    """
    repository = _Repository(checkout, limit_s)
    reference, attempts, before = f"refs/heads/{branch}", 0, ""
    _git(repository, "check-ref-format", reference)
    own = files.read(folder).rows
    while True:
        head = _head(repository, reference)
        attempts = attempts + 1 if head == before else 1
        shared = _read(repository, head)
        known = {key(row) for row in shared}
        fresh = [row for row in own if key(row) not in known]
        if not fresh:
            break
        commit = _commit(repository, head, _contents(fresh))
        pushed = _run(repository, "push", "--quiet", _REMOTE, f"{commit}:{reference}")
        if pushed.status == 0:
            break
        if attempts >= _ATTEMPTS:
            raise _error("the rows cannot be pushed", pushed)
        before = head
        time.sleep(pause_s if attempts > 1 else 0.0)
    present = {key(row) for row in own}
    return len(fresh), files.append(folder, [row for row in shared if key(row) not in present])


def _head(repository: _Repository, reference: str) -> str:
    """The commit of the branch, fetched without those before it; empty where there is no such branch."""
    listed = _git(repository, "ls-remote", _REMOTE, reference).split()
    if not listed:
        return ""
    _git(repository, "fetch", "--quiet", "--no-tags", "--depth=1", _REMOTE, reference)
    return _git(repository, "rev-parse", "FETCH_HEAD").strip()


def _read(repository: _Repository, commit: str) -> Sequence[Row]:
    """The rows of all files of a commit. A line that is no row is left out: what was measured lies in others."""
    if not commit:
        return []
    archive = _run(repository, "archive", "--format=tar", commit, largest_bytes=untrusted.LARGEST_BYTES)
    if archive.status:
        raise _error("the branch cannot be read", archive)
    found: list[Row] = []
    with tarfile.open(fileobj=io.BytesIO(archive.output)) as members:
        for member in members:
            content = members.extractfile(member) if member.isreg() else None
            if content is not None and member.name.endswith(files.SUFFIX):
                found += files.parsed(Path(member.name), content.read()).rows
    return found


def _contents(rows: Sequence[Row]) -> Mapping[str, bytes]:
    """A file for each target, with a name that no other content has."""
    by_target = grouped(rows, lambda row: row.target)
    whole = {target: b"".join(map(encode, found)) for target, found in by_target.items()}
    return {
        f"{target}.{hashlib.sha256(content).hexdigest()[:16]}{files.SUFFIX}": content
        for target, content in whole.items()
    }


def _commit(repository: _Repository, parent: str, contents: Mapping[str, bytes]) -> str:
    """A commit that has these files more than its parent, made beside the checkout and its index."""
    with tempfile.TemporaryDirectory() as scratch:
        index = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
        if parent:
            _git(repository, "read-tree", parent, more=index)
        for name, content in contents.items():
            file = Path(scratch) / "content"
            file.write_bytes(content)
            blob = _git(repository, "hash-object", "-w", "--no-filters", str(file)).strip()
            _git(repository, "update-index", "--add", "--cacheinfo", f"100644,{blob},{name}", more=index)
        tree = _git(repository, "write-tree", more=index).strip()
    by = {
        f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in _IDENTITY.items()
    }
    parents = ["-p", parent] if parent else []
    words = f"Measurements of {', '.join(sorted(name.split('.')[0] for name in contents))}"
    return _git(repository, "commit-tree", tree, *parents, "-m", words, more=by).strip()


def _git(repository: _Repository, *arguments: str, more: Mapping[str, str] | None = None) -> str:
    """What git prints; a RecordError where it fails."""
    ended = _run(repository, *arguments, more=more)
    if ended.status:
        raise _error(f"git {arguments[0]} failed", ended)
    return ended.text


def _run(
    repository: _Repository,
    *arguments: str,
    more: Mapping[str, str] | None = None,
    largest_bytes: int = LARGEST_OUTPUT_BYTES,
) -> Ended:
    """What git ended with; a RecordError where it does not end, or prints more than a history can have."""
    environment = os.environ | {"GIT_TERMINAL_PROMPT": "0"} | dict(more or {})
    command = ["git", "-C", str(repository.folder), *arguments]
    try:
        return run(command, limit_s=repository.limit_s, environment=environment, largest_bytes=largest_bytes)
    except ProgramError as error:
        raise RecordError(
            f"the shared history: git {arguments[0]} in {repository.folder}: {error}. Look whether the remote answers: "
            "git ls-remote"
        ) from error


def _error(what: str, ended: Ended) -> RecordError:
    said = " ".join(ended.error_text.split())[:_MOST_CHARACTERS]
    return RecordError(f"the shared history: {what}: {said.encode('unicode_escape').decode()}")
