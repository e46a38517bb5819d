"""Where a published README has its tables, in whichever shape its text has come down to us.

Three shapes occur, all with the same words: markdown with a row per line, a whole markdown table on one line, and
cells separated by spaces alone. All become sections of settings and rows that know their lines.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: Names of settings, in lower case.
SETTINGS = (
    "gpu",
    "backend",
    "backend accelerator",
    "accelerator precision",
    "precision",
    "model binding",
    "model format",
    "conversion variant",
    "image resolution",
    "max batch size",
    "max seq length",
    "number of model instances",
    "nvidia tensorrt capture cuda graph",
    "squad v1.1 f1 score",
    "triton max queue delay",
    "triton preferred batch sizes",
)

#: Names of table columns, in lower case and without `(ms)`, and what they are called here.
COLUMNS = {
    "precision": "precision",
    "backend accelerator": "accelerator",
    "sequence length": "sequence_length",
    "client batch size": "batch",
    "batch": "batch",
    "concurrent client requests": "concurrency",
    "concurrency": "concurrency",
    "inferences/second": "throughput_per_s",
    "client send": "client_send_ms",
    "network+server send/recv": "network_server_send_recv_ms",
    "server queue": "server_queue_ms",
    "server compute input": "server_compute_input_ms",
    "server compute infer": "server_compute_infer_ms",
    "server compute output": "server_compute_output_ms",
    "client recv": "client_recv_ms",
    "p50 latency": "latency_p50_ms",
    "p90 latency": "latency_p90_ms",
    "p95 latency": "latency_p95_ms",
    "p99 latency": "latency_p99_ms",
    "avg latency": "latency_avg_ms",
}

_SCENARIO = re.compile(r"(?:#+ +)?(Offline|Online) scenario")
_HEADING = re.compile(r"(?:#+ +)?(Offline|Online): (.+)")
_BULLET = re.compile(r"\s*[•*]\s+(?:\*\*)?([^:*]+):(?:\*\*)?\s*(.*)")
_RULE = re.compile(r"\|(?:\s*:?-{3,}:?\s*\|)+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_NAME_IN_TEXT = re.compile("|".join(sorted(map(re.escape, COLUMNS), key=len, reverse=True)), re.IGNORECASE)


class ParseError(Exception):
    """A README that cannot be used; the message names the file, the line and what is wrong there."""


@dataclass(frozen=True)
class SourceLine:
    """A line of the file, or one of the table rows that stand on it."""

    number: int
    text: str
    cells: tuple[str, ...] | None
    """The cells of a row of a markdown table; None of any other line."""


@dataclass(frozen=True)
class TableRow:
    """One row of a table: its cells by the names of their columns."""

    line: int
    cells: dict[str, str]


@dataclass(frozen=True)
class PublishedTable:
    """One heading such as `Offline: NVIDIA A40 with FP16`, the settings that hold there, and its one table."""

    line: int
    scenario: str
    heading: str
    """What follows `Offline:`."""
    settings: dict[str, str]
    """The settings by their names in SETTINGS; the section's own count before those of its scenario."""
    parameters: tuple[str, ...]
    """Names of the scenario's settings as printed, in their order."""
    configuration: tuple[str, ...]
    """Names of the section's own settings as printed, in their order."""
    columns: tuple[str, ...]
    """Names of the table's columns as printed, in their order."""
    rows: tuple[TableRow, ...]


def sections(text: str, file: str) -> list[PublishedTable]:
    """The sections of the README `text`, in order; ParseError names `file` and the line."""
    lines = [line for number, raw in enumerate(text.split("\n"), 1) for line in _lines(raw, file, number)]
    starts = [
        i for i, line in enumerate(lines) if _SCENARIO.fullmatch(line.text) or _HEADING.fullmatch(line.text)
    ]
    common: Sequence[SourceLine] = ()
    scenario, found = "", []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        first, body = lines[start], lines[start + 1 : end]
        heading = _HEADING.fullmatch(first.text)
        if heading is None:
            scenario, common = first.text.split()[-2].lower(), body
        elif heading[1].lower() != scenario:
            raise ParseError(
                f"{file}:{first.number}: {heading[1]!r} heading in the {scenario or 'no'} scenario"
            )
        else:
            found.append(_section(first, heading[2], scenario, common, body, file))
    return found


