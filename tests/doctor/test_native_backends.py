"""A native backend that is not whole is found before a model waits for it."""

import shutil
import sys
from pathlib import Path

import pytest

from fixtures.doctor.native_backends import native_backends
from fixtures.serve import backends, wheels
from fixtures.serve.choice import Choice
from tests.doctor.findings import states

PYTHON_BACKEND = "libtriton_python.so"


@pytest.fixture
def installed(tmp_path: Path) -> Choice:
    """A program with the wheel's Python backend beside it, in place, where it finds its libraries."""
    program = tmp_path / "bin" / "tritonserver"
    program.parent.mkdir()
    shutil.copyfile(Path(sys.executable).resolve(), program)
    program.chmod(0o755)
    wheels.backend_folder(tmp_path)
    return Choice("local", str(program))


def backend(choice: Choice, name: str) -> Path:
    """The folder of one of its backends."""
    return Path(choice.detail).parents[1] / "backends" / name


def moved(choice: Choice, name: str) -> None:
    """A backend of this name whose library is at another place than it looks for its own from."""
    backend(choice, name).mkdir()
    original = wheels.embedded_triton() / "backends" / "python" / PYTHON_BACKEND
    shutil.copyfile(original, backend(choice, name) / f"libtriton_{name}.so")


def found(choice: Choice, state: str) -> str:
    """What is said of the backends, which are in this state."""
    finding = native_backends(choice)
    assert finding is not None
    assert states(finding) == [state]
    return finding.found


def test_backends_that_find_their_libraries_are_listed(installed: Choice) -> None:
    assert "python in" in found(installed, "ok")
    assert native_backends(Choice("embedded")) is None


def test_a_server_without_backends_is_a_problem(installed: Choice) -> None:
    shutil.rmtree(backend(installed, "python"))
    assert "none in" in found(installed, "problem")


@pytest.mark.parametrize("name", ["onnxruntime", "pytorch"])
def test_a_folder_without_the_backend_s_library_is_a_problem(installed: Choice, name: str) -> None:
    backend(installed, name).mkdir()
    assert f"{name}/libtriton_{name}.so is missing" in found(installed, "problem")


def test_a_python_backend_without_its_stub_is_a_problem(installed: Choice) -> None:
    (backend(installed, "python") / "triton_python_backend_stub").unlink()
    assert "triton_python_backend_stub is missing" in found(installed, "problem")


def test_a_backend_that_lacks_a_library_is_a_problem_that_names_both(installed: Choice) -> None:
    moved(installed, "onnxruntime")
    text = found(installed, "problem")
    assert "onnxruntime does not find libarchive" in text
    assert "libtritonserver" not in text, "the server brings it"


def test_a_backend_finds_what_lies_beside_the_server(installed: Choice) -> None:
    """NVIDIA's image has its libraries in lib, beside bin and backends."""
    moved(installed, "onnxruntime")
    bundled = wheels.embedded_triton().parents[1] / "nvidia_pytriton.libs"
    (Path(installed.detail).parents[1] / "lib").symlink_to(bundled)
    assert "onnxruntime" in found(installed, "ok")


def test_a_backend_of_no_format_is_not_looked_at(installed: Choice) -> None:
    moved(installed, "fil")
    assert "fil, python in" in found(installed, "ok")


def test_a_script_may_set_where_libraries_are_found(installed: Choice) -> None:
    moved(installed, "onnxruntime")
    Path(installed.detail).write_text("#!/bin/sh\n")
    assert "is a script" in found(installed, "ok")


def test_a_stub_of_another_python_is_a_warning(installed: Choice) -> None:
    stub = backend(installed, "python") / "triton_python_backend_stub"
    stub.unlink()
    stub.symlink_to(wheels.embedded_triton() / "python_backend_stubs" / "3.10" / stub.name)
    assert "runs Python 3.10" in found(installed, "warning")


@pytest.mark.parametrize("is_script", [False, True])
def test_a_folder_that_the_python_backend_cannot_write_to_is_a_warning(
    installed: Choice, is_script: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_script:
        Path(installed.detail).write_text("#!/bin/sh\n")
    monkeypatch.setattr(backends, "PYTHON_ENVIRONMENTS", tmp_path / "closed")

    assert f"{tmp_path / 'closed'} is not writable" in found(installed, "warning")

    (backend(installed, "python") / "triton_python_backend_stub").parent.rename(tmp_path / "away")
    backend(installed, "onnxruntime").mkdir()
    (backend(installed, "onnxruntime") / "libtriton_onnxruntime.so").touch()
    assert "not writable" not in str(native_backends(installed)), "nothing here needs it"
