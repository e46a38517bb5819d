"""A run checks its output paths before it builds anything; unreadable paths end it with a usage error."""

import os
from pathlib import Path

import pytest

from fixtures.collection import as_usage_errors, refuse_unwritable_file, refuse_unwritable_folder
from tests.helpers import WITHOUT, closed
from tritonproof.base.errors import InputError

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("--results", "file"),
        ("--results", "folder"),  # with a file where its target's folder would be
        ("--model-repos", "file/below"),
        ("--summary", "folder"),
        ("--junitxml", "file/below"),
        ("--history", "link-to-nothing/below"),
        ("--history", "file"),
    ],
)
def test_unwritable_output_is_a_usage_error_before_any_test(
    option: str, name: str, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "folder").mkdir()
    for file in ("file", "folder/cpu"):
        (tmp_path / file).touch()
    (tmp_path / "link-to-nothing").symlink_to("nothing")
    unwritable = tmp_path / name
    # Without the check the run would convert the model first.
    paths = {"--results": tmp_path / "results", "--model-repos": tmp_path / "models", option: unwritable}
    keywords = "cpu-resnet50-micro-ts-trace-fp32 and test_conversion"
    options = [f"{flag}={path}" for flag, path in paths.items()]
    status = pytest.main(["benchmarks", "-q", *WITHOUT, "-k", keywords, *options])
    output = "".join(capsys.readouterr())
    assert status == pytest.ExitCode.USAGE_ERROR
    assert f"{option} {unwritable}" in output
    assert not (tmp_path / "models").exists()


def test_writable_outputs_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "old.md").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    for folder in (tmp_path, tmp_path / "link" / "new" / "newer"):
        refuse_unwritable_folder("--results", folder)
    for file in (tmp_path / "old.md", tmp_path / "new" / "new.md", Path(os.devnull), tmp_path / "pipe"):
        refuse_unwritable_file("--summary", file)


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_unwritable_folder_is_refused(tmp_path: Path) -> None:
    with closed(tmp_path), pytest.raises(InputError):
        refuse_unwritable_folder("--results", tmp_path / "new")


def test_unreadable_or_looping_path_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    with closed(tmp_path / "folder"):
        for path in (tmp_path / "folder" / "file", tmp_path / "self"):
            with pytest.raises(pytest.UsageError, match=f"where: {path}"), as_usage_errors():
                path.read_text()
