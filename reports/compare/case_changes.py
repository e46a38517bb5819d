"""The changes of one case as markdown: its setup, each metric by sample, every load point, and the growth in soaks."""

from collections.abc import Iterable, Sequence

from reports.compare.paired_scores import Paired
from reports.compare.records import CaseChange, GrowthChange, PointChange
from reports.compare.score_changes import ScoreChange
from reports.compare.setup_changes import Setting
from reports.record.quantities import METRIC_CHANGES, NOTHING, P_VALUE, RATIO
from reports.record.schema import Record, Score, Verdict, soak_verdict
from reports.words.labels import full_point, latency, marked_throughput
from reports.words.markdown import Emphasised, bold, italic, joined, markdown, text
from reports.words.marks import marked_points
from reports.words.rightness import metric_text, unmeasured
from reports.words.shown import name_of
from reports.words.soaking import VERDICT_WORDS, growth_text

_SHOWN_IDS = 5
_SPEED = {"failed": bold("slower"), "passed": italic("faster"), "not shown": "no difference shown"}
_ACCURACY = {"failed": bold("worse"), "passed": italic("better"), "not shown": "no difference shown"}
"""How a verdict is written: worse in bold, better in italics."""


def case_section(case: CaseChange, common: Sequence[Setting]) -> list[str]:
    """The blocks of a case; `common` is the setup that is said once for all cases."""
    own = [one for one in case.setup if one not in common]
    bullets = [f"Setup: {settings_text(own)}"] if own else []
    bullets += [_score(one, case) for one in case.scores] or [_unscored(case)]
    blocks = [f"## {case_name(case)}", "\n".join(f"- {line}" for line in bullets), *hidden(case)]
    if case.points:
        blocks.append(_points(case))
    blocks += _marks(case) + _growth(case)
    sides = ((case.before, case.only_before), (case.after, case.only_after))
    return blocks + [
        f"Only in {stored.letter}: {'; '.join(map(full_point, loads))}." for stored, loads in sides if loads
    ]


def hidden(case: CaseChange) -> list[str]:
    """The reason of each side for showing no speed; empty where both show it."""
    sides = (case.before, case.after)
    return [f"{side.letter}: {text(side.record.no_speed)}" for side in sides if side.record.no_speed]


def _unscored(case: CaseChange) -> str:
    texts = [f"{stored.letter} {unmeasured(stored.record)}" for stored in (case.before, case.after)]
    return text(f"Accuracy: {', '.join(texts)}")


def _score(change: ScoreChange, case: CaseChange) -> str:
    """`top-1: 98.2 % → 97.8 %, ...` and the ids of samples that changed."""
    values = [_value(change.before, case.before.record), _value(change.after, case.after.record)]
    line = f"{change.metric}: {' → '.join(values)}"
    if change.pairs is None:
        return text(line)
    pairs = change.pairs
    remarks = [
        f"{what} {_ids(names)}" for what, names in (("lost", pairs.lost), ("gained", pairs.gained)) if names
    ]
    remarks += [
        f"{count} only in {stored.letter}"
        for count, stored in ((pairs.only_first, case.before), (pairs.only_second, case.after))
        if count
    ]
    return joined(
        [f"{line};", _paired(change, pairs), *([f"({'; '.join(remarks)})"] if remarks else [])], " "
    )


def _value(score: Score | None, record: Record) -> str:
    return unmeasured(record) if score is None else metric_text(score, score.served)


def _paired(change: ScoreChange, pairs: Paired) -> str:
    if not pairs.lost and not pairs.gained:
        return f"the same on each of {pairs.samples} samples in both"
    difference = METRIC_CHANGES[change.better].text_with_interval(pairs.difference)
    p_value = "p < 0.001" if pairs.p_value < 0.001 else f"p = {P_VALUE.text(pairs.p_value)}"
    counts = f"of {pairs.samples} samples in both {len(pairs.lost)} lost and {len(pairs.gained)} gained"
    return joined([f"{counts}, difference {difference}, {p_value}:", score_change(pairs)], " ")


