"""--repository: which tests the models of a user's repository get, and what does not fit it."""

from pathlib import Path

import numpy as np
import pytest

from tests.helpers import Collect
from tests.user_models.repositories import COMPLETING, IN_PARTS, code, config, write_model


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose names and kinds of models are of all sorts."""
    root = tmp_path / "repository"
    write_model(root, "resnet50", code("2 * values"), config(batch=16))
    write_model(root, "bare", COMPLETING, None)
    in_parts = 'backend: "python" model_transaction_policy { decoupled: true }'
    write_model(root, "parts", IN_PARTS, config("INT32", "3", batch=0, more=in_parts))
    return root


def test_the_models_of_a_repository_run_in_place_of_the_suites_own(
    repository: Path, collect: Collect
) -> None:
    found = collect("--repository", str(repository), "--target", "cpu")

    assert found.cases("test_offline") == {
        "cpu-bare-asis-b001-c001",
        "cpu-bare-asis-b004-c001",
        "cpu-parts-asis-b001-c001",
        "cpu-resnet50-asis-b001-c001",
        "cpu-resnet50-asis-b008-c001",
        "cpu-resnet50-asis-b016-c001",
    }
    assert found.cases("test_declared_output") == {"cpu-bare-asis", "cpu-resnet50-asis"}


def test_what_compares_with_a_conversion_is_left_out(repository: Path, collect: Collect) -> None:
    found = collect("--repository", str(repository), "--target", "cpu")

    for test in ("test_conversion", "test_accuracy", "test_efficiency"):
        assert not found.cases(test)


def test_only_what_is_or_may_be_asked_in_several_messages_has_a_conversation(
    repository: Path, collect: Collect
) -> None:
    found = collect("--repository", str(repository), "--target", "cpu")

    assert found.cases("test_conversation") == {"cpu-bare-asis", "cpu-parts-asis"}


@pytest.mark.parametrize(
    ("name", "test"), [("resnet50", "test_conversation"), ("parts", "test_largest_batch")]
)
def test_a_test_that_no_model_of_the_repository_has_is_left_out(
    repository: Path, collect: Collect, tmp_path: Path, name: str, test: str
) -> None:
    (tmp_path / "alone").mkdir()
    (repository / name).rename(tmp_path / "alone" / name)

    found = collect("--repository", str(tmp_path / "alone"), "--target", "cpu")

    assert found.cases("test_offline")
    assert not found.cases(test)


def test_the_suites_own_models_have_no_conversation_and_come_back_afterwards(
    repository: Path, collect: Collect
) -> None:
    collect("--repository", str(repository), "--target", "cpu")

    found = collect("--target", "cpu")

    assert found.cases("test_accuracy")
    assert not found.cases("test_conversation")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--deployment", "instances=2"), "leave --deployment out"),
        (("--checkpoint", "resnet50=x"), "leave --checkpoint out"),
        (("--latency-budget-ms", "7"), "leave --latency-budget-ms out"),
        (("--triton", "127.0.0.1:9"), "--repository remote"),
        (("--samples", "bare=/nowhere"), "no such file or folder"),
    ],
)
def test_what_does_not_fit_a_repository_is_refused_with_the_cure(
    repository: Path, collect: Collect, options: tuple[str, ...], said: str
) -> None:
    found = collect("--repository", str(repository), *options)

    assert found.status == pytest.ExitCode.USAGE_ERROR
    assert said in found.text


@pytest.fixture
def labelled(tmp_path: Path) -> tuple[str, ...]:
    """Options that give resnet50 two samples and their labels."""
    (tmp_path / "samples").mkdir()
    for name in ("a", "b"):
        np.save(tmp_path / "samples" / f"{name}.npy", np.ones(4, np.float32))
    (tmp_path / "labels.csv").write_text("a,0\nb,0\n")
    samples, labels = tmp_path / "samples", tmp_path / "labels.csv"
    return "--samples", f"resnet50={samples}", "--labels", f"resnet50={labels}", "--metric", "resnet50=top-1"


def test_a_model_with_labels_has_an_accuracy_and_others_have_none(
    repository: Path, collect: Collect, labelled: tuple[str, ...]
) -> None:
    options = (*labelled, "--floor", "resnet50=0.75", "--target", "cpu")
    found = collect("--repository", str(repository), *options)

    assert found.cases("test_accuracy") == {"cpu-resnet50-asis"}


def test_labels_that_nothing_is_held_to_are_refused(
    repository: Path, collect: Collect, labelled: tuple[str, ...]
) -> None:
    found = collect("--repository", str(repository), *labelled)

    assert found.status == pytest.ExitCode.USAGE_ERROR
    assert "add --floor" in found.text


def test_labels_of_other_samples_are_refused_before_anything_runs(
    repository: Path, collect: Collect, labelled: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "labels.csv").write_text("c,0\n")
    found = collect("--repository", str(repository), *labelled, "--floor", "resnet50=0.75")

    assert found.status == pytest.ExitCode.USAGE_ERROR
    assert "have no label: a, b" in found.text


def test_thresholds_are_for_the_cases_of_the_repository(
    repository: Path, collect: Collect, tmp_path: Path
) -> None:
    (tmp_path / "t.toml").write_text('[[cases]]\nmatch = "cpu-resnet50-asis"\nallowed_slowdown_percent = 3\n')
    (tmp_path / "bad.toml").write_text('[[cases]]\nmatch = "cpu-*-onnx-fp32"\nallowed_slowdown_percent = 3\n')
    base = ("--repository", str(repository), "--target", "cpu", "--thresholds")

    assert collect(*base, str(tmp_path / "t.toml")).names
    refused = collect(*base, str(tmp_path / "bad.toml"))
    assert refused.status == pytest.ExitCode.USAGE_ERROR
    assert "no case is matched by" in refused.text


def test_a_server_of_somebody_elses_is_needed_for_what_is_loaded_there(collect: Collect) -> None:
    found = collect("--repository", "remote", "--triton", "embedded")

    assert found.status == pytest.ExitCode.USAGE_ERROR
    assert "--triton HOST:PORT" in found.text


def test_a_batch_beyond_a_models_largest_is_refused_before_anything_runs(
    repository: Path, collect: Collect
) -> None:
    found = collect("--repository", str(repository), "-k", "resnet50", "--batches", "32")

    assert found.status == pytest.ExitCode.USAGE_ERROR
    assert "resnet50, 16" in found.text
