"""Checks that the parts of a record fit each other, so that outputs may look up and divide without checks."""

from collections.abc import Iterable, Iterator
from typing import Any

from reports.record import schema
from reports.record.sanitize import quoted

_ROUNDING = 1e-9
"""The tolerance between two values: two ways of computing the same double differ by far less."""
_LONGEST_CASE = 250
"""A case's longest name: with `.json` it is a file's, of at most 255 (NAME_MAX in linux/limits.h)."""

Problems = Iterator[tuple[str, str]]
"""Contradictions that no run writes: their keys and the reasons."""


def problems(record: schema.Record) -> Problems:
    """Contradictions that no run writes: a case that cannot name a file, a load point twice or without its
    latencies, a ledger that passed against its own figures, or an impossible speed."""
    if (length := len(schema.case_id(record.case))) > _LONGEST_CASE:
        yield "case", f"its name has {length:,} characters, and a file's has {_LONGEST_CASE} at most"
    if record.case.precision == "" and not record.build.as_found:
        yield "case.precision", "it is empty, although the model was converted"
    seen: dict[object, int] = {}
    for number, load in enumerate(record.loads):
        if (first := seen.setdefault(schema.point_key(load), number)) != number:
            yield f"loads[{number}]", f"the same load point as loads[{first}]"
    search = record.search
    if search is not None and search.percentile not in search.load.latency_ms:
        reason = f"the load point has no latency of that name, {quoted(search.percentile)}"
        yield "search.percentile", reason
    for key, part in _parts(record, ""):
        if isinstance(part, schema.Estimate):
            yield from _estimate_problems(part, key)
        elif isinstance(part, schema.Accuracy):
            yield from _accuracy_problems(part, key)
        elif isinstance(part, schema.Load):
            yield from _load_problems(part, key)


def _parts(part: schema.Struct, key: str) -> Iterator[tuple[str, schema.Struct]]:
    """A struct and all in it, each with its key, except passes: hundreds without an estimate."""
    yield key, part
    for field in part.__struct_fields__:
        value = getattr(part, field)
        inside: Iterable[tuple[str, Any]] = ()
        if isinstance(value, schema.Struct):
            inside = [("", value)]
        elif isinstance(value, dict):
            inside = ((f".{name}", member) for name, member in value.items())
        elif isinstance(value, tuple) and field != "passes":
            inside = ((f"[{number}]", member) for number, member in enumerate(value))
        for index, member in inside:
            if isinstance(member, schema.Struct):
                yield from _parts(member, f"{key}.{field}{index}".removeprefix("."))


def _accuracy_problems(ledger: schema.Accuracy, key: str) -> Problems:
    """Contradictions to a ledger's verdict that it passed, which outputs show as proof."""
    if ledger.scores and ledger.samples < 1:
        yield f"{key}.samples", "there are scores, and none of a sample"
    for number, score in enumerate(ledger.scores):
        if score.passed and not all(
            schema.meets(score.better, score.served, limit.value) for limit in score.limits
        ):
            yield f"{key}.scores[{number}].passed", f"true, although {score.served:g} misses a limit"
    parts = {
        "scores": all(score.passed for score in ledger.scores),
        "disagreements": all(map(schema.agrees, ledger.disagreements)),
        "outputs": all(map(schema.within_limits, ledger.outputs)),
        "same_answers": ledger.same_answers is None or ledger.same_answers.passed,
    }
    for name, holds in parts.items():
        if ledger.passed and not holds:
            yield f"{key}.passed", f"true, although {key}.{name} did not"


def _load_problems(load: schema.Load, key: str) -> Problems:
    needed = {"latency_ms": ("avg", "p99"), "components_ms": schema.COMPONENTS if load.components_ms else ()}
    for field, names in needed.items():
        for name in names:
            if name not in getattr(load, field):
                yield f"{key}.{field}", f"missing key {name!r}"
    for number, one_pass in enumerate(load.passes):
        if "avg" not in one_pass.latency_ms:
            yield f"{key}.passes[{number}].latency_ms", "missing key 'avg'"
    if load.budget is not None and load.budget.percentile not in load.latency_ms:
        yield f"{key}.budget.percentile", "the load point has no latency of that name"
    if load.request_rate_per_s is not None and load.arrivals is None:
        yield f"{key}.arrivals", "missing beside a request rate"


def _estimate_problems(estimate: schema.Estimate, key: str) -> Problems:
    """A speed, latency or ratio has to be above zero and within its interval. Memory may shrink."""
    text = f"{estimate.value:g} ({estimate.low:g} to {estimate.high:g})"
    if estimate.value <= 0 and not key.endswith(".slope"):
        yield key, f"{text} is no measured quantity above zero"
    slack = _ROUNDING * abs(estimate.value)  # for rounding
    if not estimate.low - slack <= estimate.value <= estimate.high + slack:
        yield key, f"{text} is no value with an interval around it"
