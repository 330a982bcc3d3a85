"""Writing to a disk that may be full: one line in place of a library's traceback."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from pasta.errors import StorageError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}
#: How safetensors and torch, which write by themselves, say the same.
SIGNS = ("no space left", "os error 28", "os error 27", "file too large", "pytorchstreamwriter", "iostream error")


@contextmanager
def storing(path: str | os.PathLike[str], hint: str = "make room, then run the same command again") -> Iterator[None]:
    """Raises `StorageError` where what stands inside cannot write for want of room."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise StorageError(f"cannot write {path}: {error.strerror or error}", hint) from error
    except Exception as error:
        if isinstance(error, StorageError) or not any(sign in str(error).lower() for sign in SIGNS):
            raise
        raise StorageError(f"cannot write {path}: {str(error).splitlines()[0]}", hint) from error
