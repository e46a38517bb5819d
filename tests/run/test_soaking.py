"""A soak is at the heaviest load that the options ask for, for the time of --soak, and then of reloads."""

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from tests import toy
from tests.build.conversions import UP_TO_32
from tests.helpers import settings
from tritonproof.base.errors import NotAvailableError
from tritonproof.measure.soak import SoakedPoint
from tritonproof.record.schema import LoadPoint
from tritonproof.run import measuring
from tritonproof.spec import DEFAULT_PROFILES

STAND_INS: dict[str, Any] = {
    "hold_jobs": lambda _run, points: contextlib.nullcontext([toy.job(*points)]),
    "timed_answer": lambda _prepared, _batch: (0.01, {}),
    "watch": lambda _server: SimpleNamespace(not_watched=("open files",)),
    "keep_under_load": lambda _job, seconds, _read, **_more: SoakedPoint([{}], [9.0], [], [], 0, seconds),
    "reload_repeatedly": lambda _reload, _seconds, _read, most, **_more: [{}] * most,
}


@pytest.mark.parametrize(
    ("given", "point"),
    [
        ({}, LoadPoint("online", 1, 16)),
        ({"concurrencies": "4,64", "batches": "1,8"}, LoadPoint("online", 1, 64)),
        ({"request_rates": "50,100", "batches": "8"}, LoadPoint("online", 1, 0, 100.0, "poisson")),
        ({"batches": "1,8,64"}, LoadPoint("offline", 8, 1)),  # the model takes batches up to 32
    ],
)
def test_soak_is_at_the_heaviest_load(given: Any, point: LoadPoint, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, stand_in in STAND_INS.items():
        monkeypatch.setattr(measuring, name, stand_in)
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    case = toy.case(toy.model(profiles=DEFAULT_PROFILES))
    run: Any = SimpleNamespace(case=case, deployment=UP_TO_32, prepared=None)
    run.settings, run.progress = settings(soak="10m", **given), SimpleNamespace(note=print)
    found = measuring.soak(run)
    assert found.point == point
    assert (found.duration_s, found.not_watched[0]) == (600.0, "open files")
    run.settings = settings(soak="10m", batches="64")
    with pytest.raises(NotAvailableError, match="not 64"):
        measuring.soak(run)
    assert found.loadings == 2 * 16 * measuring.ARENAS_OF_A_CPU, "each of malloc's heaps twice"
