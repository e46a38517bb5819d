"""The suite's command lines: how a user types them (`tritonproof` if installed, else tox and Python in a
checkout), and the parser, exit statuses and errors that they share."""

import argparse
import errno
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from tritonproof.base.errors import InputError
from tritonproof.base.paths import IS_INSTALLED
from tritonproof.base.sanitize import excerpt, one_line, path_text, visible


def benchmarks_command(options: str = "") -> str:
    if IS_INSTALLED:
        return f"tritonproof run {options}".rstrip()
    return f".venv/bin/tox run -e benchmarks -- {options}".removesuffix(" -- ")


def tool_command(name: str, arguments: str = "") -> str:
    """Another command of tritonproof, such as "report"."""
    program = "tritonproof" if IS_INSTALLED else f"{as_typed(Path(sys.executable))} -m tritonproof"
    return f"{program} {name} {arguments}".rstrip()


def install_command(extra: str) -> str:
    """The command that adds an extra's packages to the running Python's."""
    return f"pip install '{'tritonproof' if IS_INSTALLED else '.'}[{extra}]'"


def packages_command(environment: str = "benchmarks", *, anew: bool = False) -> str:
    """The command that installs a tox environment's packages; `anew` ends conflicts among those installed."""
    if not IS_INSTALLED:
        return f".venv/bin/tox run {'-r ' * anew}-e {environment}"
    factors = environment.split("-")
    cuda12 = "-cuda12" if "cuda12" in factors else ""
    extras = ["models", f"gpu{cuda12}" if "gpu" in factors else "cpu"]
    if "trt" in factors:
        extras.append(f"trt{cuda12}")
    # PyTorch for CUDA 12 is not on PyPI: see tox.ini.
    index = " --extra-index-url https://download.pytorch.org/whl/cu126" if cuda12 else ""
    return f"{install_command(','.join(extras))}{index}{' in a new environment' * anew}"


def as_typed(path: Path) -> str:
    """A path as a user would type it in the current folder."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


EXIT_INPUT = 4
"""Exit status: an argument, a file or a folder cannot be used. A pytest run uses the same status."""
EXIT_UNREADABLE = 6
"""Exit status: some records are unreadable, and the others were shown. The statuses below take precedence."""
EXIT_SPEED, EXIT_INFRASTRUCTURE, EXIT_ACCURACY = 10, 11, 12
"""Exit statuses: something is too slow, is broken or leaks, or is wrong."""


class Parser(argparse.ArgumentParser):
    """The parser of a command; a wrong argument ends it with EXIT_INPUT and one line, safe on a terminal."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_INPUT, f"{self.prog}: error: {one_line(message)}\n")


def no_case(where: Path, substring: str, names: Iterable[str]) -> InputError:
    """The error if no case in the folder `where` has `substring` in its name; it lists their `names`."""
    fix = f"name one of these, or a part of its name: {', '.join(dict.fromkeys(names))}"
    return InputError(f"no case has '{excerpt(substring)}' in its name", where=where, fix=fix)


def path_argument(text: str) -> Path:
    """The path that an option's text names, with `~` replaced by the user's home."""
    if not text.strip():
        raise argparse.ArgumentTypeError("an empty path, or no valid one")
    return Path(os.path.expanduser(text))  # noqa: PTH111 - Path raises an error if there is no such user


def count_argument(text: str) -> int:
    """A whole number from 1, of up to nine digits."""
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", text[:100], re.ASCII):
        raise argparse.ArgumentTypeError(f"'{excerpt(text)}' is not a whole number from 1 to 999,999,999")
    return int(text)


def os_error_text(error: OSError) -> str:
    """One line with the file, the error and a fix; the suite's own errors contain their fix already."""
    where = path_text(error.filename or "standard output", 300)
    message = error.strerror or str(error)
    if error.errno and message == os.strerror(error.errno):
        is_full = error.errno == errno.ENOSPC
        message += ". Make room." if is_full else ". Name a place that this user may read and write."
    return visible(f"{where}: {message}")
