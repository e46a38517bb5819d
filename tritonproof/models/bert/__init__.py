"""BERT distilled to four layers for question answering: SQuAD v1.1 at full, synthetic text at micro size.

Network, checkpoint layout, windows and answers are those of NVIDIA DeepLearningExamples,
PyTorch/LanguageModeling/BERT, as published with the Triton deployment `dist4l` of 2021.
"""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tritonproof.base.errors import InputError
from tritonproof.data import squad_v1, synthetic_questions
from tritonproof.data.squad_v1 import QuestionWindows, prepare, read_vocabulary
from tritonproof.frameworks import pytorch
from tritonproof.models import _shared
from tritonproof.models.bert import network
from tritonproof.models.bert.network import FULL_SIZES, MICRO_SIZES, checkpoint_files
from tritonproof.record.correctness import Limit
from tritonproof.record.sample_files import SamplePart
from tritonproof.spec import Arrays, Metric, NetworkModel, Samples, ServingProfile, Split, Tensor, Tolerance

INPUTS = ("input__0", "input__1", "input__2")
"""The names of the model's inputs: token ids, segment ids, mask."""
OUTPUTS = ("output__0", "output__1")
"""The names of the model's outputs: each token's logits of being the answer's start, and its end."""

# --- questions ---------------------------------------------------------------------------------------------


def squad(split: Split, dataset: Path | None, checkpoint: Path | None) -> Samples:
    """SQuAD v1.1, dev-v1.1.json or its folder; without a data set, synthetic questions without labels."""
    words = synthetic_questions.vocabulary()
    if checkpoint is not None:
        words = read_vocabulary(checkpoint_files(checkpoint)[2])
    if dataset is None:
        # Eight entities make paragraphs of nearly the length of SQuAD's.
        articles = synthetic_questions.as_squad(synthetic_questions.paragraphs(split, 16, entities=8))["data"]
        return _samples(prepare(articles, words, FULL_SIZES), labelled=False)
    if checkpoint is None:
        what = "SQuAD is read with the checkpoint's vocabulary, and there is no checkpoint"
        where = f"--dataset bert-dist4l={dataset}"
        raise InputError(what, where=where, fix="give --checkpoint bert-dist4l=DIR as well")
    articles = squad_v1.read(dataset / "dev-v1.1.json" if dataset.is_dir() else dataset)
    return _samples(prepare(articles, words, FULL_SIZES), labelled=True)


def micro_questions(split: Split) -> Samples:
    """The synthetic questions of a split in SQuAD's form; names in one split never appear in the other."""
    # Of the training split, 256 questions are enough to calibrate on.
    count = 256 // synthetic_questions.QUESTIONS if split == "training" else None
    articles = synthetic_questions.as_squad(synthetic_questions.paragraphs(split, count))["data"]
    return _samples(prepare(articles, synthetic_questions.vocabulary(), MICRO_SIZES), labelled=True)


def _samples(question_windows: QuestionWindows, *, labelled: bool) -> Samples:
    """Samples with a row for each window and an item for each question."""
    items = question_windows.items
    numbers = np.arange(len(items)) - np.searchsorted(items, items)  # of each window within its question
    return Samples(
        [f"{question_windows.questions[i].id}-{number}" for i, number in zip(items, numbers, strict=True)],
        lambda indices: dict(zip(INPUTS, question_windows.inputs(indices), strict=True)),
        labels=question_windows if labelled else None,
        items=items,
    )


def _score(
    measure: Callable[[str, str], float], kept: Arrays, questions: QuestionWindows, _framework: Arrays
) -> np.ndarray:
    return squad_v1.score(measure, questions.questions, squad_v1.predictions(kept, questions))


_F1, _EXACT = (functools.partial(_score, measure) for measure in (squad_v1.f1, squad_v1.exact))


def _show(samples: Samples, item: int, framework: Arrays, served: Arrays) -> list[SamplePart]:
    """The question, its accepted answers, both stages' answers, and the paragraph; nothing without labels."""
    question_windows = samples.labels
    if not isinstance(question_windows, QuestionWindows):
        return []
    rows = np.flatnonzero(question_windows.items == item)
    windows = tuple(dataclasses.replace(question_windows.windows[row], question=0) for row in rows)
    question = question_windows.questions[item]
    alone = QuestionWindows((question,), windows, question_windows.ids[rows])
    framework_answer, served_answer = (
        squad_v1.predictions(_shared.picked(kept, rows), alone)[question.id] for kept in (framework, served)
    )
    texts = {
        "Question": question.text,
        "Accepted": " | ".join(dict.fromkeys(question.answers)),
        "Framework": framework_answer,
        "Served": served_answer,
        "Paragraph": " ".join(question.words),
    }
    return [SamplePart("text", title, text) for title, text in texts.items()]


