"""A table as a value, which `tables.rendering` writes in every form. Rows come from records that passed
`publishable`, and cells leave out figures of too wide an interval, so nothing hidden can be rendered."""

import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from tritonproof.record import fields, speed
from tritonproof.record.quantities import NOT_SHOWN, NOTHING, WIDEST_RATIO, Quantity, is_shown
from tritonproof.reports.phrases import grouped, letter

Item = TypeVar("Item", contravariant=True)
Style = Literal["value", "interval", "half width"]
"""The form of an estimate: alone, with its interval in brackets, or with half the interval's width."""


class Cell(NamedTuple):
    """The text that a reader sees, and the number in it, in its unit; None if no number is shown."""

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None


Taken = str | int | float | fields.Estimate | Cell | None
"""What a column may take of an item: a Cell if the text needs a special form."""


def cell_of(
    quantity: Quantity,
    taken: float | fields.Estimate | None,
    style: Style = "value",
    *apart_from: float,
    with_unit: bool = False,
) -> Cell:
    """The cell of a figure, with digits that tell it from `apart_from`, and a unit if no title has it."""
    if taken is None:
        return Cell(NOTHING)
    if not isinstance(taken, fields.Estimate):
        return Cell(quantity.text(taken) if with_unit else quantity.cell(taken), _in_unit(quantity, taken))
    if not is_shown(taken):
        return Cell(NOT_SHOWN)
    if style == "interval":
        written = quantity.text_with_interval(taken, *apart_from, with_unit=with_unit)
    elif style == "half width":
        written = quantity.text_with_half_width(taken, with_unit=with_unit)
    else:
        written = quantity.text(taken.value) if with_unit else quantity.cell(taken.value)
    value, low, high = (_in_unit(quantity, number) for number in (taken.value, taken.low, taken.high))
    return Cell(written, value, low, None if taken.open_above else high)


def _in_unit(quantity: Quantity, value: float) -> float:
    return value if quantity.scale == 1 else round(quantity.scale * value, 12)  # 98, not 97.99999999999999


@dataclass(frozen=True)
class Column(Generic[Item]):
    """A column: its title, what it takes of an item, and its quantity, which is None for texts."""

    title: str
    take: Callable[[Item], Taken]
    quantity: Quantity | None = None
    style: Style = "value"
    meaning: str = ""
    """The legend's words on the column, without a full stop."""
    is_optional: bool = False
    """Whether the table omits the column if no row fills it."""
    with_unit: bool = False
    """Whether cells show the unit, which the title lacks."""
    right_aligned: bool | None = None
    """Whether cells align right; by default those of quantities do."""
    narrow: str | None = None
    """The title in a terminal too narrow for all columns; None to omit the column there."""

    @property
    def is_right_aligned(self) -> bool:
        return self.quantity is not None if self.right_aligned is None else self.right_aligned

    def cell(self, item: Item) -> Cell:
        taken = self.take(item)
        if isinstance(taken, Cell):
            return taken
        if isinstance(taken, str):  # it may be Formatted, which str() would lose
            return Cell(taken)
        if taken is None or self.quantity is None:
            return Cell(NOTHING if taken is None else str(taken))
        return cell_of(self.quantity, taken, self.style, with_unit=self.with_unit)


@dataclass(frozen=True)
class Table:
    """A table: columns, rows, and what stands below them. It is false without rows."""

    columns: Sequence[Column[Any]]
    rows: Sequence[Sequence[Cell]]
    marks: Sequence[Sequence[speed.Mark]] = ()
    """Reasons to take care with the figures of each row."""
    remarks: Sequence[str] = ()
    """The line for each letter in the column of notes; rows may share a letter."""
    notes: Sequence["str | Bullets"] = ()

    def __bool__(self) -> bool:
        return bool(self.rows)

    @property
    def legend(self) -> str:
        """The meanings of the columns, and why some figures are missing."""
        parts = [f"{column.title}: {column.meaning}." for column in self.columns if column.meaning]
        if parts and any(cell.text.startswith(NOT_SHOWN) for row in self.rows for cell in row):
            parts.append(f"A ratio whose interval is wider than a factor of {WIDEST_RATIO:g} is not shown.")
        return " ".join(parts)

    @property
    def titles(self) -> list[str]:
        return [column.title for column in self.columns]

    @property
    def texts(self) -> list[list[str]]:
        return [[cell.text for cell in row] for row in self.rows]


NOTES: Column[Any] = Column("Note", lambda _item: None, narrow="")
"""The last column of a table with marks: their letters."""


def table(
    columns: Sequence[Column[Item]],
    items: Iterable[Item],
    *,
    marks: Callable[[Item], Iterable[speed.Mark]] = lambda _item: (),
    notes: Sequence["str | Bullets"] = (),
) -> Table:
    """The table of the items, without optional columns that are empty, and with notes for marks."""
    items = list(items)
    marks_of = [tuple(marks(item)) for item in items]
    filled = [(column, [column.cell(item) for item in items]) for column in columns]
    shown = [
        (column, cells)
        for column, cells in filled
        if not column.is_optional or any(cell.text not in (NOTHING, "") for cell in cells)
    ]
    by_code = grouped(itertools.chain(*marks_of), operator.attrgetter("code"))
    letters = {code: letter(index) for index, code in enumerate(by_code)}
    if letters:
        listed = (", ".join(sorted({letters[mark.code] for mark in group})) for group in marks_of)
        shown.append((NOTES, [Cell(text) for text in listed]))
    rows = [[cells[index] for _, cells in shown] for index in range(len(items))]
    remarks = [f"{letters[code]}: {_meaning(group)}" for code, group in by_code.items()]
    return Table([column for column, _ in shown], rows, marks_of, remarks, [note for note in notes if note])


def _meaning(marks: Sequence[speed.Mark]) -> str:
    """The text that all marks of a code share, else the code's meaning."""
    texts = list(dict.fromkeys(mark.text for mark in marks))
    return texts[0] if len(texts) == 1 else speed.MARKS.get(marks[0].code, "; ".join(texts))


class Heading(NamedTuple):
    text: str
    level: int


class Bullets(NamedTuple):
    lines: Sequence[str]

    def __bool__(self) -> bool:
        return bool(self.lines)


Block = Table | Heading | Bullets | str
"""A part of a document; a string is a paragraph. Renderings leave out empty ones."""
