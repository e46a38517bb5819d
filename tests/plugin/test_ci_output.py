"""Output for continuous integration: exit status, JUnit XML, job summary, annotations."""

import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fixtures.failures import STATUS
from fixtures.summary import Failure, Outcomes, annotation, status_sentence, write_job_summary
from tests.helpers import JunitTest, junit, run_pytest, write_benchmarks

LOAD = "test_online[cpu-resnet50-micro-onnx-fp32-b001-c032]"
KINDS = "not given and (not online or (cpu-resnet50-micro-onnx-fp32 and c032))"

BENCHMARKS = """\
import runpy
from collections import defaultdict
from types import SimpleNamespace
import pytest
from tritonproof.base.errors import AccuracyError, InputError, NotAvailableError, ProofError, SetupError, SpeedError
from tritonproof.host.run_origin import origin
from fixtures.recorder import Recorder
from tritonproof.record.schema import CaseKey, LatencyBudget, LoadPoint, Start
from tests import recorded
from tests.helpers import ROOT

# By its path, as this file lies in another folder of that name.
measure_and_record = runpy.run_path(str(ROOT / "benchmarks" / "test_speed.py"))["measure_and_record"]
RECORD = recorded.record(conversion=None, accuracy=None, points=())
PROVEN = recorded.record(case=CaseKey("a40", "proven", "onnx", "trt", "fp16"), points=())

@pytest.fixture
def recorder(request, settings):
    record = PROVEN if request.node.originalname == "test_online" else RECORD
    starts = {"online": Start("online", 1.0, 1.0, 1.0)}
    run = SimpleNamespace(settings=settings, loader=SimpleNamespace(serving_entry=RECORD.serving, starts=starts))
    run.latencies_s = defaultdict(lambda: [0.01, 0.02, 0.03])
    return Recorder(record, run, "", origin("cpu"), request.node.user_properties)

def measuring(result):
    measure_and_record.__globals__["measure_point"] = lambda run, point, save: result

@pytest.fixture
def server():
    raise ProofError("Triton was not ready within 60 s", fix="look at its log")

def test_conversion(recorder):
    for _ in range(2):
        recorder.record(conversion=recorded.record().conversion)
    recorder.show("all agree")

def test_accuracy(recorder):
    recorder.record(accuracy=recorded.failed_accuracy())
    raise AccuracyError("top-1 93.1 % is below 94 %", where="here, now")

@pytest.mark.speed
@pytest.mark.step("online")
def test_online(case, point, recorder, benchmark):
    measure_and_record(measuring(recorded.measured("online", point.concurrency, 200.0)), point, recorder, benchmark)

def test_unproven(recorder, benchmark):
    budget = LatencyBudget("p99", 1.0, "agreed in May", "failed")
    slow = recorded.measured("online", 32, 200.0, latency_budget=budget)
    with pytest.raises(SpeedError, match="too slow") as caught:
        measure_and_record(measuring(slow), LoadPoint("online", 1, 32), recorder, benchmark)
    assert "2.1" not in str(caught.value)
    recorder.record(efficiency=(recorded.efficiency("online", 32, served_per_s=recorded.estimate(200.0)),))

def test_slower():
    raise SpeedError("ratio 0.90")

@pytest.fixture
def broken():
    yield
    raise ProofError("Triton does not end")

def test_left_broken(broken):
    raise SpeedError("ratio 0.80")

def test_without_a_server(server):
    pass

def test_with_a_bug():
    return 1 / 0

def test_of_no_case():
    raise NotAvailableError("a bug")

@pytest.mark.step("accuracy")
def test_elsewhere():
    raise NotAvailableError("needs an A100", fix="find one")

@pytest.mark.step("accuracy")
def test_what_is_not_given(case):
    raise SetupError("there is no perf_analyzer")

@pytest.mark.step("accuracy")
def test_given_alone(case, recorder):
    raise InputError("the checkpoint is truncated")
"""


@dataclass(frozen=True)
class Run:
    """A finished run and the folder of its outputs."""

    status: int
    text: str
    folder: Path

    @property
    def tests(self) -> dict[str, JunitTest]:
        return junit(self.folder / "junit.xml")


