"""Runtime of the TorchScript formats and of AOTInductor packages: LibTorch, served and in process alike."""

import ctypes
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import torch

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of glibc's malloc.h


def load(artifact, parameters):
    """Turn TorchScript (.pt) or an AOTInductor package (.pt2) into a function from inputs to outputs, lists.

    parameters: device (cpu, cuda), device_id, threads, large (0 or 1), tf32 (0 or 1: FP32 in TF32 on a GPU),
    tensors (numpy for arrays, torch for tensors on the device). Inputs have the exported types.
    """
    # OpenMP's threads spin for a while between layers. Without spinning (OMP_WAIT_POLICY=PASSIVE), ResNet50's
    # micro size ran at 0.7 times the speed, and on one thread of two at 0.85 times.
    torch.set_num_threads(int(parameters["threads"]))
    if parameters["device"] == "cpu" and parameters["large"] == "0":
        _keep_freed_memory()
    device = "cpu" if parameters["device"] == "cpu" else f"cuda:{parameters['device_id']}"
    # Both: PyTorch's own default is TF32 for convolutions and none for matrix products.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = parameters["tf32"] == "1"
    run = _package(artifact, device) if artifact.suffix == ".pt2" else _script(artifact, device)

    def predict(tensors):
        with torch.inference_mode():
            # Compiled code assumes contiguous inputs, and reads past the end of others.
            results = list(run([tensor.contiguous() for tensor in tensors]))
        if device != "cpu":
            torch.cuda.current_stream(device).synchronize()
        return results

    def predict_arrays(arrays):
        tensors = [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
        return [tensor.numpy() for tensor in predict(tensors)]

    return predict if parameters["tensors"] == "torch" else predict_arrays


def _script(artifact, device):
    """Turn a TorchScript file into a function from a list of tensors to a sequence of tensors."""
    module = torch.jit.load(str(artifact), map_location=device).eval()

    def run(tensors):
        result = module(*tensors)
        return result if isinstance(result, (tuple, list)) else (result,)

    return run


def _package(artifact, device):
    """Turn a package into a function from a list of tensors, which it empties, to a list of tensors.

    For a CPU, unpack the package here, and delete the files once the library is in memory: the copy that the
    loader makes outlives a killed process. For a GPU this is impossible, as kernels are read later."""
    if device != "cpu":
        return _loader(artifact, torch.device(device).index).boxed_run
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(artifact) as archive:
            archive.extractall(folder)
        (root,) = Path(folder).iterdir()
        return _loader(root, -1).boxed_run


def _loader(path, device_index):
    """The loader within torch._inductor.aoti_load_package, which itself compiles test programs to detect the
    CPU's features, with a C++ compiler and for seconds, and parses a description at each call."""
    return torch._C._aoti.AOTIModelPackageLoader(str(path), "model", False, 1, device_index)


def _keep_freed_memory():
    """Let malloc keep what PyTorch frees: every layer allocates its output anew.

    By default glibc returns large blocks to the kernel, and each comes back as page faults: 400,000 a second
    on ResNet50 at 32 x 32, where keeping them more than doubled the throughput; AOTInductor gained 11 % on
    BERT and 25 % on FastPitch's micro size. Not for large tensors, whose kept blocks fit no other layer: over
    10 GiB for four volumes of 128^3, 5.6 without.
    """
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_MMAP_MAX, 0)
    libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
