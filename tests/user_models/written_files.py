"""Files as users have them: models without a framework, and tokenizers; and whether errors name them."""

from pathlib import Path

from tritonproof.base.errors import InputError

BRIEF = """
from pathlib import Path
import numpy as np
from tritonproof.record.correctness import Limit
from tritonproof.spec import Metric, NetworkModel, Tensor
{before}

MODELS = (
    NetworkModel(
        name="{name}",
        inputs=(Tensor("x", "FP32", (4,)),),
        outputs=(Tensor("y", "FP32", (4,)),),
        load_weights=lambda _checkpoint: None,
        infer=lambda network, inputs: inputs,
        samples=lambda split, dataset, checkpoint: None,
        decide=lambda kept: kept["y"].argmax(axis=1),
        metrics=(Metric("accuracy", lambda kept, labels, framework: np.ones(1), {{"fp32": Limit(0.5, "chosen")}}),),
        defined_in=Path(__file__),
        micro={micro},
    ),
)
"""


def write(file: Path, name: str, before: str = "", *, micro: bool = True) -> Path:
    """Write a file of one model, with these lines before it; returns the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(BRIEF.format(name=name, before=before, micro=micro))
    return file


def names(error: InputError, *parts: object) -> bool:
    """Whether an error has all of this in its text, and a fix."""
    return bool(error.fix) and all(str(part) in str(error) for part in parts)


def write_tokenizer(
    folder: Path, *, pads: bool = True, most_tokens: int | None = None, side: str = "right"
) -> None:
    """Write a tokenizer of two words, which pads and cuts at one side, as Hugging Face's library does."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder.mkdir(parents=True, exist_ok=True)
    words = Tokenizer(models.WordLevel({"[PAD]": 0, "a": 1, "b": 2, "[UNK]": 3}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    if pads:
        words.enable_padding(pad_id=0, pad_token="[PAD]", direction=side)
    if most_tokens is not None:
        words.enable_truncation(most_tokens, direction=side)
    words.save(str(folder / "tokenizer.json"))
