"""The environment of a node: made by tox once for each set of packages, or an existing one."""

from pathlib import Path

import pytest

from fixtures.errors import SetupError
from fixtures.fleet import environment


def project(folder: Path, dependency: str = "") -> Path:
    """A checkout whose environment for the CPU has no package, or one that cannot be installed."""
    folder.mkdir()
    (folder / "pyproject.toml").write_text(f"# {folder.name}\n")
    (folder / "tox.ini").write_text(f"[testenv:benchmarks]\npackage = skip\ndeps = {dependency}\n")
    return folder


def variables(cache: Path) -> dict[str, str]:
    """A node's environment."""
    import os

    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), environment.CACHE: str(cache)}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("/env/site-packages/ray/core/libjemalloc.so", None),
        ("/usr/lib/libtcmalloc.so.4:/env/site-packages/ray/core/libjemalloc.so", "/usr/lib/libtcmalloc.so.4"),
        (
            "/usr/lib/libtcmalloc.so.4 /usr/lib/libjemalloc.so",
            "/usr/lib/libtcmalloc.so.4:/usr/lib/libjemalloc.so",
        ),
    ],
)
def test_node_run_drops_rays_allocator(given: str, kept: str | None) -> None:
    environ = environment.without_rays_own({"PATH": "/bin", "LD_PRELOAD": given, "RAY_JOB_ID": "1"})

    assert environ.get("LD_PRELOAD") == kept
    assert set(environ) - {"LD_PRELOAD"} == {"PATH"}


def test_tox_makes_one_environment_per_pyproject(tmp_path: Path) -> None:
    pytest.importorskip("tox", reason="tox: tox run -e fleet --notest")
    lines: list[str] = []
    node_variables = variables(tmp_path / "cache")

    first = environment.python_for("cpu", project(tmp_path / "one"), node_variables, lines.append)
    again = environment.python_for("cpu", tmp_path / "one", node_variables, lines.append)
    other = environment.python_for("cpu", project(tmp_path / "two"), node_variables, lines.append)

    assert first.is_file()
    assert first == again != other
    assert len(lines) == 2


def test_failing_environment_is_explained_and_retried(tmp_path: Path) -> None:
    pytest.importorskip("tox", reason="tox: tox run -e fleet --notest")
    node_variables = variables(tmp_path / "cache")
    broken = project(tmp_path / "one", dependency=str(tmp_path / "no-such-package"))

    for _ in range(2):
        with pytest.raises(SetupError, check=lambda error: "no-such-package" in str(error)):
            environment.python_for("cpu", broken, node_variables, lambda _line: None)
