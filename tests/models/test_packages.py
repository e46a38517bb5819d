"""A build's digest covers the version of every package that makes its network."""

import ast
import sys
from pathlib import Path

import pytest

from fixtures.build.repository import content_of
from fixtures.cases import matrix_of
from fixtures.formats import all_formats
from fixtures.host import machine
from fixtures.host.targets import CPU
from fixtures.models import all_models
from fixtures.spec import Case, Model


def imported(file: Path) -> set[str]:
    """The packages that a file imports, by the first parts of their names."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    of_import = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    of_from = [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
    names = {name.partition(".")[0] for name in [*of_import, *of_from]}
    # Packages for inputs, labels or sizes make no part of a network.
    return names - sys.stdlib_module_names - {"fixtures", "reports", "numpy", "msgspec", "sklearn", "PIL"}


@pytest.mark.parametrize("model", all_models(), ids=lambda value: value.name)
def test_package_versions_are_part_of_the_build(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "version_of", lambda _name: "1.0")
    network = model.source.with_name("network.py")
    needed = imported(network if network.is_file() else model.source)

    assert needed
    for format_ in all_formats():
        if model.framework in format_.frameworks and not format_.as_found:
            case = Case(CPU, model, format_, None, "fp32")
            assert needed <= content_of(case, "digest", matrix_of(model, CPU).deployment)["versions"].keys()
