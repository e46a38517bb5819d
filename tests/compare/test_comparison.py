"""Comparisons of two builds: intervals that hold, verdicts, what --against and --baseline take, and real servers."""

import argparse
import contextlib
import dataclasses
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fixtures.build.repository import Build
from fixtures.compare import baseline, comparison, other_builds
from fixtures.compare.comparison import (
    MOST_SECONDS_TO_SETTLE,
    Reference,
    compare_pairs,
    is_settled,
    seconds_to_settle,
    verdict,
)
from fixtures.errors import InputError, ProofError
from fixtures.measure import load_points, perf_analyzer
from fixtures.measure.job import Job, Run, input_data
from fixtures.measure.load_points import Plan, Sampling, measure, set_against
from fixtures.measure.timeline import Timeline
from fixtures.plugin.exit import STATUS
from fixtures.plugin.options import Settings, parse, passed_on, pytest_addoption
from fixtures.serve.launch import Choice
from fixtures.serve.server import serve
from fixtures.spec import LoadPoint
from reports import tables
from reports.record import files, schema
from reports.record.ratio import paired_ratio, unpaired_ratio
from reports.record.schema import COMPONENTS, Comparison, Estimate, Load, Machine, Record, Serving
from reports.words.rightness import comparison_text
from tests import samples
from tests.conftest import DEPLOYMENT, MakeBuild

ROOT = Path(__file__).parents[2]
ONNX = "cpu-resnet50-micro-onnx-fp32"
ONLINE = LoadPoint("online", 1, 2)
REFERENCE = Reference("HEAD~1", 0.03)
TRIALS = 1000

Noise = Callable[[np.random.Generator, int], np.ndarray]
NOISES: dict[str, Noise] = {
    "normal": lambda generator, count: generator.normal(0, 0.05, count),
    "heavy tails": lambda generator, count: 0.03 * generator.standard_t(2, count),
    "bursts": lambda generator, count: (
        generator.normal(0, 0.02, count)
        - (generator.random(count) < 0.15) * generator.exponential(0.4, count)
    ),
}


