"""Are there enough cores, memory, shared memory and disk space, and is the machine quiet?"""

import os
import shutil
import tempfile
from pathlib import Path

from tritonproof.base.paths import MODEL_REPOS, RESULTS
from tritonproof.doctor import Finding, ok, problem, warning
from tritonproof.host import machine, scratch

_OTHERS, _STOLEN = 10, 5
"""The percentages of all cores' time above which tritonproof/measure/marks.py marks a load point."""
_FULL_GIB = 11.3
"""The measured peak of calibrating nnU-Net for INT8; the other full models need less than the micro ones."""
_MICRO_GIB = 3.0
"""A run of all micro models took up to 2.5: PyTorch and TensorFlow in pytest, pt2's compiler, Triton."""
_DISK_GIB, _MIN_DISK_GIB = 4.0, 0.5
"""All micro builds take 38 MiB, a full one up to 170 MiB, and twice that while it is made."""
_VOLUMES_MIB = 476
"""nnU-Net's three batches of four volumes, 34 MiB each, and answers, 17 MiB each, which are copied."""
_MIN_SHM_MIB = 48


def cores() -> Finding:
    """Whether the control group lets this process use all its cores, which decide the models' threads."""
    visible, limit = sorted(os.sched_getaffinity(0)), machine.cgroup_cores()
    if limit is not None and limit < len(visible):
        text = f"{len(visible)} are visible, but the control group allows only {limit:g}"
        pin = f"taskset -c {','.join(map(str, visible[: max(1, int(limit))]))}"
        fix = f"pin the run to cores: {pin} ..., or docker run --cpuset-cpus"
        return warning(f"{text}, so the kernel will pause the run's threads", fix)
    return ok(f"{len(visible)}" + ("" if len(visible) > 1 else "; server and load generator share it"))


def other_load() -> Finding:
    """How much other programs, and the host of a virtual machine, use the cores now."""
    import psutil

    share = psutil.cpu_times_percent(0.5)
    busy = share.user + share.nice + share.system + share.irq + share.softirq
    text = f"other programs use {busy:.0f} % of the cores, the host of a virtual machine {share.steal:.0f} %"
    if busy > _OTHERS or share.steal > _STOLEN:
        fix = "stop them, or measure later or on a machine of your own; disturbed load points are marked"
        return warning(text, fix)
    return ok(text)


def memory() -> Finding:
    """Whether the free memory is enough for the micro and the full models."""
    free_gib = machine.free_memory_gib()
    if free_gib < _MICRO_GIB:
        fix = "end other programs, or give the container more; a run that takes more is silently killed"
        return warning(f"{free_gib:.1f} GiB free; a run may take {_MICRO_GIB:g}", fix)
    but = "" if free_gib >= _FULL_GIB else f", but for nnunet, which takes up to {_FULL_GIB}"
    return ok(f"{free_gib:.1f} GiB free: enough for all cases{but}")


def shared_memory() -> Finding:
    """Whether /dev/shm, which carries tensors to the server and its Python backend, has enough room."""
    folder = scratch.SHARED_MEMORY_FOLDER
    if not os.access(folder, os.W_OK):
        return problem(f"{folder} cannot be written", f"mount -t tmpfs tmpfs {folder}")
    free_mib = shutil.disk_usage(folder).free / 2**20
    fix = f"docker run --shm-size=2g, or mount -o remount,size=2g {folder}"
    text = f"{free_mib:.0f} MiB free in {folder}"
    if free_mib < _MIN_SHM_MIB:
        return problem(f"{text}: too little for any model", fix)
    if free_mib < _VOLUMES_MIB:
        return warning(f"{text}: enough for all but full nnU-Net, which takes {_VOLUMES_MIB} MiB", fix)
    return ok(text)


def disks() -> Finding:
    """Whether the disks for builds, records and temporary files have enough room."""
    elsewhere = "give other folders: --model-repos DIR, --results DIR, TMPDIR=DIR for temporary files"
    free_gib = {}
    for needed in (MODEL_REPOS, RESULTS, Path(tempfile.gettempdir())):
        folder = next(path for path in (needed, *needed.parents) if path.exists())
        if not os.access(folder, os.W_OK):
            return problem(f"{folder} cannot be written", f"make it writable, or {elsewhere}")
        free_gib[folder] = shutil.disk_usage(folder).free / 2**30
    text = ", ".join(f"{free:.1f} GiB free in {folder}" for folder, free in free_gib.items())
    lowest = min(free_gib.values())
    if lowest < _MIN_DISK_GIB:
        return problem(text, f"free some space, or {elsewhere}")
    if lowest < _DISK_GIB:
        return warning(f"{text}: full models may not fit", f"free some space, or {elsewhere}")
    return ok(text)
