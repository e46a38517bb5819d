"""--repository: tests of a user's repository, and options that do not fit it."""

from pathlib import Path

import numpy as np
import pytest

from tests.helpers import Collect
from tests.user_models.repositories import COMPLETING, IN_PARTS, code, config, write_model


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with various model names and kinds."""
    root = tmp_path / "repository"
    write_model(root, "resnet50", code("2 * values"), config(batch=16))
    write_model(root, "bare", COMPLETING, None)
    in_parts = 'backend: "python" model_transaction_policy { decoupled: true }'
    write_model(root, "parts", IN_PARTS, config("INT32", "3", batch=0, more=in_parts))
    return root


def test_repository_models_replace_own_models(repository: Path, collect: Collect) -> None:
    collected = collect("--repository", str(repository), "--target", "cpu")

    assert collected.cases("test_offline") == {
        "cpu-bare-asis-b001-c001",
        "cpu-bare-asis-b004-c001",
        "cpu-parts-asis-b001-c001",
        "cpu-resnet50-asis-b001-c001",
        "cpu-resnet50-asis-b008-c001",
        "cpu-resnet50-asis-b016-c001",
    }
    assert collected.cases("test_declared_output") == {"cpu-bare-asis", "cpu-resnet50-asis"}
    assert collected.cases("test_conversation") == {"cpu-bare-asis", "cpu-parts-asis"}
    for test in ("test_conversion", "test_accuracy", "test_efficiency"):
        assert not collected.cases(test)

    afterwards = collect("--target", "cpu")
    assert afterwards.cases("test_accuracy")
    assert not afterwards.cases("test_conversation")


@pytest.mark.parametrize(
    ("name", "test"), [("resnet50", "test_conversation"), ("parts", "test_largest_batch")]
)
def test_inapplicable_test_is_left_out(
    repository: Path, collect: Collect, tmp_path: Path, name: str, test: str
) -> None:
    (tmp_path / "alone").mkdir()
    (repository / name).rename(tmp_path / "alone" / name)

    collected = collect("--repository", str(tmp_path / "alone"), "--target", "cpu")

    assert collected.cases("test_offline")
    assert not collected.cases(test)


@pytest.fixture
def labelled(tmp_path: Path) -> tuple[str, ...]:
    """Options that give resnet50 two samples and their labels."""
    (tmp_path / "samples").mkdir()
    for name in ("a", "b"):
        np.save(tmp_path / "samples" / f"{name}.npy", np.ones(4, np.float32))
    (tmp_path / "labels.csv").write_text("a,0\nb,0\n")
    samples, labels = tmp_path / "samples", tmp_path / "labels.csv"
    return "--samples", f"resnet50={samples}", "--labels", f"resnet50={labels}", "--metric", "resnet50=top-1"


def test_only_labelled_model_has_accuracy_test(
    repository: Path, collect: Collect, labelled: tuple[str, ...]
) -> None:
    options = (*labelled, "--floor", "resnet50=0.75", "--target", "cpu")
    collected = collect("--repository", str(repository), *options)

    assert collected.cases("test_accuracy") == {"cpu-resnet50-asis"}


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
