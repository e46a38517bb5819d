"""Nodes run the current checkout of the controller."""

import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.fleet import checkout
from tests.helpers import git


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with a committed, a changed, a new, a removed and an ignored file."""
    folder = tmp_path / "root"
    (folder / "fixtures").mkdir(parents=True)
    for name in ("committed", "changed", "removed"):
        (folder / name).write_text(name)
    (folder / "fixtures" / "code.py").write_text("VALUE = 7\n")
    (folder / ".gitignore").write_text("ignored\n")
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "first")
    (folder / "changed").write_text("anew")
    (folder / "new").write_text("new")
    (folder / "ignored").write_text("ignored")
    (folder / "removed").unlink()
    return folder


def test_node_gets_current_files_without_ignored_ones(root: Path, tmp_path: Path) -> None:
    checkout.unpack(checkout.packed(root), tmp_path / "node")

    paths = [path for path in (tmp_path / "node").rglob("*") if path.is_file()]
    assert {str(path.relative_to(tmp_path / "node")): path.read_text() for path in paths} == {
        ".gitignore": "ignored\n",
        "committed": "committed",
        "changed": "anew",
        "new": "new",
        "fixtures/code.py": "VALUE = 7\n",
    }


def test_equal_files_give_equal_archive(root: Path) -> None:
    before = checkout.packed(root)
    (root / "fixtures" / "code.py").touch()

    assert checkout.packed(root) == before


def test_bare_process_can_import_shipped_code(root: Path, tmp_path: Path) -> None:
    code = checkout.packed(root, code_alone=True)
    call = (
        f"import sys; sys.path[:0] = [{str(Path(__file__).parents[2])!r}]\nfrom fixtures.fleet import "
        "checkout\nsys.path[:1] = []\nfor name in [name for name in sys.modules if name.split('.')[0] == "
        f"'fixtures']: del sys.modules[name]\ncheckout.importing({code!r})()\nimport "
        "fixtures.code\nprint(fixtures.code.VALUE, fixtures.code.__file__)"
    )
    variables = {"TRITONPROOF_FLEET_CACHE": str(tmp_path / "cache")}

    for _ in range(2):
        result = subprocess.run(
            [sys.executable, "-c", call], cwd=tmp_path, env=variables, capture_output=True, check=True
        )
        assert result.stdout.decode().startswith(f"7 {tmp_path / 'cache'}")


def test_checkout_without_git_is_packed(root: Path, tmp_path: Path) -> None:
    (root / ".git").rename(tmp_path / "away")
    (root / ".tox").mkdir()
    (root / ".tox" / "large").write_text("environment")

    checkout.unpack(checkout.packed(root), tmp_path / "node")

    assert (tmp_path / "node" / "new").is_file()
    assert not (tmp_path / "node" / ".tox").exists()
