"""Cases by hardware, and default selection."""

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from fixtures import selection
from fixtures.selection import is_selected, positive_words
from tests import toy
from tests.helpers import ROOT, WITHOUT, Collect, settings
from tests.user_models.written_files import write
from tritonproof import cases
from tritonproof.accuracy.precisions import tolerance_of
from tritonproof.cases import precisions_of, profile_of
from tritonproof.formats import all_formats
from tritonproof.frameworks import pytorch
from tritonproof.host import targets
from tritonproof.host.machine import version_of
from tritonproof.host.targets import EVERY_TARGET
from tritonproof.models import all_models
from tritonproof.reports import published
from tritonproof.settings.case_settings import load_points
from tritonproof.spec import ServingProfile


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("A100-PCIE-40GB", "a100"),
        ("NVIDIA X999", "gpu"),
        ("Tesla T4", "t4"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L40", "gpu"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA GeForce RTX 4090", "gpu"),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", "mig"),
        (None, "cpu"),
    ],
)
def test_device_is_recognized_by_its_driver_name(reported: str | None, name: str) -> None:
    assert targets.recognise(reported).name == name


@pytest.mark.parametrize(
    ("case_id", "words", "given", "runs"),
    [
        ("cpu-resnet50-onnx-fp32", "", [], False),
        ("cpu-resnet50-onnx-fp32", "onnx and fp32", [], False),
        ("cpu-resnet50-onnx-fp32", "cpu and resnet50 and not micro", [], True),
        ("cpu-resnet50-onnx-fp32", "", ["resnet50"], True),
        ("h200-resnet50-onnx-fp32", "", [], True),
        # It computes like another.
        ("cpu-resnet50-micro-ts-script-fp32", "", [], False),
        ("cpu-resnet50-micro-ts-script-fp32", "onnx or int8", [], False),
        ("cpu-resnet50-micro-ts-script-fp32", "ts-script", [], True),
        ("cpu-resnet50-micro-ts-script-fp32", "resnet50-micro", [], True),
        ("h200-resnet50-micro-ts-script-fp32", "", [], True),
    ],
)
def test_full_size_model_and_format_like_another_run_on_cpu_only_if_named(
    case_id: str, words: str, given: list[str], runs: bool
) -> None:
    hardware = next(known for known in EVERY_TARGET if known.name == case_id.partition("-")[0])
    case = next(case for case in cases.cases_of(hardware) if str(case) == case_id)
    assert is_selected(case, positive_words(words), given, all_models()) == runs


def test_model_may_exclude_a_format_or_precision() -> None:
    models = {model.name: model for model in all_models()}
    formats = {format_.name: format_ for format_ in all_formats()}
    micro, full = models["nnunet-micro"], models["nnunet"]
    assert precisions_of(micro, formats["ts-trace"], "cpu") == ["fp32"]
    assert precisions_of(full, formats["ts-trace"], "cpu") == ["fp32", "bf16"]
    assert precisions_of(micro, formats["pt2"], "cpu") == ["bf16"]
    assert precisions_of(models["bert-dist4l"], formats["ts-script"], "cpu") == []
    assert precisions_of(models["resnet50-tf"], formats["pt2"], "cpu") == []


