"""What inferences cost at the price of the machine."""

from dataclasses import dataclass
from typing import Literal

from reports.record.schema import Load
from reports.words.rightness import main_score
from reports.words.shown import Shown


@dataclass(frozen=True)
class Cost:
    """The price of a million inferences, in the currency of Record.price_per_hour."""

    per_million: float
    of: Literal["correct inferences", "inferences"]
    """correct inferences: wrong ones are paid for by the right ones; inferences: right and wrong ones alike."""


def cost(record: Shown, load: Load) -> Cost | None:
    """What a million inferences cost at a load point; None without a price.

    The share of correct inferences is the served score of the first metric. Where that is an error (lower is
    better) or was not measured, there is no such share. The price is per hour, so a case's fastest point is its
    cheapest.
    """
    if record.price_per_hour is None or not load.throughput_per_s.value:
        return None
    per_million = record.price_per_hour / 3600 / load.throughput_per_s.value * 1e6
    score = main_score(record)
    if score is None or score.better != "higher" or score.served <= 0:
        return Cost(per_million, "inferences")
    return Cost(per_million / score.served, "correct inferences")
