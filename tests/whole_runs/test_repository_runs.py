"""A whole run over a user's repository with right and wrong models: an ensemble, the faster configuration of a
model, a model that leaks between requests, two warm-ups, and models that cannot be served."""

from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tests.helpers import as_markdown, present, records_in
from tests.measure.leaking_server import LEAKS
from tests.measure.timed_server import write_echoing
from tests.serve.programs import serve_everybody
from tests.user_models.repositories import ENSEMBLE, code, config, contents, write_model
from tests.whole_runs.suite import Run, suite
from tritonproof.record import sample_files, speed
from tritonproof.reports.publishable import publishable
from tritonproof.reports.tables.case import case_section
from tritonproof.serve.loading import load_folder
from tritonproof.serve.server_spec import ServerSetup, ServerSpec

SLEEPING = code("values + values.dtype.type(self.added)").replace(
    "    def execute(self, requests):",
    """    def initialize(self, args):
        self.added = ADDED

    def execute(self, requests):
        __import__("time").sleep(0.002 * len(requests))""",
)
"""Only more instances make it faster."""
LEAKING = code("values + self.before(values)") + (
    "\n    kept = np.float32(0)\n\n    def before(self, values):\n"
    "        kept, self.kept = self.kept, values.mean()\n        return kept\n"
)
"""It adds the mean of the request before."""
WARMED = """backend: "python"
model_warmup { name: "one" batch_size: 2
  inputs { key: "IN" value { data_type: TYPE_FP32 dims: 4 zero_data: true } } }
"""
SLOW_ONCE = """
    asked = 0

    def after_a_sleep(self, values):
        self.asked += 1
        if self.asked == SLOW:
            import time
            time.sleep(1)
        return values
"""
SELECTED = (
    "chain and (offline or test_repeated or search) or leaking and (offline or test_repeated) or "
    "(doubler or wrong) and search or (broken or huge or five) and declared or model_warmup"
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that sleeps and takes one sample a request, so that a search can only vary its instances, and an
    ensemble of it; one whose second instance gives other answers; one that leaks; one that sleeps in a request
    of its warm-up, and one that sleeps in the next; one of five dimensions of any length, one whose rows no
    request can hold, and one that does not load. By name, each right model comes after a failing one."""
    root = tmp_path_factory.mktemp("repository")
    write_model(root, "broken", code("values"), f'name: "other"\n{config()}')
    write_model(root, "chain", None, config(batch=1, more=ENSEMBLE))
    write_model(root, "doubler", SLEEPING.replace("ADDED", "1"), f"# mine\n{config(batch=1)}")
    write_model(root, "five", code("values"), config(dims="-1, -1, -1, -1, -1", batch=0))
    write_model(root, "huge", code("values"), config(dims="100000, 100000"))
    write_model(root, "leaking", LEAKING, config())
    by_instance = 'int(args["model_instance_name"].endswith("_1"))'
    write_model(root, "wrong", SLEEPING.replace("ADDED", by_instance), config())
    for name, slow in (("warm", "2"), ("cold", "3")):
        sleeping = code("self.after_a_sleep(values)") + SLOW_ONCE.replace("SLOW", slow)
        write_model(root, name, sleeping, config(more=WARMED))
    return root


@pytest.fixture(scope="module")
def run(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    # Any machine keeps a budget of ten seconds, however busy it is.
    options = ("--latency-budget-ms", "10000", "--concurrencies", "4", "--point-budget-s", "0.5")
    chosen = ("--repository", str(repository), "-v", "-k", SELECTED, "--batches", "1", "--triton", "embedded")
    return suite(*chosen, *options, results=tmp_path_factory.mktemp("results"))


def test_each_model_is_recorded_alone_and_one_that_does_not_load_as_failed(
    run: Run, repository: Path
) -> None:
    assert run.status == 12, run.text
    records = {record.case.model: record for record in records_in(run.results)}
    assert records.keys() == {"broken", "chain", "cold", "doubler", "five", "leaking", "warm", "wrong"}
    assert "Triton did not load broken" in publishable(records["broken"]).why_no_speed
    assert records["five"].build.inputs == {"IN": (-1, -1, -1, -1, -1)}
    assert records["chain"].case.from_repository
    assert records["chain"].build.requests_note.startswith("made up")
    assert records["chain"].conversion is None
    assert not list(run.results.rglob("*huge*.json"))
    assert (repository / "doubler" / "config.pbtxt").read_text() == f"# mine\n{config(batch=1)}"
    assert not [name for name in contents(repository) if "__pycache__" in name], "nothing is written there"


def test_leaking_model_shows_no_speed_unlike_right_one(run: Run) -> None:
    right, leaking = (run.record(f"cpu-{name}-asis") for name in ("chain", "leaking"))
    assert publishable(right).why_no_speed == ""
    answers = present(right.points[0].answers_under_load)
    assert (answers.wrong, answers.count > 0, answers.expected_from) == (0, True, "alone")
    assert "No throughput is shown" in publishable(leaking).why_no_speed
    assert publishable(leaking).points == ()


def test_time_of_called_model_is_in_tables(run: Run) -> None:
    record = run.record("cpu-chain-asis")
    (called,) = record.points[0].called_models
    assert called.model == "doubler"
    # A request in flight at either end of a run counts in half.
    assert called.calls == pytest.approx(2, rel=0.2)
    assert 0 < called.compute_ms < record.points[0].latency_ms["avg"].value
    assert "doubler" in as_markdown(case_section(publishable(record)))


def test_ineffective_warm_up_is_found(run: Run) -> None:
    warm, cold = (present(run.record(f"cpu-{name}-asis").model_warmup) for name in ("warm", "cold"))
    assert (warm.passed, warm.batch) == (True, 2)  # a busy machine may take a second look at it
    assert (cold.passed, len(cold.first_ms)) == (False, 3)
    assert min(cold.first_ms) > 1000 > max(cold.later_ms)


def found_of(run: Run, model: str) -> speed.Search:
    search = present(publishable(run.record(f"cpu-{model}-asis")).search)
    assert search.verdict == "passed"
    return search


def test_proposal_is_a_diff_of_the_models_configuration(run: Run) -> None:
    search = found_of(run, "doubler")

    assert search.deployment.instances == 2
    assert present(search.lead).value > 1.3, "than by its own settings"
    answers = present(search.result.answers_under_load)
    assert answers.wrong == 0 < answers.count
    config_file = run.results / "cpu" / search.config
    assert search.diff == config_file.with_suffix(".diff").read_text()
    assert search.diff in run.text
    assert "# mine" in config_file.read_text()
    proposed = text_format.Parse(config_file.read_text(), ModelConfig())
    assert [entry.count for entry in proposed.instance_group] == [2]


def test_ensemble_and_settings_that_change_answers_are_left_out_of_a_search(run: Run) -> None:
    assert found_of(run, "wrong").deployment.instances == 1
    assert "cpu-wrong-asis: left out: online, instances 2" in run.text
    assert run.record("cpu-chain-asis").search is None
    assert "the ensemble chain has no instances" in run.text


@pytest.mark.campaign
def test_labels_give_scores_and_fail_a_wrong_model(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Both always give the same answers, so only labels find the wrong one."""
    root = tmp_path_factory.mktemp("labelled")
    write_model(root / "models", "right", code("2 * values"), config())
    write_model(root / "models", "reversed", code("values[:, ::-1]"), config())
    classes = np.random.default_rng(0).integers(4, size=12)
    (root / "samples").mkdir()
    for index, largest in enumerate(classes):
        np.save(root / "samples" / f"{index:02d}.npy", np.eye(4, dtype=np.float32)[largest])
    (root / "labels.csv").write_text("".join(f"{index:02d},{value}\n" for index, value in enumerate(classes)))
    options = ("--samples", str(root / "samples"), "--labels", str(root / "labels.csv"))
    settings = ("--metric", "top-1", "--floor", "0.9", "-k", "accuracy", "--triton", "embedded", "-v")
    finished = suite("--repository", str(root / "models"), *options, *settings, results=root / "results")

    assert finished.status == 12, finished.text
    for name, score in (("right", 1.0), ("reversed", 0.0)):
        accuracy = present(finished.record(f"cpu-{name}-asis").accuracy)
        assert (accuracy.samples, accuracy.passed) == (12, name == "right")
        assert [value.served for value in accuracy.scores] == [score]
        samples = sample_files.read(root / "results" / "cpu" / f"cpu-{name}-asis.samples.json")
        assert samples.scores == {"top-1": {"served": (score,) * 12}}
    assert "is below its floor" in finished.text
    assert "No throughput is shown" in publishable(finished.record("cpu-reversed-asis")).why_no_speed


@pytest.mark.campaign
def test_foreign_server_is_left_unchanged(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    log = tmp_path_factory.mktemp("logs") / "log"
    with serve_everybody(ServerSpec("embedded"), ServerSetup(repository, log, "cpu")) as server:
        load_folder(server, repository / "doubler")
        results = tmp_path_factory.mktemp("results")
        options = ("--repository", "remote", "--triton", server.address, "--batches", "1", "-v")
        finished = suite(*options, "--point-budget-s", "0.5", "-k", "offline or reload", results=results)
        log_text = log.read_text()
        assert server.client.is_model_ready("doubler")

    assert finished.status == 0, finished.text
    record = finished.record("remote-doubler-asis")
    assert record.points
    assert record.machine.is_client, "nobody says what hardware the server has"
    assert "models are not reloaded" in finished.text
    assert log_text.count("loading: doubler:1") == 1


@pytest.mark.campaign
def test_leaking_model_fails_with_recorded_size(tmp_path: Path) -> None:
    write_echoing(tmp_path / "models", "leaky", request=LEAKS["1 KiB"])
    options = ("--repository", str(tmp_path / "models"), "--soak", "30s", "-k", "soak")
    done = suite(*options, results=tmp_path / "results")
    assert done.status == 11, done.text
    (record,) = records_in(tmp_path / "results")
    (leak,) = [growth for growth in present(record.soak).growth if growth.verdict == "failed"]
    assert leak.resource == "memory of its stubs"
    assert leak.slope.high > 1024
