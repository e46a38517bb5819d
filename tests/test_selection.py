"""Ids are honest: a name on the command line selects what it says, and nothing else."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures import cases, targets
from fixtures.cases import is_asked_for, matrix_of, named_words, points_of, select_targets
from fixtures.models import all_models
from fixtures.spec import LoadPoint, Target

ROOT = Path(__file__).parent.parent
EVERY = (*targets.TARGETS, targets.OTHER_GPU)


def collect(*arguments: str) -> tuple[list[str], str]:
    """The ids that a run would have, and all it printed."""
    command = [sys.executable, "-m", "pytest", "benchmarks", "--collect-only", "-q", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return re.findall(r"^benchmarks/\S+$", done.stdout, re.MULTILINE), done.stdout + done.stderr


@pytest.mark.parametrize("target", EVERY, ids=lambda target: target.name)
def test_a_target_named_alone_is_the_only_one_selected(target: Target) -> None:
    assert select_targets(named_words(target.name), present=(targets.CPU,)) == (target,)
    assert select_targets(named_words(f"{target.name}-resnet50-onnx"), (targets.CPU,)) == (target,)
    assert select_targets(named_words(f"({target.name} and onnx)"), (targets.CPU,)) == (target,)


def test_a_model_whose_name_holds_a_targets_letters_names_no_target() -> None:
    assert select_targets(named_words("bert-dist4l"), (targets.CPU,)) == (targets.CPU,)


def test_a_target_that_is_excluded_is_not_named() -> None:
    assert select_targets(named_words("onnx and not a100"), (targets.CPU,)) == (targets.CPU,)
    assert select_targets(named_words("not (a100 or t4)"), (targets.CPU,)) == (targets.CPU,)


def test_nothing_named_selects_the_first_target_of_the_machine() -> None:
    a100 = targets.recognise("NVIDIA A100-SXM4-80GB")
    assert select_targets(named_words(""), (a100, targets.CPU)) == (a100,)


def test_a_test_id_on_the_command_line_names_its_target_and_its_model() -> None:
    words = named_words("", ["benchmarks/test_online.py::test_online[a30-resnet50-onnx-fp16-b001-c016]"])
    assert [target.name for target in select_targets(words, (targets.CPU,))] == ["a30"]


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("A100-PCIE-40GB", "a100"),
        ("NVIDIA A10", "gpu"),
        ("NVIDIA A30", "a30"),
        ("NVIDIA A40", "a40"),
        ("Tesla T4", "t4"),
        ("Tesla V100-SXM2-32GB", "v100"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L40", "gpu"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA GeForce RTX 4090", "gpu"),
        (None, "cpu"),
    ],
)
def test_a_device_is_recognised_by_the_name_its_driver_reports(reported: str | None, name: str) -> None:
    assert targets.recognise(reported).name == name


def test_full_size_models_run_on_a_cpu_only_when_they_are_named() -> None:
    full = next(model for model in all_models() if not model.micro)
    a100 = targets.recognise("NVIDIA A100")
    assert not is_asked_for(full, targets.CPU, (), ())
    assert not is_asked_for(full, targets.CPU, named_words("onnx and fp32"), ())
    assert is_asked_for(full, targets.CPU, named_words(f"cpu and {full.name} and not micro"), ())
    assert is_asked_for(full, targets.CPU, (), given=[full.name])
    assert is_asked_for(full, a100, (), ())


def test_every_name_of_every_case_is_unique_and_fit_for_a_file() -> None:
    names = [str(case) for target in EVERY for case in cases.cases_of(target)]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)


def test_every_case_has_a_tolerance_a_floor_and_a_matrix() -> None:
    for target in EVERY:
        for case in cases.cases_of(target):
            assert case.precision in case.format.tolerances, case
            assert case.model.floors[case.precision].source, case
            matrix = matrix_of(case.model, target)
            assert max(matrix.batches) <= matrix.deployment.max_batch_size, case


def test_load_points_are_numbered_so_that_they_sort() -> None:
    assert str(LoadPoint("offline", 8, 1)) == "b008-c001"
    assert [str(p) for p in points_of("online", [4, 256])] == ["b001-c004", "b001-c256"]


def test_the_published_matrix_of_resnet50_is_kept() -> None:
    resnet50 = next(model for model in all_models() if model.name == "resnet50")
    for name in ("NVIDIA A40", "NVIDIA A100", "Tesla V100", "Tesla T4"):
        matrix = matrix_of(resnet50, targets.recognise(name))
        assert matrix.batches == (1, 2, 4, 8, 16, 32, 64, 128)
        assert matrix.concurrencies == tuple(range(16, 257, 16))
        assert matrix.deployment.max_batch_size == 128
        assert matrix.deployment.preferred_batch_sizes == (64, 128)
        assert matrix.deployment.max_queue_delay_us == 1


def test_collecting_imports_none_of_the_heavy_packages() -> None:
    heavy = "torch onnx onnxruntime onnxscript tensorrt tensorflow tritonclient sklearn pandas scipy PIL"
    code = (
        "import sys, pytest; pytest.main(['benchmarks', '--collect-only', '-q']); "
        f"print('LOADED', [name for name in {heavy.split()!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "LOADED []" in done.stdout


def test_a_run_on_this_machine_keeps_each_case_together_in_the_order_of_its_stages() -> None:
    ids, _ = collect("-k", "cpu and resnet50-micro and onnx", "--batches", "1,16", "--concurrencies", "4")
    stages = ["test_conversion", "test_accuracy", "test_online", "test_offline", "test_offline"]
    assert [re.findall(r"::(\w+)", one)[0] for one in ids] == stages * 2
    assert all("onnx-fp32" in one for one in ids[:5])


def test_other_hardware_by_name_is_collected_and_nothing_else_is() -> None:
    ids, _ = collect("-k", "l4")
    assert ids
    assert all("[l4-" in one for one in ids)


def test_other_hardware_skips_and_says_what_it_needs() -> None:
    command = [sys.executable, "-m", "pytest", "benchmarks", "-k", "v100 and resnet50-micro"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "needs NVIDIA V100; this machine has" in done.stdout
    assert re.search(r"= \d+ skipped", done.stdout)
    assert " passed" not in done.stdout


def test_what_is_left_out_is_said_in_a_line() -> None:
    _, printed = collect("-k", "onnx")
    assert "other hardware is left out (-k NAME selects it): a30 a40 a100" in printed
    assert "full-size models are left out on a CPU (-k NAME selects one): resnet50" in printed


def test_a_batch_over_the_largest_is_refused_with_the_cure() -> None:
    _, printed = collect("-k", "resnet50-micro", "--batches", "64")
    assert "batch 64 is larger than the largest batch of resnet50-micro, 32" in printed
    assert "--deployment max_batch_size=64" in printed
