"""What the system says of a file that cannot be read or written, with what to do about it."""

import errno
import os

from reports.record.foreign import path_text, visible

_LONGEST_PATH = 300
_CURES = {
    errno.EACCES: "Name a place that this user may read and write",
    errno.EISDIR: "Name a file",
    errno.ELOOP: "Name what the links should lead to",
    errno.ENAMETOOLONG: "Give a shorter name",
    errno.ENOENT: "Check the path",
    errno.ENOSPC: "Make room, or name another place",
    errno.ENOTDIR: "Name a place below a folder",
    errno.EPERM: "Name a place that this user may read and write",
    errno.EROFS: "Name a place that can be written to",
}
"""What to do where the system has refused something."""


def with_cure(error: OSError) -> str:
    """The file, what the system says of it, and what to do; a sentence of this suite's own has that already."""
    where = path_text(error.filename or "standard output", _LONGEST_PATH)
    said = error.strerror or str(error)
    is_of_the_system = error.errno is not None and said == os.strerror(error.errno)
    cure = _CURES.get(error.errno or 0, "") if is_of_the_system else ""
    return visible(f"{where}: {said}{f'. {cure}.' if cure else ''}")
