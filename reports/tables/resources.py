"""What a load point takes: energy, GPU, and money per correct inference."""

from collections.abc import Sequence

from reports.record.schema import Load, Record
from reports.tables.points import loads_of
from reports.words.cost import cost
from reports.words.labels import point
from reports.words.markdown import markdown
from reports.words.rightness import why_no_speed

USE_COLUMNS = (
    "Joules per 1,000 inferences",
    "Mean power (W)",
    "GPU utilisation",
    "GPU memory (MiB)",
    "SM clock (MHz)",
    "Cost per million correct inferences",
)
"""After the load point; a column without a figure is left out."""


def use_table(record: Record, scenario: str) -> str:
    """Energy, GPU and cost per load point; empty where nothing of it is known, or no speed may be shown."""
    loads = [] if why_no_speed(record) else loads_of(record, scenario)
    rows = [[point(load), *_uses(record, load)] for load in loads]
    known = [place for place in range(1, 1 + len(USE_COLUMNS)) if any(row[place] != "-" for row in rows)]
    if not known:
        return ""
    table = markdown(
        ("Load point", *(USE_COLUMNS[place - 1] for place in known)),
        [[row[place] for place in (0, *known)] for row in rows],
        "l" + "r" * len(known),
    )
    return "\n\n".join([table, *([price_sentence([record])] if record.price_per_hour is not None else [])])


def cost_cell(record: Record, load: Load | None) -> str:
    """What a million inferences cost at a load point; `-` without a price, or where no speed may be shown."""
    found = cost(record, load) if load else None
    if found is None:
        return "-"
    return f"{found.per_million:.3g}" + ("" if found.of == "correct inferences" else " (any)")


def price_sentence(records: Sequence[Record]) -> str:
    """At what price, and what counts as correct."""
    prices = sorted({one.price_per_hour for one in records if one.price_per_hour is not None})
    return (
        f"Cost: at {' or '.join(f'{price:g}' for price in prices)} per hour of the machine. An inference counts as "
        "correct by the served score; (any) is per million inferences of any kind, where no score is a share."
    )


def _uses(record: Record, load: Load) -> list[str]:
    use = load.gpu
    figures = (
        (
            (use.energy_j_per_1000, "{:.4g}"),
            (use.power_w, "{:.1f}"),
            (use.utilisation, "{:.0%}"),
            (use.memory_mib, "{:.0f}"),
            (use.sm_clock_mhz, "{:.0f}"),
        )
        if use
        else ((None, ""),) * 5
    )
    shown = ["-" if value is None else form.format(value) for value, form in figures]
    return [*shown, cost_cell(record, load)]