def run(folder: Path, *arguments: str) -> Run:
    """Run benchmarks that fail in every way, without a server, as a step of GitHub's actions."""
    (folder / "step.md").write_text("of an earlier command\n")
    github = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(folder.parent)}
    words = (*write_benchmarks(folder, BENCHMARKS), "--junitxml", str(folder / "junit.xml"))
    done = run_pytest(*words, *arguments, cwd=folder, GITHUB_STEP_SUMMARY=str(folder / "step.md"), **github)
    return Run(done.returncode, done.stdout + done.stderr, folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with a failure of every kind, all in one process."""
    folder = tmp_path_factory.mktemp("whole")
    return run(folder, "-k", KINDS, "--benchmark-json", str(folder / "new" / "benchmark.json"))


@pytest.fixture(scope="module", params=["one process", "two workers"])
def either(request: pytest.FixtureRequest, whole: Run, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The same run, in one process or in two xdist workers."""
    if request.param == "one process":
        return whole
    return run(tmp_path_factory.mktemp("workers"), "-k", KINDS, "-n", "2")


def test_failures_reach_exit_status_and_junit(either: Run) -> None:
    assert either.status == STATUS["accuracy"], either.text
    kinds = {name: test.properties.get("failure") for name, test in either.tests.items()}
    broken = ("test_left_broken", "test_without_a_server", "test_with_a_bug", "test_of_no_case")
    failed = {"test_accuracy": "accuracy", "test_slower": "speed", **dict.fromkeys(broken, "infrastructure")}
    assert {name: kind for name, kind in kinds.items() if kind is not None} == failed
    assert "2 failed for speed" in either.text, "what broke after a slow test counts as what it is"


@pytest.mark.parametrize(
    ("keyword", "options", "kind", "said", "has_trace"),
    [
        ("not_given", ("-n1",), "infrastructure", ["1 failed", "there is no perf_analyzer"], False),
        ("alone and resnet50-micro-onnx", ("--full-trace",), "input", ["2 failed", "is truncated"], True),
        ("slower", ("-n1", "-x"), "speed", ["stopping after 1 failures", "ratio 0.90"], False),
    ],
)
def test_error_ends_the_run_only_if_every_case_would_fail(
    keyword: str, options: tuple[str, ...], kind: str, said: list[str], has_trace: bool, tmp_path: Path
) -> None:
    done = run(tmp_path, "-k", keyword, *options)
    assert done.status == STATUS[kind], done.text
    assert not [text for text in said if text not in done.text]
    assert (f"raise {kind.title()}Error" in done.text) is has_trace
    assert not [*(tmp_path / "results").rglob("*.json")]


def failing(*kinds: str) -> Outcomes:
    return Outcomes([Failure(kind, f"test_{kind}", "", None, None) for kind in kinds], passed=1)


ABSENT = Counter({"needs an A100": 2})
UNWRITTEN, UNREADABLE = ["summary.md"], ["a.json"]


@pytest.mark.parametrize(
    ("own", "outcomes", "status"),
    [
        (0, Outcomes(), 0),
        (0, Outcomes(passed=1, skipped=ABSENT), 0),
        (0, Outcomes(skipped=ABSENT), 5),
        (0, Outcomes(passed=1, unreadable=UNREADABLE), 6),
        (0, Outcomes(passed=1, unwritten=UNWRITTEN), 11),
        (0, Outcomes(passed=1, unreadable=UNREADABLE, unwritten=UNWRITTEN), 11),
        (1, Outcomes(passed=2), 1),
        (1, failing("input"), 4),
        (1, failing("speed"), 10),
        (1, failing("input", "speed"), 10),
        (1, replace(failing("speed"), unreadable=UNREADABLE), 10),
        (1, failing("infrastructure"), 11),
        (1, replace(failing("speed"), unwritten=UNWRITTEN), 11),
        (1, failing("accuracy", "infrastructure", "speed"), 12),
        (1, replace(failing("accuracy"), unwritten=UNWRITTEN), 12),
        (1, replace(failing("speed"), others_failed=True, unwritten=UNWRITTEN), 1),
        (2, failing("input"), 2),
        (2, replace(failing("input"), was_stopped=True), 4),
        (2, replace(failing("input", "accuracy"), was_stopped=True), 12),
        (2, Outcomes(passed=1, unwritten=UNWRITTEN), 2),
        (3, failing("input", "accuracy"), 3),
    ],
)
def test_status_is_of_the_worst_failure(own: int, outcomes: Outcomes, status: int) -> None:
    assert replace(outcomes, pytest_status=own).status == status


@pytest.mark.parametrize(
    ("outcomes", "is_said"),
    [
        (replace(failing("speed"), others_failed=True, pytest_status=1), False),
        (Outcomes(skipped=ABSENT, passed=1), False),
        (Outcomes(passed=3, pytest_status=int(pytest.ExitCode.INTERRUPTED)), True),
        (Outcomes(skipped=ABSENT), True),
    ],
)
def test_status_sentence_is_omitted_if_pytest_says_enough(outcomes: Outcomes, is_said: bool) -> None:
    assert bool(status_sentence(outcomes)) is is_said


def test_junit_has_figures_with_units(either: Run) -> None:
    converted = either.tests["test_conversion"].properties
    error, limit = (float(converted[f"conversion_relative_error{end}"]) for end in ("", "_limit"))
    assert error < limit == 0.01
    assert converted["outcome_text"] == "all agree"
    scored = either.tests["test_accuracy"].properties
    assert scored["accuracy_scores_top-1_served"] == "0.931"
    assert scored["accuracy_scores_top-1_limits_2_value"] == "0.94"
    assert scored["accuracy_samples"] == "500"
    figures = either.tests[LOAD].properties
    assert (figures["throughput_per_s"], figures["concurrency"]) == ("200.0", "32")
    assert float(figures["throughput_per_s_low"]) < 200 < float(figures["throughput_per_s_high"])
    assert figures["latency_ms_p99"] == "2.126"


def test_case_that_is_not_proven_right_shows_no_speed(either: Run) -> None:
    shown = " ".join(either.tests["test_unproven"].properties.values())
    assert "infer/s" not in shown
    assert "200" not in shown


def test_junit_names_files_relative_to_repository(either: Run) -> None:
    assert either.tests["test_conversion"].file == "benchmarks/test_all.py"
    record = either.tests["test_conversion"].properties["record"]
    assert (either.folder / "results" / record).is_file()
    values = [value for test in either.tests.values() for value in test.properties.values()]
    assert not [value for value in values if str(either.folder) in value]


def test_job_summary_lists_failures_then_tables_then_skips(either: Run) -> None:
    text = (either.folder / "step.md").read_text()
    assert text.startswith("of an earlier command\n## tritonproof: ")
    assert text.count("## tritonproof") == 1, "workers leave it to the one that knows all"
    parts = ["`test_accuracy`", "`test_without_a_server`", "`test_slower`", "| resnet50 |", "needs an A100"]
    positions = [text.index(part) for part in parts]
    assert positions == sorted(positions)


def test_failures_are_annotated_at_their_tests_worst_first(either: Run) -> None:
    lines = [line for line in either.text.splitlines() if line.startswith("::error ")]
    line = BENCHMARKS[: BENCHMARKS.index("def test_accuracy")].count("\n") + 1
    file = f"{either.folder.name}/benchmarks/test_all.py"
    assert lines[0].startswith(f"::error file={file},line={line},title=accuracy")
    assert len(lines) == 7


def test_annotation_is_escaped_and_names_only_repository_files() -> None:
    failure = Failure("speed", "test_online[a,b:c]", "50 %\r\n::stop", "benchmarks/test_speed.py", 7)
    assert annotation(failure, Path("/repo/sub"), Path("/repo")) == (
        "::error file=sub/benchmarks/test_speed.py,line=7,title=speed%3A test_online[a%2Cb%3Ac]"
        "::50 %25%0A::stop"
    )
    assert "file=" not in annotation(failure, Path("/actions/suite"), Path("/checkouts/mine"))


def test_oversized_summaries_are_cut_between_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, file = "".join(f"line {number} µ\n" for number in range(100_000)), tmp_path / "step.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    for _command in range(2):
        assert write_job_summary(None, content) == ""
        text = file.read_text()
        assert 2**20 - 20 < len(text.encode()) <= 2**20
        assert content.startswith(text.partition("\nCut here")[0])


@pytest.mark.parametrize(
    ("keyword", "status", "title"), [("test_conversion", 0, "1 passed"), ("nothing", 5, "no test has ended")]
)
def test_summary_goes_to_named_file_alone(keyword: str, status: int, title: str, tmp_path: Path) -> None:
    (tmp_path / "named.md").write_text("of an earlier run")
    done = run(tmp_path, "-k", keyword, "--summary", str(tmp_path / "named.md"))
    assert done.status == status, done.text
    assert (tmp_path / "named.md").read_text().startswith(f"## tritonproof: {title}")
    assert (tmp_path / "step.md").read_text() == "of an earlier command\n"
    assert "::error" not in done.text


def test_unwritable_summary_is_reported(tmp_path: Path) -> None:
    done = run(tmp_path, "-k", "test_conversion", "--summary", "/dev/full")
    assert done.status == STATUS["infrastructure"], done.text
    assert "/dev/full" in done.text
    assert "1 passed" in done.text


def test_benchmark_json_has_the_proven_case_with_fields_that_other_tools_read(whole: Run) -> None:
    (entry,) = json.loads((whole.folder / "new" / "benchmark.json").read_text())["benchmarks"]
    assert entry["fullname"] == f"benchmarks/test_all.py::{LOAD}"
    stats = entry["stats"]
    assert (stats["mean"], stats["median"], stats["rounds"]) == (pytest.approx(0.02), pytest.approx(0.02), 3)
    assert stats["ops"] == pytest.approx(50)
    assert all(stats[name] > 0 for name in ("stddev", "iqr", "min", "max"))
    assert entry["extra_info"]["throughput_per_s"] == 200.0
    assert entry["params"] == {"case": "cpu-resnet50-micro-onnx-fp32", "point": "b001-c032"}
