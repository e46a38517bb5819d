"""BERT: its arithmetic, the checkpoints it loads, the questions it is asked, and its micro size."""

import copy
import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fixtures.data.squad import invented, squad_v1, wording
from fixtures.errors import InputError, NotAvailableError
from fixtures.models import all_models, bert
from fixtures.spec import Arrays, Model, Samples

State = dict[str, torch.Tensor]
Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]

CONFIG: dict[str, Any] = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 48,
    "initializer_range": 0.02,
    "intermediate_size": 80,
    "max_position_embeddings": 400,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
    "vocab_size": 744,
}
WORDS = wording.vocabulary()


def tanh_gelu(x: torch.Tensor) -> torch.Tensor:
    return x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def exact_gelu(x: torch.Tensor) -> torch.Tensor:
    return x / 2 * (1 + torch.erf(x / math.sqrt(2)))


def reference(
    state: State, batch: Batch, gelu: Callable[[torch.Tensor], torch.Tensor] = tanh_gelu
) -> torch.Tensor:
    """NVIDIA's BERT written apart from the product, as a function of its state dictionary: [2, N, L]."""

    ids, segments, mask = batch

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)
        scale = (centred.square().mean(-1, keepdim=True) + 1e-12).sqrt()
        return state[f"{name}.weight"] * centred / scale + state[f"{name}.bias"]

    def heads(x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (CONFIG["num_attention_heads"], -1)).transpose(1, 2)

    def table(name: str, rows: torch.Tensor) -> torch.Tensor:
        return state[f"bert.embeddings.{name}_embeddings.weight"][rows.long()]

    x = table("word", ids) + table("position", torch.arange(ids.shape[1])) + table("token_type", segments)
    x = norm(x, "bert.embeddings.LayerNorm")
    for number in range(CONFIG["num_hidden_layers"]):
        at = f"bert.encoder.layer.{number}"
        query, key, value = (
            heads(linear(x, f"{at}.attention.self.{name}")) for name in ("query", "key", "value")
        )
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        scores = scores + (1 - mask[:, None, None].float()) * -10000
        read = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
        x = norm(linear(read, f"{at}.attention.output.dense") + x, f"{at}.attention.output.LayerNorm")
        inner = gelu(linear(x, f"{at}.intermediate.dense_act"))
        x = norm(linear(inner, f"{at}.output.dense") + x, f"{at}.output.LayerNorm")
    return linear(x, "qa_outputs").permute(2, 0, 1)


@pytest.fixture(scope="module")
def state() -> State:
    """Every key of NVIDIA's checkpoint, pooler included, with random values."""
    generator = torch.Generator().manual_seed(0)
    hidden, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    found: State = {}

    def linear(name: str, outer: int, width: int) -> None:
        found[f"{name}.weight"] = torch.randn(outer, width, generator=generator) * 2 / width**0.5
        found[f"{name}.bias"] = torch.randn(outer, generator=generator) * 0.1

    def norm(name: str) -> None:
        found[f"{name}.weight"] = torch.rand(hidden, generator=generator) + 0.5
        found[f"{name}.bias"] = torch.randn(hidden, generator=generator) * 0.1

    for name, rows in (("word", 744), ("position", 400), ("token_type", 2)):
        found[f"bert.embeddings.{name}_embeddings.weight"] = torch.randn(rows, hidden, generator=generator)
    norm("bert.embeddings.LayerNorm")
    for number in range(CONFIG["num_hidden_layers"]):
        at = f"bert.encoder.layer.{number}"
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            linear(f"{at}.attention.{name}", hidden, hidden)
        norm(f"{at}.attention.output.LayerNorm")
        linear(f"{at}.intermediate.dense_act", inner, hidden)
        linear(f"{at}.output.dense", hidden, inner)
        norm(f"{at}.output.LayerNorm")
    linear("bert.pooler.dense_act", hidden, hidden)
    linear("qa_outputs", 2, hidden)
    return found


