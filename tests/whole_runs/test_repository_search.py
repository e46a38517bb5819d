"""A search of a user's repository proposes a faster configuration as a diff."""

from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from reports.record.schema import Search
from reports.text.publishable import publishable
from tests.user_models.repositories import ENSEMBLE, config, contents, write_model
from tests.whole_runs.suite import Run, suite

SLEEPING = """
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.added = ADDED

    def execute(self, requests):
        time.sleep(0.002 * len(requests))
        return [self.answer(pb_utils.get_input_tensor_by_name(one, "IN").as_numpy()) for one in requests]

    def answer(self, values):
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", values + values.dtype.type(self.added))])
"""
"""Only more instances make it faster."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that sleeps, one whose second instance gives other answers, and an ensemble of the first. It
    takes one sample a request, so the search can only vary its instances."""
    root = tmp_path_factory.mktemp("repository")
    write_model(root, "doubler", SLEEPING.replace("ADDED", "1"), f"# mine\n{config(batch=1)}")
    by_instance = 'int(args["model_instance_name"].endswith("_1"))'
    write_model(root, "wrong", SLEEPING.replace("ADDED", by_instance), config())
    write_model(root, "chain", None, config(batch=1, more=ENSEMBLE))
    return root


@pytest.fixture(scope="module")
def run(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    options = ("--latency-budget-ms", "10000", "--concurrencies", "1,4", "--point-budget-s", "0.5")
    results = tmp_path_factory.mktemp("results")
    return suite(
        *("--repository", str(repository), "-k", "search and not doubler", "--triton", "embedded"),
        *options,
        results=results,
    )


def found_of(run: Run, model: str) -> Search:
    search = publishable(run.record(f"cpu-{model}-asis")).search
    assert search is not None
    assert search.verdict == "within"
    return search


def test_proposal_is_a_diff_of_the_slow_model(run: Run) -> None:
    search = found_of(run, "chain")

    assert search.varied == "doubler"
    assert search.deployment.instances == 2
    assert search.lead is not None
    assert search.lead.value > 1.3, "than by its own settings"
    assert search.load.answers is not None
    assert search.load.answers.wrong == 0 < search.load.answers.verified
    assert [entry.model for entry in search.load.composing] == (["doubler"])
    config_file = run.results / "cpu" / search.config
    assert search.diff == config_file.with_suffix(".diff").read_text()
    assert search.diff in run.text
    assert "# mine" in config_file.read_text()
    proposed = text_format.Parse(config_file.read_text(), ModelConfig())
    assert [entry.count for entry in proposed.instance_group] == [2]


def test_settings_that_change_answers_are_left_out(run: Run) -> None:
    assert found_of(run, "wrong").deployment.instances == 1
    assert "cpu-wrong-asis: left out: online, instances 2" in run.text
    assert run.status == 0, run.text


def test_repository_is_not_written_to(run: Run, repository: Path) -> None:
    assert run.status == 0, run.text
    assert (repository / "doubler" / "config.pbtxt").read_text() == f"# mine\n{config(batch=1)}"
    assert not [name for name in contents(repository) if "__pycache__" in name]
