"""Ids are honest: a name on the command line selects what it says, and nothing else."""

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from fixtures import cases
from fixtures.cases import is_asked_for, matrix_of, named_words, points_of, precisions_of, select_targets
from fixtures.formats import all_formats
from fixtures.host import targets
from fixtures.models import all_models
from fixtures.spec import Case, LoadPoint, Target
from reports import published

ROOT = Path(__file__).parents[2]
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


def some_case(target: Target, *, micro: bool, mnemonic: str = "onnx") -> Case:
    """The first case of a target with a model of that size and a format of that name."""
    every = cases.cases_of(target)
    return next(c for c in every if c.model.micro is micro and c.format.mnemonic == mnemonic)


def test_full_size_models_run_on_a_cpu_only_when_they_are_named() -> None:
    full = some_case(targets.CPU, micro=False)
    name = full.model.name
    assert not is_asked_for(full, (), ())
    assert not is_asked_for(full, named_words("onnx and fp32"), ())
    assert is_asked_for(full, named_words(f"cpu and {name} and not micro"), ())
    assert is_asked_for(full, (), given=[name])
    assert is_asked_for(some_case(targets.recognise("NVIDIA H200"), micro=False), (), ())


def test_a_model_may_exclude_a_format_or_one_precision_of_it() -> None:
    models = {model.name: model for model in all_models()}
    formats = {format_.mnemonic: format_ for format_ in all_formats()}
    micro, full = models["nnunet-micro"], models["nnunet"]
    assert precisions_of(micro, formats["ts-trace"], "cpu") == ["fp32"]
    assert precisions_of(full, formats["ts-trace"], "cpu") == ["fp32", "bf16"]
    assert precisions_of(micro, formats["pt2"], "cpu") == ["bf16"]
    assert precisions_of(models["bert-dist4l"], formats["ts-script"], "cpu") == []
    assert precisions_of(models["resnet50-tf"], formats["pt2"], "cpu") == []


def test_what_was_not_published_runs_on_published_hardware_only_when_it_is_named() -> None:
    a100 = targets.recognise("NVIDIA A100")
    micro, script = some_case(a100, micro=True), some_case(a100, micro=False, mnemonic="ts-script")
    assert script.model.name == "nnunet" or not cases.is_published(script)
    pt2 = some_case(a100, micro=False, mnemonic="pt2")
    for case in (micro, pt2):
        assert not is_asked_for(case, named_words("a100"), ())
    assert is_asked_for(pt2, named_words("a100 and pt2"), ())
    assert is_asked_for(micro, named_words(f"a100 and {micro.model.name}"), ())


@pytest.mark.parametrize("name", ["a30", "a40", "a100", "v100", "t4"])
def test_a_published_target_named_alone_selects_exactly_what_was_published(name: str) -> None:
    every = published.load()
    rows = every[every.gpu == name]
    # The sources call the engine of a TorchScript model `cuda`, and TensorFlow-TensorRT is in the format's name.
    implied = (rows.accelerator == "cuda") | (rows.format == "tf-trt")
    rows = rows.assign(accelerator=rows.accelerator.mask(implied))
    parts = ["model", "format", "accelerator", "precision"]
    wanted = {
        "-".join([name, *(str(part) for part in row if not pd.isna(part))])
        for row in rows[parts].itertuples(index=False)
    }
    target = next(target for target in targets.TARGETS if target.name == name)
    selected = [case for case in cases.cases_of(target) if is_asked_for(case, named_words(name), ())]

    assert {str(case) for case in selected} == wanted
    for case in selected:
        own = rows[
            (rows.model == case.model.name)
            & (rows.format == case.format.mnemonic)
            & (rows.accelerator.fillna("") == (case.accelerator or ""))
            & (rows.precision == case.precision)
        ]
        matrix = matrix_of(case.model, target)
        assert list(matrix.batches) == sorted(own[own.scenario == "offline"].batch.unique()), case
        online = sorted(own[own.scenario == "online"].concurrency.unique())
        assert not online or list(matrix.concurrencies) == online, case
        deployment = matrix.deployment
        assert set(own.max_batch_size.dropna()) <= {deployment.max_batch_size}, case
        assert set(own.instances.dropna()) <= {deployment.instances}, case
        assert set(own.max_queue_delay_us.dropna()) <= {deployment.max_queue_delay_us}, case
        sizes = " ".join(map(str, deployment.preferred_batch_sizes))
        assert set(own.preferred_batch_sizes.dropna()) <= {sizes}, case


