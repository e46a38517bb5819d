"""The wheel outside of a checkout: content, command and pytest option."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import ROOT, junit

MODELS = Path(__file__).with_name("models")
FAST = ("-k", "declared or test_batches")

Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, installed."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site-packages")
    return folder / "site-packages"


def files_in(packages: Path) -> set[str]:
    """The names of all installed files, without bytecode and hidden ones."""
    names = {str(path.relative_to(packages)) for path in packages.rglob("*") if path.is_file()}
    return {name for name in names if "__pycache__" not in name and "/." not in name}


@pytest.fixture
def call(packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Calls a module of the installed package in a folder whose packages share the suite's names."""
    for name in ("fixtures", "benchmarks"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('another program\\'s package')")
    environment = {**os.environ, "PYTHONPATH": str(packages)}

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command, own = [sys.executable, "-m", *arguments], environment | variables
        return subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True, check=False)

    return run


def test_wheel_holds_the_tree_under_its_own_names(packages: Path) -> None:
    paths = ("benchmarks", "fixtures", "conftest.py", "pyproject.toml")
    listed = subprocess.check_output(["git", "ls-files", *paths], cwd=ROOT, text=True).split()
    assert {name.split("/")[0].split("-")[0] for name in files_in(packages)} == {"tritonproof"}
    assert {name for name in files_in(packages) if name.startswith("tritonproof/suite/")} == {
        f"tritonproof/suite/{name}" for name in listed
    }


def test_command_proves_a_repository_in_current_folder(call: Call, packages: Path, tmp_path: Path) -> None:
    before = files_in(packages)
    result = call("tritonproof", "prove", str(MODELS), "--junit-xml=junit.xml", *FAST)
    assert result.returncode == 0, result.stdout + result.stderr
    assert len(junit(tmp_path / "junit.xml")) == 2
    assert (tmp_path / "reports" / "results" / "cpu" / "cpu-double-asis.json").is_file()
    assert files_in(packages) == before


@pytest.mark.parametrize(
    "arguments",
    [("prove",), ("prove", "missing"), ("unknown",), ("report", "tables", "--results", "missing")],
)
def test_invalid_arguments_end_with_status_4(call: Call, arguments: tuple[str, ...]) -> None:
    assert call("tritonproof", *arguments).returncode == 4


@pytest.mark.parametrize("value", ["benchmarks", "benchmarks-out", "benchmarks/out"])
def test_value_of_an_option_is_no_test(call: Call, value: str, tmp_path: Path) -> None:
    result = call("tritonproof", "run", "--results", value, "-k", "cpu and test_conversion", "--collect-only")
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"--results {tmp_path / value}" in result.stdout
    assert "test_conversion[cpu-" in result.stdout


@pytest.mark.parametrize("command", ["", "report", "new", "doctor"])
def test_help_names_installed_command(call: Call, command: str) -> None:
    result = call("tritonproof", *command.split(), "--help")
    assert result.stdout.startswith("usage: tritonproof")
    assert ".venv" not in result.stdout
    assert "-m tritonproof report" not in result.stdout


def test_test_id_runs_a_single_test(call: Call) -> None:
    name = "benchmarks/test_speed.py::test_online[cpu-resnet50-micro-onnx-fp32-b001-c032]"
    result = call("tritonproof", "run", name, "--collect-only", "-qq", "--no-header")
    assert [line for line in result.stdout.splitlines() if line.startswith("benchmarks/")] == [name]


def test_plugin_proves_a_repository_beside_own_tests(call: Call, tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text("def test_mine(): pass\n")
    rows = "float(len(pb.get_input_tensor_by_name(requests[0], 'IN').as_numpy()))"
    for name, factor in (("right", "2"), ("wrong", rows)):
        model = shutil.copytree(MODELS / "double", tmp_path / "models" / name) / "1" / "model.py"
        model.write_text(model.read_text().replace("2 * pb", f"{factor} * pb"))
    options = ("--triton-prove", "models", "-k", "mine or test_batches")
    result = call("pytest", *options, "--junit-xml=junit.xml", PYTEST_ADDOPTS="-q")
    outcomes = {name: test.outcome for name, test in junit(tmp_path / "junit.xml").items()}
    assert outcomes == {
        "test_mine": "passed",
        "test_batches[cpu-right-asis]": "passed",
        "test_batches[cpu-wrong-asis]": "failure",
    }, result.stdout + result.stderr
    assert call("pytest", "-n1", *options).returncode == pytest.ExitCode.USAGE_ERROR, "it would run in each"
    for mark, has_speed in (("speed", True), ("not speed", False)):
        listed = call("pytest", *options[:2], "-m", mark, "--collect-only", "--strict-markers").stdout
        assert ("test_online" in listed, "test_repeated" in listed) == (has_speed, not has_speed)


def test_plugin_adds_nothing_without_its_option(call: Call, tmp_path: Path) -> None:
    source = "import sys\n\n\ndef test_mine():\n    assert 'fixtures' not in sys.modules\n"
    (tmp_path / "test_mine.py").write_text(source)
    assert call("pytest", "-q").returncode == 0
