"""What bad use of the suite gets: one readable error, the right exit status, and nothing measured."""

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from fixtures.models import resnet50
from reports.run.exit_status import STATUS
from tests.whole_runs.suite import ONNX, ROOT, TRACE, suite


def micro_weights(change: float, path: Path) -> Path:
    """The committed weights with noise of `change` standard deviations; NaN where it is NaN."""
    torch.manual_seed(0)
    state = {k: v.float() for k, v in load_file(resnet50.MICRO_WEIGHTS).items()}
    changed = {
        k: v + change * v.std(correction=0) * torch.randn_like(v) if k.endswith("weight") else v
        for k, v in state.items()
    }
    save_file(changed, path)
    return path


def test_a_worse_model_fails_the_gate_and_shows_no_speed(tmp_path: Path) -> None:
    worse = micro_weights(0.3, tmp_path / "worse.safetensors")
    done = suite(
        *("-k", f"{ONNX} and (conversion or accuracy or b001-c001)"),
        *("--checkpoint", f"resnet50-micro={worse}", "--point-budget-s", "0.5"),
        repos=tmp_path / "repos",
        results=tmp_path,
    )
    assert done.status == STATUS["accuracy"]
    assert re.search(r"served top-1 [\d.]+ % is below its floor of 96\.6 %", done.text)
    assert "1 failed, 2 passed" in done.text
    assert "No throughput is shown" in done.text
    assert done.record(ONNX).loads
    assert "worse.safetensors, sha256" in done.record(ONNX).build.weights


def test_a_model_that_returns_nan_is_one_readable_error(tmp_path: Path) -> None:
    overflowing = micro_weights(1e4, tmp_path / "overflowing.safetensors")
    done = suite(
        "-k",
        f"{TRACE} and conversion",
        "--checkpoint",
        f"resnet50-micro={overflowing}",
        repos=tmp_path / "repos",
        results=tmp_path,
    )
    assert done.status == STATUS["accuracy"]
    assert "NaN or infinity for" in done.text
    assert "Traceback" not in done.text
    assert "fixtures/prove/parity.py" not in done.text


def test_a_checkpoint_of_nan_stops_the_run_before_anything_is_converted(tmp_path: Path) -> None:
    nan = micro_weights(float("nan"), tmp_path / "nan.safetensors")
    done = suite(
        *("-k", f"{ONNX} and conversion", "--checkpoint", f"resnet50-micro={nan}"),
        repos=tmp_path / "repos",
        results=tmp_path,
    )
    assert done.status == pytest.ExitCode.USAGE_ERROR
    assert done.text.count("the checkpoint holds NaN or infinity") == 1
    assert str(nan) in done.text
    assert "Traceback" not in done.text


def test_a_bad_checkpoint_stops_the_run_with_one_error(repos: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pt"
    broken.write_bytes(b"PK\x03\x04 cut short")
    done = suite(
        "-k",
        "resnet50-micro and onnx",
        "--checkpoint",
        f"resnet50-micro={broken}",
        repos=repos,
        results=tmp_path,
    )
    assert done.status == pytest.ExitCode.USAGE_ERROR
    assert done.text.count("the checkpoint is truncated or not a PyTorch file") == 1
    assert str(broken) in done.text
    assert "1 error" in done.text
    assert " passed" not in done.text
    assert "Traceback" not in done.text


def test_the_trace_is_there_for_who_asks(repos: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pt"
    broken.write_bytes(b"cut short")
    given = ("-k", "resnet50-micro and onnx", "--checkpoint", f"resnet50-micro={broken}", "--full-trace")
    assert "fixtures/frameworks/pytorch.py" in suite(*given, repos=repos, results=tmp_path).text


def test_no_load_generator_is_one_error(repos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere.py").write_text(
        "from types import SimpleNamespace\n"
        "from fixtures.serve import wheels\n"
        "wheels.sys = SimpleNamespace(executable='/no/bin/python', version_info=wheels.sys.version_info)\n"
        "wheels.shutil = SimpleNamespace(which=lambda _name: None)\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    done = suite("-p", "elsewhere", "-k", f"{ONNX} and online", repos=repos, results=tmp_path)
    assert done.status == STATUS["infrastructure"]
    assert "the load tests need perf_analyzer, which is not installed" in done.text
    assert "1 failed" in done.text
    assert " error" not in done.text.splitlines()[-1]
    assert "Traceback" not in done.text


def test_an_empty_data_set_is_one_error_before_anything_is_converted(repos: Path, tmp_path: Path) -> None:
    given = ("-k", "cpu-resnet50-ts-trace-fp32 and conversion", "--dataset", f"resnet50={tmp_path}")
    done = suite(*given, repos=repos, results=tmp_path)
    assert done.status == pytest.ExitCode.USAGE_ERROR
    assert "the data set has 0 class folders" in done.text
    assert "convert" not in done.text.replace("test_conversion", "")
    assert "Traceback" not in done.text


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--triton", "kubernetes", "unknown server 'kubernetes'"),
        ("--triton", "local:/no/tritonserver", "there is no program '/no/tritonserver'"),
        ("--checkpoint", "resnet50=/no/such/file", "there is no such file"),
        ("--dataset", "vgg=/tmp", "unknown model 'vgg'"),
        ("--deployment", "instances=many", "instances is 'many'"),
        ("--batches", "one", "not a list of whole numbers"),
    ],
)
def test_a_bad_option_is_a_usage_error(
    option: str, value: str, said: str, repos: Path, tmp_path: Path
) -> None:
    done = suite(option, value, repos=repos, results=tmp_path)
    assert done.status == pytest.ExitCode.USAGE_ERROR
    assert said in done.text
    assert re.search("cure:|; use |; write ", done.text)
    assert "Traceback" not in done.text


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:99999"])
def test_a_server_that_is_not_there_is_one_error(address: str, repos: Path, tmp_path: Path) -> None:
    done = suite("-k", f"{ONNX} and b001-c001", "--triton", address, repos=repos, results=tmp_path)
    assert done.status in (STATUS["infrastructure"], pytest.ExitCode.USAGE_ERROR)
    assert f"--triton {address}" in done.text or "unknown server" in done.text
    assert "Traceback" not in done.text
