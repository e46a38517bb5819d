"""The command line of the reports: `python -m reports`, then a command, each in a file of reports/commands."""

import io
import os
import sys
from collections.abc import Sequence

from reports.commands import (
    UsageError,
    compare,
    csv,
    export,
    html,
    merge,
    plots,
    published,
    readme,
    tables,
    trend,
)
from reports.record import files
from reports.record.arguments import INPUT, Parser, with_cure
from reports.record.foreign import cut, visible

_LONGEST_ERROR = 20_000
"""Characters: a line for each of a hundred damaged records."""
_PACKAGES = {"markdown_it": "markdown-it-py"}
"""The package that brings a module, where the two have different names."""
_COMMANDS = (tables, html, plots, csv, export, compare, trend, merge, published, readme)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0; 1 if `readme --check` found a difference; 4 for what cannot be read, written
    or done as asked; 6 where some of the records cannot be read and the others are shown; 10, 11 or 12 if `compare` or `trend` failed by --fail-on."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without ± or µ still gets its tables
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _refused(with_cure(error))
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        package = _PACKAGES.get(module, module)
        installs = f"{sys.executable} -m pip install {package}"
        return _refused(
            f"this needs {package}: {installs}, or .venv/bin/tox run -e report -- {options.command}"
        )
    except (UsageError, files.RecordError) as error:
        return _refused(str(error))
    except MemoryError:
        return _refused("the records take more memory than there is. Give fewer of them, such as with -k")
    return status


def _refused(why: str) -> int:
    """Say why, in lines that a terminal only shows, whatever names and values are in them."""
    print(f"error: {cut(visible(why), _LONGEST_ERROR)}", file=sys.stderr)
    return INPUT


def _parser() -> Parser:
    parser = Parser(
        prog="python -m reports",
        description="Turn the records of measured cases into tables, plots and pages.",
        epilog="Records come from the benchmarks: .venv/bin/tox run -e benchmarks",
    )
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND")
    for command in _COMMANDS:
        command.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
