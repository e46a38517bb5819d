"""The GitHub Action and the GitLab include: inputs, quoting and steps. The workflows of this repository, and those
for many machines in docs/ci-many-machines.md, name existing things."""

import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci import prove
from fixtures.outcomes import STATUS
from tests import sample_records
from tests.helpers import ROOT, Collect, environments, git, help_text, project_file, records_in
from tests.serve.programs import script
from tests.user_models.written_files import write
from tritonproof import new
from tritonproof.record import record_files, setup

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
SPEC, PIPELINE = yaml.safe_load_all((ROOT / "ci" / "gitlab.yml").read_text())
PAGE = (ROOT / "docs" / "ci.md").read_text()
PAGE_OF_MANY_MACHINES = (ROOT / "docs" / "ci-many-machines.md").read_text()


def example(name: str, page: str = PAGE) -> Any:
    """The YAML of a page, by default docs/ci.md, after the comment of that name."""
    (text,) = re.findall(rf"<!-- {name} -->\n\n```yaml\n(.*?)```", page, re.DOTALL)
    return yaml.safe_load(text)


def test_user_input_is_never_part_of_a_command() -> None:
    """The shell would run whatever an input puts into the text of a script."""
    assert not [step for step in STEPS if "${{" in step.get("run", "")]
    assert "$[[" not in str(PIPELINE["tritonproof"]["script"])


def test_inputs_are_passed_documented_and_equal_for_both_services() -> None:
    (proving,) = [step for step in STEPS if step.get("id") == "prove"]
    passed = {re.sub(r"\$\{\{ inputs\.(.+) \}\}", r"\1", value) for value in proving["env"].values()}
    assert set(ACTION["inputs"]) <= passed
    table = re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)
    assert set(ACTION["inputs"]) <= set(table)
    of_gitlab = set(SPEC["spec"]["inputs"])
    assert of_gitlab - {"source", "ref", "stage"} == set(ACTION["inputs"]) - {"warn-on", "environment"}
    for name in of_gitlab:
        assert f"$[[ inputs.{name} ]]" in str(PIPELINE)


def test_examples_use_existing_inputs_of_this_version() -> None:
    version = project_file()["project"]["version"]
    (step,) = [item for item in example("action")["jobs"]["prove"]["steps"] if "tritonproof" in item["uses"]]
    (include,) = example("include")["include"]
    assert set(step["with"]) <= set(ACTION["inputs"])
    assert set(include["inputs"]) <= set(SPEC["spec"]["inputs"])
    assert step["uses"].endswith(f"@v{version}")
    assert include["remote"].endswith("/ci/gitlab.yml")
    assert f"/v{version}/" in include["remote"]
    assert SPEC["spec"]["inputs"]["ref"]["default"] == f"v{version}"
    assert re.search(rf"^## {version} - ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_later_steps_use_outputs_of_the_first(tmp_path: Path) -> None:
    used = set(re.findall(r"steps\.prepare\.outputs\.([a-z_]+)", (ROOT / "action.yml").read_text()))
    output = tmp_path / "output"
    assert prove.prepare({"GITHUB_OUTPUT": str(output), "GITHUB_WORKSPACE": str(tmp_path)}) == 0
    written = dict(line.split("=", 1) for line in output.read_text().splitlines())
    assert used <= set(written)
    assert all(written.values())


@pytest.mark.parametrize("speed", ["", "true", "false"])
def test_inputs_become_pytest_options_and_paths_resolve_in_workspace(
    speed: str, tmp_path: Path, collect: Collect
) -> None:
    write(tmp_path / "a" / "mine.py", "mine")
    write(tmp_path / "recorded.py", "recorded")  # a model may have the name of a step
    (tmp_path / "asked.toml").write_text('[[cases]]\nmatch = "cpu-mine-*"\nallowed_slowdown_percent = 3\n')
    options = prove.options(
        {
            "GITHUB_WORKSPACE": str(tmp_path),
            "PROVE_CACHE": str(tmp_path / "cache"),
            "PROVE_MODELS": "a\n\n  recorded.py\n",
            "PROVE_SELECTION": "(mine or recorded) and onnx and fp32",
            "PROVE_THRESHOLDS": "asked.toml",
            "PROVE_ARGUMENTS": "--deployment 'instances=2, warmup=false'",
            "PROVE_MEASURE": speed,
        }
    )
    collected = collect("--target", "cpu", *options)
    assert collected.status == 0, collected.text
    assert collected.cases("test_accuracy") == {"cpu-mine-onnx-fp32", "cpu-recorded-onnx-fp32"}
    assert collected.cases("test_batches")
    assert bool(collected.cases("test_offline")) is (speed == "true")


def test_every_input_maps_to_an_existing_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(prove.PATHS.values()) <= set(re.findall(r"^ +(--[a-z-]+)", help_text(capsys), re.MULTILINE))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"PROVE_MODELS": " \n"},
        {"PROVE_MODELS": "[a.py"},
        {"PROVE_MODELS": "a.py", "PROVE_ARGUMENTS": "'open"},
        {"PROVE_MODELS": "a.py", "PROVE_MEASURE": "True"},
        {"PROVE_REPOSITORY": "models\nmore"},
        {"PROVE_ONNX": "models/net.onnx"},
        {"PROVE_MODELS": "a.py", "PROVE_THRESHOLDS": "a.toml\nb.toml"},
    ],
)
def test_invalid_input_is_a_usage_error_and_installs_nothing(
    given: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = prove.run({**given, "PROVE_CACHE": str(tmp_path / "cache")})
    assert status == pytest.ExitCode.USAGE_ERROR
    assert capsys.readouterr().out.startswith("::error::")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [("-p x -k int8 -m=y", "-k -m"), ("-xvkint8 -mspeed", "-k -m"), ("--junitxml=x", "--junit-xml")],
)
def test_option_that_would_silently_replace_an_input_is_refused(arguments: str, refused: str) -> None:
    given = {"PROVE_MODELS": "a.py", "PROVE_SELECTION": "fp32", "PROVE_ARGUMENTS": arguments}
    with pytest.raises(ValueError, match=f"^{refused}: give it once"):
        prove.options(given)


