"""What ends a daemon for a reason outside it: one line that names the place and the next step."""

from __future__ import annotations

import errno

EXIT_OK, EXIT_FAILED, EXIT_CONFIG = 0, 1, 78


class Failure(Exception):
    """The daemon cannot start or go on; its text is the one line that the operator sees."""


_NEXT_STEP = {
    errno.ENOSPC: "the disk is full: make room and start again",
    errno.EDQUOT: "the quota is used up: make room and start again",
    errno.EROFS: "the file system is read-only: choose another directory",
    errno.EACCES: "permission denied: give the daemon's user access or choose another place",
    errno.EPERM: "permission denied: give the daemon's user access or choose another place",
    errno.ENOTDIR: "something on the way is not a directory",
    errno.EIO: "the disk fails",
}


def next_step(error: OSError) -> str:
    """An error of the system in the operator's words."""
    return _NEXT_STEP.get(error.errno or 0, error.strerror or str(error))
