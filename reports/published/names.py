"""What NVIDIA's tables call settings and columns, in their order, as data: `names/<model>.csv`."""

import csv
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reports.published.layout import ParseError, PublishedTable
from reports.record.untrusted import is_plain

FOLDER = Path(__file__).parent / "names"

NAME_COLUMNS = ("scenario", "part", "name")
_PARTS = ("parameters", "configuration", "columns")

_DEFAULT = "resnet50"
_MICRO = "-micro"


@dataclass(frozen=True)
class Names:
    """The names in the tables of one model and scenario, as printed and in their order."""

    parameters: tuple[str, ...]
    """Settings that the scenario's tables share; empty where each table has all of its own."""
    configuration: tuple[str, ...]
    """Settings beside each table; some stand only where they apply."""
    columns: tuple[str, ...]


@functools.cache
def names_of(model: str, scenario: str) -> Names:
    """The published names for a model's tables; a micro model has those of its full one.

    A model without publication has ResNet50's; a scenario without one has the model's other scenario's.
    """
    path = FOLDER / f"{model.removesuffix(_MICRO)}.csv"
    if not is_plain(model) or not path.exists():
        path = FOLDER / f"{_DEFAULT}.csv"
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    of_scenario = [row for row in rows if row["scenario"] == scenario] or rows
    return Names(
        *(tuple(row["name"] for row in of_scenario if row["part"] == part) for part in _PARTS),
    )


def names_of_sections(found: Sequence[PublishedTable], file: str) -> list[dict[str, str]]:
    """The rows of `names/<model>.csv` for the sections of a README; ParseError where its tables differ in shape.

    A setting that some tables lack has the place that it has in the others.
    """
    rows = []
    for scenario in dict.fromkeys(section.scenario for section in found):
        of_scenario = [section for section in found if section.scenario == scenario]
        for part in _PARTS:
            longest = max((getattr(section, part) for section in of_scenario), key=len)
            for section in of_scenario:
                left_out = set(longest) - set(getattr(section, part))
                kept = tuple(name for name in longest if name not in left_out)
                if kept != getattr(section, part) or (left_out and part != "configuration"):
                    raise ParseError(
                        f"{file}:{section.line}: the {part} of this table are not those of the other "
                        f"{scenario} tables, which are {', '.join(longest)}"
                    )
            rows += [{"scenario": scenario, "part": part, "name": name} for name in longest]
    return rows