@pytest.fixture
def folder(state: State, tmp_path: Path) -> Path:
    """A checkpoint folder in NVIDIA's layout."""
    path = tmp_path / "dist-4l-qa"
    path.mkdir()
    torch.save(state, path / "pytorch_model.bin")
    (path / "config.json").write_text(json.dumps(CONFIG))
    # 739 tokens, rounded up to 744 rows as NVIDIA rounds 30,522 up to 30,528.
    (path / "vocab.txt").write_text(
        "\n".join([*WORDS, *(f"extra{i}" for i in range(739 - len(WORDS)))]) + "\n"
    )
    return path


@pytest.fixture(scope="module")
def batch() -> Batch:
    """Ids, segments and mask of three rows of different lengths."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, 700, (3, 384), generator=generator, dtype=torch.int32)
    place = torch.arange(384)
    mask = (place < torch.tensor([[384], [120], [9]])).int()
    return ids, mask * (place > 5).int(), mask


# --- checkpoints -------------------------------------------------------------------------------------------


def layouts(state: State) -> dict[str, object]:
    """The same weights as NVIDIA's scripts may have saved them."""
    heads = {"cls.predictions.bias": torch.zeros(744), "bert.embeddings.position_ids": torch.arange(400)}
    tensorflow = {
        key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for key, value in state.items()
    }
    return {
        "flat": state,
        "wrapped": {"model": state},
        "parallel": {f"module.{key}": value for key, value in state.items()},
        "without bert": {key.removeprefix("bert."): value for key, value in state.items()},
        "without pooler": {key: value for key, value in state.items() if "pooler" not in key},
        "with the heads of pre-training": state | heads,
        "with TensorFlow's names": tensorflow,
        "with all of TensorFlow's names": {k.replace("dense_act", "dense"): v for k, v in tensorflow.items()},
        "half": {key: value.half() for key, value in state.items()},
    }


def test_published_layouts_give_the_reference_networks_logits(
    state: State, folder: Path, batch: Batch
) -> None:
    exact = reference(state, batch)
    rounded = reference({key: value.half().float() for key, value in state.items()}, batch)
    for name, layout in layouts(state).items():
        torch.save(layout, folder / "pytorch_model.bin")
        weights = bert.load_full(folder)
        with torch.inference_mode():
            outputs = torch.stack(weights.network(*batch))
        expected = rounded if name == "half" else exact
        torch.testing.assert_close(outputs, expected, rtol=1e-4, atol=1e-4, msg=name)
        assert weights.trained
        assert not weights.network.training


