"""What every PyTorch model and format needs: reads checkpoints safely, runs and converts networks. It checks
a checkpoint's keys, shapes and values, since damaged weights load, and run as fast as right ones."""

import argparse
import contextlib
import copy
import functools
import gc
import hashlib
import pickle
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tritonproof.base import commands
from tritonproof.base.disk import file_digest
from tritonproof.base.errors import InputError, ProofError
from tritonproof.base.sanitize import excerpt
from tritonproof.frameworks import error_line
from tritonproof.frameworks.gpu_libraries import GPU_PACKAGES, cuda_of_torch
from tritonproof.host.machine import cpu_flags, version_of
from tritonproof.safe_io.files import check_regular, readable
from tritonproof.spec import Arrays, ConversionJob, Device, FrameworkModel, Tolerance

if TYPE_CHECKING:
    import torch

    State = Mapping[str, torch.Tensor]

_FLOATING = re.compile(r"(torch\.)?b?float\d+(_\w+)?")
"""The names of PyTorch's and NumPy's types of floating-point numbers, including those of 8 bits."""
_SHOWN_KEYS = 3
"""The most keys that an error names."""
_MIN_ELEMENTS = 16
"""A kernel or matrix counts as damaged if all its elements, at least this many, have the same value."""


def check_weights(checkpoint: Mapping[str, Any], network: Mapping[str, Any], path: Path, model: str) -> None:
    """Raise InputError unless a checkpoint's tensors, PyTorch's or NumPy's, have exactly the keys and shapes
    of a network's own, and hold what a training can end with. `model` says whose checkpoint is meant."""
    if (fault := next(_faults(checkpoint, network), None)) is not None:
        fix = f"give a checkpoint of {model} as it was trained, not converted; check its size and digest"
        raise InputError(f"the checkpoint is of another model, or damaged: {fault}", where=path, fix=fix)


def _faults(checkpoint: Mapping[str, Any], network: Mapping[str, Any]) -> Iterator[str]:
    common = [key for key in network if key in checkpoint]
    shapes = [(key, tuple(checkpoint[key].shape), tuple(network[key].shape)) for key in common]
    reshaped = [f"{key} is {actual}, expected {wanted}" for key, actual, wanted in shapes if actual != wanted]
    for problem, keys in (
        ("misses", [key for key in network if key not in checkpoint]),
        ("has unexpected", [key for key in checkpoint if key not in network]),
        ("has in another shape", reshaped),
    ):
        if keys:
            suffix = f" and {len(keys) - _SHOWN_KEYS} more" if len(keys) > _SHOWN_KEYS else ""
            yield f"it {problem} {', '.join(map(excerpt, keys[:_SHOWN_KEYS]))}{suffix}"
    for key, tensor in checkpoint.items():
        if not _FLOATING.fullmatch(str(network[key].dtype)):
            continue
        if not _FLOATING.fullmatch(str(tensor.dtype)):  # quantised weights mean nothing without their scales
            yield f"{excerpt(key)} is {tensor.dtype}; weights are floating-point numbers"
        values = _in_fp32(tensor)
        if bad := np.count_nonzero(~np.isfinite(values)):
            yield f"{bad:,} of the {values.size:,} values of {excerpt(key)} are NaN or infinite"
        # In vectors equal values are right: the biases of a new BatchNorm are all zero, and its scales one.
        if values.ndim > 1 and values.size >= _MIN_ELEMENTS and (values == values.flat[0]).all():
            yield f"all {values.size:,} values of {excerpt(key)} are {float(values.flat[0]):g}"


def _in_fp32(tensor: Any) -> np.ndarray:
    """A tensor's values in FP32: of other types, such as BF16, NumPy cannot tell whether they are finite."""
    if isinstance(tensor, np.ndarray):
        with np.errstate(over="ignore"):  # too large a value becomes infinite
            return tensor.astype(np.float32)
    return np.asarray(tensor.detach().float().numpy())


