"""Finds the build of a case that `--against` names, or has another checkout build it. It serves nothing."""

import contextlib
import sys
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tritonproof.base import commands, sanitize
from tritonproof.base.disk import strict_glob
from tritonproof.base.errors import InputError, ProofError
from tritonproof.base.paths import CONFIG_FILE, SUITE
from tritonproof.build import builds
from tritonproof.build.builds import UNFINISHED
from tritonproof.host import locks
from tritonproof.host.process import (
    CHECKOUT_VARIABLES,
    ProgramError,
    guarded,
    indented_lines,
    last_lines,
    minimal_environment,
    output_of,
)
from tritonproof.host.scratch import locked_folder, scratch_folder
from tritonproof.record.setup import Scenario
from tritonproof.safe_io import files
from tritonproof.spec import Case, OnProgress
from tritonproof.user_models.model_repository import read_config

if TYPE_CHECKING:
    from tritonclient.grpc.model_config_pb2 import ModelConfig

_ARCHIVE_S = 300.0
"""Seconds for git to write a commit's files, some MiB; a clone without blobs has to fetch these first."""


@dataclass(frozen=True)
class AgainstSpec:
    """What `--against` names: builds, a model repository, or code of this project that makes builds."""

    name: str
    """The name for a reader: the folder, or the git ref with its commit."""
    kind: Literal["folder", "checkout", "commit"]
    """folder: of builds, or a model repository; checkout, commit: this project's code."""
    folder: Path | None = None
    """The folder, or the checkout; None for a commit."""
    commit: str = ""

    def __str__(self) -> str:
        return self.name


def parse_against(text: str, root: Path = SUITE) -> AgainstSpec:
    """What `--against` names: a folder, else a git ref of that name. Raises InputError if it is neither."""
    folder = files.absolute_path("--against", text)
    if folder.is_dir():
        return AgainstSpec(text, "checkout" if is_checkout(folder) else "folder", folder)
    command = ["git", "-C", str(root), "rev-parse", "--verify", "--quiet", f"{text}^{{commit}}"]
    try:
        commit = output_of(command, limit_s=30).decode().strip()
    except ProgramError as error:
        raise InputError(
            f"there is no folder {sanitize.excerpt(text)!r}, and git gives no commit of {root}: {error}",
            where=f"--against {sanitize.excerpt(text)}",
            fix="check the path, or give a ref that `git log` knows, such as HEAD~1; that needs git, a clone "
            "of this project that git may read, and its history (git fetch --unshallow, or fetch-depth: 0 "
            "for actions/checkout)",
        ) from error
    short = commit[:7]
    return AgainstSpec(short if commit.startswith(text) else f"{text} ({short})", "commit", commit=commit)


def is_checkout(folder: Path) -> bool:
    return all((folder / part).exists() for part in ("conftest.py", "benchmarks", "fixtures"))


def _builds_in(folder: Path) -> Iterator[Path]:
    """The builds in a folder of --model-repos, in that of a target, or in the case's own folder."""
    for pattern in (CONFIG_FILE, f"*/{CONFIG_FILE}", f"*/*/{CONFIG_FILE}"):
        for config in strict_glob(folder, pattern):
            if not any(part.startswith(".") for part in config.relative_to(folder).parts):
                yield config.parent


def find_build(against: AgainstSpec, case: Case) -> Path:
    """The case's folder among the builds. Raises InputError with a list of the builds."""
    assert against.folder is not None
    folders = list(_builds_in(against.folder))
    for folder in folders:
        if folder.name == str(case):
            return folder
    names = sanitize.excerpt(", ".join(folder.name for folder in folders), 500) or "no build at all"
    fix = "select what is there by -k, or build it: "
    fix += commands.benchmarks_command(f"-k {case} --model-repos {against.folder}")
    what = f"there is no build of {case}; there is {names}"
    raise InputError(what, where=f"--against {against.name}", fix=fix)


def check_unchanged(against: AgainstSpec, build: Path, taken_from: Path | None = None) -> None:
    """Raise InputError, naming `taken_from` for a copy, if a file of a build but config.pbtxt has changed."""
    # A hand-made build has no build.json.
    if (build / builds.FACTS).exists() and builds.unchanged_facts(build) is None:
        what = "the build's files were changed or damaged after it was built"
        fix = "delete the folder and build the case again; changed files may be code, and are not used"
        raise InputError(what, where=f"--against {against.name}: {taken_from or build}", fix=fix)


