"""A server that ended by itself fails its case's later tests, and no other case."""

import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.cases import cases_of, reference_of
from fixtures.host.targets import CPU
from fixtures.run import efficiency
from fixtures.run.efficiency import ServedReference
from fixtures.spec import Case, LoadPoint
from tests.helpers import ROOT, WITHOUT

TEST = """
    import subprocess, sys
    from types import SimpleNamespace
    import pytest
    from fixtures.serve.server import Server

    @pytest.fixture(scope="session")
    def run(run):
        client = SimpleNamespace(is_server_live=lambda **_limits: process.poll() is None)
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        run.server = Server("embedded", "127.0.0.1:1", "2.51.0", None, client, process=process)
        yield run
        process.kill()
        process.wait()

    @pytest.mark.stage("accuracy")
    def test_ends_it(case, run):
        if "onnx" in str(case):
            run.server.process.kill()
            run.server.process.wait()

    @pytest.mark.stage("answers")
    def test_passes_without_asking_it(case, run):
        pass

    @pytest.mark.stage("answers")
    def test_needs_no_server(case):
        pass
    """
CASES = ("cpu-resnet50-micro-onnx-fp32", "cpu-resnet50-micro-ts-trace-fp32")


def test_the_later_tests_of_a_case_whose_server_ended_fail_and_those_of_the_next_case_pass(
    tmp_path: Path,
) -> None:
    file = tmp_path / "test_of_a_server.py"
    file.write_text(textwrap.dedent(TEST))
    tests = ("test_ends_it", "test_passes_without_asking_it", "test_needs_no_server")
    names = [f"{file}::{test}[{case}]" for case in CASES for test in tests]
    options = ["--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), "-p", "conftest", *WITHOUT]
    outcomes: dict[str, str] = {}

    class Outcomes:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.when == "call":
                outcomes[report.nodeid.rpartition("::")[2]] = report.outcome

    pytest.main([*names, *options, "--results", str(tmp_path / "results")], [Outcomes()])

    assert len(outcomes) == len(names)
    failed = [name for name, outcome in outcomes.items() if outcome == "failed"]
    assert failed == [f"test_passes_without_asking_it[{CASES[0]}]"]


def test_a_reference_is_served_once_and_again_where_its_server_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [one for one in cases_of(CPU) if str(one) != str(reference_of(one))]
    run: Any = SimpleNamespace(case=cases[0], of_model=SimpleNamespace(references={}))
    served: list[Any] = []

    def serve(_run: Any, case: Case) -> ServedReference | None:
        beside: Any = SimpleNamespace(server=SimpleNamespace(how_it_ended=lambda: ""))
        served.append(ServedReference(case, beside, LoadPoint("online", 1, 1), 0.001))
        return served[-1]

    monkeypatch.setattr(efficiency, "_served", serve)
    first = efficiency.reference_beside(run)
    assert efficiency.reference_beside(run) is first
    served[0].run.server.how_it_ended = lambda: "was ended by SIGKILL"
    assert efficiency.reference_beside(run) is efficiency.reference_beside(run) is served[1] is not first

    run.of_model.references = dict.fromkeys(run.of_model.references)
    assert efficiency.reference_beside(run) is None, "that there is none is found once"
    assert len(served) == 2
