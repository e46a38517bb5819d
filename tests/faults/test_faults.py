"""Faults and bad use of whole runs: each run ends in time, says what was wrong, and leaves nothing.

tox run -e campaign -- tests/faults               # all of them
tox run -e campaign -- tests/faults -k measuring  # some of them
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import pytest

from fixtures.outcomes import STATUS
from tests import classifier, private_shared_memory
from tests.faults.workspace import Workspace, files_in_checkout
from tests.helpers import ROOT, Household
from tests.user_models.repositories import code, config, write_model
from tritonproof.host import guard
from tritonproof.host.scratch import SHARED_MEMORY_FOLDER

pytestmark = pytest.mark.campaign
PASSED, ENDED, INFRASTRUCTURE = 0, 2, STATUS["infrastructure"]
OWN, SLOW = "cpu-classifier-onnx-fp32", "cpu-slow-asis"
"""A case that is converted, and one of the repository, which takes a fifth of a second for each answer."""


@pytest.fixture(scope="session")
def has_own_memory() -> bool:
    """Whether this worker's runs have their own shared memory and machine lock."""
    return private_shared_memory.enter()


@pytest.fixture
def workspace(tmp_path: Path, household: Household, has_own_memory: bool) -> Iterator[Workspace]:
    """A workspace with a repository and a model file; its runs leave nothing in memory and checkout."""
    # A run must not take the tox that runs these tests for its own.
    household.environment.pop("TOX_ENV_NAME", None)
    new = Workspace(tmp_path / "workspace", household)
    new.results.mkdir(parents=True)
    write_model(new.folder / "repository", "doubler", code("2 * values"), config())
    slow = code("2 * values").replace("    def execute", "    import time\n\n    def execute")
    slow = slow.replace("return [self.answer", "self.time.sleep(0.2)\n        return [self.answer")
    write_model(new.folder / "repository", "slow", slow, config())
    model = Path(shutil.copy(classifier.__file__, new.folder))
    classifier.write_network(model.with_suffix(".onnx"))
    segments, files = {*SHARED_MEMORY_FOLDER.iterdir()}, files_in_checkout()
    yield new
    left = [str(path) for path in {*SHARED_MEMORY_FOLDER.iterdir()} - segments]
    if not has_own_memory:  # others' are in use
        left = guard.remove_segments(path for path in left if "/tritonproof-" in path)
    assert left == []
    assert files_in_checkout() == files
    shutil.rmtree(new.folder, ignore_errors=True)


def repository_run(workspace: Workspace, selection: str, *options: str) -> list[str]:
    """The options of a run of the repository's models as they are, without a framework."""
    repository = str(workspace.folder / "repository")
    return ["--triton", "embedded", "--repository", repository, "-k", selection, *options]


def evaluate(workspace: Workspace) -> None:
    """Start a run that proves the slow model, and wait until it does."""
    workspace.start(*repository_run(workspace, "slow and test_repeated"))
    workspace.says("answers without labels")


def measure(workspace: Workspace) -> None:
    """Start a run that measures one point of the slow model's load for a minute, and wait for its passes."""
    options = ("--concurrencies", "2", "--interval-target", "0.01", "--point-budget-s", "60")
    workspace.start(*repository_run(workspace, "slow and b001-c002", *options))
    workspace.says("measure online.*pass [2-9]")
    path = workspace.results / "cpu" / f"{SLOW}.json"
    workspace.wait_for(lambda: path.is_file() and '"unfinished"' in path.read_text(), "a record of passes")


@pytest.mark.parametrize(
    ("program", "how"),
    [("tritonserver", "kill"), ("triton_python_backend_stub", "kill"), ("tritonserver", "suspend")],
)
def test_killed_or_hanging_server_is_an_infrastructure_failure(
    workspace: Workspace, program: str, how: str
) -> None:
    evaluate(workspace)
    getattr(workspace.process(program), how)()
    workspace.ends(INFRASTRUCTURE)


