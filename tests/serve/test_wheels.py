"""The programs from wheels are found, and each that is missing is named with what to do about it."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace

import pytest

from fixtures.errors import InputError, SetupError
from fixtures.host import private
from fixtures.serve import wheels
from tests.helpers import theirs


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """What was found in one test is looked for anew in the next."""
    wheels.perf_analyzer.cache_clear()
    yield
    wheels.perf_analyzer.cache_clear()


@pytest.fixture
def without_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python in which no package can be found."""

    def find_spec(name: str) -> ModuleSpec | None:
        return None

    monkeypatch.setattr("importlib.util.find_spec", find_spec)


def configure(monkeypatch: pytest.MonkeyPatch, libdir: str | None) -> None:
    """Let the running Python have been built with this LIBDIR."""
    monkeypatch.setattr(wheels, "sysconfig", SimpleNamespace(get_config_var={"LIBDIR": libdir}.get))


def starts(program: Path, libraries: str) -> bool:
    """Whether the dynamic linker finds everything that a program needs."""
    answer = subprocess.run(
        ["ldd", str(program)],
        env=dict(os.environ) | {"LD_LIBRARY_PATH": libraries},
        capture_output=True,
        text=True,
        check=True,
    )
    return "not found" not in answer.stdout


def test_the_server_and_its_python_backend_find_their_libraries(tmp_path: Path) -> None:
    backends = wheels.backend_folder(tmp_path)
    libraries = f"{wheels.libpython()}:{wheels.triton_libraries()}"
    assert starts(wheels.embedded_triton() / "bin" / "tritonserver", libraries)
    assert starts(backends / "python" / "triton_python_backend_stub", libraries)


def test_the_backend_folder_has_the_stub_of_the_running_python(tmp_path: Path) -> None:
    python = wheels.backend_folder(tmp_path) / "python"
    stub = (python / "triton_python_backend_stub").resolve()
    assert stub.parent.name == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert (python / "libtriton_python.so").resolve().is_file()
    assert (python / "triton_python_backend_utils.py").resolve().is_file()


def test_a_stub_that_another_user_owns_is_started_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Triton's Python backend makes it executable where it is not, and its owner alone can."""
    wheel = tmp_path / "wheel"
    stub = wheel / "python_backend_stubs" / wheels.PYTHON / "triton_python_backend_stub"
    stub.parent.mkdir(parents=True)
    stub.write_bytes(b"a program")
    stub.chmod(0o644)
    (wheel / "backends" / "python").mkdir(parents=True)
    monkeypatch.setattr(wheels, "embedded_triton", lambda: wheel)

    own = wheels.backend_folder(tmp_path / "server") / "python" / stub.name

    assert os.access(own, os.X_OK)
    assert own.read_bytes() == stub.read_bytes()
    assert stub.stat().st_mode & 0o777 == 0o644


def test_a_stub_that_this_user_may_not_use_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As the backend leaves one that was not executable to all but its owner: of mode 0100."""
    stub = wheels.embedded_triton() / "python_backend_stubs" / wheels.PYTHON / "triton_python_backend_stub"

    def refuse(*_paths: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(stub))

    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(shutil, "copyfile", refuse)

    with pytest.raises(SetupError, match="may neither start nor read") as caught:
        wheels.backend_folder(tmp_path)
    assert f"chmod a+rx {stub}" in str(caught.value)


def test_the_load_generator_finds_its_libraries() -> None:
    assert starts(wheels.perf_analyzer(), wheels.perf_analyzer_libraries())


def test_the_load_generator_is_taken_from_path_where_it_is_not_beside_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bin" / "perf_analyzer"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    monkeypatch.setenv("PATH", str(program.parent))
    assert wheels.perf_analyzer() == program


def test_a_missing_load_generator_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        InputError, match=r"perf_analyzer, which is not installed\n.*\n.*tritonclient\[all\]==2\.51\.0"
    ):
        wheels.perf_analyzer()


def test_a_missing_libpython_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    configure(monkeypatch, str(tmp_path))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    with pytest.raises(
        InputError,
        match=rf"needs libpython3\.12\.so\.1\.0, .*\n.*{tmp_path}\n.*apt-get install libpython3\.12 ",
    ):
        wheels.libpython("3.12", [str(tmp_path)])


def test_libpython_is_found_on_the_library_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    configure(monkeypatch, None)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere::{tmp_path}")
    (tmp_path / f"libpython{wheels.PYTHON}.so.1.0").touch()
    assert wheels.libpython(system=()) == tmp_path


def test_the_interpreter_s_own_libpython_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir()
        (folder / f"libpython{wheels.PYTHON}.so.1.0").touch()
    configure(monkeypatch, str(own))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(other))
    assert wheels.libpython() == own


def test_a_python_without_a_stub_is_told_which_have_one(
    tmp_path: Path,
) -> None:
    with pytest.raises(
        InputError, match=r"no Python-backend stub for Python 3\.99\n.*\n.*use Python 3\.11 or 3\.12"
    ):
        wheels.backend_folder(tmp_path, "3.99")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_triton_is_named_with_its_package(without_packages: None) -> None:
    with pytest.raises(InputError, match=r"needs the wheel nvidia-pytriton\n.*nvidia-pytriton==0\.7\.0"):
        wheels.embedded_triton()


def test_libraries_that_are_not_there_are_left_to_the_system(
    without_packages: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/own")
    assert wheels.perf_analyzer_libraries() == "/opt/own"


def test_the_link_to_a_library_is_made_anew_over_what_a_killed_process_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for _anew in range(2):
        assert starts(wheels.perf_analyzer(), wheels.perf_analyzer_libraries())
        folder = private.user_folder() / "lib"
        (folder / f".link-{os.getpid()}").symlink_to("half-made")
        (folder / "libb64.so.0d").unlink()
        (folder / "libb64.so.0d").symlink_to("gone")


@pytest.mark.parametrize("name", ["", "lib"])
@pytest.mark.parametrize("swap", ["link", "mode", "owner"])
def test_a_folder_for_libraries_that_others_may_write_to_is_refused_for_each_run(
    swap: str, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert str(tmp_path) in wheels.perf_analyzer_libraries()
    folder = private.user_folder() / name
    if swap == "link":
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
    elif swap == "mode":
        folder.chmod(0o777)
    else:
        theirs(folder)
    before = link_in(tmp_path)
    with pytest.raises(SetupError, match=r"what has to be of this user alone .*\n.*\n.*TMPDIR"):
        wheels.perf_analyzer_libraries()
    assert link_in(tmp_path) == before, "nothing was written"


def link_in(folder: Path) -> list[tuple[Path, int]]:
    """The links to the library, by the kernel's numbers for them."""
    return [(path, path.lstat().st_ino) for path in folder.rglob("libb64.so.0d")]
