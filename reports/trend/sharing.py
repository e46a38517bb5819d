"""The history that many jobs share: a branch of the repository's remote, to which each adds a file of its own rows.

Branches outlive caches and artifacts, and a push that another overtook is refused, so that no job can lose another's rows.
Nothing is checked out and no file of the checkout is touched. It needs the standard library and git.
"""

import hashlib
import io
import os
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from reports.record.files import RecordError
from reports.trend import files
from reports.trend.rows import Row, encode, key
from reports.words.grouping import grouped

_ATTEMPTS = 5
"""Times that a push is tried while nobody else's gets through: a server may be busy with another's, or forbid it."""
_IDENTITY = {"NAME": "tritonproof", "EMAIL": "tritonproof@localhost.invalid"}
"""Who the commits are by: a CI job has no name."""
_MOST_CHARACTERS = 300
"""Of what git says in an error."""


def share(
    folder: Path, branch: str, repository: Path, remote: str = "origin", pause_s: float = 1.0
) -> tuple[int, int]:
    """Add the rows of a folder's history to a branch of a repository's remote, and the branch's to the folder, each
    once; returns how many were added to the branch, and to the folder.

    After a push that failed although nobody else's got through it waits `pause_s` seconds. The branch is made where there is none. Raises RecordError with git's words where it cannot be read or pushed to, and
    OSError where the folder cannot be written.
    """
    reference, attempts, before = f"refs/heads/{branch}", 0, ""
    _git(repository, "check-ref-format", reference)
    own = files.read(folder).rows
    while True:
        head = _head(repository, remote, reference)
        attempts = attempts + 1 if head == before else 1
        shared = _read(repository, head)
        known = {key(row) for row in shared}
        fresh = [row for row in own if key(row) not in known]
        if not fresh:
            break
        commit = _commit(repository, head, _contents(fresh))
        pushed = _run(repository, "push", "--quiet", remote, f"{commit}:{reference}")
        if pushed.returncode == 0:
            break
        if attempts >= _ATTEMPTS:
            raise _error("the rows cannot be pushed", pushed)
        before = head
        time.sleep(pause_s if attempts > 1 else 0.0)
    present = {key(row) for row in own}
    return len(fresh), files.append(folder, [row for row in shared if key(row) not in present])


def _head(repository: Path, remote: str, reference: str) -> str:
    """The commit of the branch, fetched without those before it; empty where there is no such branch."""
    listed = _git(repository, "ls-remote", remote, reference).split()
    if not listed:
        return ""
    _git(repository, "fetch", "--quiet", "--no-tags", "--depth=1", remote, reference)
    return _git(repository, "rev-parse", "FETCH_HEAD").strip()


def _read(repository: Path, commit: str) -> Sequence[Row]:
    """The rows of all files of a commit. A line that is no row is left out: what was measured lies in others."""
    if not commit:
        return []
    archive = _run(repository, "archive", "--format=tar", commit)
    if archive.returncode:
        raise _error("the branch cannot be read", archive)
    found: list[Row] = []
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as members:
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


def _commit(repository: Path, parent: str, contents: Mapping[str, bytes]) -> str:
    """A commit that has these files more than its parent, made beside the checkout and its index."""
    with tempfile.TemporaryDirectory() as scratch:
        index = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
        if parent:
            _git(repository, "read-tree", parent, more=index)
        for name, content in contents.items():
            blob = _git(repository, "hash-object", "-w", "--stdin", content=content).strip()
            _git(repository, "update-index", "--add", "--cacheinfo", f"100644,{blob},{name}", more=index)
        tree = _git(repository, "write-tree", more=index).strip()
    by = {
        f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in _IDENTITY.items()
    }
    parents = ["-p", parent] if parent else []
    words = f"Measurements of {', '.join(sorted(name.split('.')[0] for name in contents))}"
    return _git(repository, "commit-tree", tree, *parents, "-m", words, more=by).strip()


def _git(
    repository: Path, *arguments: str, content: bytes = b"", more: Mapping[str, str] | None = None
) -> str:
    """What git prints; a RecordError where it fails."""
    ended = _run(repository, *arguments, content=content, more=more)
    if ended.returncode:
        raise _error(f"git {arguments[0]} failed", ended)
    return ended.stdout.decode("utf-8", "replace")


def _run(
    repository: Path, *arguments: str, content: bytes = b"", more: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[bytes]":
    environment = os.environ | {"GIT_TERMINAL_PROMPT": "0"} | dict(more or {})
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, input=content, capture_output=True, env=environment, check=False)


def _error(what: str, ended: "subprocess.CompletedProcess[bytes]") -> RecordError:
    said = " ".join(ended.stderr.decode("utf-8", "replace").split())[:_MOST_CHARACTERS]
    return RecordError(f"the shared history: {what}: {said.encode('unicode_escape').decode()}")