def test_pass_of_killed_load_generator_is_repeated_while_measuring(workspace: Workspace) -> None:
    measure(workspace)
    workspace.process("perf_analyzer").kill()
    workspace.ends(PASSED)
    (result,) = workspace.record(SLOW).points
    assert "damaged-passes" in [mark.code for mark in result.marks]


def test_next_run_cleans_up_after_killed_guards(workspace: Workspace) -> None:
    evaluate(workspace)
    for process in workspace.household.processes():
        process.kill()
    workspace.runs[-1].wait()
    assert workspace.household.left(10) == [], "killed processes are still there"
    workspace.start(*repository_run(workspace, "doubler and test_repeated"))
    workspace.ends(PASSED)


def test_next_comparison_cleans_up_after_a_killed_one(workspace: Workspace) -> None:
    selection = ("--models", str(workspace.folder / "classifier.py"), "-k", f"{OWN} and b001-c002")
    options = (*selection, "--concurrencies", "2", "--against", "HEAD", "--point-budget-s", "2")
    workspace.start(*options)
    workspace.says("against HEAD .*: ")
    time.sleep(2)
    workspace.runs[-1].kill()
    workspace.runs[-1].wait()
    workspace.household.left(30)
    workspace.start(*options)
    workspace.ends(PASSED, STATUS["speed"], seconds=600)  # a second build
    assert not [*workspace.repos.glob("*unfinished*"), *workspace.repos.glob(".against/*unfinished*")]
    worktrees = subprocess.check_output(["git", "worktree", "list"], cwd=ROOT, text=True)
    assert str(workspace.repos) not in worktrees, "a worktree is left"
    assert workspace.record(OWN).points


def test_empty_path_no_home_and_locale_c_change_nothing(workspace: Workspace) -> None:
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    workspace.start(*repository_run(workspace, "doubler and test_repeated"), PATH="", HOME=None, **locale)
    workspace.ends(PASSED)


def test_record_stays_readable_when_the_disk_is_full(workspace: Workspace, has_own_memory: bool) -> None:
    if not has_own_memory:
        pytest.skip("needs root, and a kernel that lets it mount")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(workspace.results)], check=True)
    try:
        measure(workspace)
        fill = "cat /dev/zero > full"
        subprocess.run(["sh", "-c", fill], cwd=workspace.results, stderr=subprocess.DEVNULL, check=False)
        time.sleep(3)
        workspace.runs[-1].send_signal(signal.SIGINT)
        # By the signal itself, if it comes between the end of the run and that of its process.
        workspace.ends(ENDED, -signal.SIGINT, INFRASTRUCTURE)
        assert workspace.record(SLOW).points, "what was measured before is gone"
    finally:
        subprocess.run(["umount", "--lazy", str(workspace.results)], check=True)


def test_ctrl_c_in_the_terminal_of_tox_ends_the_run_with_its_summary(workspace: Workspace) -> None:
    """The real tox has the timeouts of this project's tox.ini."""
    tox = shutil.which("tox", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if tox is None:
        pytest.skip("needs tox")
    project = ConfigParser()
    project.read(ROOT / "tox.ini")
    file = workspace.folder / "junit.xml"
    words = workspace.command(*repository_run(workspace, "slow and test_repeated", f"--junit-xml={file}"))
    settings = {
        "skip_install": "true",
        "package": "skip",
        "pass_env": "*",
        "allowlist_externals": "*",
        "change_dir": str(ROOT),
        "interrupt_timeout": project["testenv"]["interrupt_timeout"],
        "terminate_timeout": project["testenv"]["terminate_timeout"],
        "commands": shlex.join(words),
    }
    own = workspace.folder / "tox.ini"
    own.write_text("[testenv]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items()))
    workspace.start(words=[tox, "run", "-e", "py", "--root", str(workspace.folder), "-c", str(own)])
    workspace.says("answers without labels")
    os.killpg(workspace.runs[-1].pid, signal.SIGINT)
    workspace.ends(seconds=90)
    assert file.is_file()
    assert "interrupted, so only" in workspace.text
