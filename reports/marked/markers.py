"""The markers that a markdown file may have, and the table, sentence or picture that each asks for."""

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from reports import plots, tables
from reports.record.foreign import one_line
from reports.tables.soaks import soak_section
from reports.words.latency_budget import search_paragraph
from reports.words.markdown import text
from reports.words.rightness import accuracy_sentence
from reports.words.serving_cost import efficiency_section
from reports.words.shown import Shown

EXAMPLE = """\
<!-- tritonproof:machine -->
<!-- /tritonproof:machine -->

<!-- tritonproof:summary -->
<!-- /tritonproof:summary -->

<!-- tritonproof:case {case} -->
<!-- /tritonproof:case {case} -->"""

FOREIGN = ("support",)
"""Regions whose content does not come from records: `support` is written by `python -m docs.support_table`."""

_QUOTED = 300
"""Characters of a page that an error shows: a whole marker of a case, and where it differs from one."""
_LARGEST_MS = 86_400_000
"""Milliseconds that a latency budget is below: a day."""
_PLOT = re.compile(r"plot (?P<plot>\S+)(?: (?!\S+ms\b)(?P<case>\S+))?(?: (?P<budget>\d+(?:\.\d+)?)ms)?")


@dataclass(frozen=True)
class Ask:
    """What a marker asks for: a kind of text, or a plot, of one case or of all."""

    kind: str
    case: str = ""
    plot: str = ""
    budget_ms: float | None = None


def read(name: str) -> Ask:
    """A marker's name taken apart: `summary`, `offline CASE_ID`, `plot NAME CASE_ID 10ms`; a ValueError says what
    is wrong with it and what to write."""
    name = " ".join(name.split())
    kind, _, case = name.partition(" ")
    if found := _PLOT.fullmatch(name):
        return _plot(found)
    if name in OF_ALL or name in FOREIGN:
        return Ask(name)
    if kind in OF_CASE and case and " " not in case:
        return Ask(kind, case)
    if name in OF_CASE:
        raise ValueError(f"tritonproof:{name} needs a case. Write tritonproof:{name} CASE_ID.")
    forms = [*OF_ALL, *FOREIGN, *(f"{one} CASE_ID" for one in OF_CASE), "plot NAME [CASE_ID] [10ms]"]
    raise ValueError(f"unknown marker tritonproof:{quoted(name)}. There are {', '.join(forms)}.")


def written(asked: Ask, records: Sequence[Shown]) -> str:
    """The text that is asked for; `records` are all, or the one of the case."""
    if asked.case:
        shows, write_case = OF_CASE[asked.kind]
        return write_case(records[0]) or f"Nothing has been measured to show {shows}."
    shows, write_all = OF_ALL[asked.kind]
    return write_all(records) or f"Nothing has been measured to show {shows}."


def quoted(part: str) -> str:
    """A part of a page as an error shows it."""
    return one_line(part, _QUOTED)


def overview() -> str:
    """Every marker with what it shows, in lines of 79 characters at most."""
    lines = [(kind, shows) for kind, (shows, _) in OF_ALL.items()]
    lines += [(f"{kind} CASE_ID", shows) for kind, (shows, _) in OF_CASE.items()]
    lines.append(("support", "what python -m docs.support_table writes"))
    case = {"one": " CASE_ID", "any": " [CASE_ID]", "several": ""}
    lines += [(f"plot {name}{case[plot.of]}", plot.shows) for name, plot in plots.PLOTS.items()]
    width = max(len(form) for form, _ in lines)
    indent = " " * (width + 4)
    described = (
        textwrap.fill(shows, 79, initial_indent=indent, subsequent_indent=indent) for _, shows in lines
    )
    return "\n".join(
        f"  {form:{width}}  {text.lstrip()}" for (form, _), text in zip(lines, described, strict=True)
    )


def _plot(found: re.Match[str]) -> Ask:
    name, case, budget = found["plot"], found["case"] or "", found["budget"]
    if name not in plots.PLOTS:
        raise ValueError(f"there is no plot {quoted(name)!r}. There are {', '.join(plots.PLOTS)}.")
    if not case and plots.PLOTS[name].of == "one":
        raise ValueError(f"plot {name} needs a case. Write tritonproof:plot {name} CASE_ID.")
    if budget and not 0 < float(budget) < _LARGEST_MS:
        raise ValueError(
            f"{quoted(budget)} ms is no latency budget. Write one above 0 and below {_LARGEST_MS:,}, such as 10ms."
        )
    return Ask("plot", case, name, float(budget) if budget else None)


def _scenario(record: Shown) -> str:
    """The scenario whose settings are shown: online where it was measured, which has settings of the batcher too."""
    return "online" if any(load.scenario == "online" for load in record.loads) else "offline"


def _accuracy(record: Shown) -> str:
    sentence = accuracy_sentence(record)
    return text(f"{sentence[:1].upper()}{sentence[1:].rstrip('.')}.")


def _efficiency(record: Shown) -> str:
    return text(record.no_speed) or efficiency_section(record)


def _resources(record: Shown) -> str:
    if record.no_speed:
        return text(record.no_speed)
    return "\n\n".join(filter(None, (tables.resources_table(record, one) for one in ("offline", "online"))))


_SOAK = "what grew while the server was under load for long, and whether it leaks"

OF_ALL: Mapping[str, tuple[str, Callable[[Sequence[Shown]], str]]] = {
    "machine": ("what the records were measured on", tables.machine_sentence),
    "summary": ("a row per case: is it right, and how fast at its best", tables.summary_table),
    "comparison": ("the speed of load points beside another build", tables.comparison_table),
    "soak": (_SOAK, tables.soak_table),
}
"""What each marker of all records shows, and what writes it."""

OF_CASE: Mapping[str, tuple[str, Callable[[Shown], str]]] = {
    "case": ("all that follows, under headings", tables.case_section),
    "configuration": (
        "what was served, on what and by what",
        lambda record: tables.configuration_list(record, _scenario(record)),
    ),
    "parameters": (
        "the settings on the server",
        lambda record: tables.parameters_table(record, _scenario(record)),
    ),
    "offline": (
        "throughput and latency by batch",
        lambda record: tables.points_table(record, "offline"),
    ),
    "online": (
        "throughput and latency with its components by concurrency",
        lambda record: tables.points_table(record, "online"),
    ),
    "use": ("energy, GPU and cost by load point", _resources),
    "accuracy": ("the scores after each stage", _accuracy),
    "efficiency": ("throughput beside that in process, and beside the machine's peak", _efficiency),
    "comparison": (
        "the speed of load points beside another build",
        lambda record: tables.comparison_table([record]),
    ),
    "search": (
        "the fastest configuration within a latency budget",
        lambda record: text(search_paragraph(record)),
    ),
    "soak": (_SOAK, soak_section),
}
"""What each marker of one case shows, and what writes it."""
