"""The doctor's command line: every check is made, and the status says whether the benchmarks would stop."""

import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.doctor import __main__ as doctor
from fixtures.doctor.finding import Finding, ok, problem, warning
from fixtures.serve.launch import Choice
from reports.record.programs import ProgramError
from tests.doctor.findings import states
from tests.serve.programs import script

ROOT = Path(__file__).parents[2]
EMBEDDED = Choice("embedded")


def run(monkeypatch: pytest.MonkeyPatch, **findings: Finding) -> int:
    """The command line with these findings alone, by the names of their checks."""
    given = [(name, lambda finding=finding: finding) for name, finding in findings.items()]
    monkeypatch.setattr(doctor, "checks", lambda _choice: iter(given))
    return doctor.main([])


def test_the_status_is_1_only_where_the_benchmarks_would_stop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, CPU=ok("fast"), disk=warning("small", "free some")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["ok", "warning"]
    assert lines[2].strip() == "cure: free some"
    assert lines[-1] == "no problems, 1 warning: the benchmarks can run"
    assert run(monkeypatch, libpython=problem("none", "install it")) == 1
    assert "1 problem, no warnings: the benchmarks would stop" in capsys.readouterr().out


@pytest.mark.parametrize(
    "error", [PermissionError(13, "no"), ProgramError("ldd did not end"), ValueError("odd")]
)
def test_a_check_that_fails_does_not_hide_the_others(error: Exception) -> None:
    def check() -> Finding:
        raise error

    assert states(doctor.looked_at(check)) == ["warning"]  # type: ignore[arg-type]


def test_without_an_installed_environment_what_needs_its_packages_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    given = [("packages", lambda: problem("none", "install")), ("CPU", lambda: ok("fast"))]
    monkeypatch.setattr(doctor, "checks", lambda _choice: iter(given))

    assert doctor.main(["--tox", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "tox run -e benchmarks" in printed
    assert "install" not in printed.split("Without its packages:")[1]


def environment(tox: Path, name: str, status: int) -> None:
    """Make an environment whose doctor says how it was called, and ends with a status."""
    (tox / name / "bin").mkdir(parents=True)
    script(tox / name / "bin" / "python", f'echo "$@"; exit {status}')


@pytest.mark.parametrize(
    ("named", "looked_at", "status"),
    [
        ([], ["benchmarks", "benchmarks-gpu"], 1),
        (["benchmarks"], ["benchmarks"], 0),
        (["benchmarks", "benchmarks-gpu-trt"], ["benchmarks", "benchmarks-gpu-trt"], 1),
    ],
)
def test_the_environments_that_are_named_are_looked_at_or_all_that_are_installed(
    named: list[str],
    looked_at: list[str],
    status: int,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    environment(tmp_path, "benchmarks", 0)
    environment(tmp_path, "benchmarks-gpu", 1)
    environment(tmp_path, "tests", 0)

    assert doctor.main(["--tox", str(tmp_path), *named, "--triton", "docker"]) == status
    printed = capfd.readouterr().out
    assert [line[:-1] for line in printed.splitlines() if line.endswith(":")] == looked_at
    assert "-m fixtures.doctor --triton docker" in printed


def test_every_check_is_made_once_and_has_a_name_of_its_own() -> None:
    names = [name for name, _ in doctor.checks(EMBEDDED)]

    assert len(names) == len(set(names))


def test_it_works_in_a_python_that_has_no_packages_at_all() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _WITHOUT_PACKAGES, str(ROOT)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stderr == ""
    assert done.returncode == 1
    lines = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    assert ["problem", "packages"] in [line[:2] for line in lines]
    assert {"ok", "warning"} & {line[0] for line in lines if line[1:2] == ["cores"]}


_WITHOUT_PACKAGES = """
import sys
sys.path.insert(0, sys.argv[1])
from fixtures.doctor.__main__ import main
sys.exit(main([]))
"""
