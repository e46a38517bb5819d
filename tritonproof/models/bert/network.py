"""BERT for question answering: network sized by a config.json, weights, and how micro ones are trained."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np

from tritonproof.base.disk import file_digest
from tritonproof.base.errors import InputError
from tritonproof.data import synthetic_questions
from tritonproof.data.squad_v1 import WindowSizes, read_vocabulary, word_pieces
from tritonproof.data.synthetic_questions import Paragraph, SyntheticQuestion, paragraphs
from tritonproof.frameworks import pytorch
from tritonproof.models import _shared
from tritonproof.safe_io.files import MAX_SETTINGS_BYTES, check_regular, read_json, readable
from tritonproof.spec import Arrays, FrameworkModel

if TYPE_CHECKING:
    import torch
    from torch import nn

SEED = 20211001
MICRO_WEIGHTS = Path(__file__).with_name("bert-dist4l-micro.safetensors")
_FIX = "give the folder of NVIDIA's checkpoint, with config.json, pytorch_model.bin and vocab.txt"

# --- the network --------------------------------------------------------------------------------------------

_ACTIVATIONS = {"gelu": "gelu_pytorch_tanh", "relu": "relu", "swish": "silu"}
"""transformers' names of NVIDIA's activations, whose `gelu` is the tanh form."""
Size = Annotated[int, msgspec.Meta(ge=1)]


class BertDimensions(msgspec.Struct, frozen=True):
    """The sizes of a BERT network, as a checkpoint's config.json has them."""

    vocab_size: Size
    """Rows of the table of token embeddings: the vocabulary's tokens, rounded up to a multiple of 8."""
    hidden_size: Size
    intermediate_size: Size
    num_attention_heads: Size
    num_hidden_layers: Size
    max_position_embeddings: Size
    type_vocab_size: Annotated[int, msgspec.Meta(ge=2)] = 2
    """Kinds of segments: question and paragraph."""
    hidden_act: Literal["gelu", "relu", "swish"] = "gelu"