@pytest.mark.parametrize(("warn_on", "status"), [("", 10), ("10", 0), ("11, 10", 0), ("1", 10)])
def test_allowed_status_is_a_warning(
    warn_on: str, status: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script(tmp_path / "cache" / "environment" / "tool" / "bin" / "tox", "exit 10")
    environment = {"PROVE_MODELS": "a.py", "PROVE_CACHE": str(tmp_path / "cache"), "PROVE_WARN_ON": warn_on}
    assert prove.run({**os.environ, **environment}) == status
    assert ("::warning::" in capfd.readouterr().out) is (status == 0)


def test_gitlab_inputs_arrive_unchanged(tmp_path: Path) -> None:
    """GitLab inserts texts into the file as they are, all else as JSON, and then reads the file
    (lib/gitlab/ci/config/interpolation/text_template.rb of its sources)."""
    arguments = """--deployment "instances=2" -p 'no:cacheprovider' # not: a comment"""
    given = {"models": ["a.py", "b: c/d.py"], "selection": 'onnx and not "int8"', "arguments": arguments}
    declared = {name: (entry or {}).get("default") for name, entry in SPEC["spec"]["inputs"].items()}
    texts = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in {**declared, "source": "https://example.org/suite", **given}.items()
    }
    body = (ROOT / "ci" / "gitlab.yml").read_text().partition("\n---\n")[2]
    job = yaml.safe_load(re.sub(r"\$\[\[ inputs\.([a-z]+) \]\]", lambda match: texts[match[1]], body))
    options = prove.options({**job["tritonproof"]["variables"], "CI_PROJECT_DIR": str(tmp_path)})
    pairs = list(itertools.pairwise(options))
    paths = [value for option, value in pairs if option == "--models"]
    assert paths == [f"{tmp_path}/a.py", f"{tmp_path}/b: c/d.py"]
    assert ("-k", 'onnx and not "int8"') in pairs
    assert options[-8:] == shlex.split(arguments)
    assert not {"--onnx", "--thresholds"} & {*options}


def run_steps(home: Path, workspace: Path, **inputs: str) -> tuple[int, dict[str, str]]:
    """Run the action's own steps in an empty home with GitHub's variables; returns status and outputs. GitHub
    replaces expressions; an unknown one is a KeyError here."""
    known: dict[str, str] = {"steps.python.outputs.python-path": sys.executable}
    known |= {f"inputs.{name}": str(entry["default"]) for name, entry in ACTION["inputs"].items()}
    known |= {f"inputs.{name}": value for name, value in inputs.items()}
    variables = {
        **{name: value for name, value in os.environ.items() if re.match("PIP_|.*_proxy$", name)},
        "HOME": str(home),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "GITHUB_ACTIONS": "true",
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_WORKSPACE": str(workspace),
        "GITHUB_OUTPUT": str(home / "output"),
        "GITHUB_STEP_SUMMARY": str(home / "summary.md"),
        "CI": "true",
    }

    def filled(text: str) -> str:
        return re.sub(r"\$\{\{ (.+?) \}\}", lambda match: known[match[1]], text)

    for step in (entry for entry in STEPS if "run" in entry):
        (home / "output").write_text("")
        given = {name: filled(value) for name, value in step.get("env", {}).items()}
        command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
        status = subprocess.run(command, env=variables | given, cwd=workspace, check=False).returncode
        outputs = dict(line.split("=", 1) for line in (home / "output").read_text().splitlines())
        known |= {f"steps.{step['id']}.outputs.{name}": value for name, value in outputs.items()}
        if status:
            return status, known
    return 0, known


