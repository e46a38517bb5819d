"""Does a model's warm-up make the first request after a load as fast as the next ones?"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tritonproof.record.schema import WarmUp
from tritonproof.spec import Arrays

if TYPE_CHECKING:
    from tritonclient.grpc.model_config_pb2 import ModelConfig

_LOADS = 3
"""Loads that must each make the first request slow. If it were like the others, it would be the slowest of
21 by chance three times in one of 9,000 runs, whatever else the machine does."""


def warmup_batch(config: "ModelConfig", rows: Arrays) -> int | None:
    """The smallest batch of the model's warm-up that has the shape of these rows; None if there is none."""
    shapes = {name: values.shape[1:] for name, values in rows.items()}
    sizes = [
        max(1, warmup.batch_size)
        for warmup in config.model_warmup
        if all(shapes.get(name) == tuple(tensor.dims) for name, tensor in warmup.inputs.items())
    ]
    return min(sizes, default=None)


def compare_first_request(load: Callable[[], object], ask: Callable[[], float], batch: int) -> WarmUp:
    """Load the model and ask it again and again; the slowest of twenty later requests is the measure of the
    first. If that is slow, load it once more: the machine may be the cause. `ask` returns seconds."""
    first_ms: list[float] = []
    later_ms: list[float] = []
    is_slow = True
    while is_slow and len(first_ms) < _LOADS:
        load()
        first_ms.append(round(1e3 * ask(), 3))
        later_ms.append(round(1e3 * max(ask() for _ in range(20)), 3))
        is_slow = first_ms[-1] > 2 * later_ms[-1]  # one that loads kernels takes far longer
    return WarmUp(batch, tuple(first_ms), tuple(later_ms), passed=not is_slow)
