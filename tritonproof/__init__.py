"""The suite as an installed package: the command `tritonproof`, and pytest's option --triton-prove.

The tree of the repository lies in the folder suite/ of the wheel. Its packages have general names, such as
fixtures, so they are imported in a process of the suite's own alone.
"""

from pathlib import Path

_HERE = Path(__file__).resolve().parent
SUITE = _HERE / "suite" if (_HERE / "suite").is_dir() else _HERE.parent
"""The folder of conftest.py, benchmarks/ and fixtures/: in the wheel, or the checkout."""