def config_of(build: Path) -> "ModelConfig":
    """A build's config.pbtxt. Raises InputError if it is no configuration."""
    config = read_config(build / CONFIG_FILE)
    assert config is not None  # `find_build` has found the build by its configuration
    return config


def for_scenario(config: "ModelConfig", case: Case, scenario: Scenario) -> "ModelConfig":
    """The baseline's configuration for a scenario: offline, like this build's, without dynamic batching and
    without the sizes to which its runtime pads batches, which its config.pbtxt has for online."""
    changed = type(config)()
    changed.CopyFrom(config)
    changed.name = str(case)
    if scenario == "offline":
        changed.ClearField("dynamic_batching")
        changed.parameters.pop("sizes", None)
    return changed


def export_commit(
    against: AgainstSpec, cache: Path, root: Path = SUITE, *, on_progress: OnProgress = lambda _text: None
) -> Path:
    """The files of a commit in a folder of their own below `cache`, written by an earlier run or now. The
    folder is no git worktree: the repository does not know it, and anybody may delete it at any time.
    `on_progress` receives what this waits for. Raises ProofError if git gives no files of this project."""
    folder = cache / against.commit
    cache.mkdir(parents=True, exist_ok=True)
    with locks.hold_path(folder, on_wait=lambda run: on_progress(f"wait for another run's checkout: {run}")):
        if not folder.is_dir():
            _export(against, root, folder)
    return folder


def _export(against: AgainstSpec, root: Path, folder: Path) -> None:
    """Write the files of a commit into a new folder, which appears only when it is complete."""
    with locked_folder(folder.parent, UNFINISHED) as work_folder:
        archive, unfinished = work_folder / "files.tar", work_folder / "files"
        command = ["git", "-C", str(root), "archive", "--format=tar", "-o", str(archive), against.commit]
        problem = "the commit has no benchmarks of this project"
        try:
            output_of(command, limit_s=_ARCHIVE_S)
            with contextlib.suppress(tarfile.ReadError), tarfile.open(archive) as tar:  # of no files at all
                tar.extractall(unfinished, filter="data")
        except ProgramError as error:
            problem = f"git cannot give the files of the commit: {error}"
        if not is_checkout(unfinished):
            fix = f"give a later commit; or run by hand: {' '.join(command)}"
            raise InputError(problem, where=f"--against {against.name}", fix=fix)
        unfinished.rename(folder)


def build_in_checkout(
    checkout: Path, against: AgainstSpec, case: Case, options: Sequence[str], on_progress: OnProgress
) -> Path:
    """Have a checkout build the case by its own command line; returns the case's folder. The checkout runs
    every time, as only it knows whether its builds are up to date. Raises ProofError if it fails."""
    repositories = checkout / "model_repos"
    with scratch_folder("against") as results:
        command = [
            *(sys.executable, "-m", "pytest", "benchmarks", "-p", "no:cacheprovider", "--color=no"),
            *("-k", f"{case} and test_conversion"),
            *("--model-repos", str(repositories), "--results", str(results)),
            *options,
        ]
        on_progress("build in the other checkout")
        log = results / "output.txt"
        with (
            log.open("wb") as output,
            # The checkout's environment has nothing that tells pytest about this run, nor its GitHub summary.
            guarded(
                command,
                environment=minimal_environment(CHECKOUT_VARIABLES),
                output=output,
                grace_s=10.0,
                folder=checkout,
            ) as process,
        ):
            status = process.wait()
        output_end = last_lines(log, 25)
    folder = repositories / case.target.name / str(case)
    if status != 0 or not (folder / CONFIG_FILE).is_file():
        what = f"{case} could not be built there (exit status {status}); the end of the output:"
        fix = f"in {checkout}: {' '.join(command[1:7])} -k {case}; or compare with a commit that has the case"
        what += indented_lines(output_end)
        raise ProofError(what, where=f"--against {against.name}", fix=fix)
    return folder