def embedding_rows(tokens: int) -> int:
    """Rows of the embedding of `tokens`: NVIDIA rounds up to a multiple of 8, for the tensor cores."""
    return -(-tokens // 8) * 8


FULL = BertDimensions(30528, 288, 1152, 12, 4, 512)
"""Source: PyTorch/LanguageModeling/BERT/distillation/BERT_4L_288D/config.json."""
MICRO = BertDimensions(embedding_rows(len(synthetic_questions.vocabulary())), 96, 192, 4, 4, 128)
FULL_SIZES = WindowSizes()
"""The windows of the full model, as published."""
MICRO_SIZES = WindowSizes(sequence=MICRO.max_position_embeddings, stride=64)


def network(dimensions: BertDimensions, *, exact_gelu: bool = False) -> "nn.Module":
    """BERT that takes token ids, segment ids and mask [N, L] and returns logits of start and end [N, L]."""
    import torch
    from torch import nn
    from transformers import BertConfig, BertForQuestionAnswering

    settings: dict[str, Any] = msgspec.structs.asdict(dimensions)
    settings |= {"hidden_act": "gelu" if exact_gelu else _ACTIVATIONS[dimensions.hidden_act]}
    # Dropout is for training alone, and the micro model's generated text does not repeat enough to need it.
    settings |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "layer_norm_eps": 1e-12}
    config = BertConfig(**settings)
    config._attn_implementation = "sdpa"  # both of transformers' kinds export; this is PyTorch's fused kernel

    class Bert(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = BertForQuestionAnswering(config)

        def run(self, ids: torch.Tensor, segments: torch.Tensor, mask: torch.Tensor, **options: Any) -> Any:
            # Made here, as the original makes it: -10000 is finite in FP16, and every exporter takes it.
            hidden = (1.0 - mask[:, None, None, :].to(self.model.qa_outputs.weight.dtype)) * -10000.0
            return self.model(ids, hidden, segments, **options)

        def forward(
            self, ids: torch.Tensor, segments: torch.Tensor, mask: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            start, end = self.run(ids, segments, mask, return_dict=False)
            return start.float(), end.float()

    return Bert()


# --- its weights --------------------------------------------------------------------------------------------

_LEFT_OUT = re.compile(r"(bert\.)?pooler\.|cls\.|(bert\.)?embeddings\.position_ids$")
"""Not used here: the pooler, the heads of pre-training, a constant of early transformers."""
_NVIDIAS_OWN = re.compile(r"\.dense_act\.|\.(gamma|beta)$")
"""Keys by which a checkpoint's `gelu` is NVIDIA's tanh form, and not transformers' exact one: `dense_act`,
which NVIDIA's code writes, and TensorFlow's gamma and beta, which it reads with either name of that layer
(DeepLearningExamples a9e2c1d5, BERT/modeling.py, from_pretrained and gelu)."""


def checkpoint_files(checkpoint: Path) -> tuple[Path, Path, Path]:
    """The files of the configuration, the weights and the vocabulary in a checkpoint folder of NVIDIA's
    layout. Raises an InputError that names a missing file."""
    files = checkpoint / "config.json", checkpoint / "pytorch_model.bin", checkpoint / "vocab.txt"
    for file in files:
        check_regular(file, "the checkpoint", _FIX)
    return files


def read_config(path: Path) -> BertDimensions:
    """The sizes in a config.json. Raises InputError that names the entry at fault."""
    content = read_json(path, "config.json", _FIX, MAX_SETTINGS_BYTES)
    with readable("config.json, which is to describe BERT,", path, _FIX):
        dimensions = msgspec.convert(content, BertDimensions)
        if dimensions.max_position_embeddings < WindowSizes().sequence:
            raise ValueError(f"max_position_embeddings is below {WindowSizes().sequence}")
        if dimensions.hidden_size % dimensions.num_attention_heads:
            raise ValueError("num_attention_heads does not divide hidden_size")
    return msgspec.structs.replace(dimensions, vocab_size=embedding_rows(dimensions.vocab_size))


def load_full(checkpoint: Path | None) -> FrameworkModel:
    """The network of a folder in NVIDIA's layout, or the published one with seeded random weights. Raises
    InputError for files that cannot be read, or do not belong together."""
    if checkpoint is None:
        return pytorch.random_weights(lambda: network(FULL), SEED)
    config, weights, vocabulary = checkpoint_files(checkpoint)
    dimensions = read_config(config)
    if (tokens := len(read_vocabulary(vocabulary))) > dimensions.vocab_size:
        what = f"vocab.txt has {tokens:,} tokens, and the network's embedding {dimensions.vocab_size:,} rows"
        raise InputError(what, where=vocabulary, fix="put the vocab.txt of this checkpoint there")
    state = pytorch.read_checkpoint(weights)
    is_nvidias = any(map(_NVIDIAS_OWN.search, state))
    full = network(dimensions, exact_gelu=dimensions.hidden_act == "gelu" and not is_nvidias)
    pytorch.load_strictly(full.model, pytorch.own_keys(state, _own, weights), weights)
    digests = [file_digest(path) for path in (config, weights)]
    digest = hashlib.sha256("".join(digests).encode()).hexdigest()
    origin = f"{checkpoint.name}/{weights.name}, sha256 {digests[1][:12]}"
    return FrameworkModel(full.float().eval(), origin, digest, trained=True)


def _own(key: str) -> str | None:
    """transformers' key for NVIDIA's, which may have dense_act layers, TensorFlow's gamma and beta, or a body
    without `bert.`; None for keys that question answering does not use."""
    if _LEFT_OUT.match(key):
        return None
    key = re.sub(r"^(embeddings|encoder)\.", r"bert.\1.", key)
    key = re.sub(r"\bgamma$", "weight", re.sub(r"\bbeta$", "bias", key))
    return key.replace(".dense_act.", ".dense.")


# --- how the micro size is trained -------------------------------------------------------------------------

# Trained only on answer positions, the network learns which attribute a question asks for, but not of which
# entity. So some attention heads start with weights that compare positions and words, and auxiliary outputs
# are trained to find the entity and its attribute; these outputs are dropped afterwards.
_RECIPE_SEED = 20211003
_BATCH = 32
_NEIGHBOURS = 1024
_SIMPLE = 0.15
"""The share of the steps, at the start, that train on paragraphs about a single entity."""
_HEADS = ((0, 0, 1, 6.0), (1, 0, -1, 7.0), (1, 1, 1, 7.0), (2, 0, 3, 4.0), (2, 1, 7, 4.0), (3, 0, 3, 4.0))
"""Heads that start by comparing positions: layer, head, how many tokens back it looks, how sharply."""
_PREFERENCE = 5.0
"""How strongly the head that compares words prefers tokens of the question."""
_ROLES = {"plain": 0, "entity": 1, "answer": 2}


def training_rows(paragraphs: Sequence[Paragraph]) -> Arrays:
    """A row for each question of the paragraphs; a long paragraph is cut where the generator chooses.

    They are the model's inputs `ids`, `segments` and `mask`, [rows, sequence] INT32, and the targets of its
    outputs and inner layers: `span`, the positions of the answer's first and last token, [rows, 2], 0 if the
    window lacks it; `mentions`, 1 on tokens that name the entity asked for, and `answers`, 1 on those of the
    answer in every statement about that entity, [rows, sequence] FP32; and the `attribute` asked for, [rows].
    """
    vocabulary = synthetic_questions.vocabulary()
    number_of = {token: number for number, token in enumerate(vocabulary)}
    pieces = word_pieces(vocabulary)
    generator = np.random.default_rng(_RECIPE_SEED)

    def numbers(text: str) -> list[int]:
        return [number_of[piece] for word in text.split() for piece in pieces(word)]

    rows = []
    for paragraph in paragraphs:
        # Token id, role and statement of each token of the paragraph, [tokens, 3].
        document = np.array(
            [
                (number, _ROLES[role], index)
                for index, statement in enumerate(paragraph.statements)
                for text, role in statement.pieces
                for number in numbers(text)
            ]
        )
        for question in paragraph.questions:
            query = numbers(question.text)
            room = MICRO_SIZES.sequence - len(query) - 3
            start = int(generator.integers(0, max(1, len(document) - room + 1)))
            rows.append(_row(paragraph, question, query, document[start : start + room]))
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def _row(paragraph: Paragraph, question: SyntheticQuestion, query: Sequence[int], part: np.ndarray) -> Arrays:
    fact = paragraph.statements[question.statement]
    first, last = len(query) + 2, len(query) + 2 + len(part)
    ids, segments, mask = np.zeros((3, MICRO_SIZES.sequence), np.int32)
    ids[: last + 1] = [2, *query, 3, *part[:, 0], 3]
    segments[first : last + 1] = 1
    mask[: last + 1] = 1
    about = np.array([statement.entity == fact.entity for statement in paragraph.statements])[part[:, 2]]
    mentions, answers = np.zeros((2, MICRO_SIZES.sequence), np.float32)
    mentions[first:last] = about & (part[:, 1] == _ROLES["entity"])
    answers[first:last] = about & (part[:, 1] == _ROLES["answer"])
    inside = np.flatnonzero((part[:, 2] == question.statement) & (part[:, 1] == _ROLES["answer"]))
    whole = len(inside) > 0 and inside[0] > 0 and inside[-1] < len(part) - 1
    return {
        "ids": ids,
        "segments": segments,
        "mask": mask,
        "span": np.array([first + inside[0], first + inside[-1]] if whole else [0, 0]),
        "mentions": mentions,
        "answers": answers,
        "attribute": np.array(fact.attribute),
    }


def prepare(network: Any) -> None:
    """Set initial weights by which some heads compare positions, and one words: both are slow to learn.

    The first components of the embeddings hold only sines and cosines of the position, and no layer writes to
    them. The heads in _HEADS compare these, and so attend to a token at a fixed distance. A head of the first
    layer looks for the same token in the question, and passes on whether it is there. Without that head's
    preference for the question, training never learnt the entity with one of four seeds; with it, all of ten
    seeds did.
    """
    import torch

    bert = network.model.bert
    embeddings, layers = bert.embeddings, bert.encoder.layer
    hidden = bert.config.hidden_size
    head = hidden // bert.config.num_attention_heads
    frequencies = torch.exp(torch.linspace(np.log(2.5), -np.log(60), head // 2))
    angles = torch.arange(bert.config.max_position_embeddings)[:, None] * frequencies
    with torch.no_grad():
        for linear in network.modules():
            if isinstance(linear, torch.nn.Linear):
                linear.weight.normal_(0, hidden**-0.5)
        for layer in layers:
            for linear in (layer.attention.output.dense, layer.output.dense):
                linear.weight *= 0.4
                linear.weight[:head] = 0
        for table in (embeddings.word_embeddings, embeddings.token_type_embeddings):
            table.weight.normal_(0, 0.5)[:, :head] = 0
        waves = torch.cat([angles.sin(), angles.cos()], 1)
        embeddings.position_embeddings.weight.zero_()[:, :head] = 0.5 * waves
        for layer_number, head_number, back, sharpness in _HEADS:
            cosine, sine = torch.diag((back * frequencies).cos()), torch.diag((back * frequencies).sin())
            turn = torch.cat([torch.cat([cosine, -sine], 1), torch.cat([sine, cosine], 1)])
            _compare(layers[layer_number].attention.self, head_number, turn * sharpness, torch.eye(head), 0)
        project = torch.nn.init.orthogonal_(torch.empty(head, hidden - head)) * 2
        _compare(layers[0].attention.self, 1, project, project, head)
        _prefer_the_question(embeddings, layers[0].attention, 2 * head - 1, head)


def _compare(attention: Any, number: int, query: "torch.Tensor", key: "torch.Tensor", first: int) -> None:
    """Make a head compare two linear projections of the components from `first` on, and nothing else."""
    rows = slice(number * len(query), (number + 1) * len(query))
    for linear, weights in ((attention.query, query), (attention.key, key)):
        linear.weight[rows] = 0
        linear.weight[rows, first : first + weights.shape[1]] = weights
        linear.bias[rows] = 0


def _prefer_the_question(embeddings: Any, attention: Any, row: int, component: int) -> None:
    """Reserve a component for the kind of segment: `row` of a head then prefers the question's tokens, and
    writes to the next component whether it attended to one."""
    embeddings.word_embeddings.weight[:, component] = 0
    embeddings.token_type_embeddings.weight[0, component] = 1.5
    embeddings.token_type_embeddings.weight[1, component] = -1.5
    projections = attention.self
    for linear in (projections.query, projections.key, projections.value):
        linear.weight[row] = 0
        linear.bias[row] = 0
    projections.query.bias[row] = projections.key.weight[row, component] = _PREFERENCE
    projections.value.weight[row, component] = 1
    attention.output.dense.weight[component + 1, row] = 1


def train_micro(steps: int = 800) -> Mapping[str, Any]:
    """Train the committed weights: `steps` batches of 32, some minutes on two cores. The weights of the
    auxiliary outputs are left out."""
    import torch
    from torch import nn

    torch.manual_seed(SEED)
    model: Any = network(MICRO)
    torch.manual_seed(_RECIPE_SEED)
    prepare(model)
    hidden = model.model.config.hidden_size
    sizes = {"mentions": 1, "answers": 1, "attribute": len(synthetic_questions.ATTRIBUTES)}
    hints = nn.ModuleDict({name: nn.Linear(hidden, size) for name, size in sizes.items()})
    count = synthetic_questions.PARAGRAPHS["training"]
    simple = training_rows(paragraphs("training", count // 2, seed=_RECIPE_SEED, entities=1))
    usual = training_rows(paragraphs("training"))
    by_length = [np.argsort(rows["mask"].sum(axis=1), kind="stable") for rows in (simple, usual)]
    parameters = [*model.parameters(), *hints.parameters()]
    step = _shared.training_step(parameters, 1.5e-3, steps, decay=0.01, norm=1.0, pct_start=0.2)
    model.train()
    for number in range(steps):
        source, order = (simple, by_length[0]) if number < _SIMPLE * steps else (usual, by_length[1])
        # Rows of nearly one length, so that little time goes into padding.
        start = int(torch.randint(len(source["ids"]) - _NEIGHBOURS, (1,)))
        chosen = order[start : start + _NEIGHBOURS][torch.randperm(_NEIGHBOURS)[:_BATCH].numpy()]
        step(_loss(model, hints, source, chosen))
    model.eval()
    return model.state_dict()


def _loss(network: Any, hints: "nn.ModuleDict", source: Arrays, chosen: np.ndarray) -> "torch.Tensor":
    """The loss of the answer's position, and of what the second and third layers should find."""
    import torch
    from torch.nn import functional

    length = source["mask"][chosen].sum(axis=1).max()
    ids, segments, mask, mentions, answers = (
        torch.from_numpy(source[name][chosen, :length])
        for name in ("ids", "segments", "mask", "mentions", "answers")
    )
    result = network.run(ids, segments, mask, output_hidden_states=True)
    states, logits = result.hidden_states, (result.start_logits, result.end_logits)  # after 0, 1, ... layers
    span = torch.from_numpy(source["span"][chosen])
    hidden = mask == 0
    loss = sum(
        functional.cross_entropy(logits[side].masked_fill(hidden, -1e4), span[:, side]) for side in (0, 1)
    )
    for name, layer, weight, targets in (("mentions", 2, 10, mentions), ("answers", 3, 5, answers)):
        hint_logits = hints[name](states[layer])[..., 0]
        losses = functional.binary_cross_entropy_with_logits(hint_logits, targets, reduction="none")
        loss = loss + weight * (losses * segments).sum() / segments.sum()
    attribute = hints["attribute"](states[2][:, 0])
    return loss + functional.cross_entropy(attribute, torch.from_numpy(source["attribute"][chosen]))
