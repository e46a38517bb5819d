"""A repeated sample beside fresh requests reveals a response cache."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from msgspec import structs

from tests import sample_records as records
from tests import toy
from tests.helpers import present
from tests.toy import samples_of
from tritonproof.build.configuration import model_config
from tritonproof.client.input_data import input_data
from tritonproof.client.requests import ServedModel
from tritonproof.measure import cache_audit
from tritonproof.measure.cache_audit import audit_cache, fresh_inputs, marks_of_cache
from tritonproof.measure.passes import LoadJob
from tritonproof.record.fields import Estimate, Ratio
from tritonproof.record.speed import LoadPoint
from tritonproof.serve import wheels
from tritonproof.serve.launch import serve
from tritonproof.serve.loading import load_folder
from tritonproof.serve.server import Server
from tritonproof.serve.server_spec import ServerSetup, ServerSpec

POINT = LoadPoint("online", 1, 4)
_COMPUTING = """
import time
def load(artifact, parameters):
    known = {{}}
    def predict(arrays):
        rows = [row.tobytes() for row in arrays[0]]
        if not {remembers} or any(row not in known for row in rows):
            time.sleep(0.05)
        known.update(dict.fromkeys(rows))
        return [2 * arrays[0]]
    return predict
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    folder = tmp_path_factory.mktemp("models")
    caches = wheels.embedded_triton() / "caches"
    options = [f"--cache-directory={caches}", "--cache-config=local,size=16777216"]
    log = folder.parent / "caching.log"
    with serve(ServerSpec("embedded"), ServerSetup(folder, log, "cpu", options=options)) as started:
        yield started, folder


@pytest.mark.parametrize("who", ["the model", "Triton", "nobody"])
def test_response_caching_is_marked(server: tuple[Server, Path], who: str) -> None:
    triton, folder = server
    name, remembers = f"C{os.getpid()}{who.split()[-1]}", who != "nobody"
    built = toy.make_build(folder, name, _COMPUTING.format(remembers=who == "the model"))
    model = built.case.model
    inputs = {model.inputs[0].name: np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)}
    config = model_config(built.case, toy.DEPLOYMENT, native=False)
    config.response_cache.enable = who == "Triton"
    load_folder(triton, built.folder, config)
    triton.infer(str(built.case), model, {name: rows[:4] for name, rows in inputs.items()})
    result = structs.replace(
        records.measured("online", 4, 200.0, latency_ms={"avg": records.estimate(20.0)}),
        throughput_per_s=Estimate(200.0, 150.0, 250.0),
    )

    with input_data(model, samples_of(inputs), triton.scratch) as data:
        job = LoadJob(ServedModel(triton, str(built.case), model, data), POINT, "none")
        audited = audit_cache(job, result)

    assert [mark.code for mark in audited.marks] == (["cached-answers"] if remembers else [])
    assert (present(audited.repeated_speed).value > 2) == remembers


@pytest.mark.parametrize(
    ("half_width", "ratio", "found"),
    [
        (200.0, Ratio(1.2, 1.15, 1.25), []),  # faster by less than the point's own interval
        (10.0, Ratio(1.2, 1.15, 1.25), ["cached-answers"]),
        (10.0, None, []),
    ],
)
def test_repeated_sample_may_be_faster_within_interval(
    half_width: float, ratio: Ratio | None, found: list[str]
) -> None:
    rate = Estimate(1000.0, 1000.0 - half_width, 1000.0 + half_width)
    result = structs.replace(records.measured("online", 4, 1000.0), throughput_per_s=rate)
    assert [mark.code for mark in marks_of_cache(result, ratio)] == found


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("axes", [(0, 1, 2), (0, 2, 1)], ids=["as stored", "transposed"])
def test_no_request_is_sent_twice(dtype: type, axes: tuple[int, ...]) -> None:
    values: np.ndarray = np.random.default_rng(1).integers(0, 1000, (20, 5, 5)).astype(dtype)
    values = values.transpose(axes)
    fresh = fresh_inputs({"MASK": np.ones((20, 99)), "IN": values, "LENGTH": np.ones((20, 1))}, 3)
    sent = [next(fresh) for _ in range(500)]
    first_rows = {inputs["IN"][0].tobytes() for inputs in sent}
    assert len(first_rows) == len(sent)
    assert not {row.tobytes() for row in values} & first_rows
    assert all(inputs["IN"].shape == (3, 5, 5) and inputs["LENGTH"].shape == (3, 1) for inputs in sent)


def test_fresh_requests_end_and_identical_samples_give_none() -> None:
    assert len(list(fresh_inputs({"IN": np.array([[0.0, 0.0], [0.0, 1.0]])}, 1))) <= 2
    assert next(fresh_inputs({"IN": np.ones((5, 4))}, 2), None) is None


@pytest.mark.parametrize(("again", "count"), [(Ratio(1.0, 0.98, 1.02), 0), (Ratio(1.1, 1.08, 1.2), 1)])
def test_cache_has_to_show_twice(monkeypatch: pytest.MonkeyPatch, again: Ratio, count: int) -> None:
    ratios = iter([Ratio(1.1, 1.08, 1.4), again])
    monkeypatch.setattr(cache_audit, "_repeated_speed", lambda *_: next(ratios))
    assert len(audit_cache(cast(LoadJob, None), records.measured("online", 4, 1000.0)).marks) == count
