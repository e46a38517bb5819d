"""Cases side by side as plots: what became of accuracy, the best throughput, what serving costs, other builds."""

from collections.abc import Mapping, Sequence

from reports.plots.captions import (
    caption,
    intervals_note,
    letters,
    letters_note,
    subtitle,
    throughput_codes,
)
from reports.plots.shapes import Chart, NothingToShowError, RowPanel, Rows, ValueRow
from reports.record.quantities import METRICS, RATIO, SHARE, SHARE_OF_SPEED, THROUGHPUT
from reports.record.schema import Comparison, Efficiency, Estimate, Load, Score
from reports.record.verdicts import comparison_verdict, too_wide
from reports.text.correctness import main_score, metric_text, tightest, tightest_text
from reports.text.labels import full_point, grouped, point, size
from reports.text.publishable import Publishable, name_of
from reports.text.speed import best_load, fraction_of_peak


def accuracy_ledger(records: Sequence[Publishable], _budget_ms: float | None) -> Chart:
    """The metric after each stage beside its limit: every metric of one case, the first of several."""
    panels: dict[tuple[str, str], list[tuple[str, Score]]] = {}
    for record in records:
        if record.accuracy is None or main_score(record) is None:
            continue
        scores = record.accuracy.scores if len(records) == 1 else record.accuracy.scores[:1]
        for score in scores:
            key = (_model_on_target(record, records), score.metric)
            panels.setdefault(key, []).append((_short_name(record), score))
    if not panels:
        raise NothingToShowError("No accuracy has been measured.")
    content = Rows(
        "points",
        {"framework": "framework", "converted": "converted, in process", "served": "served by Triton"},
        [_ledger_panel(model, metric, found) for (model, metric), found in panels.items()],
    )
    missing = [name_of(r) for r in records if main_score(r) is None]
    notes = ["Hatched: beyond the limit, which fails."]
    notes += [f"Without a score: {', '.join(missing)}."] if missing else []
    return _chart("accuracy-ledger", "Accuracy after each stage", records, content, notes)


def best_throughput(records: Sequence[Publishable], _budget_ms: float | None) -> Chart:
    """The highest throughput of each case that may show one, and at which load point."""
    if not any(record.loads for record in records):
        raise NothingToShowError("No case has a throughput to show.")
    best = {name_of(record): best_load(record) for record in records}
    signs = letters(load for load in best.values() if load)
    panels = [
        RowPanel(
            model,
            "Inferences per second",
            [_best_row(one, best[name_of(one)], signs) for one in group],
            "throughput",
        )
        for model, group in grouped(records, lambda record: _model_on_target(record, records)).items()
    ]
    content = Rows("bars", {"throughput": "throughput"}, panels)
    notes = [intervals_note(records), *letters_note(signs)]
    return _chart("best-throughput", "Best throughput", records, content, notes)


def efficiency(records: Sequence[Publishable], _budget_ms: float | None) -> Chart:
    """What serving costs: the served throughput over that in process, and over the machine's peak."""
    shown = [record for record in records if record.efficiency]
    if not shown:
        raise NothingToShowError("No efficiency has been measured that may be shown.")
    panels = [
        RowPanel(
            model,
            "Percent",
            [_efficiency_row(record, one) for record in group for one in record.efficiency],
            "share",
        )
        for model, group in grouped(shown, lambda record: _model_on_target(record, records)).items()
    ]
    content = Rows(
        "points",
        {
            "served": "served, of the throughput in process",
            "peak": "computed, of the machine's measured peak",
        },
        panels,
        reference=100.0,
        whole=True,
    )
    return _chart("efficiency", "What serving costs", shown, content, [intervals_note(shown)])


