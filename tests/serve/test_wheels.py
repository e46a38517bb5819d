"""The suite finds the programs of the wheels, and names missing ones with a fix."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.serve.programs import script
from tritonproof.base.errors import SetupError
from tritonproof.serve import wheels


def configure(monkeypatch: pytest.MonkeyPatch, libdir: str | None) -> None:
    """Pretend that the running Python was built with this LIBDIR."""
    monkeypatch.setattr(wheels, "sysconfig", SimpleNamespace(get_config_var={"LIBDIR": libdir}.get))


def test_load_generator_is_found_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = script(tmp_path / "bin" / "perf_analyzer", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    monkeypatch.setenv("PATH", str(program.parent))
    assert wheels.perf_analyzer() == program


@pytest.mark.parametrize(
    ("find", "package"),
    [
        (wheels.perf_analyzer, "[load]"),
        (wheels.embedded_triton, "[server]"),
        (lambda: wheels.libpython("3.12", ["/nowhere"]), "libpython3.12 "),
    ],
)
def test_missing_program_names_its_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, find: Callable[[], Path], package: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    monkeypatch.setenv("PATH", str(tmp_path))
    configure(monkeypatch, str(tmp_path))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    with pytest.raises(SetupError, check=lambda error: package in str(error.fix)):
        find()


def test_incompatible_python_or_numpy_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"3\.99"):
        wheels.backend_folder(tmp_path, "3.99")
    monkeypatch.setattr("importlib.metadata.version", {"numpy": "2.0.0"}.get)
    with pytest.raises(SetupError, check=lambda error: "numpy<2" in str(error.fix)):
        wheels.backend_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_own_libpython_precedes_library_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir()
        (folder / f"libpython{wheels.PYTHON}.so.1.0").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere::{other}")
    for libdir, expected in ((str(own), own), (None, other)):
        configure(monkeypatch, libdir)
        assert wheels.libpython(system=()) == expected
