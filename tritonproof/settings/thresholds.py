"""What a user requires of single cases, in a TOML file, checked before anything runs: `--thresholds FILE`.

[[cases]]
match = "cpu-biopsy-*"                    # ids of cases, as a shell matches names of files
limits = { accuracy = 0.95 }              # of metrics, in place of the model's own
allowed_slowdown_percent = 5              # in place of --allow-slowdown's
p99_ms = { "*" = 20.0, "b001-*" = 5.0 }   # by load point, the last that matches; or one number for all
source = "agreed with the clinic"         # where they come from; printed where one is missed
"""

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, structs

from tritonproof.base.errors import InputError
from tritonproof.base.sanitize import excerpt
from tritonproof.record import correctness, speed
from tritonproof.safe_io.files import existing_path, read_toml
from tritonproof.spec import Case

_Text = Annotated[str, Meta(min_length=1, max_length=500)]
_Milliseconds = Annotated[float, Meta(gt=0, lt=86_400_000)]


class ThresholdEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """What one entry of the file asks of the cases that it matches."""

    match: _Text
    limits: dict[str, Annotated[float, Meta(gt=0, lt=1e12)]] = {}
    """The worst score that passes, by metric."""
    allowed_slowdown_percent: Annotated[float, Meta(gt=0, lt=100)] | None = None
    """The slow-down that passes; None for that of --allow-slowdown."""
    p99_ms: dict[str, _Milliseconds] | _Milliseconds = {}
    """The limit of the p99 latency, by a pattern of load points, or for all of them."""
    source: _Text = ""
    """Where the figures come from, in words; by default the entry itself."""

    def __post_init__(self) -> None:
        if not (self.limits or self.p99_ms or self.allowed_slowdown_percent):
            raise ValueError("it asks nothing of the cases that it matches")
        for pattern, later in itertools.combinations(self.budgets_ms, 2):
            if fnmatchcase(pattern, later):
                raise ValueError(f"p99_ms: {pattern!r} never counts: put it after {later!r}")

    @property
    def budgets_ms(self) -> Mapping[str, float]:
        """The limits of the p99 latency in milliseconds, by a pattern of load points."""
        return self.p99_ms if isinstance(self.p99_ms, dict) else {"*": self.p99_ms}


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    cases: Annotated[list[ThresholdEntry], Meta(min_length=1)]


@dataclass(frozen=True)
class Thresholds:
    """All entries, in the file's order; of several that match a case, the last that sets a value counts."""

    entries: Sequence[ThresholdEntry] = ()
    file: Path | None = None
    option: str = ""

    def error(self, entry: ThresholdEntry, key: str, what: str, fix: str) -> InputError:
        """What is wrong with a key of an entry."""
        return InputError(what, where=f"{self.option}: entry {self.entries.index(entry) + 1}: {key}", fix=fix)

    def entries_for(self, case: Case) -> Iterable[ThresholdEntry]:
        """The entries that match a case, the one that counts last."""
        return (entry for entry in self.entries if fnmatchcase(str(case), entry.match))

    def limits(self, case: Case) -> Mapping[str, correctness.Limit]:
        """The file's limits of a case's metrics, which replace the model's own, by metric."""
        metrics = {metric.name for metric in case.model.metrics}
        return {
            name: correctness.Limit(value, entry.source)
            for entry in self.entries_for(case)
            for name, value in entry.limits.items()
            if name in metrics
        }

    def check_measured(self, case: Case, why_no_score: str | None) -> None:
        """Raise InputError for a limit that would test nothing, as its metric has no score."""
        labelled = {metric.name for metric in case.model.metrics if metric.labelled}
        for entry in self.entries_for(case) if why_no_score else ():
            for name in labelled & entry.limits.keys():
                what = f"{case} cannot be held to a limit of {name}: {why_no_score}"
                raise self.error(entry, f"limits.{name}", what, "give what it needs, or leave the limit out")

    def allowed_slowdown(self, case: Case, otherwise: float) -> float:
        """The slow-down that a case may have, as a fraction: the file's, or `otherwise`."""
        percents = [entry.allowed_slowdown_percent for entry in self.entries_for(case)]
        stated = [percent for percent in percents if percent is not None]
        return stated[-1] / 100 if stated else otherwise

    def latency_budget(self, case: Case, result: speed.PointResult) -> speed.LatencyBudget | None:
        """The budget of a load point's p99 latency with the measurement's verdict; None without a budget."""
        budgets = [
            (budget_ms, entry.source)
            for entry in self.entries_for(case)
            for pattern, budget_ms in entry.budgets_ms.items()
            if fnmatchcase(str(result.point), pattern)
        ]
        if not budgets:
            return None
        budget_ms, source = budgets[-1]
        latency, certified = result.latency_ms["p99"], result.certified.get("p99")
        verdict = latency.verdict(budget_ms, certified.bound_ms if certified else None)
        return speed.LatencyBudget("p99", budget_ms, source, verdict)

    def check_cases(self, cases: Callable[[], Sequence[Case]]) -> None:
        """Raise InputError for an entry that matches no case of any hardware, or names an unknown metric."""
        all_cases = cases() if self.entries else ()
        for entry in self.entries:
            matched = [case for case in all_cases if fnmatchcase(str(case), entry.match)]
            if not matched:
                what, fix = excerpt(repr(entry.match)), "match ids of cases, which --collect-only -q lists"
                raise self.error(entry, "match", f"no case is matched by {what}", fix)
            metrics = sorted({metric.name for case in matched for metric in case.model.metrics})
            for name in entry.limits.keys() - metrics:
                fix = f"the matched cases have {', '.join(metrics) or 'none: add --labels and --metric'}"
                raise self.error(entry, "limits", f"unknown metric {excerpt(name)!r}", fix)

    def check_points(self, points: Iterable[tuple[Case, speed.LoadPoint]]) -> None:
        """Raise InputError for a pattern that matches no load point, though its entry's cases have some."""
        all_points = [*points] if self.entries else []  # listing them takes time for many cases
        for entry in self.entries:
            ids = {str(point) for case, point in all_points if fnmatchcase(str(case), entry.match)}
            for pattern in entry.budgets_ms if ids else ():
                if not any(fnmatchcase(point_id, pattern) for point_id in ids):
                    what = f"no load point of these cases is matched by {excerpt(repr(pattern))}"
                    fix = f"match one of {', '.join(sorted(ids)[:8])}, or choose others"
                    raise self.error(entry, "p99_ms", what, fix)


def read_thresholds(option: str, text: str) -> Thresholds:
    """The thresholds of the file that an option names. Raises InputError that names the file, the entry and
    the key for another key or type, a number out of bounds, or an entry that asks nothing."""
    path = existing_path(option, text)
    where = f"{option} {text}"
    content = read_toml(path, where, "give a TOML file; mend the line that it names")
    try:
        entries = msgspec.convert(content, _File).cases
    except msgspec.ValidationError as error:
        message, _, location = str(error).partition(" - at `$")
        key = re.sub(r"^\.cases\[(\d+)\]", lambda match: f": entry {int(match[1]) + 1}", location.rstrip("`"))
        fix = (
            'begin each entry with [[cases]] and match = "...", and ask for limits, allowed_slowdown_percent '
            "or p99_ms, in numbers without a unit or quotation marks"
        )
        where += excerpt(key.replace(".", ": ", 1))
        raise InputError(excerpt(message), where=where, fix=fix) from error
    sourced = [
        entry if entry.source else structs.replace(entry, source=f"{text}: entry {number}")
        for number, entry in enumerate(entries, 1)
    ]
    return Thresholds(tuple(sourced), path, where)