def test_a_checkpoint_with_transformers_names_has_its_exact_gelu(
    state: State, folder: Path, batch: Batch
) -> None:
    theirs = {key.replace("dense_act", "dense"): value for key, value in state.items()}
    torch.save(theirs, folder / "pytorch_model.bin")
    with torch.inference_mode():
        outputs = torch.stack(bert.load_full(folder).network(*batch))
    expected = reference(state, batch, gelu=exact_gelu)
    torch.testing.assert_close(outputs, expected, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(expected, reference(state, batch), rtol=1e-4, atol=1e-4)


def test_a_checkpoint_is_named_in_the_record_with_its_digest(folder: Path) -> None:
    weights = bert.load_full(folder)
    digest = hashlib.sha256((folder / "pytorch_model.bin").read_bytes()).hexdigest()
    assert weights.origin == f"dist-4l-qa/pytorch_model.bin, sha256 {digest[:12]}"


def test_the_digest_changes_with_the_weights_and_with_the_sizes(state: State, folder: Path) -> None:
    digests = [bert.load_full(folder).digest]
    (folder / "config.json").write_text(json.dumps({**CONFIG, "num_attention_heads": 6}))
    digests.append(bert.load_full(folder).digest)
    torch.save(state | {"qa_outputs.bias": torch.zeros(2)}, folder / "pytorch_model.bin")
    digests.append(bert.load_full(folder).digest)
    assert len(set(digests)) == 3


def refused(folder: Path) -> str:
    with pytest.raises(InputError) as raised:
        bert.load_full(folder)
    assert str(folder) in str(raised.value)
    assert "cure:" in str(raised.value)
    return str(raised.value)


def test_a_missing_key_is_named(state: State, folder: Path) -> None:
    left = {key: value for key, value in state.items() if "1.intermediate.dense_act.bias" not in key}
    torch.save(left, folder / "pytorch_model.bin")
    assert "misses bert.encoder.layer.1.intermediate.dense.bias" in refused(folder)


def test_an_unexpected_key_is_named(state: State, folder: Path) -> None:
    torch.save(state | {"classifier.weight": torch.zeros(2, 48)}, folder / "pytorch_model.bin")
    assert "unexpected classifier.weight" in refused(folder)


def test_a_wrong_shape_is_named(state: State, folder: Path) -> None:
    torch.save(state | {"qa_outputs.weight": torch.zeros(3, 48)}, folder / "pytorch_model.bin")
    assert "qa_outputs.weight is (3, 48), expected (2, 48)" in refused(folder)


@pytest.mark.parametrize("name", ["config.json", "pytorch_model.bin", "vocab.txt"])
def test_a_missing_file_is_named(name: str, folder: Path) -> None:
    (folder / name).unlink()
    assert f"lacks {name}" in refused(folder)


@pytest.mark.parametrize("name", ["config.json", "pytorch_model.bin", "vocab.txt"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe damaged"])
def test_a_damaged_file_is_named(name: str, content: bytes, folder: Path) -> None:
    (folder / name).write_bytes(content)
    assert name in refused(folder)


def test_a_truncated_checkpoint_is_refused(folder: Path) -> None:
    path = folder / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[:100_000])
    assert "truncated" in refused(folder)


def test_a_file_in_the_place_of_the_folder_is_refused(folder: Path) -> None:
    assert "is a file" in refused(folder / "pytorch_model.bin")


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hidden_size": 50}, "heads do not divide"),
        ({"max_position_embeddings": 128}, "fewer than 384 positions"),
        ({"type_vocab_size": 1}, "fewer than 2 segments"),
        ({"num_hidden_layers": 0}, "below 1"),
        ({"hidden_act": "mish"}, "mish"),
        ({"vocab_size": None}, "int"),
        ({"intermediate_size": "wide"}, "wide"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(changes: dict[str, Any], named: str, folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changes}))
    assert named in refused(folder)


def test_a_configuration_without_an_entry_is_refused(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({k: v for k, v in CONFIG.items() if k != "hidden_size"}))
    assert "hidden_size" in refused(folder)


def test_the_vocabulary_is_rounded_up_to_a_multiple_of_8(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({**CONFIG, "vocab_size": 739}))
    assert bert.load_full(folder).network.model.config.vocab_size == 744


def test_a_vocabulary_of_another_checkpoint_is_refused(folder: Path) -> None:
    (folder / "vocab.txt").write_text("\n".join(WORDS[:700]))
    assert "704 tokens" in refused(folder)


def test_random_weights_are_the_published_size_and_the_same_every_time() -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, second = (bert.load_full(None) for _ in range(2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert not first.trained
    for a, b in zip(first.network.parameters(), second.network.parameters(), strict=True):
        assert torch.equal(a, b)
    shapes = {name: tuple(value.shape) for name, value in first.network.model.state_dict().items()}
    assert shapes["bert.embeddings.word_embeddings.weight"] == (30528, 288)
    assert shapes["bert.encoder.layer.3.intermediate.dense.weight"] == (1152, 288)
    assert not any(name.startswith("bert.encoder.layer.4") for name in shapes)
    assert first.network.model.config.num_attention_heads == 12


# --- questions ---------------------------------------------------------------------------------------------


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    """An evaluation file in SQuAD's form."""
    path = tmp_path / "squad" / "dev-v1.1.json"
    path.parent.mkdir()
    path.write_text(json.dumps(invented.as_squad(invented.paragraphs("evaluation", 12, entities=24))))
    return path


def perfect(samples: Samples, offset: int = 0) -> Arrays:
    """Outputs of a model that knows the first accepted answer; `offset` moves each end."""
    reading = samples.labels
    starts, ends = np.zeros((2, len(samples), reading.ids.shape[1]), np.float32)
    for row, window in enumerate(reading.windows):
        wanted = squad_v1.normalise(reading.questions[window.question].answers[0]).replace(" ", "")
        last = len(window.tokens) - 1
        for start in range(window.first, last):
            for end in range(start, min(start + 12, last)):
                text = "".join(window.tokens[start : end + 1]).replace("##", "").replace(",", "")
                if text == wanted and window.central[start - window.first]:
                    starts[row, start], ends[row, end + offset] = 5, 5
    return dict(zip(bert.OUTPUTS, (starts, ends), strict=True))


def scores(model: Model, samples: Samples, outputs: Arrays) -> list[float]:
    kept = model.keep(outputs)
    found = [metric.score(kept, samples.labels, kept) for metric in model.metrics]
    assert samples.items is not None
    assert all(len(values) == samples.items.max() + 1 for values in found)
    return [float(values.mean()) for values in found]


@pytest.fixture(scope="module")
def full() -> Model:
    return next(model for model in all_models() if model.name == "bert-dist4l")


def test_a_model_that_knows_the_answers_scores_1_whichever_window_holds_them(
    full: Model, dev: Path, folder: Path
) -> None:
    samples = full.samples("evaluation", dev, folder)
    assert samples.items is not None
    assert (np.bincount(samples.items) > 1).sum() >= 40
    assert len(set(samples.ids)) == len(samples)
    assert scores(full, samples, perfect(samples)) == [1, 1]


def test_a_model_that_stops_a_token_late_is_no_exact_match(full: Model, dev: Path, folder: Path) -> None:
    samples = full.samples("evaluation", dev, folder)
    f1, exact = scores(full, samples, perfect(samples, offset=2))
    assert 0.5 < f1 < 0.95
    assert exact < 0.3


def test_the_folder_of_the_data_set_does_as_well_as_its_file(full: Model, dev: Path, folder: Path) -> None:
    by_file, by_folder = (full.samples("evaluation", path, folder) for path in (dev, dev.parent))
    assert by_file.ids == by_folder.ids


def test_calibration_takes_training_questions_beside_the_evaluation_file(
    full: Model, dev: Path, folder: Path
) -> None:
    training = invented.as_squad(invented.paragraphs("training", 600))
    (dev.parent / "train-v1.1.json").write_text(json.dumps(training))
    for path in (dev, dev.parent):
        samples = full.samples("training", path, folder)
        assert 256 <= len(samples) <= 300
        assert all(id_.startswith("training-") for id_ in samples.ids)


def test_without_a_training_file_there_is_no_calibration(full: Model, dev: Path, folder: Path) -> None:
    with pytest.raises(NotAvailableError, match=r"train-v1\.1\.json beside dev-v1\.1\.json"):
        full.samples("training", dev, folder)


def test_squad_without_a_checkpoint_is_refused(full: Model, dev: Path) -> None:
    with pytest.raises(InputError, match="--checkpoint bert-dist4l=DIR"):
        full.samples("evaluation", dev, None)


def test_without_a_data_set_there_is_real_text_in_the_checkpoints_words(full: Model, folder: Path) -> None:
    (folder / "vocab.txt").write_text("\n".join([*reversed(WORDS[5:]), *("x" * i for i in range(2, 10))]))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *reversed(WORDS[5:])]
    (folder / "vocab.txt").write_text("\n".join(words))
    own, given = full.samples("evaluation", None, None), full.samples("evaluation", None, folder)
    assert own.labels is None
    assert 24 <= len(own) <= 128
    for samples, vocabulary in ((own, WORDS), (given, words)):
        inputs = samples.load(range(len(samples)))
        assert list(inputs) == ["input__0", "input__1", "input__2"]
        assert all(a.shape == (len(samples), 384) and a.dtype == np.int32 for a in inputs.values())
        tokens = [vocabulary[i] for i in inputs["input__0"][0]]
        assert tokens[0] == "[CLS]"
        assert tokens.count("[SEP]") == 2
        assert "[UNK]" not in tokens
        assert 100 < inputs["input__2"].sum(axis=1).mean() < 300
    assert not set(own.ids) & set(full.samples("training", None, None).ids)


# --- the micro size ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def micro() -> Model:
    return next(model for model in all_models() if model.name == "bert-dist4l-micro")


@pytest.fixture(scope="module")
def questions(micro: Model) -> Samples:
    return micro.samples("evaluation", None, None)


@pytest.fixture(scope="module")
def inputs(questions: Samples) -> Arrays:
    return questions.load(range(len(questions)))


@pytest.fixture
def network(micro: Model) -> Any:
    return micro.load(None).network


@pytest.fixture(scope="module")
def answers(micro: Model, inputs: Arrays) -> Arrays:
    """What the committed weights give for all questions."""
    return micro.run(micro.load(None).network, inputs)


def passes(micro: Model, questions: Samples, outputs: Arrays) -> list[bool]:
    """Of each metric, whether it reaches its limit."""
    reached = scores(micro, questions, outputs)
    return [
        value >= metric.limits["fp32"].value for metric, value in zip(micro.metrics, reached, strict=True)
    ]


def test_the_evaluation_questions_are_those_the_limits_were_set_on(
    inputs: Arrays, questions: Samples
) -> None:
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in inputs.values()))
    answers = [question.answers for question in questions.labels.questions]
    digest.update(json.dumps(answers).encode())
    assert digest.hexdigest()[:12] == "bdd965a393d6"


