"""What a load point takes: energy, GPU, and money per correct inference."""

from collections.abc import Sequence

from reports.record.quantities import CLOCK, COST, ENERGY, POWER, PRICE, SHARE, SIZE
from reports.record.schema import GpuUse, Load, Record
from reports.tables.points import loads_of
from reports.words.cost import cost
from reports.words.labels import point
from reports.words.markdown import markdown
from reports.words.shown import Shown

RESOURCES = (
    "Joules per 1,000 inferences",
    "Mean power (W)",
    "GPU utilisation",
    "GPU memory (MiB)",
    "SM clock (MHz)",
    "Cost per million correct inferences",
)
"""After the load point; a column without a figure is left out."""


def resources_table(record: Shown, scenario: str) -> str:
    """Energy, GPU and cost per load point; empty where nothing of it is known."""
    rows = [[point(load), *_cells(record, load)] for load in loads_of(record, scenario)]
    known = [place for place in range(1, 1 + len(RESOURCES)) if any(row[place] != "-" for row in rows)]
    if not known:
        return ""
    table = markdown(
        ("Load point", *(RESOURCES[place - 1] for place in known)),
        [[row[place] for place in (0, *known)] for row in rows],
        "l" + "r" * len(known),
    )
    return "\n\n".join([table, *([price_sentence([record])] if record.price_per_hour is not None else [])])


def cost_cell(record: Shown, load: Load | None) -> str:
    """What a million inferences cost at a load point; `-` without a price."""
    found = cost(record, load) if load else None
    if found is None:
        return "-"
    return COST.cell(found.per_million) + ("" if found.of == "correct inferences" else " (any)")


def price_sentence(records: Sequence[Record]) -> str:
    """At what price, and what counts as correct."""
    prices = sorted({one.price_per_hour for one in records if one.price_per_hour is not None})
    return (
        f"Cost: at {' or '.join(map(PRICE.text, prices))} per hour of the machine. An inference counts as "
        "correct by the served score; (any) is per million inferences of any kind, where no score is a share."
    )


def _cells(record: Shown, load: Load) -> list[str]:
    """What a load point takes, a cell for each of RESOURCES."""
    gpu = load.gpu or GpuUse(None, None, None, None, None)
    share = "-" if gpu.utilisation is None else SHARE.text(gpu.utilisation)
    taken = (ENERGY.cell(gpu.energy_j_per_1000), POWER.cell(gpu.power_w), share)
    return [*taken, SIZE.cell(gpu.memory_mib), CLOCK.cell(gpu.sm_clock_mhz), cost_cell(record, load)]