@pytest.mark.parametrize("name", ["a30", "a40", "a100", "v100", "t4"])
def test_published_target_selects_what_was_published(name: str) -> None:
    table = pd.DataFrame(published.rows())
    rows = table[table.gpu == name]
    # The sources call a TorchScript model's engine `cuda`; TensorFlow-TensorRT is part of the format's name.
    implied = (rows.accelerator == "cuda") | (rows.format == "tf-trt")
    rows = rows.assign(accelerator=rows.accelerator.mask(implied))
    parts = rows[["model", "format", "accelerator", "precision"]].itertuples(index=False)
    rows["case"] = ["-".join([name, *(str(part) for part in row if not pd.isna(part))]) for row in parts]
    target = next(target for target in EVERY_TARGET if target.name == name)
    words = positive_words(name)
    selected = [case for case in cases.cases_of(target) if is_selected(case, words, (), all_models())]

    assert {str(case) for case in selected} == set(rows["case"])
    for case in selected:
        own = rows[rows["case"] == str(case)]
        matrix = profile_of(case.model, target)
        assert list(matrix.batches) == sorted(own[own.scenario == "offline"].batch.unique()), case
        online = sorted(own[own.scenario == "online"].concurrency.unique())
        assert not online or list(matrix.concurrencies) == online, case
        deployment = matrix.deployment
        assert set(own.max_batch_size.dropna()) <= {deployment.max_batch_size}, case
        assert set(own.instances.dropna()) <= {deployment.instances}, case
        assert set(own.max_queue_delay_us.dropna()) <= {deployment.max_queue_delay_us}, case
        sizes = " ".join(map(str, deployment.preferred_batch_sizes))
        assert set(own.preferred_batch_sizes.dropna()) <= {sizes}, case


def test_case_names_are_unique_and_valid_file_names() -> None:
    names = [str(case) for target in EVERY_TARGET for case in cases.cases_of(target)]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)


def test_every_case_has_tolerance_floor_and_matrix() -> None:
    for target in EVERY_TARGET:
        for case in cases.cases_of(target):
            assert tolerance_of(case, case.precision).source, case
            assert case.model.metrics[0].limits[case.precision].source, case
            matrix = profile_of(case.model, target)
            assert max(matrix.batches) <= matrix.deployment.max_batch_size, case


