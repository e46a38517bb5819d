"""Samples of several shapes: load and checks mix them in requests of one sample, and batches hold one."""

import json
from pathlib import Path

import pytest

from tests import toy
from tests.helpers import present
from tests.user_models.repositories import code, config, write_model
from tests.whole_runs.suite import Run, suite
from tritonproof.client.input_data import input_data
from tritonproof.spec import Tensor
from tritonproof.user_models.samples import read_samples

VARIABLE = Tensor("IN", "FP32", (-1,))
LENGTHS = (4, 4, 9, 4, 2, 9)
CONFIG = config(dims="-1")
RAGGED = """
import time, numpy as np, triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.004)
        rows = [pb_utils.get_input_tensor_by_name(one, "IN").as_numpy() for one in requests]
        longest = max(row.shape[1] for row in rows)
        means = [row.sum(axis=1, keepdims=True) / longest for row in rows]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", mean)]) for mean in means]
"""
"""Means over the padding too, which are wrong where the server joins requests of several lengths."""
MODELS = {
    "right": "__import__('time').sleep(0.004) or 2 * values",
    "long": "2 * values * np.float32(1.0001 if values.shape[1] == 9 else 1)",
}
"""The new repository's formulas: `long` gives wrong answers for the longest samples. The one that is measured
sleeps, so that its load leaves the cores to others."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Requests of three lengths, in perf_analyzer's form."""
    samples = tmp_path_factory.mktemp("samples")
    data = [
        {"IN": {"content": [number + step / 10 for step in range(length)], "shape": [length]}}
        for number, length in enumerate(LENGTHS)
    ]
    (samples / "x.json").write_text(json.dumps({"data": data}))
    return samples


def test_samples_are_grouped_by_shape_most_frequent_first(folder: Path) -> None:
    samples = read_samples(folder, (VARIABLE,), several=True)
    assert [len(group) for group in (samples, *samples.other_shapes)] == [3, 2, 1]
    assert samples.read([2])["IN"].tolist() == [pytest.approx([3.0, 3.1, 3.2, 3.3])]
    assert list(samples.other_shapes[0].ids) == ["x-0002", "x-0005"]


def test_only_single_requests_mix_shapes(folder: Path, tmp_path: Path) -> None:
    samples = read_samples(folder, (VARIABLE,), several=True)
    model = toy.model(inputs=(VARIABLE,))

    def lengths(batch: int) -> list[int]:
        with input_data(model, samples, tmp_path) as data:
            steps = json.loads(data.written_file(batch, model).read_text())["data"]
        return [step["IN"]["shape"][0] for step in steps]

    assert sorted(lengths(1)) == sorted(LENGTHS)
    assert set(lengths(2)) == {4}


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that compares both models with the old repository's, and measures one."""
    root = tmp_path_factory.mktemp("repositories")
    for name, formula in MODELS.items():
        write_model(root / "new", name, code(formula), CONFIG)
        write_model(root / "old", name, code("2 * values"), CONFIG)
    sample_options = [word for name in (*MODELS, "ragged") for word in ("--samples", f"{name}={folder}")]
    points = ("--concurrencies", "8", "--batches", "1,2", "--point-budget-s", "0.5", "--triton", "embedded")
    tests = "test_baseline or declared or (right and offline) or in_flight or (ragged and c008)"
    repositories = ("--repository", str(root / "new"), "--against", str(root / "old"))
    results = tmp_path_factory.mktemp("results")
    more = 'backend: "python" dynamic_batching { max_queue_delay_microseconds: 1000 }'
    ragged = config(dims="-1", more=more, answer="1").replace("] }", "] allow_ragged_batch: true }", 1)
    write_model(root / "new", "ragged", RAGGED, ragged)
    return suite(*repositories, *sample_options, *points, "-k", tests, "-v", results=results)


def test_wrong_answers_are_found_by_shape(run: Run) -> None:
    records = {name: run.record(f"cpu-{name}-asis") for name in (*MODELS, "ragged")}
    faults = {(name, gate.gate): gate.fault for name, record in records.items() for gate in record.gates}
    assert faults["right", "baseline"] == faults["right", "in-flight"] == "", run.text
    assert "x-0002" in faults["long", "baseline"]
    assert "answers differ" in faults["ragged", "in-flight"], run.text


def test_load_has_samples_of_all_shapes(run: Run) -> None:
    single, pair = run.record("cpu-right-asis").points
    assert (single.point.batch, single.samples) == (1, len(LENGTHS)), run.text
    assert (pair.point.batch, pair.samples) == (2, LENGTHS.count(4))
    assert present(single.answers_under_load).wrong == 0
    (mixed,) = run.record("cpu-ragged-asis").points
    assert present(mixed.answers_under_load).wrong > 0, "the server joined requests of several lengths"