def comparison(records: Sequence[Publishable], _budget_ms: float | None) -> Chart:
    """The speed of each load point beside that of another build, with the slow-down that is allowed."""
    compared = [
        (record, load, load.comparison)
        for record in records
        for load in record.loads
        if load.comparison is not None
    ]
    if not compared:
        raise NothingToShowError("No load point has been compared with another build that may be shown.")
    signs = letters(load for _, load, _ in compared)
    found: dict[str, list[ValueRow]] = {}
    for record, load, one in compared:
        row = ValueRow(
            f"{_short_name(record)}, {point(load)}",
            {"ratio": one.ratio} if RATIO.is_shown(one.ratio) else {},
            _comparison_text(one) + _signs(load, signs),
            bool(throughput_codes(load)),
            1 - one.allowed_slowdown,
        )
        title = f"{_model_on_target(record, records)} beside {one.reference}"
        found.setdefault(title, []).append(row)
    panels = [
        RowPanel(title, "Speed, ratio to the other build", rows, "ratio") for title, rows in found.items()
    ]
    content = Rows("points", {"ratio": "ratio of speeds"}, panels, reference=1.0)
    notes = [intervals_note(records), "Hatched: slower than what is allowed.", *letters_note(signs)]
    return _chart("comparison", "Speed beside another build", records, content, notes)


def _chart(
    name: str, title: str, records: Sequence[Publishable], content: Rows, notes: Sequence[str]
) -> Chart:
    return Chart(name, title, subtitle(records), content, notes, caption(records))


def _comparison_text(one: Comparison) -> str:
    return (
        comparison_verdict(one) if RATIO.is_shown(one.ratio) else f"{too_wide()}: {comparison_verdict(one)}"
    )


def _ledger_panel(model: str, metric: str, found: Sequence[tuple[str, Score]]) -> RowPanel:
    first = found[0][1]
    written = METRICS[first.better]
    unit = f", {written.unit}" if written.unit else ""
    rows = [
        ValueRow(
            name,
            {
                stage: _exact(written.scale * value)
                for stage, value in (
                    ("framework", score.framework),
                    ("converted", score.converted),
                    ("served", score.served),
                )
                if value is not None
            },
            _ledger_text(score),
            limit=None if (limit := tightest(score)) is None else written.scale * limit.value,
        )
        for name, score in found
    ]
    axis = f"{metric}{unit} ({first.better} is better)"
    return RowPanel(model, axis, rows, "score" if first.better == "higher" else "error", first.better)


def _ledger_text(score: Score) -> str:
    text = ", ".join(filter(None, (metric_text(score, score.served), tightest_text(score))))
    return text if score.passed else f"{text}: fails"


def _exact(value: float) -> Estimate:
    return Estimate(value, value, value)


def _best_row(record: Publishable, best: Load | None, signs: Mapping[str, str]) -> ValueRow:
    name = _short_name(record)
    if best is None:
        return ValueRow(name, {}, "no speed shown: not proven right" if record.hidden else "not measured")
    throughput = THROUGHPUT.cell_with_half_width(best.throughput_per_s)
    text = f"{throughput}, {full_point(best)}{_signs(best, signs)}"
    return ValueRow(name, {"throughput": best.throughput_per_s}, text, bool(throughput_codes(best)))


def _signs(load: Load, signs: Mapping[str, str]) -> str:
    """The letters of a point's marks, in brackets."""
    found = "".join(signs[code] for code in throughput_codes(load))
    return f" ({found})" if found else ""


def _efficiency_row(record: Publishable, one: Efficiency) -> ValueRow:
    ratio, peak = one.ratio, fraction_of_peak(one)
    is_shown = SHARE_OF_SPEED.is_shown(ratio)
    served = Estimate(100 * ratio.value, 100 * ratio.low, 100 * ratio.high, ratio.confidence)
    values = {
        **({"served": served} if is_shown else {}),
        **({"peak": _exact(100 * peak)} if peak is not None else {}),
    }
    text = (SHARE_OF_SPEED.text(ratio.value) if is_shown else too_wide()) + (
        f", {SHARE.text(peak)} of the peak" if peak is not None else ""
    )
    return ValueRow(
        _short_name(record),
        values,
        f"{text}, {one.scenario}, {size(one.scenario, one.batch, one.concurrency)}",
    )


def _short_name(record: Publishable) -> str:
    """Format, accelerator, precision and the number of GPUs; the rest of the name is the panel's title."""
    case = record.case
    parts = (case.format, case.accelerator, case.precision, f"{case.gpus}gpus" if case.gpus > 1 else "")
    return "-".join(part for part in parts if part)


def _model_on_target(record: Publishable, records: Sequence[Publishable]) -> str:
    several = len({one.case.target for one in records}) > 1
    return f"{record.case.model} on {record.case.target}" if several else record.case.model
