"""The doctor makes every check, and its status says whether benchmarks would stop."""

import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest

from tests.helpers import ROOT
from tritonproof.base.commands import EXIT_INPUT
from tritonproof.doctor import Finding, ok, problem, warning
from tritonproof.doctor import __main__ as doctor
from tritonproof.host.process import ProgramError


@pytest.mark.parametrize(
    ("worst", "status"), [(warning("small", "free some"), 0), (problem("none", "install it"), 1)]
)
def test_status_is_1_if_benchmarks_would_stop(
    worst: Finding, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = [("speed", lambda: ok("fast")), ("another", lambda: worst)]
    monkeypatch.setattr(doctor, "checks", lambda *_arguments, **_options: iter(checks))
    assert doctor.main([]) == status
    printed = capsys.readouterr().out
    assert all(part in printed for part in ("fast", worst.state, worst.text, worst.fix))


@pytest.mark.parametrize("error", [PermissionError(13, "no"), ProgramError("hangs"), ValueError("odd")])
def test_failing_check_does_not_hide_others(error: Exception) -> None:
    assert doctor.run_check(Mock(side_effect=error)).state == "warning"


def test_file_that_the_benchmarks_refuse_is_refused() -> None:
    with pytest.raises(SystemExit, check=lambda ended: ended.code == EXIT_INPUT):
        doctor.main(["--triton", "grpcs://localhost:9", "--triton-ca", __file__])


BARE = """
import sys
sys.path[:0] = sys.argv[1:3]
del sys.argv[1:3]
import msgspec, msgspec.json
del sys.path[1]
from tritonproof.doctor.__main__ import main
sys.exit(main())
"""


def in_a_bare_python(*arguments: str) -> tuple[int, dict[str, str]]:
    """The status of a doctor in a Python with msgspec alone, and the state of each check that it made."""
    folders = (str(ROOT), str(Path(msgspec.__file__).parents[1]))
    command = [sys.executable, "-I", "-S", "-c", BARE, *folders, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.stderr == ""
    states = re.findall(r"^(ok|warning|problem) +(\w+)", result.stdout, re.MULTILINE)
    return result.returncode, {name: state for state, name in states}


def test_doctor_runs_with_msgspec_alone() -> None:
    status, states = in_a_bare_python()
    assert (status, states["packages"]) == (1, "problem")
    assert states["cores"] in {"ok", "warning"}
    _, of_machine = in_a_bare_python("--machine")
    assert "cores" in of_machine
    assert "packages" not in of_machine