def _ids(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:_SHOWN_IDS])
    return f"{shown} and {len(names) - _SHOWN_IDS} more" if len(names) > _SHOWN_IDS else shown


def _points(case: CaseChange) -> str:
    before, after = case.before.letter, case.after.letter
    arrow = f"{before} → {after}"
    columns = ("Load point", f"infer/s, {arrow}", f"{after} / {before}", f"p99 (ms), {arrow}", "Speed")
    return markdown(columns, [_row(point) for point in case.points], "lrrrl")


def _row(point: PointChange) -> list[str]:
    sides = (point.before, point.after)
    return [
        full_point(point.before),
        " → ".join(marked_throughput(load) for load in sides),
        "-" if point.ratio is None else RATIO.cell_with_interval(point.ratio, 1.0),
        " → ".join(latency(load, "p99") for load in sides),
        speed_change(point),
    ]


def _marks(case: CaseChange) -> list[str]:
    sides = (
        (case.before, [point.before for point in case.points]),
        (case.after, [point.after for point in case.points]),
    )
    return marked_points(
        (f"{stored.letter}, {full_point(load)}", load) for stored, loads in sides for load in loads
    )


def _growth(case: CaseChange) -> list[str]:
    """The table of what the soaks of both sides found, or a sentence on which side alone has one."""
    sides = (case.before, case.after)
    alone = [side.letter for side in sides if side.record.soak is not None]
    if len(alone) == 1:
        return [f"Only {alone[0]} has a soak."]
    arrow = f"{case.before.letter} → {case.after.letter}"
    rows = [_grown(one) for one in case.growth]
    return [markdown(("Soak", f"Growth, {arrow}", "Leak"), rows, "lrl")] if rows else []


def _grown(change: GrowthChange) -> list[str]:
    both = (change.before, change.after)
    return [
        f"{change.after.what}, by {change.after.per}",
        " → ".join(growth_text(one) for one in both),
        _leak_change(change.before.verdict, change.after.verdict, leaks_more=change.is_worse),
    ]


def case_name(case: CaseChange) -> str:
    """The case's name; those of both sides where they differ."""
    names = dict.fromkeys(name_of(stored.record) for stored in (case.before, case.after))
    return " → ".join(names)


def settings_text(settings: Iterable[Setting]) -> str:
    """Settings that differ, each with its value before and after: `versions.torch 2.12.0 → 2.13.0; ...`."""
    return text("; ".join(f"{one.name} {one.before} → {one.after}" for one in settings))


def speed_change(point: PointChange) -> str:
    """Whether a load point is shown to be slower or faster."""
    return "too few passes" if point.ratio is None else _SPEED[point.verdict]


def soak_change(case: CaseChange) -> str:
    """Whether both soaks found a leak; `-` where either side had none."""
    before, after = case.before.record.soak, case.after.record.soak
    if before is None or after is None:
        return NOTHING
    return _leak_change(soak_verdict(before), soak_verdict(after), leaks_more=case.leaks_more)


def _leak_change(before: Verdict, after: Verdict, *, leaks_more: bool) -> str:
    """`no leak → **leak**`; what is the same on both sides once, a leak that is shown to be larger as `leak → **more**`."""
    if before == after:
        more = Emphasised([("", VERDICT_WORDS[before]), ("**", "more")], " → ")
        return more if leaks_more else VERDICT_WORDS[after]
    mark = "**" if after == "failed" else "*" if (before, after) == ("failed", "passed") else ""
    return Emphasised([("", VERDICT_WORDS[before]), (mark, VERDICT_WORDS[after])], " → ")


def score_change(pairs: Paired) -> str:
    """Whether a metric is shown to be worse or better."""
    return _ACCURACY[pairs.verdict]
