"""The hardware that the suite knows, and which of it this machine has. A new GPU takes one line."""

import re
from collections.abc import Sequence

from tritonproof.base.errors import InputError
from tritonproof.host.machine import VISIBLE_GPUS, gpu_names
from tritonproof.host.nvml import InstalledGpu, installed_gpus
from tritonproof.record.setup import REMOTE
from tritonproof.spec import Target

CPU = Target("cpu", "a CPU", "cpu")

TARGETS = (
    Target("a30", "NVIDIA A30", "cuda", r"\bA30\b", (8, 0), has_nvidia_figures=True),
    Target("a40", "NVIDIA A40", "cuda", r"\bA40\b", (8, 6), has_nvidia_figures=True),
    Target("a100", "NVIDIA A100", "cuda", r"\bA100\b", (8, 0), has_nvidia_figures=True),
    Target("v100", "NVIDIA V100", "cuda", r"\bV100\b", (7, 0), has_nvidia_figures=True),
    Target("t4", "NVIDIA T4", "cuda", r"\bT4\b", (7, 5), has_nvidia_figures=True),
    Target("l4", "NVIDIA L4", "cuda", r"\bL4\b", (8, 9)),
    Target("l40s", "NVIDIA L40S", "cuda", r"\bL40S\b", (8, 9)),
    Target("h100", "NVIDIA H100", "cuda", r"\bH100\b", (9, 0)),
    Target("h200", "NVIDIA H200", "cuda", r"\bH200\b", (9, 0)),
    Target("b200", "NVIDIA B200", "cuda", r"\bB200\b", (10, 0)),
    CPU,
)
"""The hardware that has names. Compute capabilities are from https://developer.nvidia.com/cuda-gpus."""

MIG = Target("mig", "a MIG slice of an NVIDIA GPU", "cuda", r"\bMIG\b", None)
"""A part of a divided GPU, which the driver names with its profile: NVIDIA A100-SXM4-80GB MIG 1g.10gb has a
seventh of an A100's multiprocessors, and is compared with no other."""

OTHER_GPU = Target("gpu", "another NVIDIA GPU", "cuda", r"", None)
"""A GPU with none of the names above."""

REMOTE_SERVER = Target(REMOTE, "a server elsewhere", "cpu")
"""The device of somebody else's server, unless the user names it; what this machine converts is for a CPU."""

EVERY_TARGET = (*TARGETS, MIG, OTHER_GPU, REMOTE_SERVER)
"""All hardware that a user can name."""


def recognise(gpu_name: str | None) -> Target:
    """The target of a GPU, by the name that its driver reports, or for None the CPU."""
    if gpu_name is None:
        return CPU
    for target in (MIG, *TARGETS):  # a slice's name holds its GPU's
        if target.gpu_name and re.search(target.gpu_name, gpu_name):
            return target
    return OTHER_GPU


def present_targets() -> tuple[Target, ...]:
    """This machine's targets, each once: its GPUs, those with own names first, and always the CPU."""
    gpus = sorted(map(recognise, gpu_names()), key=lambda target: target is OTHER_GPU)
    return (*dict.fromkeys(gpus), CPU)


def runs_here(target: Target) -> bool:
    """Whether this machine can run a target's cases."""
    return target == REMOTE_SERVER or target in present_targets()


def choose_gpus(
    targets: Sequence[Target], gpus: Sequence[InstalledGpu], count: int
) -> tuple[InstalledGpu, ...]:
    """The GPUs that a run uses: the first `count` of `gpus` that are one of `targets`, all of one name, since
    a figure of two kinds together holds for neither. Empty if none of `gpus` is a target. Raises InputError
    if there are fewer than `count`, or if `count` is above one and no target is a GPU."""
    kinds = [target for target in targets if target.device == "cuda"]
    matching = [gpu for target in kinds for gpu in gpus if recognise(gpu.name) == target]
    alike = [gpu for gpu in matching if gpu.name == matching[0].name]
    text = fix = ""
    if not kinds and count > 1:
        text, fix = "several GPUs are wanted, and none is selected", "name one with --target, or omit --gpus"
    elif matching and recognise(matching[0].name) == MIG and count > 1:
        text = "CUDA shows a program one MIG slice at a time"
        fix = f"leave --gpus out; {VISIBLE_GPUS}=MIG-... picks the slice"
    elif matching and len(alike) < count:
        text = f"more GPUs are wanted than there are: {len(alike)} x {alike[0].name}"
        fix = f"write --gpus {len(alike)}, or let {VISIBLE_GPUS} show more"
    if text:
        raise InputError(text, where=f"--gpus {count}", fix=fix)
    return tuple(alike[:count])


def why_target_is_absent(target: Target, gpus: Sequence[InstalledGpu]) -> str:
    """Why a case of other hardware is skipped; `gpus` are those from which the run chose."""
    if any(recognise(gpu.name) == target for gpu in gpus):
        used = ", ".join(dict.fromkeys(gpu_names()))
        return f"a run uses one kind of GPU, this one {used}; --target {target.name} is for {target.label}"
    has = ", ".join(gpu.name for gpu in gpus) or "no NVIDIA GPU"
    hidden = set(installed_gpus(None)) - set(gpus)
    if any(recognise(gpu.name) == target for gpu in hidden):
        return f"needs {target.label}; {VISIBLE_GPUS} hides this machine's and shows {has}"
    return f"needs {target.label}; this machine has {has}"