def test_the_committed_weights_reach_their_limits(micro: Model, questions: Samples, answers: Arrays) -> None:
    assert passes(micro, questions, answers) == [True, True]


def swap_outputs(outputs: Arrays) -> Arrays:
    return dict(zip(bert.OUTPUTS, reversed(list(outputs.values())), strict=True))


def shift(outputs: Arrays) -> Arrays:
    return {name: np.roll(values, 1, axis=1) for name, values in outputs.items()}


@pytest.mark.parametrize("fault", [swap_outputs, shift])
def test_outputs_in_disorder_fail(
    fault: Callable[[Arrays], Arrays], micro: Model, questions: Samples, answers: Arrays
) -> None:
    outputs = fault(answers)
    assert scores(micro, questions, outputs)[0] < micro.metrics[0].limits["fp32"].value - 0.1
    assert passes(micro, questions, outputs) == [False, False]


def without_segments(inputs: Arrays) -> Arrays:
    return {**inputs, "input__1": np.zeros_like(inputs["input__1"])}


def in_another_order(inputs: Arrays) -> Arrays:
    return dict(zip(inputs, (inputs[name] for name in ("input__0", "input__2", "input__1")), strict=True))


def without_mask(inputs: Arrays) -> Arrays:
    return {**inputs, "input__2": np.ones_like(inputs["input__2"])}


