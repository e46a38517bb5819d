"""Python and packages: missing, wrong and duplicate ones are problems."""

from pathlib import Path

import pytest

from fixtures.doctor import packages
from fixtures.doctor.__main__ import looked_at
from fixtures.errors import InputError
from fixtures.serve import wheels


@pytest.mark.parametrize(
    ("version", "processor", "state"),
    [
        ((3, 11, 0), "x86_64", "ok"),
        ((3, 12, 9), "x86_64", "ok"),
        ((3, 10, 12), "x86_64", "ok"),
        ((3, 9, 18), "x86_64", "problem"),
        ((3, 13, 0), "x86_64", "problem"),
        ((3, 11, 0), "aarch64", "problem"),
    ],
)
def test_unsupported_python_is_a_problem(version: tuple[int, ...], processor: str, state: str) -> None:
    assert packages.python(version, processor).state == state


def test_missing_libpython_is_a_problem_with_its_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_arguments: object) -> Path:
        raise InputError("libpython3.11.so.1.0 is missing", fix="apt-get install libpython3.11")

    monkeypatch.setattr(wheels, "libpython", missing)
    found = looked_at(lambda: packages.python((3, 11, 7), "x86_64"))

    assert (found.state, found.fix) == ("problem", "apt-get install libpython3.11")


@pytest.mark.parametrize(
    ("installed", "cuda", "extra"),
    [
        ({"onnxruntime": "1.31.1"}, None, "cpu"),
        ({"onnxruntime-gpu": "1.28.0"}, 13, "gpu"),
        ({"onnxruntime-gpu": "1.26.0"}, 12, "gpu-cuda12"),
    ],
)
def test_extra_follows_onnx_runtime_cuda(
    installed: dict[str, str], cuda: int | None, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "version_of", installed.get)
    monkeypatch.setattr(packages, "cuda_of_onnx_runtime", lambda: cuda)

    assert packages.requirements() == packages.requirements(extra=extra)


@pytest.mark.parametrize(
    ("installed", "state", "named"),
    [
        ({"torch": "2.13.1", "numpy": "1.26.4"}, "ok", ""),
        ({"torch": "2.13.1", "numpy": "2.0.0"}, "problem", "numpy 2.0.0"),
        ({"numpy": "1.26.4"}, "problem", "torch"),
        ({}, "problem", ""),
        (
            {"torch": "2.13.1", "numpy": "1.26.4", "onnxruntime": "1", "onnxruntime-gpu": "1"},
            "problem",
            "onnxruntime-gpu",
        ),
    ],
)
def test_missing_wrong_or_duplicate_package_is_named(
    installed: dict[str, str], state: str, named: str
) -> None:
    found = packages.packages(["torch~=2.13.0", "numpy<2"], installed.get)

    assert found.state == state
    assert named in found.found
