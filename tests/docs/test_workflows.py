"""The workflows for GitHub and GitLab: what they name is there, and what they run is understood."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import structs

from reports.__main__ import main
from reports.run.outcomes import STATUS
from tests import samples
from tests.collecting import Collect
from tests.trend.test_history_files import ORIGIN, measured

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PAGES = (*WORKFLOWS, ROOT / "action.yml", ROOT / "docs" / "ci.md")
"""The files that use actions of others. OWNER stands for who has this repository."""
GITHUB = {path.stem: yaml.safe_load(path.read_text()) for path in WORKFLOWS}
GITLAB = yaml.safe_load((ROOT / ".gitlab-ci.yml").read_text())
GITLAB_JOBS = ("accuracy", "speed")
GITLAB_HISTORY = GITLAB["history"]


def steps() -> Iterator[dict[str, Any]]:
    for job in github_jobs():
        yield from job["steps"]


def github_jobs() -> list[dict[str, Any]]:
    return [job for workflow in GITHUB.values() for job in workflow["jobs"].values()]


def scripts() -> list[str]:
    """The command lines of all, without line continuations."""
    of_github = [step["run"].replace("\\\n", " ") for step in steps() if "run" in step]
    of_gitlab = [line for job in (*GITLAB_JOBS, "history") for line in GITLAB[job]["script"]]
    return [*of_github, *of_gitlab, *GITLAB["default"]["before_script"]]


RUNS = [shlex.split(script) for script in scripts() if script.startswith("tox run -e benchmarks ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_other_actions_are_pinned_by_their_commits_and_say_of_which_release(page: Path) -> None:
    used = re.findall(r"uses: ([\w.-]+/\S+)(.*)", page.read_text())
    pinned = [(name, said) for name, said in used if not name.startswith("OWNER/")]

    for name, said in pinned:
        assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", name), name
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", said), name


def test_no_checkout_keeps_what_may_be_pushed_with() -> None:
    for text in [*map(Path.read_text, WORKFLOWS), (ROOT / "docs" / "ci.md").read_text()]:
        checkouts = re.findall(r"uses: actions/checkout@.*\n((?: +\w.*\n)*)", text)
        assert checkouts
        assert all("persist-credentials: false\n" in options for options in checkouts)


def pushing_steps() -> list[dict[str, Any]]:
    """The steps that share the history on GitHub, those of the pages among them."""
    page = (ROOT / "docs" / "ci.md").read_text()
    of_page = [yaml.safe_load(found) for found in re.findall(r"```yaml\n(name: .*?)```", page, re.DOTALL)]
    jobs = [job for workflow in (*GITHUB.values(), *of_page) for job in workflow["jobs"].values()]
    return [step for job in jobs for step in job["steps"] if "--share" in step.get("run", "")]


def test_git_gets_the_token_in_the_step_that_pushes_and_in_no_other() -> None:
    assert len(pushing_steps()) == 2
    for step in pushing_steps():
        assert step["env"]["GITHUB_TOKEN"] == "${{ github.token }}"
        asked = subprocess.run(
            ["git", "credential", "fill"],
            input="protocol=https\nhost=github.com\n\n",
            env=os.environ | step["env"] | {"GITHUB_TOKEN": "s3cret", "GIT_TERMINAL_PROMPT": "0"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "password=s3cret\n" in asked.stdout
    assert not any("github.token" in str(step.get("env")) for step in steps() if step not in pushing_steps())


def test_what_is_cached_is_never_part_of_the_repository() -> None:
    of_github = [step["with"]["path"] for step in steps() if "cache" in step.get("uses", "")]
    of_gitlab = [path for cache in GITLAB["default"]["cache"] for path in cache["paths"]]
    for path in {*of_github, *of_gitlab} - {"~/.cache/pip"}:
        done = subprocess.run(["git", "check-ignore", "-q", f"{path}/file"], cwd=ROOT, check=False)
        assert done.returncode == 0, path


def selection(words: list[str]) -> tuple[str, ...]:
    """The arguments that pytest gets, without those that name the runner's commits and files."""
    arguments = ["HEAD" if word.startswith("$") else word for word in words[5:]]
    return tuple(word for word in arguments if not re.fullmatch(r"--(junit-xml|summary)=.*", word))


