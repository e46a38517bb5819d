"""The suite as an installed package: the command `tritonproof`, and pytest's option --triton-prove. The wheel
has the repository's tree in the folder suite/. Its packages have general names, such as fixtures, so only a
process of the suite's own imports them."""

from pathlib import Path

_HERE = Path(__file__).resolve().parent
SUITE = _HERE / "suite" if (_HERE / "suite").is_dir() else _HERE.parent
"""The folder of conftest.py, benchmarks/ and fixtures/: in the wheel, or the checkout."""
