"""What bad use of the suite gets: one readable error, the right exit status, and nothing measured."""

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from fixtures.models import resnet50
from reports.run.exit_status import STATUS
from tests.whole_runs.suite import ONNX, suite


def micro_weights(change: float, path: Path) -> Path:
    """The committed weights with noise of `change` standard deviations."""
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
    assert done.text.count("the checkpoint, truncated or not a PyTorch file, cannot be read") == 1
    assert str(broken) in done.text
    assert "1 error" in done.text
    assert " passed" not in done.text
    assert "Traceback" not in done.text


def test_an_empty_data_set_is_one_error_before_anything_is_converted(repos: Path, tmp_path: Path) -> None:
    given = ("-k", "cpu-resnet50-ts-trace-fp32 and conversion", "--dataset", f"resnet50={tmp_path}")
    done = suite(*given, repos=repos, results=tmp_path)
    assert done.status == pytest.ExitCode.USAGE_ERROR
    assert "the data set has 0 class folders" in done.text
    assert "convert" not in done.text.replace("test_conversion", "")
    assert "Traceback" not in done.text


def test_a_bad_option_is_a_usage_error(repos: Path, tmp_path: Path) -> None:
    done = suite("--deployment", "instances=many", repos=repos, results=tmp_path)
    assert done.status == pytest.ExitCode.USAGE_ERROR
    assert "instances is 'many'" in done.text
    assert re.search("cure:|; use |; write ", done.text)
    assert "Traceback" not in done.text


def test_a_server_that_is_not_there_is_one_error(repos: Path, tmp_path: Path) -> None:
    done = suite("-k", f"{ONNX} and b001-c001", "--triton", "127.0.0.1:1", repos=repos, results=tmp_path)
    assert done.status == STATUS["infrastructure"]
    assert "--triton 127.0.0.1:1" in done.text
    assert "Traceback" not in done.text
