"""A file in the folder of the suite's own models that defines none is named; tests/model_files has files from elsewhere."""

import sys
from pathlib import Path

import pytest

from fixtures import models
from fixtures.errors import InputError
from fixtures.models import all_models


@pytest.mark.parametrize(
    "content",
    ["NO_MODELS = ()", "\nimport no_such_package_anywhere", "MODELS = (5,)", "MODELS = ()", "def ("],
)
def test_a_file_of_the_suites_own_that_defines_no_model_is_named(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "somebodys.py").write_text(content)
    monkeypatch.setattr(models, "__path__", [str(tmp_path)])
    monkeypatch.setattr(models, "__file__", str(tmp_path / "__init__.py"))
    all_models.cache_clear()
    try:
        with pytest.raises(InputError, check=lambda e: e.where.startswith(str(tmp_path / "somebodys.py"))):
            all_models()
    finally:
        sys.modules.pop("fixtures.models.somebodys", None)
        all_models.cache_clear()
