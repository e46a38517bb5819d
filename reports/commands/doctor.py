"""`python -m reports doctor`: what could go wrong on this machine."""

import argparse
import subprocess
import sys
from pathlib import Path

from reports.commands import Commands


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    doctor = commands.add_parser(
        "doctor",
        help="say what could go wrong on this machine when cases are measured, each with its cure",
        description="Look at this machine and this Python's packages. Exit status 1 where the benchmarks would stop.",
    )
    doctor.add_argument("--triton", metavar="SERVER", help="the server that is meant, as for the benchmarks")
    doctor.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    # A program of its own: the reports import nothing of what measures.
    given = [] if options.triton is None else ["--triton", options.triton]
    command = [sys.executable, "-m", "fixtures.doctor", *given]
    return subprocess.run(command, cwd=Path(__file__).parents[2], check=False).returncode
