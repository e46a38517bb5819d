"""Collection needs only the few packages of a fleet controller and of `tox run -e prove`."""

import importlib.metadata
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.helpers import ROOT, project_file

WITHOUT_OTHERS = """
import importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in {refused!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
import pytest
sys.exit(pytest.main(["benchmarks", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "pytest_benchmark.plugin"]))
"""


def packages_of(group: str) -> set[str]:
    """The distributions of the fleet's environment, or of the one without a framework, and their installed
    dependencies."""
    tables = project_file()
    project = tables["project"]
    of_prove = [*project["dependencies"], *project["optional-dependencies"]["server"]]
    pending = list({"fleet": tables["dependency-groups"]["fleet"], "prove": of_prove}[group])
    names: set[str] = set()
    while pending:
        requirement = Requirement(pending.pop())
        name = canonicalize_name(requirement.name)
        if name in names or not (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            continue
        names.add(name)
        try:
            pending += importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # Ray
    return names


@pytest.mark.parametrize("group", ["fleet", "prove"])
def test_tests_are_collected_with_environment_packages_alone(group: str) -> None:
    allowed = packages_of(group) | {"pip", "setuptools"}
    modules = importlib.metadata.packages_distributions()
    refused = {
        name
        for name, owners in modules.items()
        if not {canonicalize_name(owner) for owner in owners} & allowed
    }
    # In the environment itself there is nothing to refuse: collecting there is the proof.
    assert {name for name in ("torch", "onnx") if find_spec(name) is not None} <= refused

    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_OTHERS.format(refused=refused)],
        cwd=ROOT,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert "test_conversion[cpu-resnet50-micro-onnx-fp32]" in result.stdout
