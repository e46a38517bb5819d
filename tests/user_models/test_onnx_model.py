"""An ONNX file as a model: interface, samples and builds."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests import toy
from tests.formats.converting import case, converted, score
from tests.user_models import networks
from tests.user_models.written_files import names, write_tokenizer
from tritonproof.accuracy.ledger import why_no_score
from tritonproof.accuracy.limits import CaseArithmetic
from tritonproof.base.errors import InputError, ProofError
from tritonproof.build.configuration import model_config
from tritonproof.cases import profile_of
from tritonproof.host.targets import CPU
from tritonproof.spec import NetworkModel, Tensor
from tritonproof.user_models.labels import LabelOptions
from tritonproof.user_models.onnx_model import OnnxOptions, model_of, onnx_description


def linear(folder: Path, samples: int | None = None, **given: Any) -> NetworkModel:
    """The linear network, with a number of samples, or with made-up ones."""
    rows = None if samples is None else networks.rows(folder / "samples", samples)
    return model_of("mine", OnnxOptions(networks.linear(folder / "net.onnx"), rows, **given))


def test_interface_is_from_file_and_lengths_from_samples(tmp_path: Path) -> None:
    path = networks.tokens(tmp_path / "model.onnx")
    model = model_of("mine", OnnxOptions(path, networks.texts(tmp_path / "samples", 4)))
    assert model.inputs == (Tensor("input_ids", "INT64", (9,)), Tensor("attention_mask", "INT64", (9,)))
    assert model.outputs == (Tensor("states", "FP32", (9, 8)),)


def test_tokenizer_folder_accepts_texts_and_is_part_of_the_weights(tmp_path: Path) -> None:
    networks.tokens(tmp_path / "export" / "onnx" / "model.onnx")
    write_tokenizer(tmp_path / "export")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "some.txt").write_text("a b a\nb\n")
    model = model_of("mine", OnnxOptions(tmp_path / "export", tmp_path / "texts"))
    assert model.samples("evaluation", None, None).read([1])["attention_mask"].tolist() == [[1, 0, 0]]
    digests = {model.load_weights(None).digest}
    write_tokenizer(tmp_path / "export", most_tokens=2)
    digests.add(model.load_weights(None).digest)
    (tmp_path / "export" / "tokenizer_config.json").write_text("{}")
    assert len(digests | {model.load_weights(None).digest}) == 3, "its tokens calibrate INT8"


def test_synthetic_inputs_are_valid_and_announced(tmp_path: Path) -> None:
    given_network = OnnxOptions(networks.tokens(tmp_path / "model.onnx"))
    model = model_of("mine", given_network)
    samples = model.samples("evaluation", None, None)
    inputs = samples.read(range(len(samples)))
    assert inputs["input_ids"].max() < networks.WORDS
    assert len(np.unique(inputs["input_ids"])) > networks.WORDS / 2
    assert np.isfinite(model.infer(model.load_weights(None).network, inputs)["states"]).all()
    assert samples.are_synthetic
    assert "made up" in onnx_description(model, given_network)
    assert "made up" in model.load_weights(None).weights_source
    assert model.excluded["onnx-int8"] in onnx_description(model, given_network)


@pytest.mark.parametrize("has_folder", [False, True])
def test_calibration_samples_are_not_evaluated(tmp_path: Path, has_folder: bool) -> None:
    if has_folder:
        networks.rows(tmp_path / "samples" / "calibration", 3)
    model = linear(tmp_path, 12)
    evaluation, calibration = (model.samples(split, None, None) for split in ("evaluation", "training"))
    assert (len(evaluation), len(calibration)) == ((12, 3) if has_folder else (9, 3))
    assert has_folder or not set(evaluation.ids) & set(calibration.ids)
    assert len(evaluation.read([0, 1])["x"]) == 2


def test_too_few_samples_or_no_weights_exclude_int8(tmp_path: Path) -> None:
    assert "onnx-int8" in linear(tmp_path, 3).excluded
    path = networks.through(tmp_path / "neg.onnx", "Neg", 4)
    model = model_of("mine", OnnxOptions(path, networks.rows(tmp_path / "more", 12)))
    assert "onnx-int8" in model.excluded
    assert len(model.samples("evaluation", None, None)) == 12, "none is held back"
    path = networks.within_function(tmp_path / "function.onnx")
    assert "onnx-int8" not in model_of("mine", OnnxOptions(path, tmp_path / "more")).excluded


def test_int8_quantises_products_of_nodes_without_names_or_fails(tmp_path: Path) -> None:
    texts = networks.texts(tmp_path / "texts", 12)
    attention = model_of("mine", OnnxOptions(networks.tokens(tmp_path / "tokens.onnx"), texts))
    converted(attention, tmp_path / "int8.onnx", "int8")
    nodes = onnx.load(str(tmp_path / "int8.onnx")).graph.node
    origins = {name: node.op_type for node in nodes for name in node.output}
    factors = [origins[name] for node in nodes if node.op_type == "MatMul" for name in node.input]
    assert factors == 4 * ["DequantizeLinear"]
    negative = model_of("mine", OnnxOptions(networks.through(tmp_path / "neg.onnx", "Neg", 4)))
    evaluation = negative.samples("evaluation", None, None)
    calibrated = dataclasses.replace(negative, samples=lambda *_arguments: evaluation)
    with pytest.raises(ProofError, match="nothing to quantise"):
        converted(calibrated, tmp_path / "int8.onnx", "int8")


def test_external_weights_are_served_with_graph(tmp_path: Path) -> None:
    path = networks.apart(tmp_path / "net.onnx")
    model = model_of("mine", OnnxOptions(path, networks.rows(tmp_path / "samples", 9)))
    artifact = tmp_path / "build" / "model.onnx"
    artifact.parent.mkdir()
    assert score(model, converted(model, artifact)) == 1.0
    assert (artifact / "model.onnx").read_bytes() == path.read_bytes()
    assert score(model, converted(model, tmp_path / "small.onnx", "int8")) > 0.5


def test_digest_covers_file_and_calibration_samples(tmp_path: Path) -> None:
    path = networks.apart(tmp_path / "net.onnx")
    samples = networks.rows(tmp_path / "samples", 9)
    model = model_of("mine", OnnxOptions(path, samples))
    before = model.load_weights(None).digest
    assert model.load_weights(None).digest == before
    np.save(samples / "00.npy", np.full(4, 100, np.float32))
    after = model.load_weights(None).digest
    data = path.parent / "weights.data"
    data.write_bytes(bytes(reversed(data.read_bytes())))
    assert len({before, after, model.load_weights(None).digest}) == 3


@pytest.mark.parametrize(("batch", "dims"), [(1, [[1, 4], [1, 3]]), ("batch", [[4], [3]])])
def test_fixed_batch_of_one_disables_batching(batch: int | str, dims: Any, tmp_path: Path) -> None:
    model = model_of("mine", OnnxOptions(networks.linear(tmp_path / "net.onnx", batch=batch)))
    config = model_config(case(model), profile_of(model, CPU).deployment, native=True)
    assert [list(tensor.dims) for tensor in (*config.input, *config.output)] == dims
    assert (config.max_batch_size == 0) is (profile_of(model, CPU).batches == (1,)) is (batch == 1)
    assert config.HasField("dynamic_batching") is (batch != 1)


@pytest.mark.parametrize(("network", "is_warmed_up"), [(networks.linear, True), (networks.categories, False)])
def test_triton_warms_up_only_if_zeros_are_valid(network: Any, is_warmed_up: bool, tmp_path: Path) -> None:
    model = model_of("mine", OnnxOptions(network(tmp_path / "model.onnx"), None))
    config = model_config(case(model), profile_of(model, CPU).deployment, native=False)
    assert bool(config.model_warmup) is is_warmed_up


def test_given_tolerance_limits_conversion_and_answers(tmp_path: Path) -> None:
    usual, wide = linear(tmp_path), linear(tmp_path, tolerance=0.25)
    of_usual, of_wide = (
        CaseArithmetic(case(each), "fp32").case_limits({"scores": 10}, 10) for each in (usual, wide)
    )
    for limits in (of_wide.conversion, of_wide.kernels):
        assert limits.of_output("scores") == (0.25, 0.25)
        assert "--tolerance" in limits.source
    assert max(limits.widest.max_element for limits in (of_usual.conversion, of_usual.kernels)) < 0.25
    of_int8 = CaseArithmetic(case(usual, "int8"), "int8").case_limits({"scores": 10})
    assert of_int8.conversion.widest.max_element == 2 > of_int8.kernels.widest.max_element
    path = networks.through(tmp_path / "n.onnx", "Neg", 6, 20)
    assert model_of("mine", OnnxOptions(path, tolerance=0.25)).metrics[0].limits["fp32"].value == 0.25


def test_unlabelled_accuracy_is_agreement(tmp_path: Path) -> None:
    model = linear(tmp_path)
    network = model.load_weights(None).network
    assert why_no_score(model, model.load_weights(None), model.samples("evaluation", None, None)) is None
    assert score(model, lambda inputs: {"scores": -model.infer(network, inputs)["scores"]}) < 0.5


@pytest.mark.parametrize(("floor", "output"), [(None, "decisions"), (0.5, "scores")])
def test_labels_add_a_metric_to_agreement(tmp_path: Path, floor: float | None, output: str) -> None:
    (tmp_path / "labels.csv").write_text("sample,class\n00,0\n01,1\n02,2\n03,0\n")
    labels = LabelOptions(tmp_path / "labels.csv", "top-1", floor)
    path, rows = networks.linear(tmp_path / "net.onnx", output=output), networks.rows(tmp_path / "samples", 4)
    model = model_of("mine", OnnxOptions(path, rows, labels))
    assert model.decide(model.keep({output: np.eye(4, 3)})).tolist() == [[0], [1], [2], [0]]
    metrics = {metric.name: metric for metric in model.metrics}
    assert metrics.keys() == {"top-1", "agreement"}
    assert set(model.precisions) == {"fp32", "fp16", "int8"}
    assert {limit.value for limit in metrics["top-1"].limits.values()} == ({floor} if floor else set())
    assert metrics["top-1"].keeps_framework_score == (floor is None), "what the user says is enough"


def decided(path: Path) -> tuple[str, Any]:
    """The name of the network's one metric, and its decisions for two samples."""
    model = model_of("mine", OnnxOptions(path))
    inputs = model.samples("evaluation", None, None).read([0, 1])
    outputs = model.infer(model.load_weights(None).network, inputs)
    return model.metrics[0].name, model.decide(model.keep(outputs))