def test_collection_imports_no_heavy_packages() -> None:
    heavy = "torch onnx onnxruntime onnxscript tensorrt tensorflow tritonclient sklearn pandas scipy PIL "
    heavy += "transformers tokenizers monai torchmetrics nibabel keras tf2onnx google.protobuf grpc rich "
    heavy += "markdown_it matplotlib ruptures yaml"
    code = (
        "import sys, pytest; pytest.main(['benchmarks', '--collect-only', '-q']); "
        f"print('LOADED', [name for name in {heavy.split()!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "LOADED []" in done.stdout


def test_absent_hardware_skips_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    status = pytest.main(["benchmarks", "--target", "v100", "-k", "resnet50-micro and onnx", *WITHOUT])
    assert status == pytest.ExitCode.NO_TESTS_COLLECTED, "a run that proves nothing is not green"
    text = capsys.readouterr().out
    assert " passed" not in text
    skip_lines = [line for line in text.splitlines() if line.startswith("SKIPPED ")]
    assert len(skip_lines) == 1, "the same reason is listed for every test"
    assert "needs NVIDIA V100" in skip_lines[0]


@pytest.mark.skipif(version_of("onnxruntime-gpu") is not None, reason="has the packages for a GPU")
def test_cpu_packages_skip_every_gpu_case_with_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    a100 = next(target for target in EVERY_TARGET if target.name == "a100")
    monkeypatch.setattr(targets, "present_targets", lambda: (a100,))
    monkeypatch.setattr(pytorch, "cuda_of_torch", lambda: "")

    for case in cases.cases_of(a100):
        fix = "docs/gpus.md" if case.format.name.startswith("tf-") else "tox run -e benchmarks-gpu"
        assert fix in str(selection.why_unavailable(case, ())), case


def test_omitted_full_size_models_are_listed(collect: Collect) -> None:
    def left_out(*arguments: str) -> str:
        lines = collect(*arguments).text.splitlines()
        return next((line for line in lines if line.startswith("full-size models")), "")

    assert "bert-dist4l" in left_out("--target", "cpu", "-k", "onnx")
    assert "bert-dist4l" not in left_out("-k", "cpu and bert-dist4l and onnx")


@pytest.mark.parametrize(("expression", "is_refused"), [("not speed", True), ("speed", False)])
def test_comparison_that_no_selected_test_makes_is_refused(
    expression: str, is_refused: bool, collect: Collect
) -> None:
    words = ("-k", "micro and onnx and fp32", "-m", expression, "--against-triton", "embedded")
    collected = collect(*words)
    assert (collected.status == pytest.ExitCode.USAGE_ERROR) == is_refused, collected.text
    assert ("where: --against-triton" in collected.text) == is_refused


@pytest.mark.parametrize(
    ("paths", "arguments", "fix"),
    [
        (("benchmarks",), ("-k", "search"), "--latency-budget-ms"),
        (("benchmarks/test_search.py",), (), "--latency-budget-ms"),
        (("benchmarks",), ("-k", "test_build"), "--convert-only"),
        (("benchmarks",), ("-k", "recorded"), "--answers"),
        (("benchmarks/test_accuracy.py", "benchmarks/test_answers.py"), (), None),
        (("benchmarks",), ("-k", "not test_search"), None),
        (("benchmarks",), ("-k", "search", "--latency-budget-ms", "5"), None),
        (("benchmarks",), ("-k", "known"), None),
    ],
)
def test_test_named_without_its_option_is_refused(
    paths: tuple[str, ...], arguments: tuple[str, ...], fix: str | None, collect: Collect
) -> None:
    collected = collect(*arguments, paths=paths)

    assert (f"add {fix}" in collected.text) == (fix is not None)
    assert (collected.status == pytest.ExitCode.USAGE_ERROR) == (fix is not None)


def test_convert_only_has_one_test_per_case(collect: Collect) -> None:
    alone, usual = collect("--convert-only"), collect()

    assert alone.cases("test_build") == usual.cases("test_conversion")
    assert len(alone.names) == len(alone.cases("test_build"))
    assert not usual.cases("test_build")


@pytest.mark.parametrize(
    ("arguments", "larger"),
    [
        (("--batches", "64"), 64),
        (("--deployment", "preferred_batch_sizes=8+64+16"), 64),
        (("--deployment", "max_batch_size=2,preferred_batch_sizes=4"), 4),
        (("--deployment", "preferred_batch_sizes=16+32"), None),
        (("--deployment", "max_batch_size=2"), None),  # the model's own preferred sizes are adapted to it
    ],
)
def test_batch_above_maximum_is_refused_with_fix(
    arguments: tuple[str, str], larger: int | None, collect: Collect
) -> None:
    collected = collect("--target", "cpu", "-k", "resnet50-micro and onnx", *arguments)

    assert (collected.status == pytest.ExitCode.USAGE_ERROR) == (larger is not None), collected.text
    if larger is not None:
        assert f"where: {arguments[0]}" in collected.text
        assert f"max_batch_size={larger}" in collected.text


def test_model_that_lacks_every_format_has_no_case(tmp_path: Path, collect: Collect) -> None:
    excluded = {format_.name: "it is too new" for format_ in all_formats()}
    before = f"from functools import partial\nModel = partial(Model, excluded={excluded})"
    file = write(tmp_path / "own.py", "mine", before)
    assert collect("--target", "cpu", "--models", str(file)).status == 0


def test_largest_batch_is_measured_where_none_of_the_profile_fits() -> None:
    profile = ServingProfile.batching(32, (8, 32), (16,), preferred=(), max_queue_delay_us=0)
    case = toy.case(toy.model(profiles={"cpu": profile}))
    points = load_points(case, "offline", settings(deployment="max_batch_size=4"))
    assert [point.batch for point in points] == [4]


def test_no_test_name_contains_a_format_or_precision(collect: Collect) -> None:
    """-k matches parts of names: `-k ts` would select a test_outputs for every format."""
    tests = {name.partition("[")[0] for name in collect("--target", "cpu").names}
    words = {format_.name for format_ in all_formats()} | {"ts", "trt", "tf", "fp32", "fp16", "int8"}

    assert len(tests) > 8
    assert not [(test, word) for test in tests for word in words if word in test]
