"""Output paths of a run; only one module computes the suite's root."""

import re

from fixtures.paths import SUITE, WORK


def test_checkout_is_written_to() -> None:
    """An installed package is not: tests/front_door."""
    assert SUITE == WORK


def test_only_paths_module_computes_root() -> None:
    computed = re.compile(r"__file__\)(\.resolve\(\))?\.(parents\[[1-9]\]|parent\.parent\.parent)")
    found = [path for path in (SUITE / "fixtures").rglob("*.py") if computed.search(path.read_text())]
    assert found == [SUITE / "fixtures" / "paths.py"]