def test_the_commands_run_an_environment_that_there_is() -> None:
    tox = ConfigParser()
    tox.read(ROOT / "tox.ini")
    assert any(section.startswith("testenv:benchmarks{") for section in tox.sections())
    assert tox.has_section("testenv:tests")
    found = {tuple(shlex.split(script)[:4]) for script in scripts() if script.startswith("tox ")}
    assert found == {("tox", "run", "-e", name) for name in ("benchmarks", "tests", "report")}
    assert tox.has_section("testenv:report")


@pytest.mark.parametrize("arguments", sorted({selection(words) for words in RUNS}), ids=lambda one: one[1])
def test_the_commands_select_tests_by_options_that_there_are(
    arguments: tuple[str, ...], collect: Collect
) -> None:
    found = collect(*arguments)
    assert found.status == 0, found.text
    assert found.selected


def test_what_is_uploaded_is_what_the_commands_write() -> None:
    written = {word.partition("=")[2] for words in RUNS for word in words if "=" in word}
    uploads = [step["with"]["path"].split() for step in steps() if "upload" in step.get("uses", "")]
    for paths in [*uploads, *(GITLAB[job]["artifacts"]["paths"] for job in GITLAB_JOBS)]:
        assert set(paths) <= written | {"reports/results"}
    assert {GITLAB[job]["artifacts"]["reports"]["junit"] for job in GITLAB_JOBS} <= written


def test_what_was_measured_on_the_main_branch_is_kept_and_only_that_job_may_write() -> None:
    (job,) = [one for one in github_jobs() if any("--share" in step.get("run", "") for step in one["steps"])]
    assert job["permissions"] == {"contents": "write"}
    assert not any("permissions" in other for other in github_jobs() if other is not job)
    assert "github.event_name == 'push'" in job["if"]
    assert "!cancelled()" in job["if"], "a score below its limit is part of the history"
    (taken,) = [step["with"]["name"] for step in job["steps"] if "download" in step.get("uses", "")]
    needed = GITHUB["accuracy"]["jobs"][job["needs"]]["steps"]
    assert taken in [step["with"]["name"] for step in needed if "upload" in step.get("uses", "")]
    (rule,) = GITLAB_HISTORY["rules"]
    assert (rule["if"].split(" && ")[0], rule["when"]) == (
        "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH",
        "always",
    )
    assert set(GITLAB_HISTORY["needs"]) <= set(GITLAB_JOBS)


def test_the_jobs_that_keep_the_history_do_it_with_the_records_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their own commands, on a repository whose remote takes pushes."""
    monkeypatch.setenv("HISTORY_BRANCH", "history")
    commands = [script for script in scripts() if "--share" in script]
    assert len(commands) == 2, "GitHub's and GitLab's"
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "remote.git"], check=True)
    for number, command in enumerate(commands):
        checkout = tmp_path / f"job-{number}"
        subprocess.run(
            ["git", "clone", "--quiet", tmp_path / "remote.git", checkout],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        samples.store(
            checkout / "reports" / "results", measured(structs.replace(ORIGIN, run=f"run-{number}"))
        )
        monkeypatch.chdir(checkout)
        words = [os.path.expandvars(word) for word in shlex.split(command)]
        assert main(words[words.index("--") + 1 :]) == 0
    assert "2 runs of 1 commit" in capsys.readouterr().out


def test_the_documentation_has_every_exit_status() -> None:
    text = (ROOT / "docs" / "ci.md").read_text()
    for kind, status in STATUS.items():
        assert re.search(rf"^\| {status} \| {kind}", text, re.MULTILINE), kind
