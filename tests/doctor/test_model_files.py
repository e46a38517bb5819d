"""The doctor tries the files of --models as the benchmarks would."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.doctor import __main__ as doctor
from tests.model_files.files import write

Look = Callable[[Path], tuple[int, str]]


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Look:
    """What the doctor says of a file, with no other check, and its status."""
    monkeypatch.setattr(doctor, "checks", lambda _choice: iter(()))

    def run(file: Path) -> tuple[int, str]:
        return doctor.main(["--models", str(file)]), capsys.readouterr().out

    return run


def test_it_names_the_models_of_a_file(look: Look, tmp_path: Path) -> None:
    status, said = look(write(tmp_path / "mine.py", "mine"))

    assert status == 0
    assert "mine" in said


def test_a_file_that_would_stop_the_benchmarks_is_a_problem_with_its_line(look: Look, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("\n\n1 / 0\n")

    status, said = look(tmp_path / "mine.py")

    assert status == 1
    assert f"{tmp_path / 'mine.py'}:3" in said
    assert "cure:" in said
