"""Where the suite's own files lie, and where a run writes. No other module computes a root."""

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
"""The folder of the package tritonproof."""
IS_INSTALLED = (PACKAGE / "suite").is_dir()
"""Whether this is the installed package, and not a checkout."""
SUITE = PACKAGE / "suite" if IS_INSTALLED else PACKAGE.parent
"""The folder of conftest.py, benchmarks/, fixtures/ and pyproject.toml: in the wheel, or the checkout."""
RUNTIMES = PACKAGE / "runtimes"
"""What Triton's Python backend runs, a file for each runtime."""
CONFIG_FILE = "config.pbtxt"
"""The name of a model's configuration in every model repository."""

WORK = Path.cwd() if IS_INSTALLED else SUITE
"""The folder below which a run writes: the checkout, or the current folder of an installed suite."""
RESULTS = WORK / "reports" / "results"
"""The records of runs, unless --results names another folder."""
MODEL_REPOS = WORK / "model_repos"
"""The converted models, unless --model-repos names another folder."""


def history_folder(results: Path) -> Path:
    """The folder for the history of records: `reports/history` for the checkout's own, else one inside the
    records' folder, so that a scratch run never adds to the checkout's history."""
    is_own = os.path.realpath(results) == os.path.realpath(RESULTS)
    return (RESULTS.parent if is_own else results) / "history"
