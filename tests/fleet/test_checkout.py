"""What the nodes run is the checkout of the controller, as it is, and what their tasks import is there and nothing else."""

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


def test_a_node_gets_the_files_as_they_are_now_and_none_that_git_ignores(root: Path, tmp_path: Path) -> None:
    checkout.unpack(checkout.packed(root), tmp_path / "node")

    found = {
        str(path.relative_to(tmp_path / "node")): path.read_text()
        for path in (tmp_path / "node").rglob("*")
        if path.is_file()
    }
    assert found.pop(".gitignore")
    assert found == {
        "committed": "committed",
        "changed": "anew",
        "new": "new",
        "fixtures/code.py": "VALUE = 7\n",
    }


def test_a_checkout_without_git_is_taken_too(root: Path, tmp_path: Path) -> None:
    (root / ".git").rename(tmp_path / "away")
    (root / ".tox").mkdir()
    (root / ".tox" / "large").write_text("environment")

    checkout.unpack(checkout.packed(root), tmp_path / "node")

    assert (tmp_path / "node" / "new").is_file()
    assert not (tmp_path / "node" / ".tox").exists()


def test_the_same_files_are_the_same_archive(root: Path) -> None:
    before = checkout.packed_code(root)
    (root / "fixtures" / "code.py").touch()

    assert checkout.packed_code(root) == before


def test_a_process_that_has_nothing_of_this_project_can_import_it(root: Path, tmp_path: Path) -> None:
    code = checkout.packed_code(root)
    call = (
        f"import sys; sys.path[:0] = [{str(Path(__file__).parents[2])!r}]\n"
        "from fixtures.fleet import checkout\n"
        "sys.path[:1] = []\n"
        "for name in [name for name in sys.modules if name.split('.')[0] == 'fixtures']: del sys.modules[name]\n"
        f"checkout.importing({code!r})()\n"
        "import fixtures.code\n"
        "print(fixtures.code.VALUE, fixtures.code.__file__)"
    )

    texts = [
        subprocess.run(
            [sys.executable, "-c", call],
            cwd=tmp_path,
            env={"TRITONPROOF_FLEET_CACHE": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]

    assert texts[0].startswith(f"7 {tmp_path / 'cache'}")
    assert texts[0] == texts[1]


def test_records_of_a_checkout_that_differs_from_its_commit_will_say_so(root: Path) -> None:
    assert checkout.variables(root)["TRITONPROOF_COMMIT"].endswith("-dirty")

    git(root, "add", ".")
    git(root, "commit", "-m", "second")
    from fixtures.host import origin

    origin.commit_of.cache_clear()
    assert not checkout.variables(root)["TRITONPROOF_COMMIT"].endswith("-dirty")
