"""Label files and metrics by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import toy
from tests.helpers import present
from tests.user_models.repositories import code, config, write_model
from tests.user_models.written_files import names
from tritonproof.accuracy.stages import Stages, evaluate_in_process
from tritonproof.base.errors import InputError
from tritonproof.host.targets import CPU
from tritonproof.record.correctness import Limit
from tritonproof.reports.correctness_text import ledger_failures, score_text
from tritonproof.spec import Case, Samples, Tensor
from tritonproof.user_models.labels import LabelOptions, read_labels
from tritonproof.user_models.metrics import metric_of
from tritonproof.user_models.model_from_config import AS_IS, as_model, with_config, with_labels
from tritonproof.user_models.model_repository import entries_in

IDS = ("cat", "more/dog")


def scores(text: str, output: np.ndarray, labels: np.ndarray, reference: Any = None) -> np.ndarray:
    """A metric's score of each sample, for a network with one output, by default its own reference."""
    metric, _output = metric_of(text, None, [Tensor("y", "FP32", output.shape[1:])])
    return metric.score({"y": output}, labels, {"y": output if reference is None else reference})


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def classes(count: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(7).integers(count, size=shape)


@pytest.mark.parametrize("count", [1, 3])
def test_top_k_matches_torchmetrics_accuracy(count: int) -> None:
    import torch
    from torchmetrics.functional.classification import multiclass_accuracy

    output, labels = random(200, 7), classes(7, 200)
    tensors = torch.from_numpy(output), torch.from_numpy(labels)
    expected = multiclass_accuracy(*tensors, 7, average="micro", top_k=count)
    per_item = scores(f"top-{count}", output, labels)
    assert per_item.shape == (200,)
    assert per_item.mean() == pytest.approx(float(expected))


def test_f1_of_whole_dataset_is_distributed_over_samples() -> None:
    import torch
    from torchmetrics.functional.classification import multiclass_f1_score

    output, labels = random(300, 5), classes(4, 300)
    output[:, 4] = -9  # a class that is neither labelled nor decided
    labels[:200] = output[:200].argmax(axis=1)
    expected = multiclass_f1_score(torch.from_numpy(output), torch.from_numpy(labels), 5, average="macro")
    per_item = scores("f1", output, labels)
    assert per_item.mean() == pytest.approx(float(expected), abs=1e-6)
    assert per_item[:200].mean() > per_item[200:].mean()


@pytest.mark.parametrize(
    ("output", "reference", "labels", "right"),
    [
        ([[-2.0], [0.25], [3]], None, [0, 1, 1], [1, 1, 1]),
        ([[-2e-4], [1e-4], [3e-4]], None, [0, 1, 1], [1, 1, 1]),
        ([[0.2], [0.25], [0.9]], [[-0.2], [0.25], [0.9]], [0, 1, 1], [0, 1, 1]),
        ([[0.1], [0.25], [0.9]], None, [[0], [1], [1]], [1, 0, 1]),
        ([[-1e-7], [0.25], [1.0000001]], None, [0, 1, 1], [1, 0, 1]),
        ([[[0.1, 0.9], [0.9, 0.1]]], None, [[1, 1]], [0.5]),
    ],
    ids=["sign", "sign of a small number", "the reference's sign", "half", "half of rounded sums", "a map"],
)
def test_decisions_are_scored(output: Any, reference: Any, labels: Any, right: list[float]) -> None:
    of_reference = None if reference is None else np.array(reference, np.float32)
    assert scores("top-1", np.array(output, np.float32), np.array(labels), of_reference).tolist() == right


def test_dice_averages_classes_without_background() -> None:
    from torchmetrics.segmentation import DiceScore

    output, labels = random(2, 3, 8, 8), classes(3, 2, 8, 8)
    import torch

    metric = DiceScore(3, input_format="index", average="macro", include_background=False)
    decided, right = torch.from_numpy(output.argmax(axis=1)), torch.from_numpy(labels)
    expected = [float(metric(decided[i : i + 1], right[i : i + 1])) for i in (0, 1)]
    assert scores("dice", output, labels) == pytest.approx(expected)
    background = np.zeros((1, 2, 4, 4), np.float32)
    background[:, 0] = 1
    assert scores("dice", background, np.zeros((1, 4, 4), int)).tolist() == [1]
    map_of_classes = np.array([[[4, 1], [0, 2]]])  # more classes than its width
    assert scores("dice", map_of_classes, map_of_classes).tolist() == [1]


def test_errors_are_per_item_and_lower_is_better() -> None:
    output, labels = random(4, 3), np.zeros((4, 3))
    assert scores("mse", output, labels) == pytest.approx((output.astype(float) ** 2).mean(axis=1), rel=1e-5)
    assert scores("MeanAbsoluteError", output, labels) == pytest.approx(np.abs(output).mean(axis=1), rel=1e-5)
    for kind in (np.uint8, np.int64, np.float16):
        off = np.full((1, 300, 300), 3, kind), np.full((1, 300, 300), 5.5)
        assert [*scores("mae", *off), *scores("mse", *off)] == [2.5, 6.25]
    assert metric_of("mse", 0.5, [Tensor("y", "FP32", (3,))])[0].better == "lower"
    assert metric_of("dice", 0.5, [Tensor("y", "FP32", (3, 4, 4))])[0].better == "higher"


def test_output_and_settings_of_metric_can_be_named() -> None:
    outputs = [Tensor("y", "FP32", (3,)), Tensor("z", "FP32", (2, 4, 4))]
    metric, name = metric_of("dice@z:include_background=true,average=micro", None, outputs)
    assert name == "z"
    half = random(1, 2, 4, 4)
    right = half.argmax(axis=1)
    right[0, :2] = 1 - right[0, :2]
    assert metric.score({"z": half}, right, {"z": half}) == pytest.approx([0.5])


def test_served_model_is_judged_by_labels_and_given_floor(tmp_path: Path) -> None:
    """Without config.pbtxt, only loading the model shows its outputs, and so the metric's output."""
    write_model(tmp_path / "bare", "mine", code("values"), None)
    write_model(tmp_path / "whole", "mine", code("values"), config())
    (bare,), (whole,) = entries_in(tmp_path / "bare", ""), entries_in(tmp_path / "whole", "")
    given_labels = LabelOptions(tmp_path / "labels.csv", "top-1", 0.75)
    known = with_labels(as_model(whole), given_labels)
    before = with_labels(as_model(bare), given_labels)
    loaded = with_labels(with_config(before, present(whole.config)), given_labels)
    rows = np.eye(4, dtype=np.float32)
    samples = Samples(list("abcd"), lambda indices: {"IN": rows[list(indices)]}, np.array([0, 1, 2, 0]))
    higher = {"top-1": Limit(0.8, "us")}
    for model, limits, passes in ((known, {}, True), (loaded, {}, True), (loaded, higher, False)):
        case = Case(CPU, model, AS_IS, None, "")
        served = evaluate_in_process("served", model, lambda inputs: {"OUT": inputs["IN"]}, samples, 3)
        stages = Stages(served=served)
        ledger = toy.ledger(case, samples, stages, requested=limits)
        assert [score_text(entry).split(" (")[0] for entry in ledger.scores] == ["top-1 75.0 % served"]
        assert (ledger.passed, len(ledger_failures(ledger))) == (passes, 0 if passes else 1)
    assert [entry.name for entry in before.metrics] == ["top-1"]


def test_each_file_kind_labels_the_right_samples(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("name,label\nmore/dog.jpg,2\ncat.jpg,1\n")
    (tmp_path / "l.json").write_text('{"more/dog": 2, "cat": 1}')
    np.savez(tmp_path / "l.npz", **{"cat": np.array(1), "more/dog": np.array(2)})
    np.save(tmp_path / "l.npy", np.array([9, 1, 2]))
    for path in tmp_path.iterdir():
        assert read_labels(path, IDS, ("held-back", *IDS)).tolist() == [1, 2], path


@pytest.mark.parametrize(
    ("name", "content", "labels"),
    [
        ("l.csv", "cat,0.5,1\nmore/dog,2,3\n", [[0.5, 1], [2, 3]]),
        ("l.json", '{"cat": [[1], [2]], "more/dog": [[3], [4]]}', [[[1], [2]], [[3], [4]]]),
        ("l.csv", "cat,1\ncat.png,2\ncat.jpg,3\nmore/dog.jpg,0\n", [1, 0]),
    ],
    ids=["vectors", "maps", "the name itself before that of a file of it"],
)
def test_labels_may_have_any_shape(name: str, content: str, labels: list[Any], tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    assert read_labels(tmp_path / name, IDS, IDS).tolist() == labels


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("l.csv", "cat,1\n", "more/dog"),
        ("l.csv", "cat,1\nmore/dog,tabby\n", "line 2"),
        ("l.csv", "cat,1\nmore/dog,0\ncat,2\n", "cat"),
        ("l.csv", "cat.jpg,1\ncat.png,2\nmore/dog,0\n", "cat"),
        ("l.json", '{"cat": 1, "more/dog": 0, "cat": 2}', "the key cat"),
        ("l.json", "[1, 2]", ""),
        ("l.json", '{"cat": 1, "more/dog": [1]}', "more/dog"),
        ("l.json", '{"cat": 1, "more/dog": "tabby"}', "more/dog"),
        ("l.npy", "?", ""),
        ("l.txt", "cat 1", ".csv"),
    ],
)
def test_file_that_does_not_label_the_samples_is_refused(
    tmp_path: Path, name: str, content: str, named: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, check=lambda error: names(error, named, tmp_path / name)):
        read_labels(tmp_path / name, IDS, IDS)


@pytest.mark.parametrize(
    "text",
    ["accuracyy", "AUROC", "PeakSignalNoiseRatio", "top-1@elsewhere", "dice:avarage=micro", "mse:squared"],
)
def test_unknown_metric_is_refused(text: str) -> None:
    with pytest.raises(InputError, check=lambda error: error.where == f"--metric {text}"):
        metric_of(text, None, [Tensor("y", "FP32", (3,))])


@pytest.mark.parametrize(
    ("text", "shape", "labels"),
    [
        ("top-1", (2, 3), np.array([0, 3])),
        ("top-1", (2, 3), np.array([0.5, 1])),
        ("top-3", (2, 3), np.array([0, 1])),
        ("top-2", (2, 1), np.array([0, 1])),
        ("top-1", (2, 3, 4), np.zeros((2, 4, 3), int)),
        ("f1", (2, 3), np.zeros((2, 5), int)),
        ("mse", (2, 3), np.zeros((2, 7))),
        ("mse", (2, 3, 4), np.zeros((2, 4, 3))),
    ],
)
def test_labels_that_do_not_fit_output_are_refused(text: str, shape: Any, labels: np.ndarray) -> None:
    with pytest.raises(InputError, check=lambda error: error.where == f"--metric {text}"):
        scores(text, random(*shape), labels)
