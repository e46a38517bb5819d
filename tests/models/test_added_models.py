"""Models from elsewhere are in the suite for as long as a run wants them."""

import dataclasses
import sys
from pathlib import Path

import pytest

from fixtures import models
from fixtures.errors import InputError
from fixtures.models import add_models, all_models

ONE = dataclasses.replace(all_models()[0], name="somebody-elses")


def test_an_added_model_is_there_until_it_is_removed() -> None:
    remove = add_models([ONE], "--models somewhere.py")
    try:
        assert all_models()[-1] is ONE
    finally:
        remove()

    assert ONE not in all_models()


def test_a_name_that_is_taken_is_refused_and_nothing_is_added() -> None:
    before = all_models()

    with pytest.raises(InputError, match=before[0].name) as refused:
        add_models([ONE, before[0]], "--models somewhere.py")

    assert "--models somewhere.py" in str(refused.value)
    assert all_models() == before


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("NO_MODELS = ()", "has no MODELS"),
        ("\nimport no_such_package_anywhere", "no_such_package_anywhere"),
        ("MODELS = (5,)", "holds a int"),
        ("def (", "cannot be imported"),
    ],
)
def test_a_file_of_the_suites_own_that_defines_no_model_is_named_with_the_cure(
    content: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "somebodys.py").write_text(content)
    monkeypatch.setattr(models, "__path__", [str(tmp_path)])
    monkeypatch.setattr(models, "__file__", str(tmp_path / "__init__.py"))
    models._own_models.cache_clear()
    try:
        with pytest.raises(InputError) as refused:
            all_models()
    finally:
        sys.modules.pop("fixtures.models.somebodys", None)
        models._own_models.cache_clear()
    assert said in str(refused.value)
    assert str(tmp_path / "somebodys.py") in str(refused.value)
    assert refused.value.cure