def test_decisions_come_from_classes_signs_or_halves(tmp_path: Path) -> None:
    """The boxes along a detector's axis are no classes, and a ReLU's zeros have no sign."""
    name, decisions = decided(networks.linear(tmp_path / "scores.onnx"))
    assert (name, decisions.shape) == ("agreement", (2, 1))
    for operator, shape in (("Relu", (1, 8, 8)), ("Neg", (6, 20)), ("Neg", (2, 8, 8))):
        name, decisions = decided(networks.through(tmp_path / "map.onnx", operator, *shape))
        assert (name, decisions.size) == ("mean error", 0)
    name, decisions = decided(networks.through(tmp_path / "map.onnx", "Sigmoid", 1, 8, 8))
    assert (name, decisions.shape) == ("agreement", (2, 64))
    assert 0 < decisions.mean() < 1
    name, decisions = decided(networks.through(tmp_path / "steps.onnx", "Softmax", 7, 5, axis=2))
    assert (name, decisions.shape) == ("agreement", (2, 7))


def test_undecided_output_is_scored_by_relative_error(tmp_path: Path) -> None:
    model = model_of("mine", OnnxOptions(networks.through(tmp_path / "n.onnx", "Neg", 6, 20)))
    network = model.load_weights(None).network
    assert score(model, lambda inputs: model.infer(network, inputs)) == 0
    off = score(model, lambda inputs: {"y": model.infer(network, inputs)["y"] * np.float32(1.1)})
    assert 0.01 < off < 0.1
    limits = model.metrics[0].limits
    assert limits["fp32"].value < off < limits["int8"].value