# --- the two sizes -----------------------------------------------------------------------------------------


def _tensors(names: tuple[str, ...], dtype: str, length: int) -> tuple[Tensor, ...]:
    return tuple(Tensor(name, dtype, (length,)) for name in names)


# NVIDIA published an F1 of 83.34 to 83.37 in FP16, and no exact match, which must keep the framework's score.
_SQUAD_F1 = Limit(0.8250, "99 % of the least F1 published with the Triton deployment, 83.34 %")
_MICRO_F1 = Limit(0.94, "recipe: the committed weights reach 96.1 % in FP32; two points below that")
_MICRO_EXACT = Limit(0.937, "recipe: the committed weights reach 95.75 % in FP32; two points below that")
# Not INT8: ONNX Runtime's static quantisation includes the sum of attention scores and mask, whose -10000
# takes the whole range of 8 bits, and the micro model loses nearly all answers.
_PRECISIONS = ("fp32", "fp16", "bf16")
_MICRO_PRECISIONS = ("fp32", "fp16")  # BF16 takes longer here, and three quarters of the time at full size
_PUBLISHED = _shared.published_deployment(16)
_FULL_SIZE = NetworkModel(
    name="bert-dist4l",
    inputs=_tensors(INPUTS, "INT32", FULL_SIZES.sequence),
    outputs=_tensors(OUTPUTS, "FP32", FULL_SIZES.sequence),
    load_weights=network.load_full,
    infer=pytorch.runner(*OUTPUTS),
    samples=squad,
    keep=lambda outputs: squad_v1.best_positions(*(outputs[name] for name in OUTPUTS)),
    decide=squad_v1.spans,
    metrics=(Metric("F1", _F1, dict.fromkeys(_PRECISIONS, _SQUAD_F1)), Metric("exact match", _EXACT, {})),
    profiles=_shared.full_size_profiles(
        # Offline as published. NVIDIA has none online; its scripts end at twice the largest batch in flight.
        ServingProfile(
            _PUBLISHED,
            (1, 8, 16),
            (1, 2, 4, 8, 16, 24, 32),
            ("onnx-fp16", "onnx-trt-fp16", "trt-fp16", "ts-trace-fp16"),
        ),
        # A batch of 8 takes some tenths of a second on a few cores; the delay lets the batcher fill it.
        cpu=ServingProfile.batching(8, (1, 8), (4, 16), preferred=(4, 8), max_queue_delay_us=20_000),
        gpus=("a30", "a100", "v100", "t4"),
    ),
    show=_show,
    defined_in=Path(__file__),
    packages=("transformers",),
    excluded={"ts-script": "TorchScript does not compile transformers' BERT; NVIDIA published ts-trace"},
    # A window without the answer may have two poor spans of nearly equal scores: one of the micro model's
    # first 64 windows has two that are 0.01 apart in FP16. The metrics test the answers themselves.
    tolerances={
        "fp16": Tolerance(2e-2, 0.96, "FP16 holds 11 bits; two windows of 64; measured 0.005 and one window")
    },
)
MODELS = (
    _FULL_SIZE,
    _shared.micro_size(
        _FULL_SIZE,
        read=lambda path: pytorch.from_checkpoint(network.network(network.MICRO), path),
        train=network.train_micro,
        weights=network.MICRO_WEIGHTS,
        samples=micro_questions,
        inputs=_tensors(INPUTS, "INT32", MICRO_SIZES.sequence),
        outputs=_tensors(OUTPUTS, "FP32", MICRO_SIZES.sequence),
        metrics=(
            Metric("F1", _F1, dict.fromkeys(_MICRO_PRECISIONS, _MICRO_F1)),
            Metric("exact match", _EXACT, dict.fromkeys(_MICRO_PRECISIONS, _MICRO_EXACT)),
        ),
        profiles={"gpu": ServingProfile(_PUBLISHED, (1, 16), (8, 32)), "cpu": _shared.MICRO_ON_CPU},
    ),
)
