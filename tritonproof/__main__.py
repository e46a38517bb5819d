"""The command `tritonproof`, with its commands. A run writes to the current folder."""

import itertools
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tritonproof.base.paths import SUITE

if TYPE_CHECKING:
    import pytest

_USAGE = """\
usage: tritonproof COMMAND [OPTIONS]

  prove DIR   prove and measure every model of a Triton model repository, as it is;
              `prove remote --triton HOST:PORT` those that a server has loaded;
              `prove DIR --against OLD` whether DIR may replace OLD
  run         run the benchmarks: the suite's models, --onnx NAME=FILE or --models FILE
  report      tables, plots and a page from the records: report --help
  doctor      what could go wrong on this machine, and the fix
  new NAME    write a Python file with a model, to change into your own
  train NAME  train a micro model by its recipe

prove and run take pytest's options and the suite's: tritonproof run --help
The pages of docs/ that help and errors name are in tritonproof's repository.
"""
_MODULES = {
    "report": "tritonproof.reports",
    "doctor": "tritonproof.doctor",
    "new": "tritonproof.new",
    "train": "tritonproof.train",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status, which docs/ci.md explains."""
    command, *options = [*(sys.argv[1:] if arguments is None else arguments)] or ["--help"]
    if command in {"-h", "--help"}:
        print(_USAGE, end="")
        return 0
    if command == "--version":
        from tritonproof.safe_io.files import read_toml  # needs packages, which `new` does without

        # The suite's own file: a checkout need not be installed.
        print(read_toml(SUITE / "pyproject.toml", "pyproject.toml", "")["project"]["version"])
        return 0
    # Before all installed packages, such as PyPI's fixtures, and without the current folder.
    sys.path[:] = [str(SUITE), *(path for path in sys.path if path not in {"", str(Path.cwd())})]
    if command in _MODULES:
        sys.argv = [f"tritonproof {command}", *options]
        runpy.run_module(_MODULES[command], run_name="__main__", alter_sys=False)
        return 0
    if command in {"prove", "run"}:
        has_folder = command == "prove" and options[:1] not in (["-h"], ["--help"])
        return _pytest(["--repository", *options] if has_folder else options)
    print(f"error: there is no command {command!r}\n\n{_USAGE}", end="", file=sys.stderr)
    return 4  # as pytest's own status for an unusable command line


class _Ids:
    """Shows tests by their ids, not by their paths from the current folder to the installed package."""

    def pytest_configure(self, config: "pytest.Config") -> None:
        config.cwd_relative_nodeid = lambda nodeid: nodeid  # type: ignore[method-assign]


def _names_tests(word: str, before: str) -> bool:
    """Whether an argument names the suite's tests; a mere `benchmarks` after an option is its value."""
    return word.startswith("benchmarks/test_") or (word == "benchmarks" and not before.startswith("--"))


def _pytest(options: Sequence[str]) -> int:
    """Run the benchmarks, or only those with the given ids, with the suite's configuration of pytest."""
    import pytest

    base = ["-p", "no:tritonproof", "-c", str(SUITE / "pyproject.toml"), "--rootdir", str(SUITE), "-v"]
    base += ["-o", f"cache_dir={Path.cwd() / '.pytest_cache'}"]
    base += ["-W", "ignore:Module already imported so cannot be rewritten"]  # this one, which asserts nothing
    pairs = itertools.pairwise(["", *options])
    arguments = [str(SUITE / word) if _names_tests(word, before) else word for before, word in pairs]
    tests = [] if arguments != [*options] else [str(SUITE / "benchmarks")]
    return int(pytest.main([*base, *tests, *arguments], plugins=[_Ids()]))


if __name__ == "__main__":
    sys.exit(main())
