"""What changed between records as markdown, with what is shown to be worse in bold and what is better in italics."""

from collections.abc import Sequence

from reports.compare.case_changes import (
    case_name,
    case_section,
    hidden,
    score_change,
    settings_text,
    soak_change,
    speed_change,
)
from reports.compare.paired_scores import Paired
from reports.compare.records import CaseChange, Changes
from reports.compare.setup_changes import Setting
from reports.record.quantities import GIVEN_SHARE
from reports.record.ratio import FALSE_ALARMS
from reports.words.markdown import bold, italic, joined, markdown, text
from reports.words.origins import days_text
from reports.words.sources import Source

_SUMMARY = ("Case", "Setup", "Accuracy", "Speed")
_SOAK = "Soak"
"""A further column, where both sides have a soak of a case."""
_SPEEDS = (bold("slower"), italic("faster"), "too few passes")
"""The words whose number is in the cell of a case, of all its load points, in this order."""
_SCORES = (bold("worse"), italic("better"), "not paired", "no difference shown", "no sample changed")
"""The words for a metric. The cell of a case with several metrics has the first of these that is true of one."""


def document(changes: Sequence[Changes]) -> str:
    """The whole comparison as markdown: a part for each source that is compared with the first."""
    return "\n\n".join(_part(one) for one in changes)


def _part(changes: Changes) -> str:
    before, after = changes.before, changes.after
    common = _common_setup(changes.cases)
    blocks = [
        f"# {after.letter} against {before.letter}",
        "\n".join(_origin(source) for source in (before, after)),
        *_shared(changes, common),
        _table(changes.cases, common),
        *_legend(changes),
        *_alone(changes),
        *(block for case in changes.cases for block in case_section(case, common)),
    ]
    return "\n\n".join(blocks)


def _origin(source: Source) -> str:
    """`- A: folder, 20 cases, measured 2026-03-04`."""
    days = days_text(stored.record.updated for stored in source.records.values())
    measured = f", measured {days}" if days else ""
    count = len(source.records)
    return f"- {source.letter}: {text(source.name)}, {count} case{'s' * (count != 1)}{measured}"


# --- all cases ---------------------------------------------------------------------------------------------


def _common_setup(cases: Sequence[CaseChange]) -> list[Setting]:
    """The settings that differ in the same way in every case, if there are several cases."""
    first = cases[0].setup if len(cases) > 1 else []
    return [setting for setting in first if all(setting in case.setup for case in cases)]


def _shared(changes: Changes, common: Sequence[Setting]) -> list[str]:
    """Sentences on what differs in all cases, beginning with the machine."""
    blocks = []
    machines = [one for case in changes.cases for one in case.setup if one.name.startswith("machine.")]
    if machines:
        blocks.append(
            f"{bold('The machines differ')}: {settings_text(dict.fromkeys(machines))}. The ratios of speed hold that too."
        )
    others = [one for one in common if one not in machines]
    if others:
        blocks.append(f"Differs in all {len(changes.cases)} cases: {settings_text(others)}.")
    return blocks


def _table(cases: Sequence[CaseChange], common: Sequence[Setting]) -> str:
    """A row for each case, with a word or two on each change."""
    rows = [_summary(case, common) for case in cases]
    if not any(case.growth for case in cases):
        return markdown(_SUMMARY, rows, "llll")
    rows = [[*row, soak_change(case)] for row, case in zip(rows, cases, strict=True)]
    return markdown((*_SUMMARY, _SOAK), rows, "lllll")


def _summary(case: CaseChange, common: Sequence[Setting]) -> list[str]:
    own = [one.name for one in case.setup if one not in common]
    return [case_name(case), ", ".join(own) or "-", _accuracy_cell(case), _speed_cell(case)]


def _accuracy_cell(case: CaseChange) -> str:
    """The worst change of any metric, and whether the case began or ceased to pass."""
    changes = [_score_cell(score.pairs) for score in case.scores]
    found = next((one for one in _SCORES if one in changes), "not measured")
    passes = [not stored.record.no_speed for stored in (case.before, case.after)]
    if passes == [True, False]:
        return joined([bold("passes no longer"), found], ", ")
    return joined([found, italic("passes now")], ", ") if passes == [False, True] else found


def _score_cell(pairs: Paired | None) -> str:
    if pairs is None:
        return "not paired"
    return score_change(pairs) if pairs.lost or pairs.gained else "no sample changed"


def _speed_cell(case: CaseChange) -> str:
    found = [speed_change(point) for point in case.points]
    if not found:
        return "not shown" if hidden(case) else "no point in both"
    counts = [joined([str(found.count(one)), one], " ") for one in _SPEEDS if one in found]
    return joined([joined(counts, ", "), f"of {len(found)}"], " ") if counts else "no difference shown"


def _legend(changes: Changes) -> list[str]:
    """The meanings of the words in the tables, as far as they are used."""
    before, after = changes.before.letter, changes.after.letter
    points = [point for case in changes.cases for point in case.points]
    blocks = []
    if points:
        blocks.append(
            f"Speed: the ratio is {after} over {before}, with Welch's 95 % interval of the passes on record, of each "
            f"point by itself; slower and faster are what is shown among {len(points)} points, so that chance alone "
            f"calls any of them slower, or any of them faster, in at most {GIVEN_SHARE.text(FALSE_ALARMS)} of all "
            "comparisons (Holm's correction). It covers what varied while each was measured, not what the machine changed in between: "
            "`--against` measures both in turns."
        )
    if any(score.pairs for case in changes.cases for score in case.scores):
        blocks.append(
            "Accuracy: of the samples that both scored. Lost are those scored worse; the difference has a 95 % "
            "interval (Newcombe's of scores of 0 and 1, else Student's), p is that of the exact test by McNemar or of "
            "flipped signs, and a difference is shown where both say so."
        )
    reasons: dict[str, list[str]] = {}
    for case in changes.cases:
        for why in dict.fromkeys(score.why_unpaired for score in case.scores if score.why_unpaired):
            reasons.setdefault(why, []).append(f"`{case_name(case)}`")
    return blocks + [
        f"Not paired by sample, so that the scores alone are shown: {text(why)}: "
        f"{'all cases' if len(names) == len(changes.cases) else ', '.join(names)}."
        for why, names in reasons.items()
    ]


def _alone(changes: Changes) -> list[str]:
    sides = ((changes.before, changes.only_before), (changes.after, changes.only_after))
    return [
        f"Only in {source.letter}: {', '.join(f'`{name}`' for name in names)}."
        for source, names in sides
        if names
    ]
