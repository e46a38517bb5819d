"""The links and GPU code of PyPI's GPU packages, and the versions that pyproject.toml's extras admit."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.helpers import project_file

TABLE: dict[str, dict[str, dict[str, Any]]] = json.loads(Path(__file__).with_suffix(".json").read_text())
"""By distribution and version."""
SETS = {"gpu": (13, "trt"), "gpu-cuda12": (12, "trt-cuda12")}
"""The extras for a GPU: the major version of CUDA of each, and the extra that adds TensorRT to it."""


def requirements(extra: str) -> list[Requirement]:
    """The requirements of an extra and of every environment."""
    project = project_file()["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["server"], *extras["models"], *extras[extra]]
    return [Requirement(text) for text in lines]


def admitted(extra: str, distribution: str) -> dict[str, Mapping[str, Any]]:
    """The table's versions that an environment with an extra may get; PyPI has none with a local part
    (+cu126), so only an extra that names one gets it."""
    specifiers = [entry.specifier for entry in requirements(extra) if entry.name == distribution]
    is_local = any("+" in str(entry) for entry in specifiers)
    return {
        version: facts
        for version, facts in TABLE[distribution].items()
        if all(version in entry for entry in specifiers) and ("+" in version) == is_local
    }


def runs_on(facts: Mapping[str, Any], capability: tuple[int, int]) -> bool:
    """Whether a version has code for a GPU: machine code of its major compute capability, or earlier PTX."""
    major, minor = capability
    architecture = 10 * major + minor
    return any(built_for <= architecture for built_for in facts["sources"]) or any(
        built_for // 10 == major and built_for <= architecture for built_for in facts["binaries"]
    )


def wheel_from_pypi(requirement: str, folder: Path, *options: str) -> Path:
    """A wheel, downloaded into a folder of its own; skips the test if PyPI is out of reach."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command = [*pip, *options, "--dest", str(folder / "wheel"), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        pytest.skip(f"needs PyPI: {(done.stderr.strip().splitlines() or ['pip says nothing'])[-1]}")
    (wheel,) = (folder / "wheel").glob("*.whl")
    return wheel


def unpack_from_pypi(requirement: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        shutil.unpack_archive(wheel_from_pypi(requirement, Path(temporary)), folder, "zip")
