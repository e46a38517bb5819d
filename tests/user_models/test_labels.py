"""Labels in common files, and metrics by their names."""

import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.accuracy.ledger import served_ledger
from fixtures.accuracy.stages import evaluate_in_process
from fixtures.errors import InputError
from fixtures.host.targets import CPU
from fixtures.spec import Case, Limit, Samples, Tensor
from fixtures.user_models.existing import declared, with_config, with_labels
from fixtures.user_models.label_metrics import metric_of
from fixtures.user_models.labels import GivenLabels, read_labels
from fixtures.user_models.repository import models_in
from reports.text.correctness import ledger_failures, score_text
from tests.user_models.repositories import code, config, write_model

IDS = ("cat", "more/dog")


def scores(text: str, output: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """What a metric gives each sample, for a network of this one output."""
    found = metric_of(text, None, [Tensor("y", "FP32", output.shape[1:])])
    return found.metric.score({"y": output}, labels, {"y": output})


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def classes(count: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(7).integers(count, size=shape)


def csv(path: Path) -> None:
    path.with_suffix(".csv").write_text("name,label\nmore/dog.jpg,2\ncat.jpg,1\n")


def json_file(path: Path) -> None:
    path.with_suffix(".json").write_text(json.dumps({"more/dog": 2, "cat": 1}))


def archive(path: Path) -> None:
    np.savez(path.with_suffix(".npz"), **{"cat": np.array(1), "more/dog": np.array(2)})


def array(path: Path) -> None:
    np.save(path.with_suffix(".npy"), np.array([9, 1, 2]))


@pytest.mark.parametrize("write", [csv, json_file, archive, array])
def test_each_sample_gets_its_own_label_from_each_kind_of_file(tmp_path: Path, write: Any) -> None:
    write(tmp_path / "labels")
    (path,) = tmp_path.iterdir()
    assert read_labels(path, IDS, ("held-back", *IDS)).tolist() == [1, 2]


def test_labels_may_be_vectors_and_maps(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("cat,0.5,1\nmore/dog,2,3\n")
    assert read_labels(tmp_path / "l.csv", IDS, IDS).tolist() == [[0.5, 1], [2, 3]]
    (tmp_path / "l.json").write_text(json.dumps({"cat": [[1], [2]], "more/dog": [[3], [4]]}))
    assert read_labels(tmp_path / "l.json", IDS, IDS).shape == (2, 2, 1)


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("l.csv", "cat,1\n", "more/dog"),
        ("l.csv", "cat,1\nmore/dog,tabby\n", "line 2"),
        ("l.csv", "cat,1\nmore/dog,1_0\n", "line 2"),
        ("l.csv", "cat,1\nmore/dog,0\ncat,2\n", "cat has 2 labels"),
        ("l.csv", "cat.jpg,1\ncat.png,2\nmore/dog,0\n", "cat has 2 labels"),
        ("l.json", '{"cat": 1, "more/dog": 0, "cat": 2}', "the key 'cat' twice"),
        ("l.json", "[1, 2]", "no object"),
        ("l.json", '{"cat": 1, "more/dog": [1]}', "two different shapes"),
        ("l.json", '{"cat": 1, "more/dog": "tabby"}', "more/dog"),
        ("l.npy", "?", "l.npy"),
        ("l.txt", "cat 1", ".csv"),
    ],
)
def test_a_file_that_does_not_label_the_samples_is_refused(
    tmp_path: Path, name: str, content: str, named: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError) as raised:
        read_labels(tmp_path / name, IDS, IDS)
    assert named in str(raised.value)
    assert name in str(raised.value)
    assert raised.value.fix


def test_an_archive_with_two_labels_of_a_sample_is_refused(tmp_path: Path) -> None:
    array(tmp_path / "one")
    path = tmp_path / "l.npz"
    with zipfile.ZipFile(path, "w") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("cat", "more/dog", "cat"):
            file.write(tmp_path / "one.npy", f"{name}.npy")
    with pytest.raises(InputError, match="cat has 2 labels"):
        read_labels(path, IDS, IDS)


def test_a_label_of_the_name_itself_counts_before_that_of_a_file_of_it(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("cat,1\ncat.png,2\ncat.jpg,3\nmore/dog.jpg,0\n")
    assert read_labels(tmp_path / "l.csv", IDS, IDS).tolist() == [1, 0]


@pytest.mark.parametrize("count", [1, 3])
def test_top_k_is_torchmetrics_accuracy(count: int) -> None:
    import torch
    from torchmetrics.functional.classification import multiclass_accuracy

    output, labels = random(200, 7), classes(7, 200)
    expected = multiclass_accuracy(
        torch.from_numpy(output), torch.from_numpy(labels), 7, average="micro", top_k=count
    )
    found = scores(f"top-{count}", output, labels)
    assert found.shape == (200,)
    assert found.mean() == pytest.approx(float(expected))


def test_f1_is_that_of_the_whole_data_set_and_is_shared_out_to_the_samples() -> None:
    import torch
    from torchmetrics.functional.classification import multiclass_f1_score

    output, labels = random(300, 5), classes(4, 300)
    output[:, 4] = -9  # a class that neither is nor is decided
    labels[:200] = output[:200].argmax(axis=1)
    expected = multiclass_f1_score(torch.from_numpy(output), torch.from_numpy(labels), 5, average="macro")
    found = scores("f1", output, labels)
    assert found.mean() == pytest.approx(float(expected), abs=1e-6)
    assert found[:200].mean() > found[200:].mean()


def test_one_number_decides_by_its_sign_or_as_a_probability_by_a_half() -> None:
    labels = np.array([0, 1, 1])
    assert scores("top-1", np.array([[-2.0], [0.25], [3]], np.float32), labels).tolist() == [1, 1, 1]
    assert scores("top-1", np.array([[0.1], [0.25], [0.9]], np.float32), labels[:, None]).tolist() == [
        1,
        0,
        1,
    ]


def test_decisions_of_a_map_are_scored_together() -> None:
    output = random(3, 4, 5, 6)
    labels = output.argmax(axis=1)
    assert scores("top-1", output, labels).tolist() == [1, 1, 1]
    labels[0, 0] = (labels[0, 0] + 1) % 4
    assert scores("top-1", output, labels)[0] == pytest.approx(0.8)


def test_dice_counts_each_class_alike_and_not_the_background() -> None:
    from torchmetrics.segmentation import DiceScore

    output, labels = random(2, 3, 8, 8), classes(3, 2, 8, 8)
    import torch

    metric = DiceScore(3, input_format="index", average="macro", include_background=False)
    expected = [
        float(metric(torch.from_numpy(output[i : i + 1].argmax(axis=1)), torch.from_numpy(labels[i : i + 1])))
        for i in (0, 1)
    ]
    assert scores("dice", output, labels) == pytest.approx(expected)
    background = np.zeros((1, 2, 4, 4), np.float32)
    background[:, 0] = 1
    assert scores("dice", background, np.zeros((1, 4, 4), int)).tolist() == [1]


def test_errors_are_of_each_sample_and_lower_is_better() -> None:
    output, labels = random(4, 3), np.zeros((4, 3))
    assert scores("mse", output, labels) == pytest.approx((output.astype(float) ** 2).mean(axis=1), rel=1e-5)
    assert scores("MeanAbsoluteError", output, labels) == pytest.approx(np.abs(output).mean(axis=1), rel=1e-5)
    assert metric_of("mse", 0.5, [Tensor("y", "FP32", (3,))]).metric.better == "lower"
    assert metric_of("dice", 0.5, [Tensor("y", "FP32", (3, 4, 4))]).metric.better == "higher"


def test_another_output_and_settings_can_be_named() -> None:
    outputs = [Tensor("y", "FP32", (3,)), Tensor("z", "FP32", (2, 4, 4))]
    found = metric_of("dice@z:include_background=true,average=micro", None, outputs)
    assert found.output == "z"
    half = random(1, 2, 4, 4)
    right = half.argmax(axis=1)
    right[0, :2] = 1 - right[0, :2]
    assert found.metric.score({"z": half}, right, {}) == pytest.approx([0.5])


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("accuracyy", "top-1"),
        ("AUROC", "AUROC"),
        ("PeakSignalNoiseRatio", "fraction"),
        ("top-1@elsewhere", "elsewhere"),
        ("dice:avarage=micro", "avarage"),
        ("mse:squared", "KEY=VALUE"),
    ],
)
def test_a_metric_that_cannot_be_had_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(InputError) as raised:
        metric_of(text, None, [Tensor("y", "FP32", (3,))])
    assert named in str(raised.value)
    assert f"--metric {text}" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("top-1", np.array([0, 3])),
        ("top-1", np.array([0.5, 1])),
        ("f1", np.zeros((2, 5), int)),
        ("mse", np.zeros((2, 7))),
    ],
)
def test_labels_that_do_not_fit_the_output_are_refused_with_both_shapes(
    text: str, labels: np.ndarray
) -> None:
    with pytest.raises(InputError, match=rf"(?s)output y.*--metric {text}"):
        scores(text, random(2, 3), labels)


