"""Models from elsewhere are in the suite for as long as a run wants them."""

import dataclasses

import pytest

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
