"""A build that was changed on disk is rebuilt."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.build import integrity
from fixtures.spec import ConversionJob
from tests.build.conversions import build, case_with, writing


def rewrite(path: Path, **changes: object) -> None:
    """Change facts of a build.json."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def link(path: Path) -> None:
    """Put a link to itself under another name in the place of a file."""
    path.symlink_to(path.rename(path.parent.parent.parent / path.name))


def bytecode(path: Path) -> None:
    """A folder with bytecode in place of the file that keeps it out."""
    path.unlink()
    path.mkdir()
    (path / "runtime.cpython-311.pyc").write_text("import os")


CHANGES: dict[str, Callable[[Path], object]] = {
    "another artifact": lambda one: (one / "1" / "model.onnx").write_text("conv"),
    "another runtime": lambda one: (one / "1" / "runtime.py").write_text("import os"),
    "another model.py": lambda one: (one / "1" / "model.py").write_text("import os"),
    "no runtime": lambda one: (one / "1" / "runtime.py").unlink(),
    "another version": lambda one: shutil.copytree(one / "1", one / "2"),
    "an empty folder": lambda one: (one / "2").mkdir(),
    "a module that a runtime imports": lambda one: (one / "1" / "numpy.py").write_text("import os"),
    "bytecode": lambda one: bytecode(one / "1" / "__pycache__"),
    "a link": lambda one: link(one / "1" / "runtime.py"),
    "a link to nowhere": lambda one: (one / "1" / "more").symlink_to("/nowhere"),
    "a pipe": lambda one: os.mkfifo(one / "1" / "pipe"),
    "other facts": lambda one: rewrite(one / "build.json", weights="those of somebody else"),
    "no facts": lambda one: rewrite(one / "build.json", content={}),
    "no description": lambda one: (one / "build.json").unlink(),
    "a cut description": lambda one: (one / "build.json").write_text('{"digest": '),
    "a description of another kind": lambda one: (one / "build.json").write_text("[]"),
    "noise": lambda one: (one / "build.json").write_bytes(b"\xff\xfe\xff"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_build_is_rebuilt(change: str, tmp_path: Path) -> None:
    made: list[str] = []
    case = case_with(writing("converted", made))
    built = build(case, tmp_path)
    CHANGES[change](built.folder)
    assert integrity.was_changed(built.folder) is (change != "no description")
    assert not build(case, tmp_path).reused
    assert len(made) == 2
    assert built.artifact.read_text() == "converted"
    assert "os" not in {path.read_text() for path in built.folder.rglob("*.py")}
    assert sorted(path.name for path in built.folder.iterdir()) == ["1", "build.json", "config.pbtxt"]
    assert build(case, tmp_path).reused


def test_folder_artifact_is_checked_for_integrity(tmp_path: Path) -> None:
    def convert(_job: ConversionJob, path: Path) -> None:
        (path / "variables").mkdir(parents=True)
        (path / "saved_model.pb").write_bytes(b"graph")
        (path / "variables" / "index").write_bytes(b"weights")

    case = case_with(convert)
    built = build(case, tmp_path)
    assert build(case, tmp_path).reused
    (built.artifact / "variables" / "index").rename(built.artifact / "variables" / "other")
    assert not build(case, tmp_path).reused
