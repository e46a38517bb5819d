"""The workflows for many machines in docs/ci.md name existing things."""

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reports.record import files
from tests import examples
from tests.docs.test_action import example, example_text
from tests.docs.test_docs import environments
from tests.helpers import Collect, records_in

ROOT = Path(__file__).parents[2]


GITHUB: dict[str, Any] = example("github")["jobs"]
GITLAB: dict[str, Any] = example("gitlab")
MEASURE = GITHUB["measure"]["steps"]


def step(job: str, text: str) -> dict[str, Any]:
    """The step of a GitHub job whose command or action contains a text."""
    result: dict[str, Any]
    (result,) = [
        candidate
        for candidate in GITHUB[job]["steps"]
        if text in f"{candidate.get('run')} {candidate.get('uses')} {candidate.get('with')}"
    ]
    return result


def commands(service: str) -> list[list[str]]:
    """The words of each job's test command, with the values of the service's matrix filled in."""
    if service == "github":
        entries, filled = GITHUB["measure"]["strategy"]["matrix"]["include"], "${{{{ matrix.{} }}}}"
        (command,) = [item["run"] for item in MEASURE if "tox run" in item.get("run", "")]
    else:
        entries, filled = GITLAB["measure"]["parallel"]["matrix"], "${}"
        command = GITLAB["measure"]["script"][-1].replace("$CI_NODE_INDEX", "1")
    command_lines = []
    for entry in entries:
        lists = [item if isinstance(item, list) else [item] for item in entry.values()]
        for values in itertools.product(*lists):
            text = command
            for key, value in zip(entry, values, strict=True):
                text = text.replace(filled.format(key), str(value))
            command_lines.append(shlex.split(text))
    return command_lines


@pytest.mark.parametrize("service", ["github", "gitlab"])
def test_ci_jobs_cover_all_shards_of_each_target(service: str, collect: Collect) -> None:
    shards: dict[str, list[str]] = {}
    for words in commands(service):
        assert not [word for word in words if "$" in word]
        assert words[words.index("-e") + 1] in environments()
        args = words[words.index("--") + 1 :]
        collected = collect(*[word for word in args if not word.startswith("--junit-xml")])
        assert collected.status == 0, collected.text
        shards.setdefault(args[args.index("--target") + 1], []).append(args[args.index("--shard") + 1])
    assert shards
    for group in shards.values():
        assert sorted(group) == [f"{number}/{len(group)}" for number in range(1, len(group) + 1)]


def test_jobs_keep_their_records_apart_and_stop_no_other() -> None:
    names = [entry["name"] for entry in GITHUB["measure"]["strategy"]["matrix"]["include"]]
    assert len(set(names)) == len(names)
    assert "--results reports/results/$CI_NODE_INDEX" in GITLAB["measure"]["script"][-1]
    assert GITLAB["measure"]["artifacts"]["paths"] == ["reports/results"]
    assert GITHUB["measure"]["strategy"]["fail-fast"] is False
    upload = step("measure", "'records-${{ matrix.name }}'")
    assert upload["if"] == GITHUB["merge"]["if"] == "${{ !cancelled() }}"
    pattern = step("merge", "download-artifact")["with"]["pattern"]
    assert upload["with"]["name"].startswith(pattern.removesuffix("*"))
    assert upload["with"]["path"] == "reports/results", "the default of --results"


@pytest.mark.parametrize(("service", "jobs"), [("github", 1), ("github", 3), ("gitlab", 3)])
def test_merge_job_joins_records_of_all_jobs(service: str, jobs: int, tmp_path: Path) -> None:
    """GitHub's action makes no folder for a single artifact."""
    if service == "github":
        script = [item["run"] for item in GITHUB["merge"]["steps"] if "run" in item]
        folder = tmp_path / step("merge", "download-artifact")["with"]["path"]
    else:
        script = GITLAB["merge"]["script"]
        folder = tmp_path / "reports" / "results"
    formats = ("onnx", "trt", "ts-trace")[:jobs]
    for number, mnemonic in enumerate(formats):
        record = examples.record(case=examples.Case("a40", "resnet50", mnemonic, None, "fp16"))
        results = folder if service == "github" and jobs == 1 else folder / f"a40-{number + 1}of{jobs}"
        files.write(record, files.path_of(record.case, results))
    shutil.copytree(
        ROOT / "reports", tmp_path / "reports", dirs_exist_ok=True, ignore=shutil.ignore_patterns("results")
    )
    (command,) = [line for line in script if "report -- merge" in line]
    line = command.replace("tox run -e report --", f"{shlex.quote(sys.executable)} -m reports", 1)
    merged = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert merged.returncode == 0, merged.stderr
    assert len(records_in(tmp_path / "merged")) == jobs


def test_report_commands_exist() -> None:
    lines = [*(item.get("run", "") for item in GITHUB["merge"]["steps"]), *GITLAB["merge"]["script"]]
    names = re.findall(r"(?:-e report --|-m reports) (\w+)", "\n".join(lines))
    help_ = subprocess.run(
        [sys.executable, "-m", "reports", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert names
    assert {*names} <= {*re.findall(r"^ +(\w+) ", help_.stdout, re.MULTILINE)}


@pytest.mark.contract
def test_ci_files_match_their_schemas(tmp_path: Path) -> None:
    """The schemas of schemastore.org, which check-jsonschema includes."""
    install = [sys.executable, "-m", "pip", "install", "-q", "--target", str(tmp_path), "check-jsonschema"]
    installed = subprocess.run(install, capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"needs PyPI: {installed.stderr.strip().splitlines()[-1]}")
    # The schema applies to the second document of the include alone.
    texts = {
        "vendor.github-workflows": [example_text("github")],
        "vendor.github-actions": [(ROOT / "action.yml").read_text()],
        "vendor.gitlab-ci": [
            example_text("gitlab"),
            (ROOT / "ci" / "gitlab.yml").read_text().partition("\n---\n")[2],
        ],
    }
    for schema, text in ((schema, text) for schema, documents in texts.items() for text in documents):
        path = tmp_path / "checked.yml"
        path.write_text(text)
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        checked = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr
