"""A load point beside another build that was measured in turns with it."""

from dataclasses import dataclass
from typing import Literal

from reports.record.domains import Counted, Share
from reports.record.schema._estimates import Estimate, SpeedWord


@dataclass(frozen=True)
class Comparison:
    """The speed of a point beside that of another build."""

    reference: str
    """What it was compared with: a commit, or a folder."""
    method: Literal["interleaved", "records"]
    """interleaved: both were served and measured in turns; records: the other was measured at another time."""
    ratio: Estimate
    """Speed over the reference's: throughput, or at a given request rate the inverse of the mean latency."""
    allowed_slowdown: Share
    """The slow-down that passes, as a fraction: 0.03 lets the ratio be 0.97."""
    verdict: SpeedWord
    """slower: the whole interval lies below what is allowed, and that is shown among all points of the run; not slower:
    the whole lies above; not shown: neither."""
    passes: int
    """How many passes of each build the ratio is of."""
    seconds_to_settle: float | None
    """Estimated measuring time, beyond what was spent, until the verdict is settled; None where it is."""
    chance: Share
    """The chance of so slow a build, or a slower one, where it is just as slow as allowed, over all looks at this point."""
    points: Counted
    """How many load points the run compared: `slower` is said so that any of them is a false alarm in at most one of a
    hundred runs."""
