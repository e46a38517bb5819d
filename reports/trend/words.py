"""The history in words: a table of series, and a sentence for each step."""

from collections.abc import Iterable, Sequence

from reports.tables.rendering import markdown
from reports.tables.table import table_of_texts
from reports.text.inline import Emphasised, text
from reports.text.labels import counted, days_text
from reports.trend.rows import Row
from reports.trend.series import FoundStep, Machine, Series

_COLUMNS = ("Case", "At", "Quantity", "Runs", "Last value", "Steps")


def document(series: Sequence[Series]) -> str:
    """A table for each machine, with the steps for the worse in bold and those for the better in italics."""
    blocks = []
    for machine in dict.fromkeys(one.machine for one in series):
        of_machine = [one for one in series if one.machine == machine]
        blocks += [f"### {text(machine_text(machine))}", _summary(of_machine), _table(of_machine)]
    return "\n\n".join(blocks)


def machine_text(machine: Machine) -> str:
    """`cpu: Intel(R) Xeon(R) Processor, host ci-1, stamp 0a1b2c3d`."""
    host = f", host {machine.host}" if machine.host else ""
    return f"{machine.target}: {machine.device}{host}, stamp {machine.digest}"


def commit_text(row: Row) -> str:
    """`a1b2c3d4e`, with `-dirty` where the files were others; the time of the run where there is no commit."""
    if row.commit is None:
        return f"the run of {row.started}"
    return row.commit[:9] + ("" if row.clean else "-dirty")


def step_text(one: Series, step: FoundStep) -> str:
    """`between a1b2c3d4e and b2c3d4e5f: -3.1 % (-3.9 to -2.2)`, and what else is known of it."""
    size = one.changes.text_with_interval(step.change)
    parts = [f"{_between(step)}: {size}"]
    first, last = commit_text(step.earliest), commit_text(step.latest)
    if step.earliest != step.latest:
        parts.append(f"the first with it is one of {first} to {last}, at 95 %")
    if step.before.triton != step.after.triton:
        parts.append(f"Triton {step.before.triton} became {step.after.triton}")
    elif step.before.build != step.after.build:
        parts.append("the build is another")
    return "; ".join(parts)


def _code(row: Row) -> tuple[str | None, bool | None]:
    return row.commit, row.clean


def _between(step: FoundStep) -> str:
    before, after = commit_text(step.before), commit_text(step.after)
    if step.before.commit is None or _code(step.before) != _code(step.after):
        return f"between {before} and {after}"
    days = f"{step.before.started[:16]} and {step.after.started[:16]}"
    same = f"between two runs of {before}, {days}"
    return f"{same}, so not by a commit" if step.before.clean else same


def _summary(series: Sequence[Series]) -> str:
    runs = {row.run: row for one in series for row in one.rows}
    commits = {row.commit for row in runs.values()} - {None}
    found = sum(len(one.steps) for one in series)
    span = days_text(row.started for row in runs.values())
    return text(
        f"{counted(len(runs), 'run')} of {counted(len(commits), 'commit')}, {span}; {counted(found, 'step')} in {len(series)} series."
    )


def _table(series: Iterable[Series]) -> str:
    rows = [
        [
            one.case,
            one.at,
            one.kind.name,
            f"{len(one.rows):,}",
            last_text(one),
            Emphasised(("**" if step.is_worse else "*", step_text(one, step)) for step in one.steps) or "-",
        ]
        for one in series
    ]
    return markdown([table_of_texts(_COLUMNS, rows, "lllrrl")])


def last_text(one: Series) -> str:
    """The value of the last run, with its unit and its interval where it has one."""
    value = one.last
    if value.low == value.high and not value.open_above:
        return one.kind.quantity.text(value.value)
    return one.kind.quantity.text_with_interval(value)
