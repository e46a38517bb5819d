"""A machine of its own for the scenarios of a worker, as far as runs meet on one: where they take turns and
leave memory.

Runs take turns by a lock on /dev/shm, and load generators meet there by the names of their segments. With a
/dev/shm of its own a scenario waits for nobody outside, however busy the machine is, and what is left there
is its own.
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
"""A /dev with all that is in the machine's but its shared memory and its terminals. It is another folder too,
as who waits to measure holds up all others at the one above /dev/shm."""


@functools.cache
def enter() -> bool:
    """Let this thread, and all that it starts from here on, see a /dev/shm that no other process sees;
    whether it does. Root alone may, and not in each container."""
    if os.getuid() != 0 or ctypes.CDLL(None).unshare(_NEW_MOUNTS) != 0:
        return False
    folder = tempfile.mkdtemp()
    done = subprocess.run(["sh", "-c", _MOUNTS, "sh", folder], capture_output=True, check=False)
    Path(folder).rmdir()
    return done.returncode == 0
