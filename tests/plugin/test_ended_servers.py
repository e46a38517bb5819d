"""If a server ends, only the later tests of its case fail."""

import textwrap
from pathlib import Path

import pytest

from tests.faults.classifier import write_two
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
        if "left" in str(case):
            run.server.process.kill()
            run.server.process.wait()

    @pytest.mark.stage("answers")
    def test_passes_without_asking_it(case, run):
        pass

    @pytest.mark.stage("answers")
    def test_needs_no_server(case):
        pass
    """
CASES = ("cpu-left-onnx-fp32", "cpu-right-onnx-fp32")


def test_ended_server_fails_later_tests_of_its_case_only(tmp_path: Path) -> None:
    file = tmp_path / "test_of_a_server.py"
    file.write_text(textwrap.dedent(TEST))
    tests = ("test_ends_it", "test_passes_without_asking_it", "test_needs_no_server")
    names = [f"{file}::{test}[{case}]" for case in CASES for test in tests]
    options = ["--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), "-p", "conftest", *WITHOUT]
    options += [*write_two(tmp_path), f"--model-repos={tmp_path / 'models'}"]
    outcomes: dict[str, str] = {}

    class Outcomes:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.when == "call":
                outcomes[report.nodeid.rpartition("::")[2]] = report.outcome

    pytest.main([*names, *options, "--results", str(tmp_path / "results")], [Outcomes()])

    assert len(outcomes) == len(names)
    failed = [name for name, outcome in outcomes.items() if outcome == "failed"]
    assert failed == [f"test_passes_without_asking_it[{CASES[0]}]"]
