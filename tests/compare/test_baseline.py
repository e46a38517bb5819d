"""What --baseline takes: records of an earlier run, of the same machine and settings."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fixtures.compare import baseline, comparison, other_builds
from fixtures.errors import InputError
from fixtures.spec import LoadPoint
from reports.record import files, schema
from reports.record.schema import COMPONENTS, Estimate, Load, Machine, Record, Serving
from tests.conftest import DEPLOYMENT

ONLINE = LoadPoint("online", 1, 2)

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
        schema.Artifact("digest", "none", 0.0, 0.0, "Raw", "none"),
        loads=(dataclasses.replace(point, **changes),),
    )


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A folder with that record."""
    one = stored()
    files.write(one, files.path_of(one.case, tmp_path / "earlier"))
    return tmp_path / "earlier"


def test_a_point_on_record_is_compared_by_its_passes(earlier: Path) -> None:
    found = baseline.read(str(earlier))
    passes = baseline.earlier_passes(found, stored().case, ONLINE, 0.03, 1)
    assert passes is not None
    one = comparison.compare_records([90.0, 91.0, 89.0], passes, 0.9)
    assert (one.method, one.verdict, one.reference) == ("records", "slower", str(earlier))
    assert one.ratio.value == pytest.approx(0.9, rel=1e-3)


def test_at_a_rate_the_latencies_are_compared(tmp_path: Path) -> None:
    one = stored(concurrency=0, request_rate_per_s=50.0, arrivals="poisson")
    files.write(one, files.path_of(one.case, tmp_path))
    point = LoadPoint("online", 1, 0, 50.0, "poisson")
    found = baseline.earlier_passes(baseline.read(str(tmp_path)), one.case, point, 0.03, 1)
    assert found is not None
    assert found.speeds == pytest.approx([1 / 20, 1 / (2000 / 101), 1 / (2000 / 99)])


def test_a_case_or_point_that_is_not_on_record_has_no_earlier_passes(earlier: Path) -> None:
    found = baseline.read(str(earlier))
    other = dataclasses.replace(stored().case, precision="int8")
    assert baseline.earlier_passes(found, other, ONLINE, 0.03, 1) is None
    for point in (LoadPoint("online", 1, 4), LoadPoint("offline", 1, 2)):
        assert baseline.earlier_passes(found, stored().case, point, 0.03, 1) is None


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


def test_another_gpu_of_the_machine_is_said_and_an_image_that_was_not_recorded_is_no_difference(
    earlier: Path,
) -> None:
    found = baseline.read(str(earlier))
    now = dataclasses.replace(MACHINE, gpu_uuids=("GPU-2",))
    serving = dataclasses.replace(SERVING, image="tritonserver:24.10-py3", image_digest="sha256:ab")
    baseline.check(found, stored().case, now, DEPLOYMENT, serving)
    assert baseline.changed_versions(found, stored().case, now) == ["GPU None there, GPU-2 here"]


def test_a_baseline_with_none_of_the_points_is_refused_before_anything_runs(earlier: Path) -> None:
    found, case = baseline.read(str(earlier)), stored().case
    elsewhere = dataclasses.replace(ONLINE, concurrency=64)
    baseline.check_any(found, [(case, elsewhere), (case, ONLINE)])
    baseline.check_any(found, [])
    with pytest.raises(InputError, match=r"(?s)nothing can be compared: none of the 1 .*cpu-toy-raw-fp32"):
        baseline.check_any(found, [(case, elsewhere)])
    with pytest.raises(InputError, match="nothing can be compared"):
        baseline.check_any(found, [(dataclasses.replace(case, model="other"), ONLINE)])


@pytest.mark.parametrize("text", ["", " "])
def test_a_variable_that_is_not_set_names_no_baseline_and_no_build(text: str) -> None:
    with pytest.raises(InputError, match=r"(?s)empty.*is a variable not set"):
        baseline.read(text)
    with pytest.raises(InputError, match=r"(?s)empty.*is a variable not set"):
        other_builds.parse(text)


def test_a_damaged_record_is_named(earlier: Path) -> None:
    (earlier / "cpu" / "cpu-toy-raw-fp32.json").write_text("{")
    with pytest.raises(
        InputError, match=r"(?s)cannot be read: .*cpu-toy-raw-fp32\.json: not JSON.*--baseline"
    ):
        baseline.read(str(earlier))


def test_a_folder_without_records_is_told_apart_from_one_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the folder holds no records"):
        baseline.read(str(tmp_path))
    with pytest.raises(InputError, match="there is no such folder"):
        baseline.read(str(tmp_path / "gone"))


@pytest.mark.parametrize(("throughputs", "compared"), [((100.0,), False), ((100.0, 101.0), True)])
def test_two_passes_on_record_can_be_compared_and_one_cannot(
    tmp_path: Path, throughputs: Sequence[float], compared: bool
) -> None:
    one = stored(throughputs)
    files.write(one, files.path_of(one.case, tmp_path))
    found = baseline.earlier_passes(baseline.read(str(tmp_path)), one.case, ONLINE, 0.03, 4)

    assert (found is not None) is compared
    if found is not None:
        assert (found.points, found.spent_s, found.allowed_slowdown) == (4, 0.9, 0.03)
        assert found.text == str(tmp_path)


def test_a_case_without_load_points_may_be_of_any_machine(tmp_path: Path) -> None:
    one = dataclasses.replace(stored(), loads=())
    files.write(one, files.path_of(one.case, tmp_path))
    other = dataclasses.replace(MACHINE, cores=64)

    baseline.check(baseline.read(str(tmp_path)), one.case, other, DEPLOYMENT, SERVING)
    unknown = dataclasses.replace(one.case, model="other")
    baseline.check(baseline.read(str(tmp_path)), unknown, other, DEPLOYMENT, SERVING)
    assert baseline.changed_versions(baseline.read(str(tmp_path)), unknown, other) == []


def test_each_condition_that_is_another_is_named_and_a_setting_of_more_values_too(earlier: Path) -> None:
    found = baseline.read(str(earlier))
    other = dataclasses.replace(DEPLOYMENT, instances=2, preferred_batch_sizes=(2, 4))
    with pytest.raises(InputError) as raised:
        baseline.check(found, stored().case, MACHINE, other, SERVING)
    assert "instances 1 there, 2 here; preferred_batch_sizes () there, (2, 4) here" in str(raised.value)


def test_versions_that_came_or_went_are_named_in_order(earlier: Path) -> None:
    now = dataclasses.replace(MACHINE, versions={"numpy": "2.0"}, gpu_driver="550")

    assert baseline.changed_versions(baseline.read(str(earlier)), stored().case, now) == [
        "driver None there, 550 here",
        "numpy None there, 2.0 here",
        "torch 2.13.0 there, None here",
    ]
