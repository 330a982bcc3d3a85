"""Particles on disk: the state of a run that will go on later, or its result.

The file is a pickle, so that reading one runs what its writer wished: read only files of your own.
"""

from __future__ import annotations

import io
import pickle
import sys
import threading
import weakref
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, Final

from siren.distributions import Distribution, registered
from siren.errors import SirenError
from siren.inference.ds import stand_in
from siren.runtime.values import NIL, Cons, Ragged
from siren.symbolic import expr
from siren.symbolic.expr import Variable
from siren.symbolic.lanes import Scope

_KIND: Final = b"siren stream "
_MAGIC: Final = _KIND + b"4\n"
# A sum of thousands of terms is as deep an expression.
_STACK: Final = 512 * 1024 * 1024
_DEPTH: Final = 1_000_000
_LINKS: Final[dict[type, str]] = {Variable: "node", Cons: "tail", Ragged: "tail"}


def save(path: str | Path, state: dict[str, Any]) -> None:
    """Written beside and put in place when complete: an interruption leaves the old file."""
    path = Path(path)
    beside = path.with_name(path.name + ".part")

    def write() -> None:
        with beside.open("wb") as file:
            file.write(_MAGIC)
            _write(file, state)
        beside.replace(path)

    try:
        _deep(write)
    except OSError as error:
        raise SirenError(f"cannot write {path}: {error}") from None


def load(path: str | Path) -> dict[str, Any]:
    def read() -> dict[str, Any]:
        with Path(path).open("rb") as file:
            found = file.read(len(_MAGIC))
            if found != _MAGIC:
                if found.startswith(_KIND):
                    raise SirenError(
                        f"{path} was saved by another version of Siren", hint="save it anew with `--save`"
                    )
                raise SirenError(f"{path} is no saved stream", hint="write one with `--save`")
            return dict(_read(file))

    try:
        found: dict[str, Any] = _deep(read)
        return found
    except OSError as error:
        raise SirenError(f"cannot read {path}: {error.strerror or error}") from None
    except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, KeyError) as error:
        raise SirenError(f"{path} cannot be read: {error}", hint="was it saved by another version?") from None


def dumps(value: Any) -> bytes:
    """What `loads` reads again: for objects that refer to particles."""
    file = io.BytesIO()
    _deep(lambda: _write(file, value))
    return file.getvalue()


def loads(data: bytes) -> Any:
    return _deep(lambda: _read(io.BytesIO(data)))


def _write(file: BinaryIO, value: Any) -> None:
    pickler = _Pickler(file, protocol=5)
    pickler.dump((next(expr._serial), value))
    while pickler.links:
        pickler.dump(pickler.links.pop())
    pickler.dump(None)


def _read(file: BinaryIO) -> Any:
    unpickler = _Unpickler(file)
    serial, value = unpickler.load()
    while (link := unpickler.load()) is not None:
        setattr(*link)
    # New variables are newer than those that were read.
    expr._serial = count(max(serial, next(expr._serial)))
    return value


class _Pickler(pickle.Pickler):
    """Chains are written link by link, each after what it belongs to: a history of thousands of steps is as
    long a chain, and pickle recurs along it, which Python 3.12 allows only so far."""

    def __init__(self, file: BinaryIO, protocol: int) -> None:
        super().__init__(file, protocol)
        self.links: list[tuple[Any, str, Any]] = []  # an object, its attribute, and what that is

    def reducer_override(self, obj: Any) -> Any:
        if (name := _LINKS.get(type(obj))) is not None:
            make, arguments, (_, slots), *_ = obj.__reduce_ex__(5)
            self.links.append((obj, name, slots[name]))
            return make, arguments, (None, {**slots, name: None})
        if type(obj) is weakref.WeakSet:
            return weakref.WeakSet, (list(obj),)
        return _reduce_scope(obj) if type(obj) is Scope else NotImplemented

    def persistent_id(self, obj: Any) -> Any:
        """What exists once is written by its name."""
        if isinstance(obj, Distribution):
            return "distribution", obj.name
        if type(obj) is Variable and obj is stand_in(obj.size):
            return "stand-in", obj.size
        return ("nil", "") if obj is NIL else None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> Any:
        kind, name = pid
        if kind == "nil":
            return NIL
        return stand_in(name) if kind == "stand-in" else registered()[name]


def _reduce_scope(scope: Scope) -> tuple[Any, ...]:
    """A scope refers weakly to its generations."""
    alive = [generation for ref in scope._alive if (generation := ref()) is not None]
    state = (scope.size, scope.parent, scope.index, scope.now, alive, scope._sweep_at)
    return Scope.__new__, (Scope,), state, None, None, _restore_scope


def _restore_scope(scope: Scope, state: tuple[Any, ...]) -> None:
    scope.size, scope.parent, scope.index, scope.now, alive, scope._sweep_at = state
    scope._alive = [weakref.ref(generation) for generation in alive]


def _deep(action: Callable[[], Any]) -> Any:
    """Run where the stack is large enough for deep structures."""
    outcome: list[Any] = []

    def run() -> None:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(_DEPTH)
        try:
            outcome.append((action(), None))
        except BaseException as error:
            outcome.append((None, error))
        finally:
            sys.setrecursionlimit(limit)

    before = threading.stack_size(_STACK)
    try:
        thread = threading.Thread(target=run)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    value, error = outcome[0]
    if error is not None:
        raise error
    return value
