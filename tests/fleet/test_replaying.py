"""What comes back from a node: reports are those of a run here, and records join those that are here."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fixtures.errors import ProofError
from fixtures.run.fleet import replaying
from reports.record import files
from reports.record.schema import Conversation, Record
from tests.samples import gate, load, record, stage_failure
from tests.soak.made_up import soak


def as_sent(config: pytest.Config, report: pytest.TestReport) -> dict[str, Any]:
    """A report as it arrives from a node, through JSON."""
    found: dict[str, Any] = json.loads(
        json.dumps(config.hook.pytest_report_to_serializable(config=config, report=report))
    )
    return found


def report(outcome: Any, longrepr: Any, when: Any = "call") -> pytest.TestReport:
    """The report of a benchmark."""
    name = "benchmarks/test_online.py::test_online[a100-bert-onnx-fp16-b001-c008]"
    location = ("benchmarks/test_online.py", 9, "test_online")
    properties: list[tuple[str, object]] = [("figure", "100 infer/s"), ("failure", "speed")]
    return pytest.TestReport(
        name, location, {}, outcome, longrepr, when, user_properties=properties, sections=[("log", "text")]
    )


@pytest.mark.parametrize(
    ("outcome", "longrepr"),
    [("passed", None), ("failed", "slower"), ("skipped", ("file", 3, "Skipped: needs an NVIDIA T4"))],
)
def test_a_report_from_a_node_says_what_it_said_there(
    pytestconfig: pytest.Config, outcome: str, longrepr: Any
) -> None:
    original = report(outcome, longrepr)

    arrived = replaying.report_from(pytestconfig, original.nodeid, as_sent(pytestconfig, original))

    for name in (
        "nodeid",
        "location",
        "outcome",
        "longrepr",
        "when",
        "user_properties",
        "sections",
        "duration",
    ):
        assert getattr(arrived, name) == getattr(original, name), name


@pytest.mark.parametrize(
    "changes",
    [
        {"nodeid": "benchmarks/test_online.py::test_online[another]"},
        {"nodeid": None},
        {"outcome": "wonderful"},
        {"location": "file"},
        {"user_properties": 3},
        {"sections": [["log"]]},
        {"duration": "long"},
        {"longrepr": 1.5},
        {"longrepr": {"reprcrash": None, "reprtraceback": None, "sections": [], "chain": None}},
        {"$report_type": "none"},
        None,
    ],
    ids=str,
)
def test_what_is_no_report_of_the_test_is_refused(pytestconfig: pytest.Config, changes: Any) -> None:
    """pytest would take it, and the run would end with a trace where it is shown, or tell of another test."""
    original = report("failed", "slower")
    sent = None if changes is None else as_sent(pytestconfig, original) | changes

    with pytest.raises(ProofError) as refused:
        replaying.report_from(pytestconfig, original.nodeid, sent)

    assert original.nodeid in str(refused.value)
    assert refused.value.fix


def test_results_of_a_node_join_the_record_that_is_here(tmp_path: Path) -> None:
    here = record(
        loads=(load("offline", 1, 10.0), load("offline", 2, 20.0)),
        starts=(),
        efficiency=(),
        gates=(gate("batches", "wrong before"), gate("repeated")),
    )
    path = files.path_of(here.case, tmp_path)
    files.write(here, path)
    from_node = structs.replace(
        here, loads=(load("offline", 2, 22.0), load("offline", 4, 40.0)), starts=(start(),), accuracy=None
    )
    from_node = structs.replace(from_node, gates=(gate("batches"), gate("malformed")))

    for _ in range(2):
        replaying.keep({str(path.relative_to(tmp_path)): files.encode(from_node)}, tmp_path)

    joined = files.read(path)
    assert [(one.batch, one.throughput_per_s.value) for one in joined.loads] == [
        (1, 10.0),
        (2, 22.0),
        (4, 40.0),
    ]
    assert joined.accuracy == here.accuracy
    assert joined.gates == (gate("batches"), gate("malformed"), gate("repeated"))
    assert [one for one in path.parent.iterdir() if one.suffix == ".arrived"] == []


def test_a_failure_on_a_node_is_on_record_here_until_its_test_has_a_result_on_one(tmp_path: Path) -> None:
    here = record()
    path = files.path_of(here.case, tmp_path)
    files.write(here, path)

    def keep(sent: Record) -> Record:
        replaying.keep({str(path.relative_to(tmp_path)): files.encode(sent)}, tmp_path, "test_accuracy")
        return files.read(path)

    failed = keep(structs.replace(here, accuracy=None, failures=(stage_failure(),)))
    assert failed.failures == (stage_failure(),)
    assert keep(here).failures == ()


def test_a_soak_and_a_conversation_of_a_node_join_the_record_that_is_here(tmp_path: Path) -> None:
    here = record()
    path = files.path_of(here.case, tmp_path)
    files.write(here, path)
    said = Conversation("decoupled", 4, 12, "", True)

    for one in ({"soak": soak()}, {"conversation": said}):
        sent = structs.replace(here, loads=(), starts=(), **one)
        replaying.keep({str(path.relative_to(tmp_path)): files.encode(sent)}, tmp_path)

    joined = files.read(path)
    assert (joined.soak, joined.conversation, joined.loads) == (soak(), said, here.loads)


@pytest.mark.parametrize(
    ("other", "kept"),
    [({"gpu_uuids": ("GPU-2",)}, [1, 4]), ({"gpu_uuids": ("GPU-2",), "cores": 3}, [4])],
)
def test_a_case_that_moved_to_a_twin_keeps_what_was_measured_before(
    tmp_path: Path, other: dict[str, Any], kept: list[int]
) -> None:
    """A node of another kind is another machine, whose record is one of its own."""
    machine = structs.replace(record().machine, gpu_uuids=("GPU-1",))
    first = record(loads=(load("offline", 1, 10.0),), starts=(start(),), machine=machine)
    then = structs.replace(
        first, loads=(load("offline", 4, 40.0),), machine=structs.replace(machine, **other)
    )
    path = files.path_of(first.case, tmp_path)

    for one in (first, then):
        replaying.keep({str(path.relative_to(tmp_path)): files.encode(one)}, tmp_path)

    assert [one.batch for one in files.read(path).loads] == kept


def start() -> Any:
    """How the offline scenario was started."""
    from reports.record.schema import Start

    return Start("offline", 1.0, 2.0, 3.0)


def test_what_stands_beside_a_record_lies_beside_it_here_too(tmp_path: Path) -> None:
    replaying.keep({"a40/case.config.pbtxt": b"name", "a40/case.search/config.pbtxt": b"other"}, tmp_path)

    assert (tmp_path / "a40" / "case.config.pbtxt").read_bytes() == b"name"
    assert (tmp_path / "a40" / "case.search" / "config.pbtxt").read_bytes() == b"other"


@pytest.mark.parametrize("name", ["../out.json", "/tmp/out.json", "a40/../../out", "a40/$(reboot).log", ""])
def test_a_file_whose_name_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    results = tmp_path / "results"

    with pytest.raises(ProofError):
        replaying.keep({name: b"content"}, results)

    assert not results.exists()
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize("name", ["cpu/cpu-bert-onnx-fp32.json", f"a40/{'x' * 250}.json"])
def test_a_record_under_the_name_of_another_case_is_refused(tmp_path: Path, name: str) -> None:
    """Its figures would take the place of those of a case that the node was not asked for."""
    here = record()
    files.write(here, files.path_of(here.case, tmp_path))
    sent = structs.replace(here, loads=(load("offline", 1, 9e9),), starts=(start(),))

    with pytest.raises(ProofError) as refused:
        replaying.keep({name: files.encode(sent)}, tmp_path)

    assert name in str(refused.value)
    assert files.read(files.path_of(here.case, tmp_path)) == here


def test_what_is_no_record_is_refused_and_what_is_here_stays(tmp_path: Path) -> None:
    here = record()
    path = files.path_of(here.case, tmp_path)
    files.write(here, path)

    with pytest.raises(ProofError):
        replaying.keep({str(path.relative_to(tmp_path)): b"{}"}, tmp_path)

    assert files.read(path) == here