def read_checkpoint(path: Path) -> "dict[str, torch.Tensor]":
    """The state dictionary in a checkpoint file, never executing what is pickled in it.
    Takes `.safetensors`, a flat state dictionary, or one below `state_dict` or `model`, without a leading
    `module.` (DistributedDataParallel). Raises InputError for a missing or truncated file, a folder, a
    TorchScript archive, or a pickle of more than tensors, plain values and `_leftovers`."""
    import torch
    from safetensors.torch import load_file

    what = "the checkpoint, truncated or not a PyTorch file,"
    fix = (
        "give the .pt, .pth.tar, .ckpt or .safetensors file itself, as published; or write its weights alone "
        'where it was trained: from safetensors.torch import save_model; save_model(model, "x.safetensors")'
    )
    with readable(what, path, fix):
        if not path.exists():
            absent_fix = f"check the path, or train the model: {commands.tool_command('train', 'NAME')}"
            raise InputError("the file of weights does not exist", where=path, fix=absent_fix)
        check_regular(path, what, fix)
        state: Any = load_file(path) if path.suffix == ".safetensors" else _unpickled(path)
        for wrapper in ("state_dict", "model"):
            if isinstance(state, dict) and isinstance(state.get(wrapper), dict):
                state = state[wrapper]
        values = list(state.values()) if isinstance(state, dict) else []
        if not values or not all(isinstance(value, torch.Tensor) for value in values):
            raise ValueError("it holds no state dictionary")
    named = {str(key): value for key, value in state.items()}
    return own_keys(named, lambda key: key.removeprefix("module."), path)


def own_keys(state: "State", name_of: Callable[[str], str | None], path: Path) -> "dict[str, torch.Tensor]":
    """A checkpoint's tensors by the network's keys: `name_of` turns a checkpoint's key into the network's, or
    into None to leave the tensor out. Raises InputError if two tensors get one key: either may be wrong."""
    owned: dict[str, torch.Tensor] = {}
    for key, value in state.items():
        if (name := name_of(key)) is None:
            continue
        if name in owned:
            what = f"the checkpoint holds {excerpt(name)} twice, once as {excerpt(key)}"
            fix = "save the state dictionary of the network alone: torch.save(model.state_dict(), FILE)"
            raise InputError(what, where=path, fix=fix)
        owned[name] = value
    return owned


def _unpickled(path: Path) -> Any:
    """The object that torch.save wrote, without running any code in it."""
    import torch

    with warnings.catch_warnings(), torch.serialization.safe_globals(_leftovers()):
        warnings.simplefilter("ignore")  # about pickle protocols and TorchScript; an error says what matters
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except (pickle.UnpicklingError, RuntimeError) as error:  # RuntimeError for TorchScript
            raise ValueError("it is damaged or holds more than weights, such as code") from error


def _leftovers() -> list[Any]:
    """The classes of objects that training leaves in NVIDIA's checkpoints, each with its name in the file.
    pytorch-lightning is not installed, so an empty class replaces each of its classes. `AttributeDict` has to
    become a plain dictionary, the only type into which PyTorch puts items."""
    plain = type("AttributeDict", (), {"__new__": lambda _class, *_: {}})
    names = ("callbacks.early_stopping.EarlyStopping", "callbacks.model_checkpoint.ModelCheckpoint")
    return [
        argparse.Namespace,
        (plain, "pytorch_lightning.utilities.parsing.AttributeDict"),
        *((type(name.rpartition(".")[2], (), {}), f"pytorch_lightning.{name}") for name in names),
    ]


def load_strictly(network: "torch.nn.Module", state: "State", path: Path) -> None:
    """Load a state dictionary of exactly the network's keys and shapes; only `num_batches_tracked`,
    BatchNorm's training counter, may be missing, as early PyTorch had none. Raises InputError."""
    own = network.state_dict()
    counters = {k: v for k, v in own.items() if k not in state and k.endswith("num_batches_tracked")}
    check_weights({**counters, **state}, own, path, type(network).__name__)
    network.load_state_dict({**counters, **state})


def from_checkpoint(
    network: "torch.nn.Module", path: Path, name_of: Callable[[str], str | None] = lambda key: key
) -> FrameworkModel:
    """`network` with exactly the weights of a checkpoint file. `name_of` maps its keys to the network's,
    or to None to leave a tensor out. Raises InputError."""
    load_strictly(network, own_keys(read_checkpoint(path), name_of, path), path)
    digest = file_digest(path)
    return FrameworkModel(network.float().eval(), f"{path.name}, sha256 {digest[:12]}", digest, trained=True)


