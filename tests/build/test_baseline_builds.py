"""The values of --against: folders of builds, commits and checkouts."""

import dataclasses
from pathlib import Path

import pytest

from tests import toy
from tests.helpers import git
from tritonproof.base.errors import InputError, ProofError
from tritonproof.build import baseline_builds
from tritonproof.build.builds import CaseBuild


@pytest.fixture
def built(tmp_path: Path) -> CaseBuild:
    """A build of the case `cpu-toy-raw-fp32` in models/cpu/."""
    return toy.make_build(tmp_path / "models" / "cpu", "toy", toy.SLEEPING.format(seconds=0.005))


def test_other_build_may_be_repository_target_or_case_folder(built: CaseBuild, tmp_path: Path) -> None:
    models = tmp_path / "models"
    for folder in (models, models / "cpu", built.folder):
        against = baseline_builds.parse_against(str(folder))
        assert baseline_builds.find_build(against, built.case) == built.folder
    other = dataclasses.replace(built.case, precision="int8")
    for folder in (models, built.folder):
        with pytest.raises(InputError, match="cpu-toy-raw-fp32"):
            baseline_builds.find_build(baseline_builds.parse_against(str(folder)), other)


def test_changed_build_is_refused_and_hand_made_one_is_not(built: CaseBuild, tmp_path: Path) -> None:
    against = baseline_builds.parse_against(str(tmp_path / "models"))
    baseline_builds.check_unchanged(against, built.folder)
    (built.folder / "build.json").write_text("{}")
    with pytest.raises(InputError, check=lambda error: str(built.folder) in error.where):
        baseline_builds.check_unchanged(against, built.folder)


def test_each_build_keeps_own_settings(built: CaseBuild) -> None:
    other = baseline_builds.config_of(built.folder)
    other.instance_group[0].count = 2
    other.parameters["sizes"].string_value = "1,2"
    assert baseline_builds.for_scenario(other, built.case, "online") == other
    offline = baseline_builds.for_scenario(other, built.case, "offline")
    assert offline.instance_group[0].count == 2
    assert not offline.HasField("dynamic_batching")
    assert "sizes" not in offline.parameters
    assert baseline_builds.for_scenario(offline, built.case, "offline") == offline


BUILDER = """\
import os
import sys
from pathlib import Path
arguments = sys.argv
after = lambda name: arguments[arguments.index(name) + 1]
case = after("-k").split()[0]
print("the last words")
assert not [name for name in os.environ if name.startswith("PYTEST_")]
if case.endswith("int8"):
    sys.exit(3)
folder = Path(after("--model-repos")) / "cpu" / case
folder.mkdir(parents=True, exist_ok=True)
(folder / "config.pbtxt").write_text(f'name: "{case}"')
(folder / "arguments").write_text(repr(arguments))
"""
"""A fake pytest for a checkout."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A git repository of two commits, the second of which looks like this project."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "trunk")
    (folder / "README").touch()
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "early")
    for name in ("benchmarks", "fixtures", "model_repos"):
        (folder / name).mkdir()
        (folder / name / "kept").touch()
    (folder / "conftest.py").touch()
    (folder / "pytest.py").write_text(BUILDER)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "late")
    return folder


def test_commit_that_git_does_not_give_is_an_error_with_fixes(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{checkout}", str(shallow))
    assert baseline_builds.parse_against("HEAD", shallow).commit == git(checkout, "rev-parse", "HEAD")

    def refuses(root: Path) -> None:
        with pytest.raises(InputError, check=lambda error: "git fetch --unshallow" in error.fix):
            baseline_builds.parse_against("HEAD~1", root)

    refuses(shallow)
    refuses(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))  # without git
    refuses(checkout)


def test_ref_is_exported_to_a_separate_folder(checkout: Path, tmp_path: Path) -> None:
    other = baseline_builds.parse_against("trunk", checkout)
    commit = git(checkout, "rev-parse", "HEAD")
    assert (other.kind, other.commit, other.name) == ("commit", commit, f"trunk ({commit[:7]})")
    assert baseline_builds.parse_against(commit[:10], checkout).name == commit[:7]

    folder = baseline_builds.export_commit(other, tmp_path / "cache", checkout)

    assert (folder / "pytest.py").read_text() == BUILDER
    (folder / "model_repos" / "built").touch()
    assert baseline_builds.export_commit(other, tmp_path / "cache", checkout) == folder
    assert (folder / "model_repos" / "built").exists(), "the next run finds what this one built"
    assert git(checkout, "worktree", "list").count("\n") == 0, "the repository knows nothing of it"
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()] == [commit]


@pytest.mark.parametrize("ref", ["HEAD~1", "empty"])
def test_commit_without_benchmarks_is_refused(ref: str, checkout: Path, tmp_path: Path) -> None:
    no_files = git(checkout, "hash-object", "-w", "-t", "tree", "/dev/null")
    git(checkout, "tag", "empty", git(checkout, "commit-tree", no_files, "-m", "no files"))
    other = baseline_builds.parse_against(ref, checkout)
    with pytest.raises(InputError, check=lambda error: error.where.startswith(f"--against {ref}")):
        baseline_builds.export_commit(other, tmp_path / "cache", checkout)
    assert not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]


def test_checkout_builds_case_by_its_own_command(
    built: CaseBuild, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    other = baseline_builds.parse_against(str(checkout))
    assert other.kind == "checkout"
    options = ["--deployment", "instances=2"]
    folder = baseline_builds.build_in_checkout(checkout, other, built.case, options, print)
    assert folder == checkout / "model_repos" / "cpu" / str(built.case)
    arguments = (folder / "arguments").read_text()
    for argument in ("benchmarks", f"{built.case} and test_conversion", "instances=2"):
        assert repr(argument) in arguments
    case = dataclasses.replace(built.case, precision="int8")
    with pytest.raises(ProofError, match="the last words"):
        baseline_builds.build_in_checkout(checkout, other, case, [], print)
