"""Output paths of a run; only one module computes the suite's root."""

import re

from fixtures.paths import SUITE, WORK


def test_checkout_is_written_to() -> None:
    """tests/front_door checks that an installed package is not."""
    assert SUITE == WORK


def test_only_paths_module_computes_root() -> None:
    computed = re.compile(r"__file__\)(\.resolve\(\))?\.(parents\[[1-9]\]|parent\.parent\.parent)")
    modules = [path for path in (SUITE / "fixtures").rglob("*.py") if computed.search(path.read_text())]
    assert modules == [SUITE / "fixtures" / "paths.py"]
