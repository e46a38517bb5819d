"""The support table: which model is served in which format, precision and server, and where that has run.

`python -m docs.support_table` prints it; with a file it writes the region `support` of that file.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fixtures.cases import precisions_of
from fixtures.formats import all_formats
from fixtures.models import all_models
from fixtures.spec import Device, Format, Model
from reports import readme
from reports.record import disk
from reports.record.commands import Parser
from reports.tables.rendering import markdown
from reports.tables.table import table_of_texts
from reports.text.publishable import Publishable, read_all

_REPORTS = Path(__file__).parent.parent / "reports"
RECORDS = (_REPORTS / "readme", _REPORTS / "h200", _REPORTS / "native")
"""Folders of records that prove a cell: those of README.md, those of docs/evidence/h200.md, and those of
native backends, if there are any, whose cases have the same names."""


@dataclass(frozen=True)
class Server:
    """A way to serve on a kind of hardware: one column."""

    label: str
    device: Device
    is_native: bool
    """Whether Triton's own backend serves the format, as in NVIDIA's containers, or the suite's runtime."""


SERVERS = (
    Server("CPU, embedded", "cpu", False),
    Server("CPU, native backend", "cpu", True),
    Server("NVIDIA GPU, embedded", "cuda", False),
    Server("NVIDIA GPU, native backend", "cuda", True),
)


Served = tuple[str, str, str | None, str, Device, bool]
"""A model, its format, accelerator and precision, the device, and whether the backend was native."""
Proofs = Mapping[Served, Sequence[str]]
"""The versions of Triton that served a model right, in either size."""


def support_table(records: Sequence[Publishable]) -> str:
    """The table in markdown. A cell says `runs` only if a record of the case proves it."""
    proofs: dict[Served, list[str]] = {}
    for record in records:
        case, serving = record.case, record.serving
        if serving is not None and not record.no_speed:
            device: Device = "cpu" if case.target == "cpu" else "cuda"
            name, is_native = case.model.removesuffix("-micro"), serving.backend != "python"
            served = (name, case.format, case.accelerator, case.precision, device, is_native)
            proofs.setdefault(served, []).append(serving.triton)
    rows = []
    for model in (model for model in all_models() if not model.micro):
        for format_ in (one for one in all_formats() if model.framework in one.frameworks):
            name = f"`{format_.mnemonic}`"
            if reason := model.excluded.get(format_.mnemonic):
                rows.append([f"`{model.name}`", name, f"none: {reason}", *["-"] * (len(SERVERS) - 1)])
                continue
            accelerators = (name for names in format_.accelerators.values() for name in names)
            for accelerator in dict.fromkeys((None, *accelerators)):
                cells = [_cell(model, format_, accelerator, server, proofs) for server in SERVERS]
                full_name = name + (f" with `{accelerator}`" if accelerator else "")
                rows.append([f"`{model.name}`", full_name, *cells])
    columns = ["Model", "Format", *(server.label for server in SERVERS)]
    return markdown([table_of_texts(columns, rows)])


def _cell(model: Model, format_: Format, accelerator: str | None, server: Server, proofs: Proofs) -> str:
    """`FP32, INT8: runs`, `FP16: not run, needs TensorRT`, or `-` if there is nothing to run."""
    if server.is_native and not format_.backend:
        return "-"
    if accelerator is not None and accelerator not in format_.accelerators.get(server.device, ()):
        return "-"
    needed = "TensorRT" if accelerator == "trt" else format_.needs
    states: dict[str, list[str]] = {}
    for precision in precisions_of(model, format_, server.device):
        served = (model.name, format_.mnemonic, accelerator, precision, server.device, server.is_native)
        state = f"not run, needs {needed}" if needed else "not run"
        if served in proofs:  # natively, each version of Triton brings backends of its own
            versions = ", ".join(sorted(set(proofs[served])))
            state = f"runs, Triton {versions}" if server.is_native else "runs"
        states.setdefault(state, []).append(precision.upper())
    return "; ".join(f"{', '.join(names)}: {state}" for state, names in states.items()) or "-"


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns 0, or 1 if `--check` finds the file out of date, and ends with 4 for a file
    that cannot be used."""
    parser = Parser(
        prog="python -m docs.support_table",
        description="Print the support table: which model is served in which format, precision and "
        "server, and where that has been run. With a file, write it between the file's markers.",
    )
    note = "a markdown file with the markers tritonproof:support; default: print the table"
    parser.add_argument("file", nargs="?", type=Path, help=note)
    note = "write nothing; exit with status 1 if the file is out of date"
    parser.add_argument("--check", action="store_true", help=note)
    options = parser.parse_args(arguments)
    table = support_table([record for folder in RECORDS if folder.is_dir() for record in read_all(folder)])
    if options.file is None:
        print(table)
        return 0
    file: Path = options.file
    try:
        text = readme.text_of(file)
        synced = readme.with_region(text, "support", table)
        if synced == text:
            print(f"{file}: the support table is up to date")
            return 0
        if options.check:
            print(readme.difference(text, synced))
            print(f"{file}: out of date. Run: python -m docs.support_table {file}")
            return 1
        disk.write_user_file(file, synced.encode())
    except OSError as error:
        parser.error(f"{file}: {error.strerror}")
    except readme.ReadmeError as error:
        parser.error(f"{file}: {error}")
    print(f"{file}: support table written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