@pytest.mark.campaign
def test_repository_with_a_single_model_file_passes(tmp_path: Path) -> None:
    """Installs everything, as the first run on a runner does."""
    workspace, home = tmp_path / "workspace", tmp_path / "home"
    workspace.mkdir()
    home.mkdir()
    assert new.main(["tumours", "--to", str(workspace / "tumours.py")]) == 0
    inputs = {"models": "tumours.py", "selection": "onnx and fp32"}
    status, known = run_steps(home, workspace, **inputs)
    assert status == 0
    assert [*Path(known["steps.prepare.outputs.results"]).rglob("cpu-tumours-onnx-fp32.json")]
    assert (workspace / "tritonproof-results" / "junit.xml").is_file()
    assert "| tumours |" in (home / "summary.md").read_text()
    limit = '[[cases]]\nmatch = "cpu-tumours-*"\nlimits = { accuracy = 0.999 }\n'
    (workspace / "thresholds.toml").write_text(limit)
    assert run_steps(home, workspace, thresholds="thresholds.toml", **inputs)[0] == STATUS["accuracy"]


# --- this repository's own workflows ------------------------------------------------------------------------

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
GITHUB = {path.stem: yaml.safe_load(path.read_text()) for path in WORKFLOWS}
GITLAB = yaml.safe_load((ROOT / ".gitlab-ci.yml").read_text())


def steps() -> Iterator[dict[str, Any]]:
    for workflow in GITHUB.values():
        for job in workflow["jobs"].values():
            yield from job["steps"]


def scripts() -> list[str]:
    """All command lines, without line continuations."""
    of_github = [step["run"].replace("\\\n", " ") for step in steps() if "run" in step]
    of_gitlab = [line for job in ("accuracy", "speed") for line in GITLAB[job]["script"]]
    return [*of_github, *of_gitlab, *GITLAB["default"]["before_script"]]


RUNS = [shlex.split(line) for line in scripts() if line.startswith("tox run -e benchmarks ")]


def test_jobs_may_only_read_and_have_a_limit() -> None:
    for workflow in GITHUB.values():
        assert workflow["permissions"] == {"contents": "read"}
        assert all("timeout-minutes" in job for job in workflow["jobs"].values())


def test_actions_are_pinned_by_commit_with_release_comment_and_keep_no_token() -> None:
    """OWNER stands for the owner of this repository."""
    tracked = git(ROOT, "ls-files", "*.yml", "*.yaml", "*.md").splitlines()
    text = "\n".join((ROOT / name).read_text() for name in tracked)
    used = re.findall(r"uses: (?!OWNER/)([\w.-]+/.*)", text)
    checkouts = re.findall(r"uses: actions/checkout@.*\n((?: +\w.*\n)*)", text)
    assert len(used) > len(checkouts) > len(WORKFLOWS)
    for line in used:
        assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
    assert all("persist-credentials: false\n" in options for options in checkouts)


def selection(words: list[str]) -> tuple[str, ...]:
    """The arguments for pytest, without those that name the runner's commits and files."""
    arguments = ["HEAD" if word.startswith("$") else word for word in words[5:]]
    return tuple(word for word in arguments if not re.fullmatch(r"--(junit-xml|summary)=.*", word))


def test_commands_run_existing_environments() -> None:
    used = {shlex.split(line)[3] for line in scripts() if line.startswith("tox run -e ")}
    assert used == {"benchmarks", "tests"} <= environments()
    assert len(RUNS) == sum(line.count("-e benchmarks") for line in scripts()) > 0


@pytest.mark.parametrize("arguments", sorted({selection(words) for words in RUNS}), ids=lambda args: args[1])
def test_commands_select_tests_by_existing_options(arguments: tuple[str, ...], collect: Collect) -> None:
    collected = collect(*arguments)
    assert collected.status == 0, collected.text
    assert collected.selected


@pytest.mark.parametrize("kind", STATUS)
def test_every_exit_status_is_documented(kind: str) -> None:
    assert f"\n| {STATUS[kind]} | {kind}" in PAGE


# --- many machines

MANY_MACHINES: dict[str, Any] = example("github", PAGE_OF_MANY_MACHINES)["jobs"]


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
    for number, name in enumerate(("onnx", "trt", "ts-trace")[:jobs]):
        record = sample_records.record(case=setup.CaseKey("a40", "resnet50", name, None, "fp16"))
        results = folder if jobs == 1 else folder / f"a40-{number + 1}of{jobs}"
        record_files.write(record, record_files.record_path(record.case, results))
    (tmp_path / "tritonproof").symlink_to(ROOT / "tritonproof")

    line = command.replace("tox run -e report --", f"{shlex.quote(sys.executable)} -m tritonproof report", 1)
    subprocess.run(line, shell=True, cwd=tmp_path, check=True)
    assert len(records_in(tmp_path / "merged")) == jobs
