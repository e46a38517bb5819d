"""A private /dev/shm for each test worker, so that workers share neither the machine lock nor shared memory.

Runs take turns by a lock on /dev/shm, and load generators name their segments there. With its own /dev/shm a
worker never waits for others, and every segment left there is its own.
"""

import ctypes
import functools
import os
import subprocess
import tempfile
from pathlib import Path

_NEW_MOUNTS = 0x00020000
"""CLONE_NEWNS of Linux's sched.h."""
_MOUNTS = """
set -e
mount --make-rprivate /
mount --rbind /dev "$1"
trap 'umount --recursive --lazy "$1"' EXIT  # whoever empties the folder later must not find the devices in it
mount -t tmpfs -o mode=755 scenarios /dev
for one in "$1"/*; do
    own=/dev/${one##*/}
    if [ -L "$one" ]; then cp -P "$one" "$own"
    elif [ "$own" = /dev/shm ] || [ "$own" = /dev/pts ]; then mkdir "$own"
    elif [ "$own" = /dev/ptmx ]; then ln -s pts/ptmx "$own"
    elif [ -d "$one" ]; then mkdir "$own"; mount --rbind "$one" "$own"
    else : > "$own"; mount --bind "$one" "$own"
    fi
done
mount -t tmpfs -o mode=1777 scenarios /dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 scenarios /dev/pts
"""
"""A /dev like the machine's except for shared memory and terminals. It is a separate folder because a process
that waits to measure locks the folder above /dev/shm."""


@functools.cache
def enter() -> bool:
    """Give this thread and its children their own /dev/shm; False without root or where it is forbidden."""
    if os.getuid() != 0 or ctypes.CDLL(None).unshare(_NEW_MOUNTS) != 0:
        return False
    folder = tempfile.mkdtemp()
    done = subprocess.run(["sh", "-c", _MOUNTS, "sh", folder], capture_output=True, check=False)
    Path(folder).rmdir()
    return done.returncode == 0
