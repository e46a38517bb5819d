"""Whether the parts of a record fit each other: what is shown of it may then be looked up, and divided, without asking."""

from collections.abc import Iterator, Mapping

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
_NEEDED = ("avg", "p99")
"""The latencies that every load point has."""


def problems(record: Record) -> Iterator[tuple[str, str]]:
    """What of a record no run writes, each with the key: a case whose name is no file's, two load points that are the same,
    a point without its latencies, or a ledger that passed against its own figures."""
    yield from _of_case(record)
    yield from _of_accuracy(record.accuracy, "accuracy")
    yield from _of_accuracy(None if record.search is None else record.search.accuracy, "search.accuracy")
    yield from _of_loads(record)
    yield from _of_efficiency(record)
    yield from _of_search(record)
    yield from _of_soak(record)


def _of_case(record: Record) -> Iterator[tuple[str, str]]:
    if (length := len(case_id(record.case))) > _LONGEST_CASE:
        yield "case", f"its name has {length:,} characters, and a file's has {_LONGEST_CASE} at most"
    if record.case.precision == "" and not record.build.as_found:
        yield "case.precision", "it is empty, although the model was converted"


def _of_accuracy(ledger: Accuracy | None, where: str) -> Iterator[tuple[str, str]]:
    """What of a ledger contradicts that it passed: it is shown as proven."""
    if ledger is None:
        return
    if ledger.scores and ledger.samples < 1:
        yield f"{where}.samples", "there are scores, and none of a sample"
    for number, one in enumerate(ledger.scores):
        missed = [limit for limit in one.limits if not meets(one.better, one.served, limit.value)]
        if one.passed and missed:
            yield (
                f"{where}.scores[{number}].passed",
                f"true, although {one.served:g} misses the limit {missed[0].value:g}",
            )
    if not ledger.passed:
        return
    agree = all(
        one.agreement_limit is None or one.agreement >= one.agreement_limit for one in ledger.disagreements
    )
    parts = {
        "scores": all(one.passed for one in ledger.scores),
        "disagreements": agree,
        "outputs": all(map(within_limits, ledger.outputs)),
        "same_answers": ledger.same_answers is None or ledger.same_answers.passed,
    }
    for name, holds in parts.items():
        if not holds:
            yield f"{where}.passed", f"true, although {where}.{name} did not"


def _of_efficiency(record: Record) -> Iterator[tuple[str, str]]:
    for number, one in enumerate(record.efficiency):
        speeds = {
            "served_per_s": one.served_per_s,
            "in_process_per_s": one.in_process_per_s,
            "ratio": one.ratio,
            "peak_flops_per_s": one.peak_flops_per_s,
            "beside.ratio": None if one.beside is None else one.beside.ratio,
        }
        yield from _positive(speeds, f"efficiency[{number}]")


def _of_loads(record: Record) -> Iterator[tuple[str, str]]:
    seen: dict[object, int] = {}
    for number, load in enumerate(record.loads):
        if (first := seen.setdefault(place(load), number)) != number:
            yield f"loads[{number}]", f"the same load point as loads[{first}]"
        yield from _of_load(load, f"loads[{number}]")


def _of_search(record: Record) -> Iterator[tuple[str, str]]:
    search = record.search
    if search is None:
        return
    yield from _of_load(search.load, "search.load")
    if search.percentile not in search.load.latency_ms:
        yield "search.percentile", f"the load point has no latency of that name, {quoted(search.percentile)}"
    yield from _positive({"lead": search.lead}, "search")
    yield from _ordered({"goodput_per_s": search.goodput_per_s}, "search")


def _of_soak(record: Record) -> Iterator[tuple[str, str]]:
    if record.soak is None:
        return
    yield from _positive({"end_over_begin": record.soak.end_over_begin}, "soak")
    for number, one in enumerate(record.soak.growth):
        # What is given back is below zero.
        yield from _ordered({"slope": one.slope}, f"soak.growth[{number}]")


def _of_load(load: Load, where: str) -> Iterator[tuple[str, str]]:
    for name in _NEEDED:
        if name not in load.latency_ms:
            yield f"{where}.latency_ms", f"missing key {name!r}"
    if load.components_ms and (missing := [name for name in COMPONENTS if name not in load.components_ms]):
        yield f"{where}.components_ms", f"missing key {missing[0]!r}"
    latencies = {f"latency_ms.{name}": one for name, one in load.latency_ms.items()}
    yield from _positive({"throughput_per_s": load.throughput_per_s, **latencies}, where)
    for number, one_pass in enumerate(load.passes):
        if "avg" not in one_pass.latency_ms:
            yield f"{where}.passes[{number}].latency_ms", "missing key 'avg'"
    if load.budget is not None and load.budget.percentile not in load.latency_ms:
        yield f"{where}.budget.percentile", "the load point has no latency of that name"
    if load.request_rate_per_s is not None and load.arrivals is None:
        yield f"{where}.arrivals", "missing beside a request rate"
    ratios = {
        "repeated_speed": load.repeated_speed,
        "comparison.ratio": None if load.comparison is None else load.comparison.ratio,
    }
    yield from _positive(ratios, where)


def _positive(estimates: Mapping[str, Estimate | None], where: str) -> Iterator[tuple[str, str]]:
    """The estimates that are none of a speed, a latency or a ratio, by which others are divided."""
    for name, one in estimates.items():
        if one is not None and one.value <= 0:
            yield f"{where}.{name}", f"{_text(one)} is no measured quantity above zero"
    yield from _ordered(estimates, where)


def _ordered(estimates: Mapping[str, Estimate | None], where: str) -> Iterator[tuple[str, str]]:
    """The estimates whose interval does not hold their value, but for how numbers are rounded."""
    for name, one in estimates.items():
        if one is None:
            continue
        slack = _ROUNDING * abs(one.value)
        if not one.low - slack <= one.value <= one.high + slack:
            yield f"{where}.{name}", f"{_text(one)} is no value with an interval around it"


def _text(one: Estimate) -> str:
    return f"{one.value:g} ({one.low:g} to {one.high:g})"
