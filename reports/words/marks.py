"""Why figures of a load point are to be read with care, in words."""

from collections.abc import Iterable

from reports.record.schema import Efficiency, Load
from reports.words.markdown import text


def notes(measured: Load | Efficiency) -> str:
    """What a reader should know about a load point, or about what serving costs at it, in words; empty where there is
    nothing."""
    return "; ".join(mark.text for mark in measured.marks)


def marked_points(loads: Iterable[tuple[str, Load | Efficiency]]) -> list[str]:
    """Blocks of markdown that say why load points are marked, each by its name; empty where none is."""
    lines = [f"- {name}: {text(notes(load))}" for name, load in loads if load.marks]
    return ["Marked points (*):", "\n".join(lines)] if lines else []
