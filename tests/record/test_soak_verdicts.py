"""What a soak as a whole has shown, by what was found of each thing that it watched."""

from collections.abc import Sequence
from typing import Literal

import pytest
from msgspec import structs

from reports.record.schema import Verdict, soak_verdict
from tests.soak.made_up import CLEAN, soak

Found = tuple[Literal["request", "loading"], Verdict]


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([("request", "passed"), ("request", "passed"), ("loading", "passed")], "passed"),
        ([("request", "passed"), ("request", "failed")], "failed"),
        ([("request", "not shown"), ("request", "failed")], "failed"),
        ([("request", "passed"), ("loading", "failed")], "failed"),
        ([("request", "passed"), ("request", "not shown")], "not shown"),
        ([("request", "not shown"), ("loading", "passed")], "not shown"),
        ([("request", "passed"), ("loading", "not shown")], "passed"),
        ([("loading", "passed")], "not shown"),
    ],
)
def test_a_soak_leaks_where_anything_does_and_passes_where_all_that_requests_use_is_shown_not_to(
    found: Sequence[Found], verdict: Verdict
) -> None:
    growth = [structs.replace(CLEAN, per=per, verdict=one) for per, one in found]

    assert soak_verdict(soak(*growth)) == verdict
