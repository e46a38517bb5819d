"""Whether the parts of a record fit each other: what is shown of it may then be looked up, and divided, without asking."""

from collections.abc import Iterator
from typing import Any

from reports.record.sanitize import quoted
from reports.record.schema import (
    COMPONENTS,
    Accuracy,
    Estimate,
    Load,
    Record,
    case_id,
    meets,
    place,
    within_limits,
)

_ROUNDING = 1e-9
"""How far two values may be apart: what two ways of computing the same double may differ by, with much to spare."""
_LONGEST_CASE = 250
"""Characters of a case's name, with which `.json` is no longer than a name may be. Source: NAME_MAX in linux/limits.h."""

Problems = Iterator[tuple[str, str]]
"""What of a record no run writes, each with its key."""


def problems(record: Record) -> Problems:
    """What of a record no run writes: a case whose name is no file's, two load points that are the same, a point without its
    latencies, a ledger that passed against its own figures, or a speed that is none."""
    if (length := len(case_id(record.case))) > _LONGEST_CASE:
        yield "case", f"its name has {length:,} characters, and a file's has {_LONGEST_CASE} at most"
    if record.case.precision == "" and not record.build.as_found:
        yield "case.precision", "it is empty, although the model was converted"
    yield from _of_accuracy(record.accuracy, "accuracy")
    seen: dict[object, int] = {}
    for number, load in enumerate(record.loads):
        if (first := seen.setdefault(place(load), number)) != number:
            yield f"loads[{number}]", f"the same load point as loads[{first}]"
        yield from _of_load(load, f"loads[{number}]")
    if record.search is not None:
        search = record.search
        yield from _of_accuracy(search.accuracy, "search.accuracy")
        yield from _of_load(search.load, "search.load")
        if search.percentile not in search.load.latency_ms:
            said = f"the load point has no latency of that name, {quoted(search.percentile)}"
            yield "search.percentile", said
    for where, one in _estimates(record):
        yield from _of_estimate(where, one)


def _of_accuracy(ledger: Accuracy | None, where: str) -> Problems:
    """What of a ledger contradicts that it passed: it is shown as proven."""
    if ledger is None:
        return
    if ledger.scores and ledger.samples < 1:
        yield f"{where}.samples", "there are scores, and none of a sample"
    for number, one in enumerate(ledger.scores):
        if one.passed and not all(meets(one.better, one.served, limit.value) for limit in one.limits):
            yield f"{where}.scores[{number}].passed", f"true, although {one.served:g} misses a limit"
    parts = {
        "scores": all(one.passed for one in ledger.scores),
        "disagreements": all(
            one.agreement_limit is None or one.agreement >= one.agreement_limit
            for one in ledger.disagreements
        ),
        "outputs": all(map(within_limits, ledger.outputs)),
        "same_answers": ledger.same_answers is None or ledger.same_answers.passed,
    }
    for name, holds in parts.items():
        if ledger.passed and not holds:
            yield f"{where}.passed", f"true, although {where}.{name} did not"


def _of_load(load: Load, where: str) -> Problems:
    needed = {"latency_ms": ("avg", "p99"), "components_ms": COMPONENTS if load.components_ms else ()}
    for field, names in needed.items():
        for name in names:
            if name not in getattr(load, field):
                yield f"{where}.{field}", f"missing key {name!r}"
    for number, one_pass in enumerate(load.passes):
        if "avg" not in one_pass.latency_ms:
            yield f"{where}.passes[{number}].latency_ms", "missing key 'avg'"
    if load.budget is not None and load.budget.percentile not in load.latency_ms:
        yield f"{where}.budget.percentile", "the load point has no latency of that name"
    if load.request_rate_per_s is not None and load.arrivals is None:
        yield f"{where}.arrivals", "missing beside a request rate"


def _estimates(record: Record) -> Iterator[tuple[str, Estimate | None]]:
    """Every estimate that is shown or divided by, with its key."""
    loads: dict[str, Any] = {f"loads[{number}]": load for number, load in enumerate(record.loads)}
    if record.search is not None:
        loads["search.load"] = record.search.load
        yield "search.lead", record.search.lead
        yield "search.goodput_per_s", record.search.goodput_per_s
    for where, load in loads.items():
        yield f"{where}.throughput_per_s", load.throughput_per_s
        yield f"{where}.repeated_speed", load.repeated_speed
        if (compared := load.comparison) is not None:
            yield f"{where}.comparison.ratio", compared.ratio
            yield f"{where}.comparison.reference_p99_ms", compared.reference_p99_ms
        for name, latency in load.latency_ms.items():
            yield f"{where}.latency_ms.{name}", latency
    for number, one in enumerate(record.efficiency):
        for name in ("served_per_s", "in_process_per_s", "ratio", "peak_flops_per_s"):
            yield f"efficiency[{number}].{name}", getattr(one, name)
        yield f"efficiency[{number}].beside.ratio", one.beside.ratio if one.beside else None
    if record.soak is not None:
        yield "soak.end_over_begin", record.soak.end_over_begin
        for number, grown in enumerate(record.soak.growth):
            yield f"soak.growth[{number}].slope", grown.slope


_MAY_BE_NONE = (".slope", ".goodput_per_s")
"""What is given back is below zero, and no answer may come in time; all else is a speed, a latency or a ratio."""


def _of_estimate(where: str, one: Estimate | None) -> Problems:
    """What is wrong with a speed, a latency or a ratio that is not above zero, or whose interval does not hold it."""
    if one is None:
        return
    text = f"{one.value:g} ({one.low:g} to {one.high:g})"
    if one.value <= 0 and not where.endswith(_MAY_BE_NONE):
        yield where, f"{text} is no measured quantity above zero"
    slack = _ROUNDING * abs(one.value)  # for how numbers are rounded
    if not one.low - slack <= one.value <= one.high + slack:
        yield where, f"{text} is no value with an interval around it"
