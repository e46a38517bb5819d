"""How each quantity is written everywhere: its unit, its digits and which way is better."""

import math
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from tritonproof.record.fields import Better, Estimate, Ratio

DigitsRule = Callable[[float, int], str]
"""Takes a value and a number of extra digits; returns a format specification of Python."""

NOTHING = "-"
"""The text in place of a missing value."""
NOT_SHOWN = "not shown"
WIDEST_RATIO = 1.5
"""The largest upper over lower bound of a ratio that is shown. A wider interval does not tell a gain of a
tenth from a loss of a tenth: 1.10 within a factor of 1.5 is 0.90 to 1.35."""
TOO_WIDE = f"{NOT_SHOWN} (its interval is wider than a factor of {WIDEST_RATIO:g})"
"""The text in place of a ratio that is not shown, in a sentence; NOT_SHOWN in a cell."""


def is_narrow(estimate: Estimate) -> bool:
    """Whether the interval is at most as wide as WIDEST_RATIO."""
    return not estimate.open_above and estimate.high <= WIDEST_RATIO * estimate.low


def is_shown(estimate: Estimate) -> bool:
    """Whether readers see the figure: a ratio only if its interval is narrow."""
    return is_narrow(estimate) or not isinstance(estimate, Ratio)


@dataclass(frozen=True)
class Quantity:
    """One kind of figure: its unit, its digits, and which way is better."""

    unit: str
    """Follows the figure in a sentence; empty for a pure number."""
    digits: DigitsRule
    """Gives the format of a value that is expressed in the unit."""
    better: Better | None = None
    """Which direction is better; None if neither is."""
    scale: float = 1.0
    """The factor from the value in a record to the unit: 100 for a fraction in percent."""
    signed: bool = False
    """Whether a positive figure is written with a plus."""

    def cell(self, value: float | None) -> str:
        """The figure for a column whose heading has the unit; `-` for None."""
        return NOTHING if value is None else self._written(value, self._format(value))

    def text(self, value: float, format_spec: str = "") -> str:
        """The figure for a sentence, with unit and thousands separators, by default in the usual format."""
        return f"{self._written(value, format_spec or self._format(value), ',')} {self.unit}".rstrip()

    def text_with_interval(self, estimate: Estimate, *apart_from: float, with_unit: bool = True) -> str:
        """`12.3 ms (11.9 to 12.8)`, or `12.3 ms (11.9 or more)`, with enough digits to tell the bounds from
        `apart_from`; TOO_WIDE if the estimate may not be shown. Without `with_unit`, for a column whose
        heading has the unit, the text has no thousands separators, and NOT_SHOWN replaces TOO_WIDE."""
        if not is_shown(estimate):
            return TOO_WIDE if with_unit else NOT_SHOWN
        bounds = (estimate.value, estimate.low, estimate.high)
        different = {estimate.low, estimate.high, *apart_from} if apart_from else set()
        format_spec = self._telling_format(estimate.value, different)
        value, low, high = (self._written(bound, format_spec, "," * with_unit) for bound in bounds)
        interval = f"({low} or more)" if estimate.open_above else f"({low} to {high})"
        return " ".join(filter(None, (value, self.unit * with_unit, interval)))

    def text_with_half_width(self, estimate: Estimate, *, with_unit: bool = True) -> str:
        """The figure ± half the width of its interval, as a share: `2,080.9 infer/s ± 5.1 %`, or for a column
        `2080.9 ± 5.1 %`; `± -` if the figure is zero."""
        half_width = (estimate.high - estimate.low) / 2
        share = HALF_WIDTH.text(half_width / estimate.value) if estimate.value else NOTHING
        return f"{self.text(estimate.value) if with_unit else self.cell(estimate.value)} ± {share}"

    def apart(self, first: float, second: float) -> tuple[str, str]:
        """Two values with their units, and with enough digits to tell them apart, if they differ."""
        for extra in range(9):  # a double has no more digits
            texts = [self.text(value, self._format(value, extra)) for value in (first, second)]
            if first == second or texts[0] != texts[1]:
                break
        return texts[0], texts[1]

    def _telling_format(self, value: float, different: Set[float]) -> str:
        """The format of `value`, with enough extra digits that the values in `different` look different."""
        for extra in range(9):  # a double has no more digits
            format_spec = self._format(value, extra)
            if len({self._written(number, format_spec) for number in different}) == len(different):
                return format_spec
        return self._format(value)

    def _format(self, value: float, extra: int = 0) -> str:
        return self.digits(abs(self.scale * value), extra)

    def _written(self, value: float, format_spec: str, thousands: str = "") -> str:
        scaled = self.scale * value
        if float(format(scaled, format_spec)) == 0:
            scaled = 0.0  # a value rounded to zero has no minus
        return format(scaled, f"{'+' if self.signed else ''}{thousands}{format_spec}")


