"""TensorRT is found under each of its package names."""

import pytest

from tritonproof.frameworks import tensorrt
from tritonproof.host import machine

A100, V100 = (8, 0), (7, 0)


def install(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    """A machine with these distributions, and an ONNX Runtime linked to TensorRT 10."""
    installed = {name.replace("_", "-"): version for name, version in versions.items()}
    monkeypatch.setattr(machine, "version_of", installed.get)
    monkeypatch.setattr(tensorrt, "tensorrt_of_onnx_runtime", lambda: 10)


@pytest.mark.parametrize(
    ("versions", "cuda", "fits", "fits_onnx"),
    [
        ({"tensorrt": "10.16.1.11"}, None, True, True),
        ({"tensorrt_cu12": "10.16.1.11"}, 12, True, True),
        ({"tensorrt": "10.16.1.11", "tensorrt_cu13": "10.16.1.11"}, 13, True, True),
        ({"tensorrt_cu13": "11.4.0.106"}, 13, True, False),
        ({}, None, False, False),
    ],
)
def test_tensorrt_is_found_under_each_package_name(
    versions: dict[str, str], cuda: int | None, fits: bool, fits_onnx: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, **versions)
    assert getattr(tensorrt.installed(), "cuda", None) == cuda
    assert (tensorrt.why_missing(A100) is None) == fits
    assert (tensorrt.missing_for_onnx_runtime(A100) is None) == fits_onnx


@pytest.mark.parametrize(("version", "runs"), [("10.4.0", True), ("10.5.0", False), ("11.4.0.106", False)])
def test_volta_needs_tensorrt_before_10_5(version: str, runs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tensorrt_cu12=version)

    assert (tensorrt.why_missing(V100) is None) == runs
    assert tensorrt.missing_for_onnx_runtime(V100) is not None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.5.0", "10.5.0.18", True),
        ("10.7.0.post1", "10.7.0.23", True),
        ("10.16.1.11", "10.5.0.18", False),
        ("10.5.0.18", "10.5.0.26", False),
    ],
)
def test_version_matches_with_or_without_build_number(one: str, other: str, same: bool) -> None:
    assert tensorrt.is_same_version(one, other) == same
    assert tensorrt.is_same_version(other, one) == same
