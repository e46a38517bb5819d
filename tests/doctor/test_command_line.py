"""The doctor makes every check, and its status says whether benchmarks would stop."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from fixtures.doctor import Finding, ok, problem, warning
from fixtures.doctor import __main__ as doctor
from fixtures.host.process import ProgramError
from tests.helpers import ROOT


@pytest.mark.parametrize(
    ("findings", "status"),
    [([ok("fast"), warning("small", "free some")], 0), ([ok("fast"), problem("none", "install it")], 1)],
)
def test_status_is_1_if_benchmarks_would_stop(
    findings: list[Finding], status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = [(f"check {number}", lambda finding=finding: finding) for number, finding in enumerate(findings)]
    monkeypatch.setattr(doctor, "checks", lambda *_arguments, **_options: iter(checks))
    assert doctor.main([]) == status
    printed = capsys.readouterr().out
    assert all(part in printed for finding in findings for part in (finding.state, finding.text, finding.fix))


@pytest.mark.parametrize(
    "error", [PermissionError(13, "no"), ProgramError("it did not end"), ValueError("odd")]
)
def test_failing_check_does_not_hide_others(error: Exception) -> None:
    def check() -> Finding:
        raise error

    assert doctor.run_check(check).state == "warning"


def in_a_bare_python(*arguments: str) -> tuple[int, dict[str, str]]:
    """The status of a doctor in a Python with msgspec alone, and the state of each check that it made."""
    imports = (
        f"import sys\nsys.path[:0] = [sys.argv.pop(1), {str(Path(msgspec.__file__).parents[1])!r}]\nimport "
        "msgspec, msgspec.json\n"
    )
    code = f"{imports}del sys.path[1]\nfrom fixtures.doctor.__main__ import main\nsys.exit(main())"
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(ROOT), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.stderr == ""
    lines = [line.split(maxsplit=2) for line in result.stdout.splitlines()]
    return result.returncode, {
        line[1]: line[0] for line in lines if line and line[0] in {"ok", "warning", "problem"}
    }


def test_doctor_runs_with_msgspec_alone() -> None:
    status, states = in_a_bare_python()
    assert (status, states["packages"]) == (1, "problem")
    assert states["cores"] in {"ok", "warning"}

    _, of_machine = in_a_bare_python("--machine")
    assert "cores" in of_machine
    assert "packages" not in of_machine
