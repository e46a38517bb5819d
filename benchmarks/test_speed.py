"""The speed at each load point: online, single requests from many clients, which the server joins to batches;
and offline, one request of a whole batch at a time, without dynamic batching. Then what serving costs beside
the same artifact in process, and whether a model_warmup does its work."""

from typing import Any

import pytest

from fixtures.recorder import BENCHMARK_CLOCK, Recorder
from tritonproof.base.errors import SpeedError
from tritonproof.record.speed import LoadPoint
from tritonproof.reports.correctness_text import wrong_answers_text
from tritonproof.reports.speed_text import efficiency_text, load_point_text, model_warmup_text, speed_failures
from tritonproof.run.case_run import CaseRun
from tritonproof.run.measuring import measure_model_warmup, measure_point
from tritonproof.run.measuring_efficiency import measure_efficiency


def measure_and_record(run: CaseRun, point: LoadPoint, recorder: Recorder, benchmark: Any) -> None:
    """Measure and record a load point, and show its speed if the case is proven right. Raises AccuracyError
    if an answer is wrong, SpeedError if it is shown to be too slow or beyond its latency budget."""
    measured = measure_point(run, point, recorder.save_progress)
    result = measured.result
    record = recorder.record_points([result])
    if failure := wrong_answers_text(result.answers_under_load):
        raise run.accuracy_error(failure)
    recorder.report.enter_point(benchmark, record, measured)
    recorder.report.show(record.why_no_speed or load_point_text(result, run.settings.certify))
    if failures := speed_failures(result):
        raise SpeedError(f"too slow. {record.why_no_speed}" if record.why_no_speed else "; ".join(failures))


@pytest.mark.speed
@pytest.mark.step("online")
@pytest.mark.benchmark(timer=BENCHMARK_CLOCK.popleft)
def test_online(run: CaseRun, point: LoadPoint, recorder: Recorder, benchmark: Any) -> None:
    """Throughput and latency at a concurrency or rate; fails for a wrong answer, or if shown too slow."""
    measure_and_record(run, point, recorder, benchmark)


@pytest.mark.speed
@pytest.mark.step("offline")
@pytest.mark.benchmark(timer=BENCHMARK_CLOCK.popleft)
def test_offline(run: CaseRun, point: LoadPoint, recorder: Recorder, benchmark: Any) -> None:
    """Throughput and latency at a batch size; fails for a wrong answer, or if shown to be too slow."""
    measure_and_record(run, point, recorder, benchmark)


@pytest.mark.speed
@pytest.mark.step("efficiency")
def test_efficiency(run: CaseRun, recorder: Recorder) -> None:
    """Measures the ratio of served to in-process throughput, in turns, and the fraction of the peak."""
    efficiencies = measure_efficiency(run)
    shown = recorder.record(efficiency=tuple(efficiencies))
    recorder.report.show(shown.why_no_speed or efficiency_text(efficiencies, run.case.precision))


@pytest.mark.speed
@pytest.mark.step("model-warmup")
def test_model_warmup(run: CaseRun, recorder: Recorder) -> None:
    """The first request after a loading is not shown to be slower than later ones."""
    result = measure_model_warmup(run)
    text = recorder.record(model_warmup=result).why_no_speed or model_warmup_text(result)
    recorder.report.show(text)
    if not result.passed:
        raise SpeedError(f"its model_warmup does not warm it: {text}", where=run.case)
