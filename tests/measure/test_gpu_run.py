"""A real run whose GPU a stand-in for NVML plays."""

import dataclasses
import os
import time
from pathlib import Path

import pytest

from fixtures.measure import measured, sweep
from fixtures.measure.job import jobs_of
from fixtures.measure.load_data import input_data
from fixtures.measure.stopping import MeasuringPlan
from fixtures.measure.to_record import record_entry
from fixtures.serve.launch import serve
from fixtures.serve.server_spec import Choice
from fixtures.spec import LoadPoint
from tests.host.fake_nvml import Nvml
from tests.measure import timed_model


def test_a_real_run_s_windows_lie_on_the_clock_of_the_watch(
    nvml: Nvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A real load generator and server, whose requests the stand-in's GPU answers at 100 W.
    nvml.clock = time.monotonic
    nvml.counter_step_s = 0.02
    nvml.reasons = lambda _now: 0x4
    name = f"GPU{os.getpid()}"
    model = timed_model.write(tmp_path / "models", name, timed_model.service_times_ms("fixed"))
    point = LoadPoint("offline", 2, 1)
    plan = MeasuringPlan(budget_s=1.0)
    with (
        serve(Choice("embedded"), tmp_path / "models", tmp_path / "log", device="cpu") as server,
        input_data(model, model.samples("evaluation", None, None), server.scratch) as data,
    ):
        assert server.device == "cpu"
        server.client.load_model(name)
        (job,) = jobs_of(
            dataclasses.replace(server, device="cuda"),
            name,
            model,
            {point: 0.005},
            shared_memory="system",
            data=data,
        )
        (state,) = sweep.measure([measured.begin(job)], plan)
    assert all(run.gpu is not None for run in state.mine.passes)
    found = record_entry(state, plan).load
    assert found.gpu is not None
    assert found.gpu.power_w == pytest.approx(100, rel=0.1)
    assert found.gpu.energy_j_per_1000 == pytest.approx(
        1000 * found.gpu.power_w / found.throughput_per_s.value  # type: ignore[operator]
    )
    assert "gpu-throttled" in [mark.code for mark in found.marks]