def _lines(raw: str, file: str, number: int) -> list[SourceLine]:
    """The line, or the rows of the table that stands on it; rules between header and rows are left out."""
    text = raw.strip()
    rule = _RULE.search(text)
    if rule is not None and text == rule[0]:
        return []
    if rule is None or "|" not in text[: rule.start()]:
        return [SourceLine(number, text, _cells(text, file, number) if text.startswith("|") else None)]
    width = rule[0].count("|") - 1
    head, body = text[: rule.start()], text[rule.end() :].strip()
    rows = [_cells(head[head.index("|") :].strip(), file, number)]
    cells = _cells(body, file, number) if body else ()
    rows += [cells[i : i + width] for i in range(0, len(cells), width + 1)]
    if any(len(row) != width for row in rows) or any(cells[width :: width + 1]):
        raise ParseError(f"{file}:{number}: the rows of this table do not all have its {width} columns")
    return [SourceLine(number, text, row) for row in rows]


def _cells(text: str, file: str, number: int) -> tuple[str, ...]:
    if len(text) < 2 or not (text.startswith("|") and text.endswith("|")):
        raise ParseError(f"{file}:{number}: this row is cut short: it does not end in '|'")
    return tuple(cell.strip() for cell in text[1:-1].split("|"))


def _section(
    first: SourceLine,
    heading: str,
    scenario: str,
    common: Sequence[SourceLine],
    body: Sequence[SourceLine],
    file: str,
) -> PublishedTable:
    headers = ((i, names) for i, line in enumerate(body) if (names := _columns(line, file)))
    start, names = next(headers, (None, ()))
    columns = [column_of(name) for name in names]
    if start is None:
        raise ParseError(f"{file}:{first.number}: no table under this heading")
    rows: list[TableRow] = []
    rest = iter(body[start + 1 :])
    for line in rest:
        if not line.text:
            break
        cells = _row_cells(line)
        if len(cells) != len(columns):
            raise ParseError(f"{file}:{line.number}: {len(cells)} cells in a table of {len(columns)} columns")
        rows.append(TableRow(line.number, dict(zip(columns, cells, strict=True))))
    for line in rest:
        cells = _row_cells(line)
        if (len(cells) == len(columns) and _NUMBER.fullmatch(cells[-1])) or _columns(line, file):
            raise ParseError(f"{file}:{line.number}: a row apart from the table under line {first.number}")
    if not rows:
        raise ParseError(f"{file}:{body[start].number}: this table has no rows")
    return PublishedTable(
        first.number,
        scenario,
        heading,
        _settings(common, file) | _settings(body[:start], file),
        _names(common),
        _names(body[:start]),
        names,
        tuple(rows),
    )


def _row_cells(line: SourceLine) -> tuple[str, ...]:
    return tuple(line.text.split()) if line.cells is None else line.cells


def _columns(line: SourceLine, file: str) -> tuple[str, ...]:
    """The columns that a table's header names, as printed; empty for any other line."""
    if "inferences/second" not in line.text.lower():
        return ()
    if line.cells is not None:
        names = line.cells
        if "inferences/second" not in map(str.lower, names):
            return ()  # a row that shares its line with the header
    else:
        rest = _NAME_IN_TEXT.sub("", line.text).strip()
        names = (*_NAME_IN_TEXT.findall(line.text), *([rest] if rest else []))
    if unknown := [name for name in names if _key(name) not in COLUMNS]:
        raise ParseError(f"{file}:{line.number}: unknown column {unknown[0]!r}")
    if len({column_of(name) for name in names}) != len(names):
        raise ParseError(f"{file}:{line.number}: a column stands there twice")
    return names


def column_of(name: str) -> str:
    """What the column of a published table is called here; KeyError where none is called so."""
    return COLUMNS[_key(name)]


def _key(name: str) -> str:
    return name.lower().removesuffix("(ms)").strip()


def _settings(lines: Iterable[SourceLine], file: str) -> dict[str, str]:
    """The settings on `lines`: bullets, rows of two cells, or a known name followed by its value."""
    settings: dict[str, str] = {}
    for line in lines:
        pair = _setting(line)
        if pair is None:
            continue
        name, value = pair[0].strip().lower(), pair[1].strip()
        if name not in SETTINGS:
            raise ParseError(f"{file}:{line.number}: unknown setting {pair[0]!r}")
        if settings.setdefault(name, value) != value:
            raise ParseError(f"{file}:{line.number}: {pair[0]!r} is both {settings[name]!r} and {value!r}")
    return settings


def _names(lines: Iterable[SourceLine]) -> tuple[str, ...]:
    return tuple(pair[0].strip() for line in lines if (pair := _setting(line)))


def _setting(line: SourceLine) -> tuple[str, str] | None:
    if line.cells is not None:
        name, *values = line.cells
        if len(values) != 1 or name.startswith("![") or name == "Parameter Name":
            return None
        return name, values[0]
    if bullet := _BULLET.fullmatch(line.text):
        return bullet[1], bullet[2]
    plain = (name for name in SETTINGS if line.text.lower().startswith(f"{name} "))
    if name := max(plain, key=len, default=""):
        return line.text[: len(name)], line.text[len(name) :]
    return None