def speeds(
    generator: np.random.Generator, noise: Noise, ratio: float, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of speeds of that true ratio, on a machine that drifts."""
    drift = np.cumsum(generator.normal(0, 0.03, count))
    mine = np.exp(np.log(ratio) + drift + noise(generator, count))
    return mine, np.exp(drift + noise(generator, count))


# --- statistics --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [6, 8, 16, 40])
@pytest.mark.parametrize("noise", NOISES)
def test_the_interval_of_pairs_holds_the_true_ratio(noise: str, count: int) -> None:
    generator = np.random.default_rng(count)
    held = 0
    for _trial in range(TRIALS):
        ratio = paired_ratio(*speeds(generator, NOISES[noise], 0.96, count))
        assert ratio.low <= ratio.value <= ratio.high
        held += ratio.low <= 0.96 <= ratio.high
    # Ranks are whole, so the interval of six pairs is one of 97 %.
    assert 0.935 <= held / TRIALS <= 0.98


@pytest.mark.parametrize(("mine", "theirs"), [(5, 5), (6, 12), (30, 30)])
def test_the_interval_of_records_holds_the_true_ratio(mine: int, theirs: int) -> None:
    generator = np.random.default_rng(mine)
    held = 0
    for _trial in range(TRIALS):
        ratio = unpaired_ratio(
            100 * 0.96 * np.exp(generator.normal(0, 0.05, mine)),
            100 * np.exp(generator.normal(0, 0.02, theirs)),
        )
        held += ratio.low <= 0.96 <= ratio.high
    assert 0.935 <= held / TRIALS <= 0.97


def test_scipy_finds_the_same_bounds() -> None:
    from scipy import stats

    generator = np.random.default_rng(0)
    mine, theirs = speeds(generator, NOISES["normal"], 0.96, 13)
    ratio = paired_ratio(mine, theirs)
    for bound, side in ((ratio.low, "greater"), (ratio.high, "less")):
        # Just inside of the interval the one-sided test does not reject at 2.5 %; just outside it does.
        chances = [
            stats.wilcoxon(
                np.log(mine / theirs) - np.log(bound * factor), alternative=side, method="exact"
            ).pvalue
            for factor in (1 + 1e-9, 1 - 1e-9)
        ]
        assert min(chances) <= 0.025 < max(chances)


@pytest.mark.filterwarnings("error")
def test_passes_without_any_spread_have_a_ratio_too() -> None:
    alike = unpaired_ratio([95.0] * 3, [100.0] * 3)
    assert (alike.low, alike.value, alike.high) == pytest.approx((0.95, 0.95, 0.95))
    assert paired_ratio([95.0] * 6, [100.0] * 6).high == pytest.approx(0.95)


def test_five_pairs_are_too_few() -> None:
    with pytest.raises(ValueError, match="needs 6 pairs, not 5"):
        paired_ratio([1.0] * 5, [1.0] * 5)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    ("true", "most_slower", "least_slower"), [(1.0, 0.01, 0.0), (0.97, 0.05, 0.02), (0.95, 1.0, 0.8)]
)
def test_looking_often_raises_few_alarms(
    noise: str, true: float, most_slower: float, least_slower: float
) -> None:
    """A build as fast raises none, one exactly at the limit 4 in 100, and one 5 % slower is found."""
    generator = np.random.default_rng(1)
    slower = 0
    for _trial in range(4 * TRIALS):
        mine = np.exp(np.log(true) + NOISES[noise](generator, 110))
        theirs = np.exp(NOISES[noise](generator, 110))
        looks = (count for count in (8, 16, 32, 64) if is_settled(mine[:count], theirs[:count], 0.03))
        count = next(looks, 110)
        slower += verdict(paired_ratio(mine[:count], theirs[:count]), 0.03) == "slower"
    assert least_slower <= slower / (4 * TRIALS) <= most_slower


def test_looks_are_few() -> None:
    apart = [2.0] * 200, [1.0] * 200
    looks = [count for count in range(1, 200) if is_settled(apart[0][:count], apart[1][:count], 0.03)]
    assert looks == [8, 16, 32, 64, 128]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.90, 0.96, "slower"),
        (0.90, 0.97, "not shown"),
        (0.97, 1.02, "not shown"),
        (0.90, 1.02, "not shown"),
        (0.98, 1.02, "not slower"),
        (1.10, 1.20, "not slower"),
    ],
)
def test_a_verdict_needs_the_whole_interval_on_one_side(low: float, high: float, expected: str) -> None:
    assert verdict(Estimate((low + high) / 2, low, high), 0.03) == expected


def test_the_seconds_that_would_settle_it_are_those_that_narrow_the_interval_enough() -> None:
    limit = 0.97
    half = 2 * math.log(1 / limit)  # twice as far as the limit is, so four times the time is needed
    ratio = Estimate(1.0, math.exp(-half), math.exp(half))
    assert seconds_to_settle(ratio, 0.03, 30.0) == pytest.approx(90.0)


def test_seconds_to_settle_at_the_limit_are_capped_and_none_once_settled() -> None:
    assert seconds_to_settle(Estimate(0.97, 0.9, 1.0), 0.03, 30.0) == MOST_SECONDS_TO_SETTLE
    assert seconds_to_settle(Estimate(0.9701, 0.9, 1.0), 0.03, 30.0) == MOST_SECONDS_TO_SETTLE
    assert seconds_to_settle(Estimate(0.9, 0.89, 0.91), 0.03, 30.0) is None


# --- in words ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (
            Estimate(0.94, 0.92, 0.96),
            "ratio 0.94 (0.92 to 0.96) to HEAD~1: slower than the 3 % allowed, shown at 95 %",
        ),
        (Estimate(1.0, 0.99, 1.02), "ratio 1.00 (0.99 to 1.02) to HEAD~1: not slower"),
        (Estimate(0.9684, 0.9671, 0.9696), "ratio 0.968 (0.967 to 0.970) to HEAD~1: slower than"),
        (
            Estimate(1.0, 0.95, 1.05),
            "ratio 1.00 (0.95 to 1.05) to HEAD~1: not shown, about 55 s more would settle it",
        ),
        (Estimate(0.97, 0.95, 0.99), "not shown, an hour or more would settle it"),
    ],
)
def test_a_comparison_is_one_sentence(ratio: Estimate, said: str) -> None:
    settled = seconds_to_settle(ratio, 0.03, 30.0)
    one = Comparison("HEAD~1", "interleaved", ratio, 0.03, verdict(ratio, 0.03), 8, settled)
    assert said in comparison_text(one)


def test_a_comparison_is_a_row_of_its_case() -> None:
    load = samples.load("online", 2, 95.0, comparison=compare_pairs([95.0] * 8, [100.0] * 8, REFERENCE, 5.0))
    table = tables.comparison_table([samples.record(loads=(load,))])
    for cell in (
        "`a40-resnet50-onnx-trt-fp16`",
        "online, concurrency 2",
        "0.950 (0.950 to 0.950)",
        "HEAD~1",
        "slower",
    ):
        assert f"| {cell}" in table
    assert tables.comparison_table([stored()]) == ""


# --- options -----------------------------------------------------------------------------------------------


def settings(**given: Any) -> Settings:
    """The settings of a run with these options and the defaults of the others."""
    parser = argparse.ArgumentParser()
    group = SimpleNamespace(addoption=parser.add_argument)
    pytest_addoption(SimpleNamespace(getgroup=lambda *_names: group))  # type: ignore[arg-type]
    return parse(argparse.Namespace(**{**vars(parser.parse_args([])), "triton": "embedded", **given}))


def test_without_references_nothing_is_compared() -> None:
    found = settings()
    assert (found.against, found.baseline, found.allowed_slowdown) == (None, None, 0.03)
    assert found.plan.budget_s == 3


def test_pairs_have_more_time_unless_said_otherwise(models: Path) -> None:
    assert settings(against=str(models)).plan.budget_s == 120
    assert settings(against=str(models), point_budget_s="4").plan.budget_s == 4
    assert settings(against=str(models), allow_slowdown="2.5%").allowed_slowdown == 0.025


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"against": "/no/such/folder"}, "there is no folder '/no/such/folder' and no such commit"),
        ({"against": "no-such-branch"}, "such as HEAD~1"),
        ({"against": "--all"}, "no such commit"),
        ({"against": "{empty}"}, "the folder holds no build"),
        ({"baseline": "/no/such/folder"}, "there is no such folder"),
        ({"baseline": "{empty}"}, "the folder holds no records"),
        ({"against": "HEAD", "baseline": "{empty}"}, "two references at once"),
        ({"against": "HEAD", "triton": "localhost:8001"}, "needs a server of its own"),
        ({"allow_slowdown": "0"}, "not a percentage"),
        ({"allow_slowdown": "100"}, "not a percentage"),
        ({"allow_slowdown": "three"}, "not a percentage"),
    ],
)
def test_a_bad_reference_is_named_with_its_cure(given: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        settings(**{name: value.format(empty=tmp_path) for name, value in given.items()})
    assert said in str(raised.value)
    assert f"--{next(iter(given)).replace('_', '-')}" in str(raised.value)
    assert "cure:" in str(raised.value)


def test_what_decides_the_build_is_passed_on(tmp_path: Path) -> None:
    file = tmp_path / "weights.pt"
    file.touch()
    given = settings(
        checkpoint=[f"resnet50={file}", f"nnunet={file}"],
        deployment="instances=2,preferred_batch_sizes=4+8,warmup=false",
    )
    assert passed_on(given, "resnet50") == [
        *("--triton", "embedded", "--checkpoint", f"resnet50={file}"),
        *("--deployment", "instances=2,preferred_batch_sizes=4+8,warmup=false"),
    ]


# --- folders of builds -------------------------------------------------------------------------------------

SLEEPING = """\
import time

def load(artifact, settings):
    def predict(arrays):
        time.sleep({seconds})
        return [2 * arrays[0]]
    return predict
"""


@pytest.fixture
def built(make_build: MakeBuild, tmp_path: Path) -> Build:
    """A build of the case `cpu-toy-raw-fp32` in models/cpu/."""
    return make_build(tmp_path / "models" / "cpu", "toy", SLEEPING.format(seconds=0.005))


@pytest.fixture
def models(built: Build) -> Path:
    """A model repository of that one case."""
    return built.folder.parent.parent


def test_a_folder_may_be_a_repository_a_targets_or_the_cases_own(built: Build, models: Path) -> None:
    for folder in (models, models / "cpu", built.folder):
        assert other_builds.find(other_builds.parse(str(folder)), built.case) == built.folder


def test_a_cases_folder_may_have_any_name(built: Build, tmp_path: Path) -> None:
    renamed = built.folder.rename(tmp_path / "slow")
    found = other_builds.find(other_builds.parse(str(renamed)), built.case)
    assert found == renamed
    for link in (True, False):
        scratch = tmp_path / str(link)
        scratch.mkdir()
        root = other_builds.repository_with(found, built.case, scratch, link=link)
        assert (root / str(built.case) / "1" / "runtime.py").is_file()


def test_a_case_that_is_not_there_is_an_error_that_says_what_is(built: Build, models: Path) -> None:
    other = dataclasses.replace(built.case, precision="int8")
    for folder in (models, built.folder):
        with pytest.raises(InputError, match=r"no build of cpu-toy-raw-int8; there is cpu-toy-raw-fp32\n"):
            other_builds.find(other_builds.parse(str(folder)), other)


def test_a_configuration_that_is_none_is_an_error_with_its_place(built: Build) -> None:
    (built.folder / "config.pbtxt").write_text("max_batch_size: many")
    with pytest.raises(InputError, match=r"(?s)not a model configuration.*where: .*config\.pbtxt"):
        other_builds.configuration(built.folder)


def test_each_is_served_by_its_own_settings_and_differences_have_names(built: Build) -> None:
    own = other_builds.configuration(built.folder)
    other = type(own)()
    other.CopyFrom(own)
    assert other_builds.differences(other, own) == []
    other.instance_group[0].count = 2
    other.parameters["threads"].string_value = "7"
    assert other_builds.differences(other, own) == ["instance_group", "parameters"]
    assert other_builds.for_scenario(other, built.case, "online").instance_group[0].count == 2
    assert not other_builds.for_scenario(other, built.case, "offline").HasField("dynamic_batching")


# --- commits and checkouts ---------------------------------------------------------------------------------

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
"""In place of pytest, in a checkout that is none of ours."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A git repository of two commits, the second of which looks like this project."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "trunk")
    (folder / "README").write_text("early")
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


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=tester", "-c", "user.email=tester@example.org")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_ref_names_a_commit_whose_files_are_kept_apart(checkout: Path, tmp_path: Path) -> None:
    other = other_builds.parse("trunk", checkout)
    commit = git(checkout, "rev-parse", "HEAD")
    assert (other.kind, other.commit, other.text) == ("commit", commit, f"trunk ({commit[:7]})")
    assert other_builds.parse(commit[:10], checkout).text == commit[:7]

    folder = other_builds.export(other, tmp_path / "cache", checkout)

    assert (folder / "pytest.py").read_text() == BUILDER
    (folder / "model_repos" / "built").touch()
    assert other_builds.export(other, tmp_path / "cache", checkout) == folder
    assert (folder / "model_repos" / "built").exists(), "the next run finds what this one built"
    assert git(checkout, "worktree", "list").count("\n") == 0, "the repository knows nothing of it"
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()] == [commit]


