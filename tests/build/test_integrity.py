"""A build that is other than it was written is built anew, whatever was changed."""

import json
import os
import shutil
import tracemalloc
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


def pipe(path: Path) -> None:
    """Put a pipe that nobody writes to in the place of a file."""
    path.unlink()
    os.mkfifo(path)


def mkdir_with(path: Path, name: str, text: str) -> None:
    """A folder, in place of a file of this name, with a file."""
    path.unlink(missing_ok=True)
    path.mkdir()
    (path / name).write_text(text)


CHANGES: dict[str, Callable[[Path], object]] = {
    "another artifact": lambda one: (one / "1" / "model.onnx").write_text("conv"),
    "another runtime": lambda one: (one / "1" / "runtime.py").write_text("import os"),
    "another model.py": lambda one: (one / "1" / "model.py").write_text("import os"),
    "no runtime": lambda one: (one / "1" / "runtime.py").unlink(),
    "another version": lambda one: shutil.copytree(one / "1", one / "2"),
    "an empty folder": lambda one: (one / "2").mkdir(),
    "a module that a runtime imports": lambda one: (one / "1" / "numpy.py").write_text("import os"),
    "bytecode": lambda one: mkdir_with(one / "1" / "__pycache__", "runtime.cpython-311.pyc", "import os"),
    "a link": lambda one: link(one / "1" / "runtime.py"),
    "a link to the description": lambda one: link(one / "build.json"),
    "a link to nowhere": lambda one: (one / "1" / "more").symlink_to("/nowhere"),
    "a pipe": lambda one: os.mkfifo(one / "1" / "pipe"),
    "a pipe as description": lambda one: pipe(one / "build.json"),
    "other facts": lambda one: rewrite(one / "build.json", weights="those of somebody else"),
    "no facts": lambda one: rewrite(one / "build.json", content={}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_build_that_was_changed_is_built_anew(change: str, tmp_path: Path) -> None:
    made: list[str] = []
    case = case_with(writing("converted", made))
    built = build(case, tmp_path)
    CHANGES[change](built.folder)
    assert not build(case, tmp_path).reused
    assert len(made) == 2
    assert built.artifact.read_text() == "converted"
    assert "os" not in {path.read_text() for path in built.folder.rglob("*.py")}
    assert sorted(path.name for path in built.folder.iterdir()) == ["1", "build.json", "config.pbtxt"]


@pytest.mark.parametrize(
    "change", ["another runtime", "another model.py", "another version", "bytecode", "no runtime"]
)
def test_code_is_compared_with_this_checkouts_even_where_the_digest_fits(change: str, tmp_path: Path) -> None:
    case = case_with(writing("converted"))
    built = build(case, tmp_path)
    facts = integrity.facts_if_whole(built.folder)
    assert facts is not None
    CHANGES[change](built.folder)
    integrity.write_facts(built.folder, facts)
    assert not build(case, tmp_path).reused


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weights", None),
        ("weights", 1.5),
        ("build_time_s", "1.5"),
        ("build_time_s", -1.0),
        ("size_mib", None),
        ("size_mib", []),
    ],
)
def test_a_fact_that_no_build_has_is_none_of_a_build_even_where_the_digest_fits(
    name: str, value: object, tmp_path: Path
) -> None:
    """A record would have it, and could not be read."""
    case = case_with(writing("converted"))
    built = build(case, tmp_path)
    facts = integrity.facts_if_whole(built.folder)
    assert facts is not None
    integrity.write_facts(built.folder, {**facts, name: value})
    assert not build(case, tmp_path).reused


def test_an_artifact_and_its_digest_of_another_case_are_no_build_of_this_one(tmp_path: Path) -> None:
    own, other = (case_with(writing(precision), precision) for precision in ("fp32", "fp16"))
    mine, theirs = build(own, tmp_path), build(other, tmp_path)
    shutil.copyfile(theirs.artifact, mine.artifact)
    stored = json.loads((theirs.folder / "build.json").read_text())
    hashes = {name: value for name, value in stored.items() if name.endswith("_sha256")}
    assert hashes
    rewrite(mine.folder / "build.json", **hashes)
    assert not build(own, tmp_path).reused
    assert mine.artifact.read_text() == "fp32"


def test_an_artifact_that_is_a_folder_is_held_with_all_it_holds(tmp_path: Path) -> None:
    def convert(_job: ConversionJob, path: Path) -> None:
        (path / "variables").mkdir(parents=True)
        (path / "saved_model.pb").write_bytes(b"graph")
        (path / "variables" / "index").write_bytes(b"weights")

    case = case_with(convert)
    built = build(case, tmp_path)
    assert build(case, tmp_path).reused
    (built.artifact / "variables" / "index").rename(built.artifact / "variables" / "other")
    assert not build(case, tmp_path).reused


@pytest.mark.parametrize(
    "content",
    [
        None,
        b'{"digest": ',
        b"[]",
        b"null",
        b'"digest"',
        b"\xff\xfe\xff",
        b"[" * 100_000,
        b'{"digest": ' + b"9" * 5000 + b"}",
        b'{"digest": 1e999}',
        b"",
    ],
    ids=["missing", "cut", "list", "null", "text", "not-utf8", "nested", "number", "infinite", "empty"],
)
def test_a_damaged_description_is_built_anew(content: bytes | None, tmp_path: Path) -> None:
    case = case_with(writing("converted"))
    described = build(case, tmp_path).folder / "build.json"
    described.unlink()
    if content is not None:
        described.write_bytes(content)
    assert not build(case, tmp_path).reused
    assert build(case, tmp_path).reused


def test_a_description_as_large_as_the_disk_is_not_read(tmp_path: Path) -> None:
    case = case_with(writing("converted"))
    with (build(case, tmp_path).folder / "build.json").open("wb") as file:
        file.truncate(1 << 36)

    tracemalloc.start()
    try:
        assert not build(case, tmp_path).reused
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("what", ["link", "pipe", "large"])
def test_whatever_is_in_the_place_of_the_configuration_makes_way(what: str, tmp_path: Path) -> None:
    case = case_with(writing("converted"))
    config, elsewhere = build(case, tmp_path).folder / "config.pbtxt", tmp_path / "elsewhere"
    right = config.read_bytes()
    config.unlink()
    elsewhere.write_text("somebody else's")
    if what == "link":
        config.symlink_to(elsewhere)
    elif what == "pipe":
        os.mkfifo(config)
    else:
        with config.open("wb") as file:
            file.truncate(1 << 36)

    build(case, tmp_path)

    assert config.read_bytes() == right
    assert not config.is_symlink()
    assert elsewhere.read_text() == "somebody else's"
