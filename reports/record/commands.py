"""The suite's commands as typed here: `tritonproof` if installed, else tox and Python in a checkout."""

import sys
from pathlib import Path

IS_INSTALLED = (Path(__file__).resolve().parents[3] / "pytest_plugin.py").is_file()
"""Whether this is the installed package, whose folder suite/ contains the tree, and not a checkout."""
_CUDA_12_INDEX = "https://download.pytorch.org/whl/cu126"
"""PyTorch for CUDA 12 is not on PyPI: see tox.ini."""


def run(options: str = "") -> str:
    """The command that runs the benchmarks."""
    if IS_INSTALLED:
        return f"tritonproof run {options}".rstrip()
    return f".venv/bin/tox run -e benchmarks -- {options}".removesuffix(" -- ")


def tool(module: str, arguments: str = "") -> str:
    """The command of the reports, or of another module with a command line, such as fixtures.new."""
    name = module.rpartition(".")[2]
    if IS_INSTALLED:
        command = f"tritonproof {'report' if name == 'reports' else name}"
    else:
        command = f"{as_typed(Path(sys.executable))} -m {module}"
    return f"{command} {arguments}".rstrip()


def install(extra: str) -> str:
    """The command that adds an extra's packages to the running Python's."""
    return f"pip install '{'tritonproof' if IS_INSTALLED else '.'}[{extra}]'"


def packages(environment: str = "benchmarks", *, anew: bool = False) -> str:
    """The command that installs a tox environment's packages, `anew` if installed ones conflict."""
    if not IS_INSTALLED:
        return f".venv/bin/tox run {'-r ' * anew}-e {environment}"
    factors = environment.split("-")
    cuda12 = "-cuda12" if "cuda12" in factors else ""
    extras = ["models", f"gpu{cuda12}" if "gpu" in factors else "cpu"]
    if "trt" in factors:
        extras.append(f"trt{cuda12}")
    index = f" --extra-index-url {_CUDA_12_INDEX}" if cuda12 else ""
    return f"{install(','.join(extras))}{index}{' in a new environment' * anew}"


def as_typed(path: Path) -> str:
    """A path as one would type it here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
