"""The user's model cache: where it is, and how a folder gets into it, whole or not at all."""

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from pasta.errors import StorageError
from pasta.models.progress import say

HINT = "set PASTA_CACHE to a folder with room that you may write to"


def cache_root() -> Path:
    """`$PASTA_CACHE`, or the platform's cache folder for this user."""
    if chosen := os.environ.get("PASTA_CACHE"):
        return Path(chosen).expanduser()
    from platformdirs import user_cache_dir  # here, since a model in a folder is loaded without the cache

    return Path(user_cache_dir("pasta", appauthor=False))


def models_root() -> Path:
    return cache_root() / "models"


def keep(name: str, fill: Callable[[Path], None], needs_bytes: int) -> Path:
    """The cached folder `name`; if it is not there, `fill` makes it in a scratch folder that is then renamed.

    The rename is atomic, so a folder that exists is complete, whatever happened to an earlier process. A lock
    keeps two processes from doing the same work; the second finds the first one's folder.
    """
    target = models_root() / name
    if target.is_dir():
        return target
    with storage_errors(target.parent), locked(target.parent, name):
        if target.is_dir():
            return target
        require_space(target.parent, needs_bytes)
        remove_leftovers(target.parent, name)
        scratch = Path(tempfile.mkdtemp(prefix=f".{name}.partial-", dir=target.parent))
        try:
            ready = scratch / "ready"
            ready.mkdir()
            fill(ready)
            ready.rename(target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return target


@contextlib.contextmanager
def locked(folder: Path, name: str) -> Iterator[None]:
    """Holds the lock of `name`, and says so when another process has it."""
    from filelock import FileLock, Timeout

    make_folder(folder)
    lock = FileLock(folder / f".{name}.lock")
    try:
        lock.acquire(timeout=0.5)
    except Timeout:
        say(f"another process is preparing {name}; waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError as error:  # where nobody can make one, such as /proc
        raise StorageError(f"cannot make the folder {folder}", HINT) from error


@contextlib.contextmanager
def storage_errors(folder: Path) -> Iterator[None]:
    """Turns the operating system's refusal to write into one clear line."""
    try:
        yield
    except OSError as error:
        match error.errno:
            case errno.ENOSPC | errno.EDQUOT:
                raise no_space(folder) from error
            case errno.EACCES | errno.EPERM | errno.EROFS | errno.ENOTDIR | errno.EEXIST:
                raise StorageError(f"cannot write to {folder}: {error.strerror}", HINT) from error
        raise


def no_space(folder: Path) -> StorageError:
    return StorageError(f"no space left on the disk of {folder}", HINT)


def require_space(folder: Path, needs_bytes: int) -> None:
    """Refuses work that would fill the disk before starting it."""
    free = shutil.disk_usage(folder).free
    if free < needs_bytes:
        raise StorageError(
            f"not enough space in {folder}: {needs_bytes / 1e6:,.0f} MB needed, {free / 1e6:,.0f} MB free",
            HINT,
        )


def remove_leftovers(folder: Path, name: str) -> None:
    """Deletes what a killed process left half done; the caller holds the lock, so nobody is using it."""
    for leftover in folder.glob(f".{name}.partial-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def folder_bytes(folder: Path) -> int:
    """Bytes of the files under `folder`, links followed, files that vanish meanwhile left out."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file():
                total += path.stat().st_size
    return total