@pytest.mark.parametrize("fault", [without_segments, in_another_order, without_mask])
def test_inputs_in_disorder_fail_a_metric_or_the_parity(
    fault: Callable[[Arrays], Arrays],
    micro: Model,
    questions: Samples,
    inputs: Arrays,
    answers: Arrays,
    network: Any,
) -> None:
    """A lost mask costs some answers only, but moves the logits by far more than any precision."""
    outputs, wrong = answers, micro.run(network, fault(inputs))
    error = max(np.abs(wrong[name] - outputs[name]).max() / np.abs(outputs[name]).max() for name in outputs)
    assert error > 0.1
    before, after = scores(micro, questions, outputs)[0], scores(micro, questions, wrong)[0]
    assert after < before


def test_weights_perturbed_by_a_twentieth_fail_the_parity(micro: Model, inputs: Arrays, network: Any) -> None:
    few = {name: values[:64] for name, values in inputs.items()}
    expected = micro.run(network, few)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.05 * parameter.std(correction=0) * torch.randn_like(parameter)
    outputs = micro.run(network, few)
    error = max(
        np.abs(outputs[name] - expected[name]).max() / np.abs(expected[name]).max() for name in outputs
    )
    assert error > 5 * 2e-2  # the limit in FP16


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_cast_network_takes_and_gives_the_same_types_and_answers_the_same(
    dtype: torch.dtype, micro: Model, questions: Samples, inputs: Arrays, answers: Arrays, network: Any
) -> None:
    outputs = micro.run(network.to(dtype), inputs)
    assert all(values.dtype == np.float32 for values in outputs.values())
    assert all(np.isfinite(values).all() for values in outputs.values())
    before, after = scores(micro, questions, answers)[0], scores(micro, questions, outputs)[0]
    # Four of 400 questions; measured none in FP16 and a fifth of one in BF16, with and without AVX-512.
    assert after == pytest.approx(before, abs=0.01)


