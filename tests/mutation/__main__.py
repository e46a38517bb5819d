"""Mutation score: how many small faults, put into the code of verdicts one at a time, make a test of it fail.

python -m tests.mutation [--mutants 60] [--seed 0] [FILE ...]; cosmic-ray makes the faults, docs/mutation.md says what is left.
"""

import argparse
import importlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.mutation.faults import Fault, faults_of
from tests.mutation.files import TESTS
from tests.mutation.trial import Trial, passes

_ROOT = Path(__file__).parents[2]
_PACKAGES = (
    *(
        "grpc",
        "tritonclient.grpc",
        "tritonclient.http",
        "torch",
        "scipy.stats",
        "scipy.ndimage",
        "pytest",
        "psutil",
    ),
    *("msgspec", "pandas", "matplotlib.pyplot", "jinja2", "markdown_it", "rich"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the faults of some files, or of all; returns 1 where the tests fail by themselves, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation",
        description="Put small faults into the code of verdicts, one at a time, and say how many "
        "of them make a test fail. cosmic-ray makes the faults. docs/mutation.md says what was found.",
    )
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="the files to put faults into; default: all of tests/mutation/files.py",
    )
    parser.add_argument(
        "--mutants",
        type=int,
        default=60,
        help="how many faults are drawn at random for each file; default: 60",
    )
    parser.add_argument("--seed", type=int, default=0, help="the seed with which they are drawn; default: 0")
    options = parser.parse_args(arguments)
    _import_what_all_need()
    killed = tried = status = 0
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copy = _copy_of_checkout(Path(folder))
        for file in options.files or TESTS:
            source = (copy / file).read_text()
            chosen, there_are = faults_of(source, options.mutants, random.Random(f"{options.seed} {file}"))
            found = _found(copy, file, source, chosen)
            if isinstance(found, str):
                print(f"{file}: {found} fails without a fault", flush=True)
                status = 1
                continue
            killed, tried = killed + sum(found), tried + len(found)
            print(f"{file}: {sum(found)} of {len(found)} found (of {there_are} that there are)", flush=True)
            for one, is_found in zip(chosen, found, strict=True):
                if not is_found:
                    print(f"  line {one.line}, {one.operator}:\n{one.difference(source)}", flush=True)
    print(f"{killed} of {tried} found, {killed / max(1, tried):.1%}")
    return status


def _import_what_all_need() -> None:
    """Packages that take long to import, once for all faults; nothing of this project's."""
    for name in _PACKAGES:
        importlib.import_module(name)


def _copy_of_checkout(folder: Path) -> Path:
    """The files that git knows or would add, so that no fault is ever in the checkout itself."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=_ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (_ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(_ROOT / name, folder / name)
    return folder


def _found(copy: Path, file: str, source: str, faults: Sequence[Fault]) -> list[bool] | str:
    """Whether a test of the file fails with each fault; what one says that fails without any."""
    in_place = _tried(copy, file, source, faults)
    if isinstance(in_place, str):
        return in_place
    return [
        _is_found_anew(copy, file, source, fault) if found is None else found
        for fault, found in zip(faults, in_place, strict=True)
    ]


def _is_found_anew(copy: Path, file: str, source: str, fault: Fault) -> bool:
    """Whether a test fails where the file is loaded with the fault."""
    (copy / file).write_text(fault.source)
    try:
        return isinstance(_tried(copy, file, fault.source, ()), str)
    finally:
        (copy / file).write_text(source)


def _tried(copy: Path, file: str, source: str, faults: Sequence[Fault]) -> list[bool | None] | str:
    """What a trial of faults answers, in a process of its own; in place of that what pytest says where it came to no answer."""
    answers, said = copy / ".found.json", copy / ".said"
    for one in (answers, said):
        one.unlink(missing_ok=True)
    trial = Trial(file, source, faults, answers)
    passes(lambda: _ends_well(copy, TESTS[file], trial), None, said)
    found: list[bool | None] | str = json.loads(answers.read_text()) if answers.exists() else said.read_text()
    return found


def _ends_well(copy: Path, tests: Sequence[str], *plugins: Any) -> bool:
    """Whether pytest ends with 0, in this process, which has nothing of the project loaded but what is the copy's."""
    import pytest

    os.chdir(copy)
    sys.path[:] = [str(copy), *(one for one in sys.path if one not in ("", str(_ROOT)))]
    for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "fixtures", "reports")]:
        del sys.modules[name]
    sys.dont_write_bytecode = True
    options = (
        "-x",
        "-q",
        "--no-header",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:hypothesispytest",
        f"--basetemp={copy / '.temporary'}",
    )
    return pytest.main([*options, *tests], plugins=plugins) == 0


if __name__ == "__main__":
    sys.exit(main())
