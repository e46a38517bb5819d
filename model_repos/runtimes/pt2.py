"""Runtime of the AOTInductor format: a compiled package, in a Triton Python-backend model and in process alike."""

import ctypes
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import torch

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of glibc's malloc.h


def load(artifact, settings):
    """A .pt2 package to a function from a list of arrays to a list of arrays.

    settings: device (cpu, cuda), device_id, threads, large (0 or 1). Arrays must be of the types exported with.
    """
    torch.set_num_threads(int(settings["threads"]))
    if settings["device"] == "cpu" and settings["large"] == "0":
        _keep_freed_memory()
    device = "cpu" if settings["device"] == "cpu" else f"cuda:{settings['device_id']}"
    package = _open(artifact) if device == "cpu" else _loader(artifact, int(settings["device_id"]))

    def predict(arrays):
        # Compiled code takes it for granted that its inputs are contiguous, and reads past the end of others.
        tensors = [torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in arrays]
        with torch.inference_mode():
            return [tensor.cpu().numpy() for tensor in package.boxed_run(tensors)]

    return predict


def _loader(path, device_index):
    """What torch._inductor.aoti_load_package wraps.

    The wrapper first compiles test programs to learn what this CPU can do, which takes a C++ compiler and seconds,
    and parses the call's description anew at each call.
    """
    return torch._C._aoti.AOTIModelPackageLoader(str(path), "model", False, 1, device_index)


def _open(artifact):
    """A package for the CPU. Its library is unpacked, and gone from the disk once it is in memory.

    The loader's own copy stays behind when the process is killed. Not for a GPU, whose kernels are read later.
    """
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(artifact) as archive:
            archive.extractall(folder)
        (root,) = Path(folder).iterdir()
        return _loader(root, -1)


def _keep_freed_memory():
    """Let malloc keep what PyTorch frees: each run allocates its tensors anew.

    By default glibc gives large blocks back to the kernel, and each comes back as page faults: keeping them saved
    11 % of the time on BERT, 15 % on nnU-Net at 32^3, 25 % on FastPitch's micro size. Not for large tensors: at
    128^3 it saved a third, for 5.5 GB instead of 2.9.
    """
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_MMAP_MAX, 0)
    libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
