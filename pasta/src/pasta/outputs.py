"""What a command is about to write, looked at before it does anything that takes long."""

from __future__ import annotations

import argparse
import errno
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from pasta.errors import UsageError

Name = str | os.PathLike[str]


def check_file(file: Name, read: Iterable[Name | None] = ()) -> None:
    """Refuses a file that cannot be written, and one of those that are `read`; leaves everything as it is."""
    check_apart(file, read)
    folder = _path(file).parent
    if os.path.isdir(file):
        raise UsageError(f"cannot write {file}: it is a folder", "name a file in it")
    if not os.path.isdir(folder):
        raise UsageError(f"cannot write {file}: there is no folder {folder}", "make it first")
    check_place(file)


def check_folder(folder: Name) -> None:
    """Refuses a folder that cannot be made, or written to; leaves everything as it is."""
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UsageError(f"cannot write to {folder}: it is a file", "name a folder")
    check_place(folder)


def check_place(name: Name) -> None:
    """Refuses a path that cannot be made with the folders above it, or, where something is there, written to."""
    path = _path(name)
    there = next(each for each in (path, *path.parents) if os.path.exists(each))
    try:
        if any(len(os.fsencode(part)) > os.pathconf(there, "PC_NAME_MAX") for part in path.relative_to(there).parts):
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        if os.path.isdir(there):
            tempfile.TemporaryFile(dir=there).close()
        elif there != path:
            raise OSError(errno.ENOTDIR, f"{there} is no folder")
        elif not os.access(path, os.W_OK):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise UsageError(f"cannot write {name}: {error.strerror}", "name another output") from None


def _path(name: Name) -> Path:
    """What is there by its own name, as `/dev/stdout` may lead to a pipe, which has none; else where a link leads."""
    return Path(os.path.abspath(name) if os.path.exists(name) else os.path.realpath(name))


def check_apart(target: Name, sources: Iterable[Name | None]) -> None:
    """Refuses to write over what is read, by whatever path or link; None and what is no path are nobody's file."""
    for source in (each for each in sources if each is not None):
        if os.path.exists(source) and os.path.exists(target) and os.path.samefile(source, target):
            raise UsageError(f"{source} and {target} are the same file, read and written", "name another output")


def output_file(text: str) -> Path:
    """For argparse: a file that can be written."""
    try:
        check_file(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return Path(text)
