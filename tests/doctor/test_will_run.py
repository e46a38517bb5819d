"""The doctor's last words on a machine with a GPU: what will run, and what makes the rest run."""

import dataclasses
from typing import Any

import pytest

from fixtures.doctor import __main__ as doctor
from fixtures.doctor import will_run
from fixtures.doctor.finding import ok
from fixtures.formats import all_formats
from fixtures.frameworks import tensorrt
from fixtures.frameworks.tensorrt import TensorRT
from fixtures.serve.choice import Choice
from tests.doctor.conftest import Docker
from tests.fake_nvml import Nvml

EMBEDDED = Choice("embedded")
TOOLKIT: dict[str, Any] = {"Runtimes": {"nvidia": {}}}


@pytest.fixture
def every_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is missing that some environment has."""
    whole = [dataclasses.replace(one, missing=lambda *_: None) for one in all_formats()]
    monkeypatch.setattr("fixtures.formats.all_formats", lambda: whole)


def said(choice: Choice = EMBEDDED) -> list[str]:
    return list(will_run.on_this_gpu(choice, []))


def test_packages_for_cpus_run_nothing_and_the_environment_for_the_gpu_and_driver_is_named(
    a100: Nvml,
) -> None:
    lines = said()

    assert lines[0] == "this will run on NVIDIA A100-SXM4-80GB: nothing"
    assert any("ts-trace-fp32, ts-trace-fp16" in line and "the build for CPUs" in line for line in lines)
    assert lines[-1].endswith("tox run -e benchmarks-gpu-cuda12-trt")
    a100.cuda_version = 13000
    assert said()[-1].endswith("tox run -e benchmarks-gpu-trt")


def test_what_runs_is_said_by_format_and_precision(a100: Nvml, every_package: None) -> None:
    first, *rest = said()

    for name in ("onnx-fp32", "onnx-fp16", "onnx-trt-fp16", "trt-fp16", "ts-script-fp32", "pt2-fp16"):
        assert name in first.split(": ")[1].split(", ")
    assert all("tox run" not in line for line in rest), "there is nothing to install"
    (left_out,) = (line for line in rest if "tf-trt-fp16" in line)
    assert "out of reach" in left_out


def test_a_v100_is_told_what_no_environment_has_for_it(a100: Nvml, every_package: None) -> None:
    a100.capabilities = {"GPU-aaaa": (7, 0)}
    (line,) = (line for line in said() if "onnx-trt-fp16" in line)

    assert line.startswith("this will not: ")
    assert "Volta" in line


def test_a_container_is_asked_for_its_backends_and_its_tensorrt(
    a100: Nvml, every_package: None, docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorrt, "installed", lambda: TensorRT("tensorrt-cu13", "10.16.1.11"))
    docker(TOOLKIT, ["NVIDIA_TRITON_SERVER_VERSION=24.10", "TRT_VERSION=10.5.0.18"])
    lines = said(Choice("docker"))
    reasons = {name: line for line in lines[1:] for name in line.split(": ")[1].split(", ")}

    assert "onnx-trt-fp16" in lines[0]
    assert "embedded, local or HOST:PORT" in reasons["pt2-fp32"]
    assert "tensorrt-cu12==10.5.0.*" in reasons["trt-fp16"]


def test_with_a_problem_it_is_said_that_it_comes_first(a100: Nvml, every_package: None) -> None:

    assert "once these problems are cured: Triton: onnx" in next(will_run.on_this_gpu(EMBEDDED, ["Triton"]))


@pytest.fixture
def without_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "checks", lambda _choice: iter([("CPU", lambda: ok("fast"))]))


def test_the_doctor_of_a_gpu_ends_in_what_will_run(
    a100: Nvml, without_checks: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor.main(["--triton", "embedded"]) == 0
    _, last_words = capsys.readouterr().out.split("the benchmarks can run\n")
    assert "this will run on NVIDIA A100-SXM4-80GB" in last_words


def test_the_doctor_of_a_cpu_ends_as_ever(
    without_checks: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert doctor.main(["--triton", "embedded"]) == 0
    assert capsys.readouterr().out.endswith("the benchmarks can run\n")
