"""Python and the packages: what is missing or out of range is named with its cure."""

from pathlib import Path

import pytest

from fixtures.doctor import packages
from fixtures.errors import InputError
from fixtures.serve import wheels
from tests.doctor.findings import states


@pytest.mark.parametrize(
    ("version", "processor", "state"),
    [
        ((3, 11, 0), "x86_64", "ok"),
        ((3, 12, 9), "x86_64", "ok"),
        ((3, 10, 1), "x86_64", "problem"),
        ((3, 13, 0), "x86_64", "problem"),
        ((3, 11, 0), "aarch64", "problem"),
    ],
)
def test_a_python_that_triton_cannot_use_is_a_problem(
    version: tuple[int, ...], processor: str, state: str
) -> None:
    assert states(packages.python(version, processor)) == [state]


def test_a_missing_libpython_is_a_problem_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_arguments: object) -> Path:
        raise InputError("libpython3.11.so.1.0 is missing", cure="apt-get install libpython3.11")

    assert states(packages.python((3, 11, 7), "x86_64")) == ["ok"]
    monkeypatch.setattr(wheels, "libpython", missing)
    found = packages.python((3, 11, 7), "x86_64")

    assert states(found) == ["problem"]
    assert (found.found, found.cure) == ("libpython3.11.so.1.0 is missing", "apt-get install libpython3.11")


def test_the_requirements_are_those_of_the_project_and_of_the_extra_in_use(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(
        '[project]\ndependencies = ["a>=1"]\n[project.optional-dependencies]\ncpu = ["b"]\ngpu = ["c"]\n'
    )

    assert packages.requirements(file, "cpu") == ["a>=1", "b"]
    assert packages.requirements(file, "gpu") == ["a>=1", "c"]


@pytest.mark.parametrize(
    ("installed", "state", "text"),
    [
        ({"torch": "2.13.1", "numpy": "1.26.4"}, "ok", "all 2"),
        ({"torch": "2.13.1+cpu", "numpy": "1.26.4"}, "ok", "all 2"),
        ({"torch": "2.13.1", "numpy": "2.0.0"}, "problem", "numpy 2.0.0 is installed, and <2 is needed"),
        ({"numpy": "1.26.4"}, "problem", "missing: torch"),
        ({}, "problem", "not installed"),
    ],
)
def test_a_package_that_is_missing_or_out_of_range_is_named(
    installed: dict[str, str], state: str, text: str
) -> None:
    found = packages.packages(["torch~=2.13.0", "numpy<2"], installed.get)

    assert states(found) == [state]
    assert text in found.found


@pytest.mark.parametrize(
    ("installed", "cuda", "extra"),
    [
        ({"onnxruntime": "1.31.1"}, None, "cpu"),
        ({"onnxruntime-gpu": "1.28.0"}, 13, "gpu"),
        ({"onnxruntime-gpu": "1.26.0"}, 12, "gpu-cuda12"),
    ],
)
def test_the_extra_in_use_is_told_by_the_cuda_of_onnx_runtime(
    installed: dict[str, str], cuda: int | None, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "version_of", installed.get)
    monkeypatch.setattr(packages, "cuda_of_onnx_runtime", lambda: cuda)

    assert packages.requirements() == packages.requirements(extra=extra)


def test_two_builds_of_one_library_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_pip_check", list)
    one, both = {"onnxruntime": "1"}, {"onnxruntime": "1", "onnxruntime-gpu": "1"}

    assert states(packages.conflicts(one.get), packages.conflicts(both.get)) == ["ok", "problem"]

    tensorrt = {"tensorrt-cu12": "10.16.1.11", "tensorrt-cu13": "10.16.1.11"}
    assert states(packages.conflicts(tensorrt.get)) == ["problem"]

    monkeypatch.setattr(packages, "_pip_check", lambda: ["a 1 requires b>2, but you have b 1"])
    assert states(packages.conflicts(one.get)) == ["warning"]
