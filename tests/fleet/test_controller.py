"""Reports and records of a node arrive as if the run were local."""

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fixtures.fleet import records_of, report_from
from tests.sample_records import measured, record
from tritonproof.cases import cases_of
from tritonproof.host.targets import CPU
from tritonproof.record import record_files, setup
from tritonproof.run import record_updates


@pytest.mark.parametrize(
    ("outcome", "longrepr"),
    [("passed", None), ("failed", "slower"), ("skipped", ("file", 3, "Skipped: needs an NVIDIA T4"))],
)
def test_report_survives_serialization(pytestconfig: pytest.Config, outcome: Any, longrepr: Any) -> None:
    name = "benchmarks/test_speed.py::test_online[a100-bert-onnx-fp16-b001-c008]"
    location = ("benchmarks/test_speed.py", 9, "test_online")
    properties: list[tuple[str, object]] = [("outcome_text", "100 infer/s"), ("failure", "speed")]
    original = pytest.TestReport(name, location, {}, outcome, longrepr, "call", user_properties=properties)
    sent = pytestconfig.hook.pytest_report_to_serializable(config=pytestconfig, report=original)

    arrived = report_from(pytestconfig, json.loads(json.dumps(sent)))

    for field in ("nodeid", "outcome", "longrepr", "when", "duration"):
        assert getattr(arrived, field) == getattr(original, field), field
    assert dict(arrived.user_properties) == dict(properties)


def test_node_gets_records_and_configurations_of_its_cases(tmp_path: Path) -> None:
    mine, other = list(cases_of(CPU))[:2]
    for case in (mine, other):
        path = record_files.record_path(case.key, tmp_path)
        record_files.write(record(case=case.key), path)
        path.with_suffix(record_files.CONFIG_SUFFIX).write_text("name")
        path.with_suffix(".server.log").write_text("long")
        record_updates.write_search_config(path, "name", "diff")

    beside = {".json", record_files.CONFIG_SUFFIX, ".search/config.pbtxt", ".search/config.diff"}
    assert set(records_of([mine], tmp_path)) == {f"cpu/{mine}{ending}" for ending in beside}


TWIN = {"gpu_uuids": ("GPU-2",)}


@pytest.mark.parametrize(
    ("other", "in_fleet", "kept"),
    [(TWIN, True, [1, 4]), (TWIN | {"cores": 3}, True, [4]), (TWIN, False, [4])],
)
def test_case_moved_to_twin_keeps_earlier_points(
    tmp_path: Path, other: dict[str, Any], in_fleet: bool, kept: list[int]
) -> None:
    """A node of another kind is another machine, with its own record."""
    machine = structs.replace(record().machine, gpu_uuids=("GPU-1",))
    start = setup.Start("offline", 1.0, 2.0, 3.0)
    for batch, here in ((1, machine), (4, structs.replace(machine, **other))):
        points = (measured("offline", batch, 10.0),)
        change = functools.partial(record_updates.with_results, starts=(start,), points=points)
        stored = record_updates.update(record(points=(), machine=here), tmp_path, change, in_fleet=in_fleet)
    assert [result.point.batch for result in stored.points] == kept
