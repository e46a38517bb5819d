"""The quantities that a trend follows: how each is written, how much it is expected to vary, and what counts as a step."""

from collections.abc import Mapping
from dataclasses import dataclass

from reports.record.quantities import ERROR, GROWTH, LATENCY, RATIO, SCORE, THROUGHPUT, Quantity
from reports.record.schema import LEAST_LEAK


@dataclass(frozen=True)
class FollowedQuantity:
    """A quantity that is followed."""

    name: str
    quantity: Quantity
    usual: float
    """The spread from run to run that is expected before anything is known; of the logarithm, for a score that is a
    fraction in samples, and for what grows in its own unit."""
    is_relative: bool
    """Whether changes are fractions of the value, so that logarithms are looked at."""
    moves_with_machine: bool
    """Whether it changes when the whole machine is slower for a time."""
    least: float = 0.0
    """A change of less is no step, however sure it is; in the quantity's own unit."""


#: Speeds of one build vary by 1 to 3 % from run to run on one machine, tails by more. A score repeats but for samples
#: that are near ties, an error but for its last digits: one model's formats agree to a tenth of a percent
#: (`reports/readme`, fastpitch-micro). What a server without a leak uses grows by a few bytes a request, and now and then by
#: what an allocator takes; less than `fixtures.soak.growth` calls a leak is no step, as no run fails for it either.
FOLLOWED: Mapping[str, FollowedQuantity] = {
    "throughput_per_s": FollowedQuantity("throughput", THROUGHPUT, 0.02, True, True),
    "latency_p99_ms": FollowedQuantity("p99 latency", LATENCY, 0.05, True, True),
    "in_process_ratio": FollowedQuantity("served / in process", RATIO, 0.02, True, False),
    "score": FollowedQuantity("accuracy", SCORE, 0.5, False, False),
    "error": FollowedQuantity("accuracy", ERROR, 0.001, True, False),
    **{
        f"growth_{unit}_per_{per}": FollowedQuantity(
            f"growth by {per}",
            GROWTH[unit, per],
            usual=least / 4,
            is_relative=False,
            moves_with_machine=False,
            least=least,
        )
        for (unit, per), least in LEAST_LEAK.items()
    },
}
