"""The workflows for GitHub and GitLab name existing things and valid options."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fixtures.serve.backends import DEFAULT_BACKENDS
from fixtures.serve.server_spec import IMAGE, TRITON_VARIABLE
from reports.run import STATUS
from tests.docs.test_docs import environments
from tests.helpers import Collect

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
GITHUB = {path.stem: yaml.safe_load(path.read_text()) for path in WORKFLOWS}
NATIVE = GITHUB["native"]["jobs"]["native"]
GITLAB = yaml.safe_load((ROOT / ".gitlab-ci.yml").read_text())
GITLAB_JOBS = ("accuracy", "speed")


def steps() -> Iterator[dict[str, Any]]:
    for workflow in GITHUB.values():
        for job in workflow["jobs"].values():
            yield from job["steps"]


def scripts() -> list[str]:
    """All command lines, without line continuations."""
    of_github = [step["run"].replace("\\\n", " ") for step in steps() if "run" in step]
    of_gitlab = [line for job in GITLAB_JOBS for line in GITLAB[job]["script"]]
    return [*of_github, *of_gitlab, *GITLAB["default"]["before_script"]]


RUNS = [shlex.split(script) for script in scripts() if script.startswith("tox run -e benchmarks ")]


def test_jobs_may_only_read_and_have_a_limit() -> None:
    for workflow in GITHUB.values():
        assert workflow["permissions"] == {"contents": "read"}
        assert all("timeout-minutes" in job for job in workflow["jobs"].values())
    # YAML reads `on` as true.
    assert set(GITHUB["accuracy"][True]) == {"push", "pull_request", "workflow_dispatch"}
    assert "pull_request" not in GITHUB["native"][True], "its image is too large"


def test_actions_are_pinned_by_commit_with_release_comment_and_keep_no_token() -> None:
    """OWNER stands for the owner of this repository."""
    tracked = subprocess.run(
        ["git", "ls-files", "*.yml", "*.yaml", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    texts = [(ROOT / name).read_text() for name in tracked.stdout.splitlines()]
    used = [line for text in texts for line in re.findall(r"uses: (?!OWNER/)([\w.-]+/.*)", text)]
    checkouts = [
        lines for text in texts for lines in re.findall(r"uses: actions/checkout@.*\n((?: +\w.*\n)*)", text)
    ]

    assert len(used) > len(checkouts) > len(WORKFLOWS)
    for line in used:
        assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
    assert all("persist-credentials: false\n" in options for options in checkouts)


def test_main_branch_runs_save_history_even_if_failed() -> None:
    (saving,) = [step for step in steps() if "cache/save" in step.get("uses", "")]
    (restoring,) = [step for step in steps() if step.get("with", {}).get("restore-keys") == "history-"]
    assert saving["with"] == {name: restoring["with"][name] for name in ("path", "key")}
    assert "github.event_name == 'push'" in saving["if"]
    assert "!cancelled()" in saving["if"]
    (of_gitlab,) = [cache for cache in GITLAB["default"]["cache"] if cache["key"] == "history"]
    assert (of_gitlab["paths"], of_gitlab["when"]) == ([saving["with"]["path"]], "always")


def test_native_job_uses_matching_container() -> None:
    assert NATIVE["container"]["image"] == IMAGE
    assert Path(GITHUB["native"]["env"][TRITON_VARIABLE]).parents[1] == DEFAULT_BACKENDS.parent
    (test,) = re.findall(r"tests/\S+", " ".join(step.get("run", "") for step in NATIVE["steps"]))
    assert (ROOT / test).is_file()


def test_caches_are_ignored_by_git() -> None:
    of_github = [step["with"]["path"] for step in steps() if "cache" in step.get("uses", "")]
    of_gitlab = [path for cache in GITLAB["default"]["cache"] for path in cache["paths"]]
    for path in {*of_github, *of_gitlab} - {"~/.cache/pip"}:
        result = subprocess.run(["git", "check-ignore", "-q", f"{path}/file"], cwd=ROOT, check=False)
        assert result.returncode == 0, path


def selection(words: list[str]) -> tuple[str, ...]:
    """The arguments for pytest, without those that name the runner's commits and files."""
    arguments = ["HEAD" if word.startswith("$") else word for word in words[5:]]
    return tuple(word for word in arguments if not re.fullmatch(r"--(junit-xml|summary)=.*", word))


def test_commands_run_existing_environments() -> None:
    used = {shlex.split(script)[3] for script in scripts() if script.startswith("tox run -e ")}

    assert used == {"benchmarks", "tests"} <= environments()
    assert len(RUNS) == sum(script.count("-e benchmarks") for script in scripts()) > 0


@pytest.mark.parametrize("arguments", sorted({selection(words) for words in RUNS}), ids=lambda args: args[1])
def test_commands_select_tests_by_existing_options(arguments: tuple[str, ...], collect: Collect) -> None:
    collected = collect(*arguments)
    assert collected.status == 0, collected.text
    assert collected.selected


def test_uploaded_paths_are_written_by_commands() -> None:
    written = {word.partition("=")[2] for words in RUNS for word in words if "=" in word}
    uploads = [step["with"]["path"].split() for step in steps() if "upload" in step.get("uses", "")]
    for paths in [*uploads, *(GITLAB[job]["artifacts"]["paths"] for job in GITLAB_JOBS)]:
        assert set(paths) <= written | {"reports/results", "reports/history", "dist"}
    assert {GITLAB[job]["artifacts"]["reports"]["junit"] for job in GITLAB_JOBS} <= written


def test_gitlab_allows_only_slowdowns_as_warnings() -> None:
    assert GITLAB["speed"]["allow_failure"] == {"exit_codes": [STATUS["speed"]]}
    assert "allow_failure" not in GITLAB["accuracy"]
    assert set(GITLAB) == {"variables", "default", "workflow", *GITLAB_JOBS}
    assert set(GITLAB["speed"]["needs"]) <= set(GITLAB_JOBS)


def test_github_variables_pass_through_tox() -> None:
    tox = (ROOT / "tox.ini").read_text()
    of_benchmarks = tox[tox.index("[testenv:benchmarks") : tox.index("[testenv:lint]")]
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        assert name in of_benchmarks
        assert tox.count(name) == 1, "the suite's own tests have failing runs that are none"


def test_every_exit_status_is_documented() -> None:
    text = (ROOT / "docs" / "ci.md").read_text()
    for kind, status in STATUS.items():
        assert re.search(rf"^\| {status} \| {kind}", text, re.MULTILINE), kind
