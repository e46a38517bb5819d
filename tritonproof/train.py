"""Train a micro model by its recipe: `python -m tritonproof train NAME`."""

import functools
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tritonproof.accuracy.stages import evaluate_in_process
from tritonproof.base import disk
from tritonproof.base.commands import Parser, os_error_text, tool_command
from tritonproof.models import all_models
from tritonproof.spec import NetworkModel


def train(model: NetworkModel, output: Path) -> float:
    """Run the model's recipe, write the weights to `output` as safetensors, and return the mean of the first
    metric on the evaluation split. FP32 weights do not hide a conversion that loses digits."""
    from safetensors.numpy import save_file

    assert model.train is not None
    state = {
        key: np.ascontiguousarray(value)
        for key, value in model.train().items()
        if not key.endswith("num_batches_tracked")
    }
    save_file(state, output)
    samples = model.samples("evaluation", None, None)
    infer = functools.partial(model.infer, model.load_weights(output).network)
    answers = evaluate_in_process("framework", model, infer, samples, 8).kept
    return float(model.metrics[0].score(answers, samples.labels, answers).mean())


def main(arguments: Sequence[str] | None = None) -> int:
    """Train the model that the command line names, and write its weights."""
    recipes = {model.name: model for model in all_models() if model.train is not None}
    parser = Parser(prog=tool_command("train"), description="Train a micro model and write its weights.")
    model_help = f"the model to train: {', '.join(recipes)}"
    parser.add_argument("model", metavar="MODEL", choices=sorted(recipes), help=model_help)
    output_help = "the .safetensors file for the weights (default: the model's own, which is replaced)"
    parser.add_argument("--output", type=Path, metavar="FILE", help=output_help)
    options = parser.parse_args(arguments)
    model = recipes[options.model]
    output = options.output or model.weights
    assert output is not None
    if output.suffix != ".safetensors":
        fix = f"Name it {output.stem}.safetensors"
        parser.error(f"{output}: weights are written as safetensors, and read back by this suffix. {fix}")
    try:
        disk.make_folder(output.parent)  # now, so that an error does not come after minutes of training
    except OSError as error:
        parser.error(os_error_text(error))
    if output.is_dir():
        parser.error(f"{output}: a folder is there. Name a file")
    started = time.monotonic()
    print(f"training {model.name} (a micro model takes half a minute to a few minutes) ...", flush=True)
    score = train(model, output)
    metric = model.metrics[0]
    figure = f"{score:.1%}" if metric.better == "higher" else f"{score:.4g}"
    trained = f"trained in {time.monotonic() - started:.0f} s: {metric.name} {figure} on the evaluation data"
    print(f"{trained}; wrote {output.stat().st_size / 1024:.0f} KiB to {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
