"""The plots command: written files and refused arguments."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reports.__main__ import main
from reports.record.schema import Case
from tests import examples


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder with a proven case and a failed one."""
    wrong = examples.record(
        case=Case("a40", "resnet50", "onnx", None, "fp32"), accuracy=examples.failed_accuracy()
    )
    return examples.store(tmp_path / "results", examples.swept(), wrong)


@pytest.fixture
def command(results: Path, tmp_path: Path, printed: Callable[..., str]) -> Callable[..., list[str]]:
    """Run `python -m reports plots` into a folder `pictures`; returns the lines it prints."""
    output = tmp_path / "pictures"
    return lambda *options: printed("plots", "--results", results, "--output", output, *options).splitlines()


def test_command_writes_available_plots_and_lists_them(
    command: Callable[..., list[str]], tmp_path: Path
) -> None:
    paths = command("--theme", "light")
    case = "a40-resnet50-onnx-trt-fp16"
    expected = [
        "a40-resnet50-onnx-fp32-accuracy-ledger",
        f"{case}-accuracy-ledger",
        f"{case}-throughput-latency",
        "accuracy-ledger",
        "best-throughput",
    ]
    assert paths == [str(tmp_path / "pictures" / f"{name}-light.svg") for name in expected]
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == sorted(
        f"{name}-light.svg" for name in expected
    )


def test_command_draws_both_themes_and_png(command: Callable[..., list[str]], tmp_path: Path) -> None:
    assert len(command("-k", "onnx-fp32")) == 2
    (path,) = command("-k", "onnx-fp32", "--format", "png", "--theme", "dark")
    assert Path(path).name == "a40-resnet50-onnx-fp32-accuracy-ledger-dark.png"
    assert Path(path).read_bytes().startswith(b"\x89PNG")


def test_command_draws_given_budget(command: Callable[..., list[str]]) -> None:
    paths = command("-k", "trt", "--theme", "light", "--latency-budget-ms", "12.5")
    (path,) = [path for path in paths if "throughput-latency" in path]
    assert "budget: p99 12.5 ms" in Path(path).read_text()


@pytest.mark.parametrize("budget", ["0", "-1", "nan", "inf", "ten"])
def test_invalid_budget_is_refused(budget: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["plots", f"--latency-budget-ms={budget}"])
    assert "--latency-budget-ms" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "command", "package"),
    [("matplotlib", "plots", "matplotlib"), ("markdown_it", "html", "markdown-it-py")],
)
def test_missing_package_is_named_and_tables_work_without(
    module: str, command: str, package: str, results: Path
) -> None:
    program = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "from reports.__main__ import main\n"
        f"assert main(['tables', '--results', {str(results)!r}]) == 0\n"
        f"sys.exit(main([{command!r}, '--results', {str(results)!r}, '--output', {str(results / 'made')!r}]))"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert process.returncode == 4, process.stderr
    assert f"this needs {package}: " in process.stderr
    assert f" -m pip install {package}" in process.stderr
