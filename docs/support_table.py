"""The support table: which model is served in which format, precision and server, and where that has been
run.

`python -m docs.support_table` prints it; with a file it writes the region `support` of that file.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fixtures.cases import precisions_of
from fixtures.formats import all_formats
from fixtures.models import all_models
from fixtures.spec import Device, Format, Model
from reports import readme
from reports.record import atomic
from reports.record.arguments import Parser
from reports.tables.rendering import markdown
from reports.tables.table import table_of_texts
from reports.text.publishable import Publishable, read_all

_REPORTS = Path(__file__).parent.parent / "reports"
RECORDS = (_REPORTS / "readme", _REPORTS / "h200", _REPORTS / "native")
"""Folders of records that prove a cell: README's own, those of docs/evidence/h200.md, and, where there are
any, those of native backends, whose cases have the same names."""


@dataclass(frozen=True)
class Server:
    """A way to serve on a kind of hardware: one column."""

    label: str
    device: Device
    is_native: bool
    """By Triton's own backend for the format, as in NVIDIA's containers; else by the suite's runtimes."""


SERVERS = (
    Server("CPU, embedded", "cpu", False),
    Server("CPU, native backend", "cpu", True),
    Server("NVIDIA GPU, embedded", "cuda", False),
    Server("NVIDIA GPU, native backend", "cuda", True),
)


def support_table(records: Sequence[Publishable]) -> str:
    """The table in markdown. A cell says `runs` only where a record of the case proves it."""
    rows = [
        [f"`{model.name}`", _format_name(format_, accelerator), *cells]
        for model in all_models()
        if not model.micro
        for format_ in all_formats()
        if model.framework in format_.frameworks
        for accelerator, cells in _rows(model, format_, records)
    ]
    columns = ["Model", "Format", *(server.label for server in SERVERS)]
    return markdown([table_of_texts(columns, rows)])


def _rows(
    model: Model, format_: Format, records: Sequence[Publishable]
) -> Iterator[tuple[str | None, list[str]]]:
    if format_.mnemonic in model.excluded:
        yield None, [f"none: {model.excluded[format_.mnemonic]}", *["-"] * (len(SERVERS) - 1)]
        return
    for accelerator in dict.fromkeys((None, *(a for every in format_.accelerators.values() for a in every))):
        yield accelerator, [_cell(model, format_, accelerator, server, records) for server in SERVERS]


def _cell(
    model: Model, format_: Format, accelerator: str | None, server: Server, records: Sequence[Publishable]
) -> str:
    """`FP32, INT8: runs`, `FP16: not run, needs TensorRT`, or `-` where there is nothing to run."""
    if server.is_native and not format_.backend:
        return "-"
    if accelerator is not None and accelerator not in format_.accelerators.get(server.device, ()):
        return "-"
    needed = "TensorRT" if accelerator == "trt" else format_.needs
    states: dict[str, list[str]] = {}
    for precision in precisions_of(model, format_, server.device):
        proofs = [one for one in records if _proves(one, model, format_, accelerator, precision, server)]
        needs = f", needs {needed}" if needed else ""
        state = _runs(proofs, server) if proofs else f"not run{needs}"
        states.setdefault(state, []).append(precision.upper())
    return "; ".join(f"{', '.join(names)}: {state}" for state, names in states.items()) or "-"


def _runs(proofs: Sequence[Publishable], server: Server) -> str:
    """That it runs, and natively with which versions of Triton: each brings backends of its own."""
    if not server.is_native:
        return "runs"
    versions = {one.serving.triton for one in proofs if one.serving is not None}
    return f"runs, Triton {', '.join(sorted(versions))}"


def _proves(
    record: Publishable,
    model: Model,
    format_: Format,
    accelerator: str | None,
    precision: str,
    server: Server,
) -> bool:
    """Whether a record shows that the model, in either size, was right when it was served so."""
    case = record.case
    return (
        case.model in (model.name, f"{model.name}-micro")
        and (case.format, case.accelerator, case.precision) == (format_.mnemonic, accelerator, precision)
        and (case.target == "cpu") == (server.device == "cpu")
        and record.serving is not None
        and (record.serving.backend != "python") == server.is_native
        and not record.no_speed
    )


def _format_name(format_: Format, accelerator: str | None) -> str:
    return f"`{format_.mnemonic}`" + (f" with `{accelerator}`" if accelerator else "")


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns 0, or 1 where `--check` finds that the file says otherwise, and ends with 4
    for a file that cannot be used."""
    parser = Parser(
        prog="python -m docs.support_table",
        description="Print the support table: which model is served in which format, precision and "
        "server, and where that has been run. With a file, write it between the file's markers.",
    )
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        help="a markdown file with the markers tritonproof:support; default: print the table",
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with status 1 if the file is out of date"
    )
    options = parser.parse_args(arguments)
    found = support_table([record for folder in RECORDS if folder.is_dir() for record in read_all(folder)])
    if options.file is None:
        print(found)
        return 0
    try:
        return _keep(options.file, found, write=not options.check)
    except OSError as error:
        parser.error(f"{options.file}: {error.strerror}")
    except readme.ReadmeError as error:
        parser.error(f"{options.file}: {error}")


def _keep(file: Path, table: str, *, write: bool) -> int:
    """Put the table into the file, whose line ends stay, unless it is there; 1 where it is not and nothing is
    to be written."""
    text = readme.text_of(file)
    synced = readme.with_region(text, "support", table)
    if synced == text:
        print(f"{file}: the support table is up to date")
        return 0
    if not write:
        print(readme.difference(text, synced))
        print(f"{file}: out of date. Run: python -m docs.support_table {file}")
        return 1
    atomic.write_given(file, synced.encode())
    print(f"{file}: support table written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
