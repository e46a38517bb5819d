"""A rehearsal goes as far as a machine without the GPU can, says what is left, and never looks like a measurement."""

import dataclasses
import shlex
from pathlib import Path
from typing import Any

import pytest

from fixtures.cases import cases_of, is_asked_for, matrix_of, points_of
from fixtures.errors import ProofError
from fixtures.formats import all_formats
from fixtures.frameworks.cuda_libraries import gpu_environment
from fixtures.host.targets import EVERY_TARGET, TARGETS
from fixtures.rehearsal.case import Asked, Rehearsed, rehearse
from fixtures.rehearsal.checklist import checklist
from fixtures.spec import Case, ConversionJob, Target, Weights
from tests.collecting import Collect
from tests.docs.test_docs import environments

GPUS = {target.name: target for target in EVERY_TARGET if target.device == "cuda"}
WEIGHTS = Weights(network=None, origin="none", digest="0", trained=True)


def case_named(name: str) -> Case:
    """The case of a GPU by its name."""
    (found,) = (case for target in GPUS.values() for case in cases_of(target) if str(case) == name)
    return found


def without_exporting(case: Case) -> Case:
    """The case, in a format that writes a file at once."""

    def convert(_job: ConversionJob, path: Path) -> None:
        path.write_bytes(b"0")

    return dataclasses.replace(case, format=dataclasses.replace(case.format, before_gpu=convert))


def rehearsed(case: Case, **changes: Any) -> Rehearsed:
    """What a rehearsal finds of a case, with the load points and settings of its matrix."""
    matrix = matrix_of(case.model, case.target)
    asked = Asked("", "system", Path("/models"), Path("/results"))
    points = [*points_of("offline", matrix.batches), *points_of("online", matrix.concurrencies)]
    return rehearse(case, lambda: WEIGHTS, matrix.deployment, points, dataclasses.replace(asked, **changes))


def listing(found: Rehearsed, step: str) -> str:
    (text,) = (one.listing for one in found.steps if one.name == step)
    return text


@pytest.fixture
def command_line(tmp_path: Path, temporary: Path) -> Any:
    """Rehearse by a command line; gives its status and its checklist."""

    def run(*arguments: str) -> tuple[int, str]:
        path = tmp_path / "checklist.md"
        folders = [f"--results={tmp_path / 'results'}", f"--model-repos={tmp_path / 'repos'}"]
        plain = ["-q", "-p", "no:cacheprovider", "-p", "no:unraisableexception"]
        status = pytest.main(
            ["benchmarks", "--rehearse", f"--checklist={path}", *folders, *plain, *arguments]
        )
        return int(status), path.read_text() if path.is_file() else ""

    return run


def test_a_case_of_an_a100_goes_all_the_way_and_leaves_nothing_but_its_checklist(
    command_line: Any, tmp_path: Path, temporary: Path
) -> None:
    status, text = command_line("--target", "a100", "-k", "resnet50-micro and ts-trace")
    assert status == 0
    assert "0 failed at something that this machine can do" in text
    for precision in ("FP32", "FP16"):
        name = f"a100-resnet50-micro-ts-trace-{precision.lower()}"
        assert f"- [x] conversion: converted to {precision} on the CPU, " in text
        assert f".venv/bin/tox run -e benchmarks-gpu -- --target a100 -k {name} --triton docker" in text
        assert f"a100/{name}.json" in text
    assert "- [x] opening: PyTorch opens it on the CPU" in text
    assert "PyTorch has kernels for this GPU" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checklist.md", "temporary"]
    assert not list(temporary.rglob("tritonproof-rehearsal-*"))


def test_a_checklist_has_no_figure_that_a_measurement_has(command_line: Any) -> None:
    _, text = command_line("--target", "a100", "-k", "resnet50-micro and trt-fp16 and not onnx")
    assert "- [x] conversion: exported for FP16, " in text
    assert "nothing was measured" in text
    for unit in ("infer/s", " ms", "top-1", "%"):
        assert unit not in text