def test_a_commit_before_the_benchmarks_is_refused(checkout: Path, tmp_path: Path) -> None:
    other = other_builds.parse("HEAD~1", checkout)
    with pytest.raises(InputError, match=r"(?s)has no benchmarks of this project.*--against HEAD~1"):
        other_builds.export(other, tmp_path / "cache", checkout)
    assert not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]


def test_a_checkout_builds_the_case_by_its_own_command_line(
    built: Build, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    other = other_builds.parse(str(checkout))
    assert other.kind == "checkout"
    folder = other_builds.build_there(checkout, other, built.case, ["--deployment", "instances=2"], print)
    assert folder == checkout / "model_repos" / "cpu" / str(built.case)
    arguments = (folder / "arguments").read_text()
    for argument in ("benchmarks", f"{built.case} and test_conversion", "instances=2"):
        assert repr(argument) in arguments


def test_a_checkout_that_cannot_build_it_is_quoted(built: Build, checkout: Path) -> None:
    other = other_builds.parse(str(checkout))
    case = dataclasses.replace(built.case, precision="int8")
    with pytest.raises(ProofError) as raised:
        other_builds.build_there(checkout, other, case, [], print)
    for said in ("exit status 3", "| the last words", f"--against {checkout}", "cure:"):
        assert said in str(raised.value)


# --- baselines ---------------------------------------------------------------------------------------------

MACHINE = Machine("CPU", 2, 24, None, None, "Linux", {"torch": "2.13.0"})
SERVING = Serving("embedded", "2.51.0", "python", "system")


def stored(throughputs: Sequence[float] = (100.0, 101.0, 99.0), **changes: Any) -> Record:
    """The record of a toy case with one online point; `changes` are to the point."""
    estimate = Estimate(100.0, 99.0, 101.0)
    point = Load(
        scenario="online",
        batch=1,
        concurrency=2,
        throughput_per_s=estimate,
        latency_ms=dict.fromkeys(("avg", "p50", "p90", "p95", "p99"), estimate),
        components_ms=dict.fromkeys(COMPONENTS, 1.0),
        passes=tuple(schema.Pass(30, 0.3, one, {"avg": 2000 / one}) for one in throughputs),
        requests=90,
        duration_s=0.9,
        warm_up_s=0.1,
    )
    return Record(
        schema.Case("cpu", "toy", "raw", None, "fp32"),
        MACHINE,
        SERVING,
        DEPLOYMENT,
        schema.Build("digest", "none", 0.0, 0.0, "Raw", "none"),
        loads=(dataclasses.replace(point, **changes),),
    )


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A folder with that record."""
    one = stored()
    files.write(one, files.path_of(one.case, tmp_path / "earlier"))
    return tmp_path / "earlier"


def test_a_point_on_record_is_compared_by_its_passes(earlier: Path) -> None:
    found = settings(baseline=str(earlier)).baseline
    assert found is not None
    reference = baseline.reference(found, stored().case, ONLINE, 0.03)
    assert reference is not None
    one = comparison.compare_records([90.0, 91.0, 89.0], reference, 0.9)
    assert (one.method, one.verdict, one.reference) == ("records", "slower", str(earlier))
    assert one.ratio.value == pytest.approx(0.9, rel=1e-3)


def test_at_a_rate_the_latencies_are_compared(tmp_path: Path) -> None:
    one = stored(concurrency=0, request_rate_per_s=50.0, arrivals="poisson")
    files.write(one, files.path_of(one.case, tmp_path))
    point = LoadPoint("online", 1, 0, 50.0, "poisson")
    found = baseline.reference(baseline.read(str(tmp_path)), one.case, point, 0.03)
    assert found is not None
    assert found.speeds == pytest.approx([1 / 20, 1 / (2000 / 101), 1 / (2000 / 99)])


def test_a_case_or_point_that_is_not_on_record_has_no_reference(earlier: Path) -> None:
    found = baseline.read(str(earlier))
    other = dataclasses.replace(stored().case, precision="int8")
    assert baseline.reference(found, other, ONLINE, 0.03) is None
    for point in (LoadPoint("online", 1, 4), LoadPoint("offline", 1, 2)):
        assert baseline.reference(found, stored().case, point, 0.03) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"now": dataclasses.replace(MACHINE, cores=64)}, "another machine: cores 2 there, 64 here"),
        (
            {"deployment": dataclasses.replace(DEPLOYMENT, instances=2)},
            "another deployment: instances 1 there, 2 here",
        ),
        (
            {"serving": dataclasses.replace(SERVING, backend="onnxruntime")},
            "another server: backend 'python' there, 'onnxruntime' here",
        ),
    ],
)
def test_a_record_of_other_conditions_is_refused(changes: dict[str, Any], said: str, earlier: Path) -> None:
    now: dict[str, Any] = {"now": MACHINE, "deployment": DEPLOYMENT, "serving": SERVING}
    baseline.check(baseline.read(str(earlier)), stored().case, **now)
    with pytest.raises(InputError) as raised:
        baseline.check(baseline.read(str(earlier)), stored().case, **(now | changes))
    assert said in str(raised.value)
    assert str(earlier / "cpu" / "cpu-toy-raw-fp32.json") in str(raised.value)


def test_other_versions_are_compared_and_named(earlier: Path) -> None:
    found = baseline.read(str(earlier))
    now = dataclasses.replace(MACHINE, versions={"torch": "2.14.0"})
    baseline.check(found, stored().case, now, DEPLOYMENT, SERVING)
    assert baseline.changed_versions(found, stored().case, now) == ["torch 2.13.0 there, 2.14.0 here"]


def test_a_damaged_record_is_named(earlier: Path) -> None:
    (earlier / "cpu" / "cpu-toy-raw-fp32.json").write_text("{")
    with pytest.raises(
        InputError, match=r"(?s)cannot be read: .*cpu-toy-raw-fp32\.json: not JSON.*--baseline"
    ):
        baseline.read(str(earlier))


# --- taking pairs ------------------------------------------------------------------------------------------


def sampling(point: LoadPoint, name: str = "mine") -> Sampling:
    """A point that is measured by the fixture `generated`."""
    return Sampling(Job(SimpleNamespace(log_tail=str), name, None, point, "none", Path()))  # type: ignore[arg-type]


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Runs of 20 ms per request for `mine`, and of what the test sets for `theirs`; in which order they came."""
    said: dict[str, Any] = {"theirs_ms": 20.0, "order": [], "fails": False, "elapsed_s": 0.3}
    generator = np.random.default_rng(0)

    def insist(job: Job, _window_s: float, _damaged: list[str]) -> Run:
        said["order"].append(job.name)
        if job.name == "theirs" and said["fails"]:
            raise ProofError("Triton does not answer any more")
        mean_ms = said["theirs_ms"] if job.name == "theirs" else 20.0
        latency = int(mean_ms * 1e6 * np.exp(generator.normal(0, 0.01)))
        starts = 10**9 + latency * np.arange(60)
        timeline = Timeline(starts, starts + latency - 1, int(starts[0]), int(starts[-1]) + latency, 1)
        cpu = SimpleNamespace(elapsed_s=0.3, children_s=0.1, server_s=0.1, busy_s=0.3, stolen_s=0.0)
        return Run(timeline, dict.fromkeys(COMPONENTS, 100.0), cpu, said["elapsed_s"], 0.1)  # type: ignore[arg-type]

    monkeypatch.setattr(perf_analyzer, "insist", insist)
    return said


def duel(plan: Plan | None = None) -> load_points.Outcome:
    one = sampling(LoadPoint("offline", 1, 1))
    set_against([one], one.job.server, "theirs", REFERENCE)
    return measure([one], plan or Plan(budget_s=60))[one.point]


def compared(outcome: load_points.Outcome) -> Comparison:
    assert isinstance(outcome, load_points.Measurement)
    assert outcome.load.comparison is not None
    return outcome.load.comparison


def test_pairs_are_taken_until_it_is_settled(generated: dict[str, Any]) -> None:
    one = compared(duel())
    assert (one.verdict, one.passes, one.method) == ("not slower", 8, "interleaved")


def test_which_of_a_pair_comes_first_is_chance(generated: dict[str, Any]) -> None:
    one = sampling(LoadPoint("offline", 1, 1))
    set_against([one], one.job.server, "theirs", REFERENCE)
    for _pair in range(40):
        one.take()
    pairs = {tuple(generated["order"][place : place + 2]) for place in range(0, 80, 2)}
    assert pairs == {("mine", "theirs"), ("theirs", "mine")}


def test_a_faster_reference_is_found(generated: dict[str, Any]) -> None:
    generated["theirs_ms"] = 18.0
    one = compared(duel())
    assert one.verdict == "slower"
    assert one.ratio.value == pytest.approx(0.9, rel=0.02)
    assert one.reference == "HEAD~1"


def test_a_spent_budget_leaves_it_open_and_says_how_much_more(generated: dict[str, Any]) -> None:
    generated["theirs_ms"] = 20 * 0.97
    one = compared(duel(Plan(budget_s=7.0)))
    assert one.verdict == "not shown"
    assert one.passes == 12  # of 0.6 s each
    assert one.seconds_to_settle is not None
    assert one.seconds_to_settle > 0


def test_six_pairs_are_measured_however_long_they_take(generated: dict[str, Any]) -> None:
    generated["elapsed_s"] = 100.0
    assert compared(duel(Plan(budget_s=1.0))).passes == 6


def test_a_reference_that_fails_is_the_points_error(generated: dict[str, Any]) -> None:
    generated["fails"] = True
    outcome = duel()
    assert isinstance(outcome, ProofError)


# --- real servers ------------------------------------------------------------------------------------------

SERVICE_S = 0.005


def compare_builds(mine: Build, theirs: Build, folder: Path, budget_s: float = 120.0) -> Comparison:
    """Serve two builds by a Triton each and compare them at one point."""
    with contextlib.ExitStack() as stack:
        servers = [
            stack.enter_context(
                serve(Choice("embedded"), one.folder.parent, folder / f"log{number}", device="cpu")
            )
            for number, one in enumerate((mine, theirs))
        ]
        servers[0].load(mine, DEPLOYMENT, "offline")
        config = other_builds.for_scenario(other_builds.configuration(theirs.folder), mine.case, "offline")
        servers[1].load_as_is(config, theirs.folder)
        model, point = mine.case.model, LoadPoint("offline", 1, 1)
        sample = {model.inputs[0].name: np.ones((1, 4), np.float32)}
        data = stack.enter_context(input_data(model, sample, folder))
        jobs = load_points.samplings_of(
            servers[0], str(mine.case), model, {point: 0.0}, shared_memory="system", data=data
        )
        set_against(jobs, servers[1], str(mine.case), Reference("the other", 0.03))
        return compared(measure(jobs, Plan(budget_s=budget_s))[point])


def two_builds(folder: Path, make: MakeBuild, slowdown: float) -> tuple[Build, Build]:
    """A build that is slower than the other by a fraction, in its runtime."""
    name = f"toy{os.getpid()}"  # names its shared memory too
    mine = make(folder / "mine", name, SLEEPING.format(seconds=SERVICE_S * (1 + slowdown)))
    return mine, make(folder / "theirs", name, SLEEPING.format(seconds=SERVICE_S))


def test_a_build_against_itself_raises_no_alarm(make_build: MakeBuild, tmp_path: Path) -> None:
    mine, theirs = two_builds(tmp_path, make_build, 0.0)
    assert compare_builds(mine, theirs, tmp_path, budget_s=8).verdict != "slower"


def test_a_slower_build_is_found(make_build: MakeBuild, tmp_path: Path) -> None:
    one = compare_builds(*two_builds(tmp_path, make_build, 0.08), tmp_path)
    assert one.verdict == "slower", comparison_text(one)
    assert 0.9 < one.ratio.value < 0.97


def run(*arguments: str, repos: Path, results: Path) -> "subprocess.CompletedProcess[str]":
    """A run of the suite."""
    places = ("--model-repos", str(repos), "--results", str(results))
    command = [sys.executable, "-m", "pytest", "benchmarks", "-v", "-p", "no:cacheprovider", *places]
    return subprocess.run(
        [*command, "-k", f"{ONNX} and b001-c002", "--concurrencies", "2", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Folders of models and of results for all runs of this file."""
    return tmp_path_factory.mktemp("repos"), tmp_path_factory.mktemp("results")


def test_a_run_against_a_commit_builds_it_and_shows_the_ratio(places: tuple[Path, Path]) -> None:
    repos, results = places
    done = run("--against", "HEAD", "--point-budget-s", "4", repos=repos, results=results)
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    commit = git(ROOT, "rev-parse", "HEAD")
    folder = repos / ".against" / commit / "model_repos" / "cpu" / ONNX
    assert (folder / "config.pbtxt").is_file()
    assert f"compared with: HEAD ({commit[:7]}); allowed slow-down: 3.00%" in text
    one = files.read(results / "cpu" / f"{ONNX}.json").loads[0].comparison
    assert one is not None
    assert one.reference == f"HEAD ({commit[:7]})"
    assert f"{comparison_text(one)}" in text
    assert "Verdict" in text


def test_a_slower_runtime_fails_the_run_and_baselines_are_looked_up(places: tuple[Path, Path]) -> None:
    repos, results = places
    assert (repos / "cpu" / ONNX).is_dir(), "an earlier test has built it"
    runtime = repos / "cpu" / ONNX / "1" / "runtime.py"
    own = runtime.read_text()
    slow = own.replace("return session.run(", "import time; time.sleep(0.001); return session.run(")
    assert slow != own
    with tempfile.TemporaryDirectory() as name:
        other = Path(name) / ONNX
        subprocess.run(["cp", "-r", str(repos / "cpu" / ONNX), str(other)], check=True)
        runtime.write_text(slow)
        done = run("--against", name, "--point-budget-s", "8", repos=repos, results=Path(name) / "results")
        runtime.write_text(own)
        found = files.read(Path(name) / "results" / "cpu" / f"{ONNX}.json").loads[0].comparison
    text = done.stdout + done.stderr
    assert done.returncode == STATUS["speed"], text
    assert "slower than the 3 % allowed, shown at 95 %" in text
    assert found is not None
    assert found.verdict == "slower", "it is on record"

    (results / "cpu" / f"{ONNX}.server.log").unlink(missing_ok=True)
    done = run(
        "--baseline",
        str(results),
        "--concurrencies",
        "2,3",
        "-k",
        f"{ONNX} and online",
        repos=repos,
        results=results,
    )
    text = done.stdout + done.stderr
    assert f"to {results}: " in text
    assert f"no baseline in {results}" in text
