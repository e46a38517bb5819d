"""A soak is at the heaviest load that the options ask for, for the time of --soak, and then of reloads."""

from typing import Any

import pytest

from tests.build.conversions import UP_TO_32
from tests.run.conftest import RunOf
from tests.run.stand_in_case import holds_machine_alone, prepare
from tritonproof.base.errors import NotAvailableError
from tritonproof.measure.passes import LoadJob
from tritonproof.measure.soak import SoakedPoint
from tritonproof.measure.usage import ServerWatch
from tritonproof.record.schema import LoadPoint
from tritonproof.run import soaking


@pytest.mark.parametrize(
    ("options", "point"),
    [
        ({}, LoadPoint("online", 1, 16)),
        ({"concurrencies": "4,64", "batches": "1,8"}, LoadPoint("online", 1, 64)),
        ({"request_rates": "50,100", "batches": "8"}, LoadPoint("online", 1, 0, 100.0, "poisson")),
        ({"batches": "1,8,64"}, LoadPoint("offline", 8, 1)),  # the model takes batches up to 32
    ],
)
def test_soak_is_at_the_heaviest_load(
    options: Any, point: LoadPoint, run_of: RunOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keep_under_load(job: LoadJob, seconds: float, *_read: Any, **_more: Any) -> SoakedPoint:
        assert holds_machine_alone()
        assert (job.point, job.request_s > 0) == (point, True)
        return SoakedPoint([{}], [9.0], [], [], 0, seconds)

    def reload_repeatedly(reload: Any, _seconds: float, _read: Any, most: int, **_more: Any) -> Any:
        reload()
        return [{}] * most

    monkeypatch.setattr(soaking, "watch", lambda _server: ServerWatch(1, 1, not_watched=("open files",)))
    monkeypatch.setattr(soaking, "keep_under_load", keep_under_load)
    monkeypatch.setattr(soaking, "reload_repeatedly", reload_repeatedly)
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    as_up_to_32 = prepare(deployment=UP_TO_32)
    found = soaking.soak(run_of(as_up_to_32, soak="10m", **options))
    assert found.point == point
    assert (found.duration_s, found.not_watched[0]) == (600.0, "open files")
    assert found.loadings == 2 * 16 * soaking.ARENAS_OF_A_CPU, "each of malloc's heaps twice"
    with pytest.raises(NotAvailableError, match="not 64"):
        soaking.soak(run_of(as_up_to_32, soak="10m", batches="64"))