def test_fp32_is_served_as_the_target_computes_it_and_not_as_this_machine_does(
    command_line: Any, tmp_path: Path
) -> None:
    broken = (
        tmp_path / "weights.safetensors"
    )  # converting takes no time, and does not decide how it would be served
    broken.touch()
    given = ("-k", "resnet50-micro and ts-trace-fp32", f"--checkpoint=resnet50-micro={broken}")
    _, ampere = command_line("--target", "a100", *given)
    _, turing = command_line("--target", "t4", *given)
    assert all("- [x] docker: " in text for text in (ampere, turing))
    assert "--env=TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1" in ampere
    assert "TF32" not in turing


def test_a_case_that_fails_here_is_listed_with_its_reason_and_ends_no_other(
    command_line: Any, tmp_path: Path
) -> None:
    broken = tmp_path / "weights.safetensors"
    broken.write_bytes(b"no weights")
    status, text = command_line(
        "--target=a100", "-k", "resnet50-micro and ts-trace", f"--checkpoint=resnet50-micro={broken}"
    )
    assert status == 1
    assert "2 failed at something that this machine can do" in text
    assert text.count("- [ ] **failed here**: conversion: ") == 2
    assert text.count("- [x] docker: ") == 2
    assert f"--checkpoint resnet50-micro={broken}" in text, "the run there is given it too"