@pytest.mark.parametrize("name", ["h100", "h200", "l4", "l40s", "b200", "gpu"])
def test_newer_hardware_takes_every_case_and_the_widest_matrix(name: str) -> None:
    target = next(target for target in EVERY if target.name == name)
    a100 = targets.recognise("NVIDIA A100")
    own = list(cases.cases_of(target))

    assert all(is_asked_for(case, named_words(name), ()) for case in own)
    assert len(own) == len(list(cases.cases_of(a100)))
    for case in own:
        wide, narrow = matrix_of(case.model, target), matrix_of(case.model, a100)
        assert set(wide.batches) >= set(narrow.batches)
        assert set(wide.concurrencies) >= set(narrow.concurrencies)


def test_every_name_of_every_case_is_unique_and_fit_for_a_file() -> None:
    names = [str(case) for target in EVERY for case in cases.cases_of(target)]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)


def test_every_case_has_a_tolerance_a_floor_and_a_matrix() -> None:
    for target in EVERY:
        for case in cases.cases_of(target):
            assert case.tolerance.source, case
            assert case.model.metrics[0].limits[case.precision].source, case
            matrix = matrix_of(case.model, target)
            assert max(matrix.batches) <= matrix.deployment.max_batch_size, case


def test_load_points_are_numbered_so_that_they_sort() -> None:
    assert str(LoadPoint("offline", 8, 1)) == "b008-c001"
    assert [str(p) for p in points_of("online", [4, 256])] == ["b001-c004", "b001-c256"]


def test_collecting_imports_none_of_the_heavy_packages() -> None:
    heavy = "torch onnx onnxruntime onnxscript tensorrt tensorflow tritonclient sklearn pandas scipy PIL "
    heavy += "transformers tokenizers monai torchmetrics nibabel keras tf2onnx"
    code = (
        "import sys, pytest; pytest.main(['benchmarks', '--collect-only', '-q']); "
        f"print('LOADED', [name for name in {heavy.split()!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "LOADED []" in done.stdout


def test_a_run_on_this_machine_keeps_each_case_together_in_the_order_of_its_stages() -> None:
    ids, _ = collect("-k", "cpu and resnet50-micro and onnx", "--batches", "1,16", "--concurrencies", "4")
    stages = ["test_conversion", "test_accuracy", "test_online", *["test_offline"] * 2, "test_efficiency"]
    assert [re.findall(r"::(\w+)", one)[0] for one in ids] == stages * 2
    assert all("onnx-fp32" in one for one in ids[:6])


def test_other_hardware_by_name_is_collected_and_nothing_else_is() -> None:
    ids, _ = collect("-k", "l4")
    assert ids
    assert all("[l4-" in one for one in ids)


def test_other_hardware_skips_and_says_what_it_needs() -> None:
    command = [sys.executable, "-m", "pytest", "benchmarks", "-k", "v100 and resnet50-micro"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, "a run that proves nothing is not green"
    assert "nothing was proven, all of" in done.stdout
    assert "needs NVIDIA V100; this machine has" in done.stdout
    assert re.search(r"= \d+ skipped", done.stdout)
    assert " passed" not in done.stdout


def test_what_is_left_out_is_said_in_a_line() -> None:
    _, printed = collect("-k", "onnx")
    assert "other hardware is left out (-k NAME selects it): a30 a40 a100" in printed
    assert "full-size models are left out on a CPU (-k NAME selects one): bert-dist4l" in printed


def test_a_batch_over_the_largest_is_refused_with_the_cure() -> None:
    _, printed = collect("-k", "resnet50-micro", "--batches", "64")
    assert "batch 64 is larger than the largest batch of resnet50-micro, 32" in printed
    assert "--deployment max_batch_size=64" in printed
