"""What a library needs is what the dynamic linker's own tool says; which GPUs it has code for decides what runs."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from fixtures.host.shared_library import GpuCode, gpu_code, major_version, needed_libraries
from tests.host.libraries import write_library


def test_the_libraries_that_one_needs_are_those_that_binutils_name() -> None:
    readelf = shutil.which("readelf")
    if readelf is None:
        pytest.skip("needs readelf: apt-get install binutils")
    libraries = sorted(Path(np.__file__).parent.rglob("*.so"))[:5]
    assert libraries
    for library in libraries:
        told = subprocess.run(
            [readelf, "-d", str(library)], capture_output=True, text=True, check=True
        ).stdout
        assert list(needed_libraries(library)) == re.findall(r"\(NEEDED\).*\[(.+)\]", told)


def test_a_library_s_major_version_is_told_by_the_name_that_is_needed(tmp_path: Path) -> None:
    needed = needed_libraries(
        write_library(tmp_path / "a.so", ["libcudart.so.13", "libnvinfer.so.10", "libc.so.6"])
    )

    assert major_version("libcudart", needed) == 13
    assert major_version("libnvinfer", needed) == 10
    assert major_version("libcuda", needed) is None
    assert needed_libraries(write_library(tmp_path / "b.so")) == ()


@pytest.mark.parametrize(
    "content", [b"", b"not a library", b"\x7fELF\x02\x01\x01", b"\x7fELF\x01\x01\x01" + bytes(60)]
)
def test_what_is_no_library_is_an_error_that_names_the_file(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "a.so"
    file.write_bytes(content)

    with pytest.raises(ValueError, match=r"a\.so|empty file"):
        needed_libraries(file)


def test_code_is_found_with_its_architectures(tmp_path: Path) -> None:
    assert gpu_code(write_library(tmp_path / "a.so", (), [70, 80], [90])) == GpuCode(
        frozenset({70, 80}), frozenset({90})
    )
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
    ],
)
def test_machine_code_runs_on_its_own_major_capability_and_ptx_on_later_ones(
    capability: tuple[int, int], runs: bool
) -> None:
    assert GpuCode(frozenset({75, 80}), frozenset({120})).runs_on(capability) == runs