def fixed(decimals: int) -> DigitsRule:
    """The same number of decimals for all values."""
    return lambda _value, extra: f".{decimals + extra}f"


def significant(digits: int) -> DigitsRule:
    """`digits` significant digits, without trailing zeros; whole numbers keep all of theirs."""
    return lambda value, extra: ".0f" if value >= 10 ** (digits + extra) - 0.5 else f".{digits + extra}g"


def by_size(*sizes: tuple[float, int], digits: int = 2) -> DigitsRule:
    """The decimals of the first of `sizes` that a value reaches; below all, `digits` significant ones."""

    def format_spec(value: float, extra: int) -> str:
        below_all = max(0, digits - 1 - math.floor(math.log10(value))) if value else 0
        decimals = next((decimals for least, decimals in sizes if value >= least), below_all)
        return f".{decimals + extra}f"

    return format_spec


def _hundredths(value: float, extra: int) -> str:
    """Two decimals, without a trailing zero: 98.25 and 98.0."""
    decimals = 2 + extra
    return f".{decimals - 1}f" if f"{value:.{decimals}f}".endswith("0") else f".{decimals}f"


_AS_GIVEN = significant(6)
"""For figures that a person typed, to which no digit is added."""

THROUGHPUT = Quantity("infer/s", by_size((10, 1), digits=3), "higher")
"""One decimal, as in NVIDIA's tables."""
LATENCY = Quantity("ms", fixed(3), "lower")
"""To the microsecond, the resolution of the load generator's clock."""
LATENCY_BUDGET = Quantity("ms", _AS_GIVEN)
REQUEST_RATE = Quantity("/s", _AS_GIVEN)
RATIO = Quantity("", by_size((100, 0), (10, 1), (0.1, 2)), "higher")
"""One speed over another, or one latency over another."""
SHARE = Quantity("%", by_size((10, 0)), scale=100)
"""A measured fraction, such as of the peak, of the time, or of the speed in process."""
GIVEN_SHARE = Quantity("%", _AS_GIVEN, scale=100)
"""A fraction that was chosen: a confidence, an allowed slow-down."""
CHANGE = Quantity("%", fixed(1), scale=100, signed=True)
"""A change as a fraction of the earlier value."""
HALF_WIDTH = Quantity("%", by_size((10, 0), (0, 1)), "lower", scale=100)
DURATION = Quantity("s", by_size((100, 0), (1, 1)), "lower")
SIZE = Quantity("MiB", by_size((100, 0), (1, 1)), "lower")
MEMORY = Quantity("MiB", by_size((100, 0), (0, 1)), "lower", scale=2**-20)
"""A size in bytes."""
WORK = Quantity("GFLOP", significant(3), scale=1e-9)
"""Operations of an inference; a multiplication and an addition count as two."""
WORK_RATE = Quantity("GFLOP/s", fixed(0), "higher", scale=1e-9)
INTEGER_WORK_RATE = Quantity("GOP/s", fixed(0), "higher", scale=1e-9)
GROWTH: Mapping[tuple[str, str], Quantity] = {
    ("bytes", "request"): Quantity("B a request", by_size((10, 0), (1, 1))),
    ("number", "request"): Quantity("in 1,000 requests", by_size((10, 0), (0.1, 1)), scale=1000),
    ("bytes", "loading"): Quantity("MiB a loading", by_size((10, 0), (0.1, 2)), scale=2**-20),
    ("number", "loading"): Quantity("a loading", by_size((10, 0), (0.1, 1))),
}
"""A server's growth, by the unit of the resource and by what it grows with: see `record.Growth`."""
ENERGY = Quantity("J", significant(4), "lower")
POWER = Quantity("W", fixed(1), "lower")
CLOCK = Quantity("MHz", fixed(0), "higher")
PRICE = Quantity("", _AS_GIVEN, "lower")
"""The price per hour, in the currency of the option."""
COST = Quantity("", significant(3), "lower")
"""The cost of a million inferences, in the currency of the price."""
COUNT = Quantity("", fixed(0))
SCORE = Quantity("%", _hundredths, "higher", scale=100)
ERROR = Quantity("", significant(4), "lower")
SCORE_CHANGE = Quantity("points", fixed(2), "higher", scale=100, signed=True)
ERROR_CHANGE = Quantity("", significant(2), "lower", signed=True)
AGREEMENT = Quantity("%", fixed(2), "higher", scale=100)
RELATIVE_ERROR = Quantity("", significant(2), "lower")
"""The largest difference of an output, as a share of the spread between the samples of its column."""
P_VALUE = Quantity("", significant(2))

METRICS: Mapping[Better, Quantity] = {"higher": SCORE, "lower": ERROR}
"""A metric of the task, by its direction: see `tritonproof.record.correctness.Score.better`."""
METRIC_CHANGES: Mapping[Better, Quantity] = {"higher": SCORE_CHANGE, "lower": ERROR_CHANGE}
