"""A server that ended by itself fails its case's later tests, and no other case."""

import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.build.repository import BuiltModel
from fixtures.errors import ProofError
from fixtures.run.comparing import OtherServer
from fixtures.run.serving_reference import ServedReference, kept
from fixtures.serve.choice import Choice
from fixtures.serve.launch import serve
from fixtures.serve.server import Server
from fixtures.spec import LoadPoint, Scenario
from tests.collecting import ROOT, WITHOUT
from tests.conftest import DEPLOYMENT, DOUBLING, MakeBuild
from tests.serve.programs import doubled_by, process_of

TEST = """
    import subprocess, sys
    from types import SimpleNamespace
    import pytest
    from fixtures.serve.server import Server

    @pytest.fixture(scope="session")
    def server(case):
        client = SimpleNamespace(is_server_live=lambda **_limits: process.poll() is None)
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        yield Server("embedded", "127.0.0.1:1", "2.51.0", None, client, process=process)
        process.kill()
        process.wait()

    @pytest.mark.stage("accuracy")
    def test_ends_it(case, server):
        if "onnx" in str(case):
            server.process.kill()
            server.process.wait()

    @pytest.mark.stage("answers")
    def test_passes_without_asking_it(case, server):
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


def test_what_the_other_server_could_not_do_any_more_is_said_to_be_its_own(
    make_build: MakeBuild, tmp_path: Path
) -> None:
    build = make_build(tmp_path / "models", "doubling", DOUBLING)
    with serve(Choice("embedded"), tmp_path / "models", tmp_path / "log", device="cpu") as server:

        def load(on: Server, scenario: Scenario) -> None:
            on.load(build, DEPLOYMENT, scenario)

        other = OtherServer(server, "HEAD~1", tmp_path, 8, load)
        assert doubled_by(other.loaded_for("online"), build)
        process_of(server).kill()
        assert server.how_it_ended()

        with pytest.raises(ProofError, match="SIGKILL"):
            other.loaded_for("offline")


def test_a_reference_is_served_once_and_again_where_its_server_ended(
    make_build: MakeBuild, tmp_path: Path
) -> None:
    build: BuiltModel = make_build(tmp_path / "models", "doubling", DOUBLING)
    ends = {1: "", 2: ""}
    started: list[int] = []

    def start(case: Any) -> ServedReference:
        started.append(number := len(started) + 1)
        server: Any = SimpleNamespace(how_it_ended=lambda: ends[number])
        return ServedReference(case, server, LoadPoint("online", 1, 1), 0.001)

    reference = kept(start)

    first = reference(build.case)
    assert reference(build.case) is first
    ends[1] = "was ended by SIGKILL"
    assert reference(build.case) is reference(build.case) is not first
    assert started == [1, 2]


def test_that_there_is_no_reference_is_found_once(make_build: MakeBuild, tmp_path: Path) -> None:
    build: BuiltModel = make_build(tmp_path / "models", "doubling", DOUBLING)
    asked: list[Any] = []
    reference = kept(lambda case: asked.append(case))

    assert reference(build.case) is None
    assert reference(build.case) is None
    assert len(asked) == 1