@pytest.mark.parametrize(("precision", "same_file"), [("fp32", True), ("int8", False)])
def test_unconverted_file_is_marked_as_same_file(tmp_path: Path, precision: str, same_file: bool) -> None:
    model = linear(tmp_path)
    weights, samples = model.load_weights(None), model.samples("evaluation", None, None)

    def tenfold(inputs: Any) -> Any:
        return {"scores": 10 * model.infer(weights.network, inputs)["scores"]}

    conversion = toy.compare_conversion(case(model, precision), weights, tenfold, samples, 32)
    assert (conversion.passed, conversion.is_users_file) == (False, same_file)


def no_onnx(folder: Path) -> OnnxOptions:
    (folder / "net.onnx").write_text("version https://git-lfs.github.com/spec/v1\n")
    return OnnxOptions(folder / "net.onnx")


def without_weights(folder: Path) -> OnnxOptions:
    path = networks.apart(folder / "net.onnx")
    (folder / "weights.data").unlink()
    return OnnxOptions(path)


def weights_elsewhere(folder: Path) -> OnnxOptions:
    path = networks.apart(folder / "inner" / "net.onnx")
    model = onnx.load(str(path), load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = "../weights.data"
    path.write_bytes(model.SerializeToString())
    return OnnxOptions(path)


def several(folder: Path) -> OnnxOptions:
    networks.linear(folder / "a.onnx")
    networks.linear(folder / "b.onnx")
    return OnnxOptions(folder)


def labels_of_others(folder: Path) -> OnnxOptions:
    (folder / "labels.csv").write_text("another,1\n")
    labels = LabelOptions(folder / "labels.csv", "top-1", None)
    return OnnxOptions(networks.linear(folder / "net.onnx"), networks.rows(folder / "samples", 2), labels)


def selecting(folder: Path) -> OnnxOptions:
    (folder / "samples").mkdir()
    np.save(folder / "samples" / "a.npy", np.array([1, 0, 0, 0], np.float32))
    np.save(folder / "samples" / "b.npy", np.array([1, 1, 1, 0], np.float32))
    return OnnxOptions(networks.single(folder / "n.onnx", "NonZero"), folder / "samples")


def of(write: Callable[..., Path], *settings: Any, **more: Any) -> Callable[[Path], OnnxOptions]:
    """A network without samples."""
    return lambda folder: OnnxOptions(write(folder / "n.onnx", *settings, **more))


BAD: dict[str, tuple[Callable[[Path], OnnxOptions], str]] = {
    "a file that is no ONNX": (no_onnx, "net.onnx"),
    "an output of maps": (of(networks.probable), "zipmap"),
    "an input of BF16": (of(networks.through, "Cast", 4, dtype="bfloat16", to=1), "BFLOAT16"),
    "an output that is no batch": (of(networks.single, "Transpose"), "y"),
    "more dimensions than an array has": (of(networks.through, "Neg", *[1] * 59), "60"),
    "a shape that depends on the data": (selecting, "output y"),
    "a shape that depends on made-up data": (of(networks.single, "NonZero"), "output y"),
    "weights that are missing": (without_weights, "weights.data"),
    "weights outside of the folder": (weights_elsewhere, "weights.data"),
    "several files": (several, "a.onnx, b.onnx"),
    "samples without labels": (labels_of_others, "00, 01"),
    "no samples": (lambda folder: OnnxOptions(networks.linear(folder / "n.onnx"), folder / "none"), "none"),
}


@pytest.mark.parametrize(("write", "named"), BAD.values(), ids=BAD)
def test_invalid_model_is_refused_by_its_file(write: Any, named: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, check=lambda error: names(error, named, tmp_path)):
        model_of("mine", write(tmp_path))
