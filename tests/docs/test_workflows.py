"""The workflows for GitHub and GitLab, and those for many machines in docs/ci.md, name existing things."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reports.record import files
from reports.run import STATUS
from tests import examples
from tests.docs.test_action import example
from tests.docs.test_docs import environments
from tests.helpers import Collect, records_in

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
GITHUB = {path.stem: yaml.safe_load(path.read_text()) for path in WORKFLOWS}
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


def test_every_exit_status_is_documented() -> None:
    text = (ROOT / "docs" / "ci.md").read_text()
    for kind, status in STATUS.items():
        assert re.search(rf"^\| {status} \| {kind}", text, re.MULTILINE), kind


# --- many machines

MANY_MACHINES: dict[str, Any] = example("github")["jobs"]


def test_jobs_of_many_machines_cover_all_shards_of_each_target(collect: Collect) -> None:
    measure = MANY_MACHINES["measure"]
    (command,) = [step["run"] for step in measure["steps"] if "tox run" in step.get("run", "")]
    shards: dict[str, list[str]] = {}
    for entry in measure["strategy"]["matrix"]["include"]:
        filled = command
        for name, value in entry.items():
            filled = filled.replace(f"${{{{ matrix.{name} }}}}", value)
        *_, environment, _end, on, target, split, shard, _junit_xml = shlex.split(filled)
        assert environment in environments()
        collected = collect(on, target, split, shard)
        assert collected.status == 0, collected.text
        shards.setdefault(target, []).append(shard)
    assert shards
    for group in shards.values():
        assert sorted(group) == [f"{number}/{len(group)}" for number in range(1, len(group) + 1)]


@pytest.mark.parametrize("jobs", [1, 3])
def test_merge_job_joins_records_of_all_jobs(jobs: int, tmp_path: Path) -> None:
    """GitHub's action makes no folder for a single artifact."""
    steps = MANY_MACHINES["merge"]["steps"]
    (downloading,) = [step["with"] for step in steps if "download-artifact" in step.get("uses", "")]
    (command,) = [step["run"] for step in steps if "report -- merge" in step.get("run", "")]
    folder = tmp_path / downloading["path"]
    for number, mnemonic in enumerate(("onnx", "trt", "ts-trace")[:jobs]):
        record = examples.record(case=examples.Case("a40", "resnet50", mnemonic, None, "fp16"))
        results = folder if jobs == 1 else folder / f"a40-{number + 1}of{jobs}"
        files.write(record, files.path_of(record.case, results))
    (tmp_path / "reports").symlink_to(ROOT / "reports")

    line = command.replace("tox run -e report --", f"{shlex.quote(sys.executable)} -m reports", 1)
    merged = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert merged.returncode == 0, merged.stderr
    assert len(records_in(tmp_path / "merged")) == jobs