def random_weights(make: "Callable[[], torch.nn.Module]", seed: int) -> FrameworkModel:
    """The network that `make` draws with a `seed` from PyTorch's generator, whose state is restored."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = make()
    return FrameworkModel(network.eval(), f"random, seed {seed}", f"random-{seed}", trained=False)


def own_weights(network: "torch.nn.Module", origin: str) -> FrameworkModel:
    """A network that a recipe has just trained, ready for inference; `origin` says how, for the record."""
    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(name.encode() + tensor.cpu().numpy().tobytes())
    return FrameworkModel(network.float().eval(), origin, digest.hexdigest(), trained=True)


def infer(network: Any, inputs: Arrays, outputs: tuple[str, ...]) -> dict[str, Any]:
    """A PyTorch network's outputs by name, on its weights' device, without TF32; frees memory for servers."""
    import torch

    device = next(network.parameters()).device
    with torch.inference_mode(), tf32_products(allowed=False):
        result = network(*(torch.from_numpy(array).to(device) for array in inputs.values()))
    tensors = result if isinstance(result, (tuple, list)) else (result,)
    arrays = {name: tensor.cpu().numpy() for name, tensor in zip(outputs, tensors, strict=True)}
    if device.type == "cuda":
        del result, tensors
        torch.cuda.empty_cache()
    return arrays


def release_gpu_memory() -> None:
    """Free the GPU memory that PyTorch caches for later tensors."""
    gc.collect()
    if "torch" in sys.modules:
        sys.modules["torch"].cuda.empty_cache()


@contextlib.contextmanager
def tf32_products(*, allowed: bool) -> Iterator[None]:
    """Have PyTorch on a GPU compute products of FP32 in TF32, or not, within a block. Sets the older
    settings: PyTorch's compiler reads these, and refuses to while the newer `fp32_precision` is TF32."""
    from torch.backends import cuda, cudnn

    previous = cuda.matmul.allow_tf32, cudnn.allow_tf32
    cuda.matmul.allow_tf32 = cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        cuda.matmul.allow_tf32, cudnn.allow_tf32 = previous


def runner(*outputs: str) -> Callable[[Any, Arrays], dict[str, Any]]:
    """The field `infer` of a model whose network returns outputs of these names, in their order."""
    return functools.partial(infer, outputs=outputs)


TOLERANCES = {
    "fp32": Tolerance(1e-4, 0.999, "rounding of FP32 sums in another order; measured 1e-6 on CPU"),
    "fp16": Tolerance(2e-2, 0.99, "FP16 holds 11 bits, 5e-4 per operation, over some fifty layers"),
    "bf16": Tolerance(1e-1, 0.97, "BF16 holds 8 bits, 4e-3 per operation, over some fifty layers"),
}
"""How far a conversion of a PyTorch network may be off, by precision, unless the model says otherwise."""

PRECISIONS: Mapping[Device, tuple[str, ...]] = {"cpu": ("fp32", "bf16"), "cuda": ("fp32", "fp16")}
"""The precisions of PyTorch's own formats on each kind of device."""
_BF16_FLAGS = {"avx512_bf16", "amx_bf16"}
"""CPU flags, one of which is enough for BF16: ResNet50 and nnU-Net then take half of the time of FP32, and
BERT three quarters. Without them BF16 is emulated."""


def why_missing(device: Device, _accelerator: str | None, precision: str) -> str | None:
    """Why PyTorch cannot compute in a precision on a device of this machine, or None."""
    if version_of("torch") is None:
        environment = "benchmarks" if device == "cpu" else "benchmarks-gpu"
        return f"needs PyTorch: {commands.packages_command(environment)}"
    if device == "cuda" and not cuda_of_torch():
        return f"needs PyTorch for CUDA, and the one here is the build for CPUs: {GPU_PACKAGES}"
    if precision == "bf16" and not cpu_flags() & _BF16_FLAGS:
        return "needs a CPU that computes in BF16: AVX512-BF16 or AMX"
    return None


def network_and_inputs(job: ConversionJob) -> tuple[Any, tuple[Any, ...]]:
    """The network in the job's precision, and the inputs of two evaluation samples, on the job's device."""
    import torch

    network = in_precision(job.network, job.precision, job.device)
    samples = job.samples("evaluation")
    rows = samples.read([0, 1 % len(samples)])
    inputs = tuple(torch.from_numpy(rows[tensor.name]).to(job.device) for tensor in job.model.inputs)
    return network, inputs


def refusal(job: ConversionJob, converter: str, error: BaseException, hint: str = "") -> ProofError:
    """The error to raise in place of a `converter`'s own, which may be long; `hint` says what it needs."""
    what = f"{converter} cannot convert the model: {error_line(str(error))}"
    fix = f"--full-trace shows the whole message{hint}; a model without the format names it in `excluded`"
    return ProofError(what, where=job.model.name, fix=fix)


def in_precision(network: "torch.nn.Module", precision: str, device: str = "cpu") -> "torch.nn.Module":
    """The network, whose weights are FP32, in a precision and on a device; NetworkModel says which casts it
    contains. It is a copy unless nothing changes: every case of the model starts from `network`."""
    import torch

    kind = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[precision]
    devices = {tensor.device.type for tensor in (*network.parameters(), *network.buffers())}
    if precision == "fp32" and devices <= {torch.device(device).type}:
        return network
    return copy.deepcopy(network).to(device, kind).eval()
