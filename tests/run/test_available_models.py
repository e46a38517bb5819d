"""The models of a run, of --models, --onnx or --repository, in place of the suite's own."""

from pathlib import Path

import numpy as np
import pytest

from tests.helpers import Collect, settings
from tests.user_models import networks
from tests.user_models.repositories import COMPLETING, IN_PARTS, code, config, write_model
from tests.user_models.written_files import write
from tritonproof.base.errors import InputError
from tritonproof.run.available_models import models_of


def test_only_given_models_run_unless_others_are_named(tmp_path: Path, collect: Collect) -> None:
    file = write(tmp_path / "mine.py", "mine")

    def cases(*words: str) -> set[str]:
        return collect("--models", str(file), "--target", "cpu", *words).cases("test_conversion")

    mine, other = "cpu-mine-onnx-fp32", "cpu-resnet50-micro-onnx-fp32"
    assert {case.split("-")[1] for case in cases()} == {"mine"}
    assert cases("-k", "onnx and fp32") == {mine}
    assert cases("-k", "onnx and fp32 and (mine or resnet50-micro)") == {mine, other}
    assert mine not in collect("--target", "cpu").cases("test_conversion")


def test_large_given_models_run_on_cpu_and_gpu_targets(tmp_path: Path, collect: Collect) -> None:
    file = write(tmp_path / "mine.py", "mine", micro=False)
    for target in ("cpu", "a100"):
        collected = collect("--models", str(file), "--target", target)
        assert f"{target}-mine-onnx-fp32" in collected.cases("test_conversion")


def test_onnx_option_runs_only_its_networks_in_every_format(tmp_path: Path, collect: Collect) -> None:
    path, samples = networks.linear(tmp_path / "net.onnx"), networks.rows(tmp_path / "samples", 12)

    options = ("--onnx", f"mine={path}", "--samples", str(samples))

    def converted(*words: str) -> set[str]:
        return collect(*options, *words).cases("test_conversion")

    assert converted("--target", "cpu") == {"cpu-mine-onnx-fp32", "cpu-mine-openvino-fp32"}
    assert "INT8 is left out" in collect(*options, "--target", "cpu").text
    assert converted("--target", "cpu", "-k", "mine and int8") == {"cpu-mine-onnx-int8"}
    assert converted("--target", "a100") == {
        f"a100-mine-{variant}-{precision}"
        for variant in ("onnx", "onnx-trt", "trt")
        for precision in ("fp32", "fp16")
    }
    assert not [name for name in collect("--target", "cpu").names if "mine" in name]


def test_fixed_batch_network_is_measured_at_that_batch(tmp_path: Path, collect: Collect) -> None:
    fixed, dynamic = networks.linear(tmp_path / "one.onnx", batch=1), networks.linear(tmp_path / "any.onnx")
    options = ("--onnx", f"one={fixed}", "--onnx", f"any={dynamic}", "--target", "cpu", "-k", "onnx and fp32")
    collected = collect(*options, "--batches", "1,64", "--deployment", "max_batch_size=64")
    points = ("any-onnx-fp32-b001", "any-onnx-fp32-b064", "one-onnx-fp32-b001")
    assert collected.cases("test_offline") == {f"cpu-{point}-c001" for point in points}


@pytest.mark.parametrize(
    ("name", "option"), [("a b", "onnx"), ("resnet50", "onnx"), ("mine", "checkpoint"), ("mine", "dataset")]
)
def test_invalid_name_or_option_of_a_network_is_refused(name: str, option: str, tmp_path: Path) -> None:
    network = f"{name}={networks.linear(tmp_path / 'net.onnx')}"
    with pytest.raises(InputError) as raised, models_of(settings(**{"onnx": [network], option: [network]})):
        pass
    assert raised.value.where == (f"--onnx {network}" if option == "onnx" else f"--{option} mine=")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with various model names and kinds."""
    root = tmp_path / "repository"
    write_model(root, "resnet50", code("2 * values"), config(batch=16))
    write_model(root, "bare", COMPLETING, None)
    write_model(root, "named", COMPLETING, 'backend: "python"')
    in_parts = 'backend: "python" model_transaction_policy { decoupled: true }'
    write_model(root, "parts", IN_PARTS, config("INT32", "3", batch=0, more=in_parts))
    return root


def test_repository_models_replace_own_models(repository: Path, collect: Collect) -> None:
    collected = collect("--repository", str(repository), "--target", "cpu")

    batches = {"bare": (1, 4), "named": (1, 4), "parts": (1,), "resnet50": (1, 8, 16)}
    points = {f"cpu-{name}-asis-b{batch:03d}-c001" for name, sizes in batches.items() for batch in sizes}
    assert collected.cases("test_offline") == points
    incomplete = {"cpu-bare-asis", "cpu-named-asis"}
    assert collected.cases("test_declared") == {"cpu-resnet50-asis", *incomplete}
    assert collected.cases("test_conversation") == {"cpu-parts-asis", *incomplete}
    for test in ("test_conversion", "test_accuracy", "test_efficiency"):
        assert not collected.cases(test)

    afterwards = collect("--target", "cpu")
    assert afterwards.cases("test_accuracy")
    assert not afterwards.cases("test_conversation")


@pytest.fixture
def labelled(tmp_path: Path) -> tuple[str, ...]:
    """Options that give resnet50 two samples and their labels."""
    (tmp_path / "samples").mkdir()
    for name in ("a", "b"):
        np.save(tmp_path / "samples" / f"{name}.npy", np.ones(4, np.float32))
    (tmp_path / "labels.csv").write_text("a,0\nb,0\n")
    samples, labels = tmp_path / "samples", tmp_path / "labels.csv"
    return "--samples", f"resnet50={samples}", "--labels", f"resnet50={labels}", "--metric", "resnet50=top-1"


def test_only_labelled_model_is_scored(repository: Path, collect: Collect, labelled: tuple[str, ...]) -> None:
    options = (*labelled, "--floor", "resnet50=0.75", "--target", "cpu")
    collected = collect("--repository", str(repository), *options)
    assert collected.cases("test_accuracy") == {"cpu-resnet50-asis"}, collected.text


def test_unfit_options_are_refused_before_any_test(
    repository: Path, collect: Collect, labelled: tuple[str, ...], tmp_path: Path
) -> None:
    def named(*options: str) -> str:
        collected = collect("--repository", str(repository), *options)
        assert collected.status == pytest.ExitCode.USAGE_ERROR
        return collected.text

    assert "--samples bare" in named("--samples", "bare=/nowhere")
    assert "resnet50, 16" in named("-k", "resnet50", "--batches", "32")
    assert "--floor" in named(*labelled), "nothing says what the model has to score"
    (tmp_path / "labels.csv").write_text("c,0\n")
    assert "labels.csv" in named(*labelled, "--floor", "resnet50=0.75"), "labels of other samples"


def test_thresholds_match_repository_cases(repository: Path, collect: Collect, tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    statuses = []
    for pattern in ("cpu-resnet50-asis", "cpu-*-onnx-fp32"):
        file.write_text(f'[[cases]]\nmatch = "{pattern}"\nallowed_slowdown_percent = 3\n')
        collected = collect("--repository", str(repository), "--target", "cpu", "--thresholds", str(file))
        statuses.append(collected.status)
    assert statuses == [0, pytest.ExitCode.USAGE_ERROR]