def test_in_half_precision_the_spans_stay_within_the_tolerance(
    micro: Model, inputs: Arrays, network: Any
) -> None:
    few = {name: values[:64] for name, values in inputs.items()}
    expected, outputs = micro.run(network, few), micro.run(copy.deepcopy(network).half(), few)
    error = max(
        np.abs(outputs[name] - expected[name]).max() / np.abs(expected[name]).max() for name in outputs
    )
    same = micro.decide(micro.keep(outputs)) == micro.decide(micro.keep(expected))
    tolerance = micro.tolerances["fp16"]
    assert error < tolerance.relative_error
    assert same.mean() >= tolerance.agreement


def test_padding_is_not_read(micro: Model, inputs: Arrays, answers: Arrays, network: Any) -> None:
    noise = np.random.default_rng(0).integers(0, 700, inputs["input__0"].shape, np.int32)
    mask = inputs["input__2"]
    other = {**inputs, "input__0": np.where(mask == 1, inputs["input__0"], noise)}
    for name, values in micro.run(network, other).items():
        np.testing.assert_allclose(values[mask == 1], answers[name][mask == 1], atol=1e-4)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_the_network_exports_with_a_dynamic_batch(micro: Model, inputs: Arrays, network: Any) -> None:
    def rows(count: int) -> tuple[torch.Tensor, ...]:
        return tuple(torch.from_numpy(values[:count]) for values in inputs.values())

    batch = torch.export.Dim("batch", min=1, max=16)
    exported = torch.export.export(
        network, rows(2), dynamic_shapes=tuple({0: batch} for _ in range(3))
    ).module()
    with torch.no_grad():
        traced = torch.jit.trace(network, rows(2))
    for count in (1, 16):
        with torch.inference_mode():
            expected = network(*rows(count))
            for converted in (exported, traced):
                torch.testing.assert_close(converted(*rows(count)), expected, rtol=1e-4, atol=1e-4)


def test_a_decision_is_the_span_of_a_row(micro: Model, inputs: Arrays, answers: Arrays) -> None:
    decisions = micro.decide(micro.keep(answers))
    assert decisions.shape == (len(inputs["input__0"]), 2)
    assert (decisions[:, 0] <= decisions[:, 1]).all()


def test_calibration_rows_are_training_questions(micro: Model, questions: Samples) -> None:
    training = micro.samples("training", None, None)
    assert 250 <= len(training) <= 300
    names = [question.words for question in training.labels.questions]
    assert not set(names) & {question.words for question in questions.labels.questions}


def test_the_micro_model_takes_no_data_set(micro: Model, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="takes no data set"):
        micro.samples("evaluation", tmp_path, None)
