"""Does a model's warm-up make the first request after a load as fast as the next ones?"""

from collections.abc import Callable

from tritonproof.base.errors import NotAvailableError
from tritonproof.record.schema import WarmUp
from tritonproof.run.case_run import CaseRun
from tritonproof.run.proving import check_may_reload
from tritonproof.user_models.model_from_config import warmup_batch

_LOADINGS = 3
"""Loadings that must each make the first request slow. If it were like the others, it would be the slowest of
21 by chance three times in one of 9,000 runs, whatever else the machine does."""


def measure_warm_up(run: CaseRun) -> WarmUp:
    """Compare the first request after a load with those after it, for a model of --repository."""
    as_is = run.as_is_source
    assert as_is is not None
    check_may_reload(run)
    batch = warmup_batch(as_is.loaded.config, run.samples.read([0]))
    if batch is None:
        what = f"the model_warmup of {run.case.model.name} is of another shape than the requests"
        raise NotAvailableError(what, where=run.case, fix="give samples of that shape: --samples")
    run.loader.load("online")
    run.say("load the model again", "time its first request")
    with run.hold_machine(exclusive=True):
        return compare_requests(run.loader.reload, lambda: run.loader.timed_answer(batch)[0], batch)


def compare_requests(load: Callable[[], object], ask: Callable[[], float], batch: int) -> WarmUp:
    """Load the model and ask it again and again; the slowest of twenty later requests is the measure of the
    first. If that is slow, load it once more: the machine may be the cause. `ask` returns seconds."""
    first_ms: list[float] = []
    later_ms: list[float] = []
    is_slow = True
    while is_slow and len(first_ms) < _LOADINGS:
        load()
        first_ms.append(round(1e3 * ask(), 3))
        later_ms.append(round(1e3 * max(ask() for _ in range(20)), 3))
        is_slow = first_ms[-1] > 2 * later_ms[-1]  # one that loads kernels takes far longer
    return WarmUp(batch, tuple(first_ms), tuple(later_ms), passed=not is_slow)
