"""Linked versions and GPU architectures of shared libraries."""

from pathlib import Path

import pytest

from fixtures.host.shared_library import GpuCode, gpu_code, lacks_code, linked_version
from tests.host.libraries import write_library


def test_linked_version_is_major_version(tmp_path: Path) -> None:
    library = write_library(tmp_path / "a.so", ["libcudart.so.13", "libnvinfer.so.10.4", "libc.so.6"])
    assert linked_version(library, "libcudart") == 13
    assert linked_version(library, "libnvinfer") == 10
    assert linked_version(library, "libcuda") is None


def test_gpu_code_is_read_with_architectures(tmp_path: Path) -> None:
    found = gpu_code(write_library(tmp_path / "a.so", (), [70, 80], [90]))
    assert found == GpuCode(frozenset({70, 80}), frozenset({90}))
    assert gpu_code(write_library(tmp_path / "b.so")) is None


@pytest.mark.parametrize(
    ("capability", "runs"),
    [
        ((7, 0), False),
        ((7, 5), True),
        ((8, 0), True),
        ((8, 9), True),
        ((9, 0), False),
        ((12, 0), True),
        ((12, 1), True),
        (None, True),
    ],
)
def test_only_ptx_runs_on_later_major_capabilities(capability: tuple[int, int] | None, runs: bool) -> None:
    code = GpuCode(frozenset({75, 80}), frozenset({120}))
    assert (lacks_code("PyTorch", code, capability) is None) == runs
    assert lacks_code("PyTorch", None, capability) is None
