"""A run begins by removing leftovers of killed runs, and says so."""

import mmap
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import run_pytest
from tests.serve.programs import script
from tritonproof.host import scratch


@pytest.fixture
def segment() -> Iterator[Path]:
    """Shared memory of a server that was killed together with its guards."""
    path = scratch.SHARED_MEMORY_FOLDER / f"tritonproof-server-{uuid.uuid4().hex}"
    path.write_bytes(b"\0" * mmap.PAGESIZE)
    yield path
    path.unlink(missing_ok=True)


def test_leftovers_are_removed_but_used_folders_stay(temporary: Path, tmp_path: Path, segment: Path) -> None:
    build = tmp_path / "repos" / "cpu" / ".unfinished-a-0"
    build.mkdir(parents=True)
    file = tmp_path / "test_nothing.py"
    file.write_text("import pytest\n\n\n@pytest.mark.step('accuracy')\ndef test_nothing() -> None: pass\n")
    folders = ["--results", str(tmp_path / "results"), "--model-repos", str(tmp_path / "repos")]
    with scratch.scratch_folder("server") as used:
        folder = used.with_name("tritonproof-container-left")
        folder.mkdir()
        docker = script(tmp_path / "bin" / "docker", f'echo "$@" >> "{tmp_path}/asked"')
        programs = f"{docker.parent}:{os.environ['PATH']}"

        done = run_pytest(str(file), "-p", "conftest", *folders, TMPDIR=str(temporary), PATH=programs)

        assert done.returncode == 0, done.stdout + done.stderr
        assert used.is_dir()
    assert not any(path.exists() for path in (folder, segment, build))
    assert "1 temporary folders" in done.stdout
    assert (tmp_path / "asked").read_text() == "rm --force tritonproof-container-left\n"
    assert "1 unfinished builds" in done.stdout
