"""Where a run writes, and that no module but one computes where the suite lies."""

import re
from pathlib import Path

import pytest

from fixtures.paths import SUITE, work_folder


def test_a_checkout_is_written_to_and_an_installed_package_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert work_folder(SUITE) == SUITE
    assert work_folder(Path("/venv/lib/python3.11/site-packages/tritonproof/suite")) == tmp_path


def test_no_other_module_computes_a_root() -> None:
    computed = re.compile(r"__file__\)(\.resolve\(\))?\.(parents\[[1-9]\]|parent\.parent\.parent)")
    found = [path for path in (SUITE / "fixtures").rglob("*.py") if computed.search(path.read_text())]
    assert found == [SUITE / "fixtures" / "paths.py"]
