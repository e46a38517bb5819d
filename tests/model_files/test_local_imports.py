"""Code that a model file imports from its folder is part of the build."""

import dataclasses
from pathlib import Path

import pytest

from fixtures.build.repository import content_of
from fixtures.model_files.local_imports import code_beside
from tests import toy
from tests.conftest import DEPLOYMENT

SOURCES = {
    "mine.py": "import numpy\nimport plain\nfrom folder import inside\n\ndef late():\n    import used_late\n"
    "try:\n    pass\nexcept ImportError:\n    import in_a_handler\n"
    "class Kept:\n    match 1:\n        case 1:\n            import in_a_case\n",
    "plain.py": "from . import relative\nimport deep.er.still\n",
    "relative.py": "import mine\n",
    "used_late.py": "",
    "in_a_handler.py": "",
    "in_a_case.py": "",
    "folder/inside.py": "",
    "deep/__init__.py": "",
    "deep/er/still.py": "from ..beside import word\n",
    "deep/beside.py": "",
    "not_imported.py": "",
    "numpy_notes.py": "",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, source in SOURCES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    return tmp_path


def test_code_beside_file_is_only_what_it_imports(folder: Path) -> None:
    found = {str(path.relative_to(folder)) for path in code_beside(folder / "mine.py")}

    assert found == set(SOURCES) - {"mine.py", "not_imported.py", "numpy_notes.py"}


@pytest.mark.parametrize(
    ("name", "is_built_anew"),
    [
        ("mine.py", True),
        ("plain.py", True),
        ("used_late.py", True),
        ("folder/inside.py", True),
        ("deep/beside.py", True),
        ("not_imported.py", False),
    ],
)
def test_imported_code_changes_the_build(folder: Path, name: str, is_built_anew: bool) -> None:
    plain = toy.case(toy.model(source=folder / "mine.py"))
    case = dataclasses.replace(plain, format=dataclasses.replace(plain.format, runtime="onnx.py"))
    before = content_of(case, toy.weights().digest, DEPLOYMENT)

    (folder / name).write_text(SOURCES[name] + "# other\n")

    assert (content_of(case, toy.weights().digest, DEPLOYMENT) != before) is is_built_anew
