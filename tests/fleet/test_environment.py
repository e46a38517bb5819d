"""Nodes run the controller's current files, in an existing environment or one for each set of packages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT, git
from tritonproof.base.errors import SetupError
from tritonproof.fleet import environment


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with a committed, a changed, a new, a removed and an ignored file."""
    folder = tmp_path / "root"
    (folder / "tritonproof").mkdir(parents=True)
    for name in ("committed", "changed", "removed"):
        (folder / name).write_text(name)
    (folder / "tritonproof" / "code.py").write_text("VALUE = 7\n")
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
    packed = environment.pack(root)
    (root / "tritonproof" / "code.py").touch()
    environment.unpack(packed, tmp_path / "node")

    assert environment.pack(root) == packed, "the same files give the same bytes"
    paths = [path for path in (tmp_path / "node").rglob("*") if path.is_file()]
    assert {str(path.relative_to(tmp_path / "node")): path.read_text() for path in paths} == {
        ".gitignore": "ignored\n",
        "committed": "committed",
        "changed": "anew",
        "new": "new",
        "tritonproof/code.py": "VALUE = 7\n",
    }


def test_folder_that_git_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, check=lambda error: str(tmp_path) in error.where):
        environment.pack(tmp_path)


def test_bare_process_can_import_shipped_code(root: Path, tmp_path: Path) -> None:
    code = environment.pack(root, code_alone=True)
    call = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}]\n"
        "from tritonproof.fleet import environment\n"
        "sys.path[:1] = []\n"
        "for name in [name for name in sys.modules if name.split('.')[0] == 'tritonproof']: del sys.modules[name]\n"
        f"environment.code_importer({code!r})()\n"
        "import tritonproof.code\n"
        "print(tritonproof.code.VALUE, tritonproof.code.__file__)"
    )
    variables, command = {"TRITONPROOF_FLEET_CACHE": str(tmp_path / "cache")}, [sys.executable, "-c", call]

    for _ in range(2):
        printed = subprocess.check_output(command, cwd=tmp_path, env=variables, text=True)
        assert printed.startswith(f"7 {tmp_path / 'cache'}")


def test_node_run_drops_rays_variables_and_allocator() -> None:
    variables = {"PATH": "/bin", "LD_PRELOAD": "/env/ray/core/libjemalloc.so", "RAY_JOB_ID": "1"}
    assert environment.node_variables(variables) == {"PATH": "/bin"}


def project(folder: Path, dependency: str = "") -> Path:
    """A checkout whose environment for the CPU has no package, or one that cannot be installed."""
    folder.mkdir()
    (folder / "pyproject.toml").write_text(f"# {folder.name}\n")
    (folder / "tox.ini").write_text(f"[testenv:benchmarks]\npackage = skip\ndeps = {dependency}\n")
    return folder


def test_tox_makes_one_environment_per_pyproject_and_repeats_failed_ones(tmp_path: Path) -> None:
    pytest.importorskip("tox", reason="tox: tox run -e fleet --notest")
    lines: list[str] = []
    node_variables = {"PATH": os.environ["PATH"], environment.CACHE: str(tmp_path / "cache")}

    first = environment.python_for("cpu", project(tmp_path / "one"), node_variables, lines.append)
    again = environment.python_for("cpu", tmp_path / "one", node_variables, lines.append)
    other = environment.python_for("cpu", project(tmp_path / "two"), node_variables, lines.append)

    assert first.is_file()
    assert first == again != other
    assert len(lines) == 2
    broken = project(tmp_path / "three", dependency=str(tmp_path / "no-such-package"))
    for _ in range(2):
        with pytest.raises(SetupError, check=lambda error: "no-such-package" in str(error)):
            environment.python_for("cpu", broken, node_variables, lines.append)
