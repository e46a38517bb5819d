"""Whether the parts of a record fit each other, so that outputs may look up and divide without checks."""

from collections.abc import Iterable, Iterator
from typing import Any

from reports.record import schema
from reports.record.sanitize import quoted

_ROUNDING = 1e-9
"""The tolerance between two values: two ways of computing the same double differ by far less."""
_LONGEST_CASE = 250
"""A case's longest name: with `.json` it is a file's, of at most 255 (NAME_MAX in linux/limits.h)."""

Problems = Iterator[tuple[str, str]]
"""What no run writes: the keys and the reasons."""


def problems(record: schema.Record) -> Problems:
    """What no run writes: a case that cannot name a file, a load point twice or without its latencies, a
    ledger that passed against its own figures, or an impossible speed."""
    if (length := len(schema.case_id(record.case))) > _LONGEST_CASE:
        yield "case", f"its name has {length:,} characters, and a file's has {_LONGEST_CASE} at most"
    if record.case.precision == "" and not record.build.as_found:
        yield "case.precision", "it is empty, although the model was converted"
    seen: dict[object, int] = {}
    for number, load in enumerate(record.loads):
        if (first := seen.setdefault(schema.place(load), number)) != number:
            yield f"loads[{number}]", f"the same load point as loads[{first}]"
    search = record.search
    if search is not None and search.percentile not in search.load.latency_ms:
        said = f"the load point has no latency of that name, {quoted(search.percentile)}"
        yield "search.percentile", said
    for where, part in _parts(record, ""):
        if isinstance(part, schema.Estimate):
            yield from _of_estimate(part, where)
        elif isinstance(part, schema.Accuracy):
            yield from _of_accuracy(part, where)
        elif isinstance(part, schema.Load):
            yield from _of_load(part, where)


def _parts(part: schema.Struct, where: str) -> Iterator[tuple[str, schema.Struct]]:
    """A struct and all in it, each with its key, except passes: hundreds without an estimate."""
    yield where, part
    for field in part.__struct_fields__:
        value = getattr(part, field)
        inside: Iterable[tuple[str, Any]] = ()
        if isinstance(value, schema.Struct):
            inside = [("", value)]
        elif isinstance(value, dict):
            inside = ((f".{name}", one) for name, one in value.items())
        elif isinstance(value, tuple) and field != "passes":
            inside = ((f"[{number}]", one) for number, one in enumerate(value))
        for key, one in inside:
            if isinstance(one, schema.Struct):
                yield from _parts(one, f"{where}.{field}{key}".removeprefix("."))


def _of_accuracy(ledger: schema.Accuracy, where: str) -> Problems:
    """What contradicts that a ledger passed, since it is shown as proven."""
    if ledger.scores and ledger.samples < 1:
        yield f"{where}.samples", "there are scores, and none of a sample"
    for number, one in enumerate(ledger.scores):
        if one.passed and not all(schema.meets(one.better, one.served, limit.value) for limit in one.limits):
            yield f"{where}.scores[{number}].passed", f"true, although {one.served:g} misses a limit"
    parts = {
        "scores": all(one.passed for one in ledger.scores),
        "disagreements": all(map(schema.agrees, ledger.disagreements)),
        "outputs": all(map(schema.within_limits, ledger.outputs)),
        "same_answers": ledger.same_answers is None or ledger.same_answers.passed,
    }
    for name, holds in parts.items():
        if ledger.passed and not holds:
            yield f"{where}.passed", f"true, although {where}.{name} did not"


def _of_load(load: schema.Load, where: str) -> Problems:
    needed = {"latency_ms": ("avg", "p99"), "components_ms": schema.COMPONENTS if load.components_ms else ()}
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


_MAY_BE_NONE = (".slope", ".goodput_per_s")
"""Memory may be given back, and no answer may come in time; all else is a speed, a latency or a ratio."""


def _of_estimate(one: schema.Estimate, where: str) -> Problems:
    """A speed, latency or ratio has to be above zero and within its interval."""
    text = f"{one.value:g} ({one.low:g} to {one.high:g})"
    if one.value <= 0 and not where.endswith(_MAY_BE_NONE):
        yield where, f"{text} is no measured quantity above zero"
    slack = _ROUNDING * abs(one.value)  # for how numbers are rounded
    if not one.low - slack <= one.value <= one.high + slack:
        yield where, f"{text} is no value with an interval around it"