def test_a_model_as_it_is_scores_by_its_labels_and_is_held_to_what_was_given(tmp_path: Path) -> None:
    """Without config.pbtxt its outputs are known once it is loaded, and the metric with them."""
    write_model(tmp_path / "bare", "mine", code("values"), None)
    write_model(tmp_path / "whole", "mine", code("values"), config())
    (bare,), (whole,) = models_in(tmp_path / "bare", ""), models_in(tmp_path / "whole", "")
    given = GivenLabels(tmp_path / "labels.csv", "top-1", 0.75)
    known = with_labels(declared(whole), given)
    before = with_labels(declared(bare), given)
    assert whole.config is not None
    loaded = with_labels(with_config(before, whole.config), given)
    rows = np.eye(4, dtype=np.float32)
    samples = Samples(list("abcd"), lambda chosen: {"IN": rows[list(chosen)]}, np.array([0, 1, 2, 0]))
    for model, asked, passes in (
        (known, {}, True),
        (loaded, {}, True),
        (loaded, {"top-1": Limit(0.8, "us")}, False),
    ):
        assert model.found_as is not None
        case = Case(CPU, model, model.found_as, None, "")
        served = evaluate_in_process("served", model, lambda inputs: {"OUT": inputs["IN"]}, samples, 3)
        ledger = served_ledger(case, samples, served, asked)
        assert [score_text(one) for one in ledger.scores] == ["top-1 75.0 % served"]
        assert (ledger.passed, len(ledger_failures(ledger))) == (passes, 0 if passes else 1)
    assert [one.name for one in before.metrics] == ["top-1"]
