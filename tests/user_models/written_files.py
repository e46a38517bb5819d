"""Model files that need no framework, as users have them outside of this checkout."""

from pathlib import Path

BRIEF = """
from pathlib import Path
import numpy as np
from tritonproof.record.schema import Limit
from tritonproof.spec import Metric, Model, Tensor
{before}

MODELS = (
    Model(
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
