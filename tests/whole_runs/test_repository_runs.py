"""Whole runs over a user's repository: a right ensemble, and a model that leaks between requests."""

from pathlib import Path

import numpy as np
import pytest

from fixtures.serve.launch import serve
from fixtures.serve.server_spec import Choice
from reports.record import files
from reports.tables.case import case_section
from reports.text.publishable import publishable
from tests.helpers import as_markdown
from tests.user_models.repositories import ENSEMBLE, code, config, contents, write_model
from tests.whole_runs.suite import Run, suite

FAST = ("--point-budget-s", "0.5", "--batches", "2", "--triton", "embedded")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with an ensemble of sound models, and a model that adds the mean of the request before."""
    root = tmp_path_factory.mktemp("repository")
    write_model(root, "doubler", code("2 * values"), config())
    write_model(root, "chain", None, config(more=ENSEMBLE))
    leaking = code("values + self.before(values)") + (
        "\n    kept = np.float32(0)\n\n    def before(self, values):\n"
        "        kept, self.kept = self.kept, values.mean()\n        return kept\n"
    )
    write_model(root, "leaking", leaking, config())
    return root


@pytest.fixture(scope="module")
def run(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of the ensemble and the leaking model with one load point and one gate."""
    selection = "(chain or leaking) and (offline or same_answer_again)"
    results = tmp_path_factory.mktemp("results")
    return suite("-v", "--repository", str(repository), "-k", selection, *FAST, results=results)


def test_leaking_model_shows_no_speed_unlike_right_one(run: Run) -> None:
    right, leaking = (run.record(f"cpu-{name}-asis") for name in ("chain", "leaking"))

    assert publishable(right).no_speed == ""
    assert right.loads[0].answers is not None
    assert right.loads[0].answers.wrong == 0 < right.loads[0].answers.verified
    assert "No throughput is shown" in publishable(leaking).no_speed
    assert publishable(leaking).loads == ()
    assert run.status != 0


def test_record_states_what_was_served_and_sent(run: Run) -> None:
    record = run.record("cpu-chain-asis")

    assert record.build.as_found
    assert record.build.requests.startswith("made up")
    assert record.conversion is None
    assert record.deployment.max_batch_size == 4


def test_time_of_called_model_is_in_tables(run: Run) -> None:
    record = run.record("cpu-chain-asis")

    (called,) = record.loads[0].composing
    assert called.model == "doubler"
    assert called.calls == pytest.approx(
        2, rel=0.2
    )  # a request in flight at either end of a run counts in half
    assert 0 < called.compute_ms < record.loads[0].latency_ms["avg"].value
    assert "doubler" in as_markdown(case_section(publishable(record)))


def test_repository_is_not_written_to(run: Run, repository: Path) -> None:
    assert files.path_of(run.record("cpu-chain-asis").case, run.results).is_file()
    assert not [name for name in contents(repository) if "__pycache__" in name]


@pytest.mark.campaign
def test_labels_give_scores_and_fail_a_wrong_model(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Both always give the same answers, so only labels find the wrong one."""
    root = tmp_path_factory.mktemp("labelled")
    write_model(root / "models", "right", code("2 * values"), config())
    write_model(root / "models", "reversed", code("values[:, ::-1]"), config())
    classes = np.random.default_rng(0).integers(4, size=12)
    (root / "samples").mkdir()
    for place, largest in enumerate(classes):
        np.save(root / "samples" / f"{place:02d}.npy", np.eye(4, dtype=np.float32)[largest])
    (root / "labels.csv").write_text("".join(f"{place:02d},{value}\n" for place, value in enumerate(classes)))
    options = ("--samples", str(root / "samples"), "--labels", str(root / "labels.csv"))
    settings = ("--metric", "top-1", "--floor", "0.9", "-k", "accuracy", "--triton", "embedded")
    finished = suite(
        "-v", "--repository", str(root / "models"), *options, *settings, results=root / "results"
    )

    assert finished.status == 12, finished.text
    for name, score in (("right", 1.0), ("reversed", 0.0)):
        record = finished.record(f"cpu-{name}-asis")
        assert record.accuracy is not None
        assert record.accuracy.samples == 12
        assert [value.served for value in record.accuracy.scores] == [score]
        assert record.accuracy.passed == (name == "right")
    assert "is below its floor" in finished.text
    assert "No throughput is shown" in publishable(finished.record("cpu-reversed-asis")).no_speed


WARMED = """backend: "python"
model_warmup { name: "one" batch_size: 2
  inputs { key: "IN" value { data_type: TYPE_FP32 dims: 4 zero_data: true } } }
"""


def test_ineffective_warm_up_is_found(tmp_path: Path) -> None:
    """A model that sleeps in a request of its warm-up is warm; one that sleeps in the next request is not."""
    for name, slow in (("warm", 2), ("cold", 3)):
        sleeping = code("self.after_a_sleep(values)") + (
            "\n    asked = 0\n\n    def after_a_sleep(self, values):\n        self.asked += 1\n        if "
            f"self.asked == {slow}:\n            import time\n            time.sleep(1)\n        return "
            "values\n"
        )
        write_model(tmp_path / "models", name, sleeping, config(more=WARMED))
    options = ("--repository", str(tmp_path / "models"), "-k", "warm_up", "--triton", "embedded", "-v")
    finished = suite(*options, results=tmp_path / "results")

    assert finished.status == 10, finished.text
    warm, cold = (finished.record(f"cpu-{name}-asis").warm_up for name in ("warm", "cold"))
    assert warm is not None
    assert cold is not None
    assert (warm.passed, warm.batch) == (True, 2)  # a busy machine may take a second look at it
    assert (cold.passed, len(cold.first_ms)) == (False, 3)
    assert min(cold.first_ms) > 1000 > max(cold.later_ms)


@pytest.mark.campaign
def test_foreign_server_is_left_unchanged(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    log = tmp_path_factory.mktemp("logs") / "log"
    with serve(Choice("embedded"), repository, log, device="cpu", open_to_all=True) as server:
        server.load_as_found(repository / "doubler")
        results = tmp_path_factory.mktemp("results")
        options = ("--repository", "remote", "--triton", server.address, "--batches", "2", "-v")
        finished = suite(*options, "--point-budget-s", "0.5", "-k", "offline or reload", results=results)
        log_text = log.read_text()
        assert server.client.is_model_ready("doubler")

    assert finished.status == 0, finished.text
    record = finished.record("remote-doubler-asis")
    assert record.loads
    assert record.machine.is_client, "nobody says what hardware the server has"
    assert "not asked to load models anew" in finished.text
    assert log_text.count("loading: doubler:1") == 1