def test_a_checklist_that_cannot_be_written_is_said_before_the_first_case(
    command_line: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.touch()
    broken = f"--checkpoint=resnet50-micro={file}"  # which takes no time
    status, _ = command_line(
        "--target=a100", "-k", "resnet50-micro and ts-trace", broken, f"--checklist={file}/checklist.md"
    )
    assert status == pytest.ExitCode.USAGE_ERROR
    said = "".join(capfd.readouterr())
    assert f"--checklist {file}/checklist.md" in said
    assert "nothing can be written there" in said
    assert "ts-trace-fp32: failed" not in said


def test_without_a_file_the_checklist_is_printed(
    temporary: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "weights").touch()
    status = pytest.main(
        [
            *("benchmarks", "--rehearse", "-q", "-p", "no:cacheprovider", "-p", "no:unraisableexception"),
            *("--target=a100", "-k", "resnet50-micro and ts-trace-fp16"),
            *(f"--checkpoint=resnet50-micro={tmp_path / 'weights'}", f"--results={tmp_path / 'results'}"),
        ]
    )
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "# Rehearsal for NVIDIA A100" in capfd.readouterr().out


def test_what_an_exporter_says_cannot_break_the_checklist() -> None:
    def convert(_job: ConversionJob, _path: Path) -> None:
        raise ProofError("<b>\x1b[31mno\x1b[0m</b>" + "long " * 1000)

    case = case_named("a100-resnet50-micro-ts-trace-fp16")
    found = rehearsed(dataclasses.replace(case, format=dataclasses.replace(case.format, before_gpu=convert)))
    (line,) = (line for line in checklist([found]).splitlines() if "failed here" in line)
    assert found.has_failed
    assert "<b>" not in line.replace("\\<b>", ""), "it is escaped"
    assert "\x1b" not in line
    assert len(line) < 1000


@pytest.mark.parametrize("target", GPUS.values(), ids=lambda target: target.name)
def test_every_gpu_has_a_checklist(target: Target) -> None:
    asked_for = [case for case in cases_of(target) if is_asked_for(case, (), ())]
    one_of_each_format = {(case.format.mnemonic, case.accelerator): case for case in asked_for}.values()
    found = [rehearsed(without_exporting(case)) for case in one_of_each_format]
    text = checklist(found)
    assert found
    assert not [one for one in found if one.has_failed], text
    assert f"# Rehearsal for {target.label}" in text
    for one in found:
        assert f"## `{one.case}`" in text
        assert one.environment in environments()


@pytest.mark.parametrize("format_", all_formats(), ids=lambda one: one.mnemonic)
def test_every_format_of_a_gpu_says_what_only_the_gpu_can_answer(format_: Any) -> None:
    if "cuda" in format_.precisions:
        assert set(format_.first_on_gpu) == {None, *format_.accelerators.get("cuda", ())}


@pytest.mark.parametrize("name", ["a100-bert-dist4l-trt-fp16", "a100-resnet50-micro-onnx-trt-fp16"])
def test_the_command_for_the_gpu_runs_that_case_alone(name: str, collect: Collect) -> None:
    found = rehearsed(without_exporting(case_named(name)))
    collected = collect(*shlex.split(found.options))
    cases = {str(item.callspec.params["case"]) for item in collected.selected if hasattr(item, "callspec")}
    assert cases == {name}


def test_the_container_is_one_that_runs_on_the_gpu_and_knows_its_options() -> None:
    def docker(name: str, **asked: str) -> list[str]:
        return shlex.split(listing(rehearsed(without_exporting(case_named(name)), **asked), "docker"))

    newest = "nvcr.io/nvidia/tritonserver:26.04-py3"
    assert "nvcr.io/nvidia/tritonserver:24.10-py3" in docker("a100-resnet50-micro-onnx-fp16")
    assert "nvcr.io/nvidia/tritonserver:25.02-py3" in docker("b200-resnet50-micro-onnx-fp16")
    assert "--allow-client-shm=true" in docker("a100-resnet50-micro-onnx-fp16", image=newest)
    assert "--allow-client-shm=true" not in docker("a100-resnet50-micro-onnx-fp16")
    assert '--gpus="device=GPU-UUID-0"' in docker("a100-resnet50-micro-onnx-fp16")
    refused = rehearsed(without_exporting(case_named("v100-resnet50-micro-onnx-fp16")), image=newest)
    assert "need 7.5" in next(step.found for step in refused.steps if step.state == "failed")


def test_a_format_without_a_native_backend_is_no_failure() -> None:
    found = rehearsed(without_exporting(case_named("a100-resnet50-micro-pt2-fp16")))
    assert not found.has_failed
    assert [step.name for step in found.steps if step.state == "left out"] == [
        "config.pbtxt, native backend",
        "docker",
    ]
    assert "--triton docker" not in checklist([found])


def test_each_load_point_has_its_command_of_perf_analyzer() -> None:
    case = case_named("a100-bert-dist4l-onnx-fp16")
    matrix = matrix_of(case.model, case.target)
    lines = [
        shlex.split(line)
        for line in listing(rehearsed(without_exporting(case)), "perf_analyzer").splitlines()
    ]
    points = {(line[line.index("-b") + 1], line[line.index("--concurrency-range") + 1]) for line in lines}
    assert points == {(str(batch), "1") for batch in matrix.batches} | {
        ("1", str(concurrency)) for concurrency in matrix.concurrencies
    }


@pytest.mark.parametrize(
    ("name", "reason"),
    [("v100-bert-dist4l-onnx-trt-fp16", "NVIDIA Volta"), ("a100-resnet50-tf-tf-trt-fp16", "TF-TRT")],
)
def test_what_skips_on_the_gpu_too_has_nothing_to_run_there(name: str, reason: str) -> None:
    text = checklist([rehearsed(without_exporting(case_named(name)))])
    assert "1 skip on the GPU too" in text
    assert reason in text
    assert f"-k {name}" not in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--target=cpu"], "a CPU's cases run on this machine"),
        (["--target=a100", "-n2"], "one case after another"),
    ],
)
def test_what_cannot_be_rehearsed_is_refused(
    command_line: Any, arguments: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    status, text = command_line(*arguments)
    assert status == pytest.ExitCode.USAGE_ERROR
    assert not text
    assert said in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("gpu", "driver_cuda", "environment"),
    [
        ("a100", 13, "benchmarks-gpu-trt"),
        ("a100", 12, "benchmarks-gpu-cuda12-trt"),
        ("a100", None, "benchmarks-gpu-trt"),
        ("v100", 13, "benchmarks-gpu-cuda12-trt"),
    ],
)
def test_an_environment_is_for_the_gpu_and_its_driver(
    gpu: str, driver_cuda: int | None, environment: str
) -> None:
    (target,) = (one for one in TARGETS if one.name == gpu)
    assert gpu_environment(target.compute_capability, driver_cuda, tensorrt=True) == environment
