"""Who may ask, for what, and how often.

A key is made of 256 random bits, so its SHA-256 cannot be turned back, and needs no salt and no slow hash: those are
for secrets that people think of. The file holds hashes alone, and is read again when it changes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import math
import os
import secrets
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pasta.errors import PastaError, UsageError

log = logging.getLogger("pasta.serve")

SCOPES = ("api", "metrics")
LOOK_S = 1.0  # how often the file is looked at
PREFIX = "pasta-"


class TooMany(PastaError):
    """A key's limit is reached."""

    def __init__(self, what: str, code: str, retry_after: float):
        super().__init__(what, f"try again in {math.ceil(retry_after)} s")
        self.code = code
        self.retry_after = math.ceil(retry_after)


@dataclass(frozen=True, slots=True)
class Key:
    """What the operator says of one key. None is no limit."""

    name: str
    sha256: str
    scopes: tuple[str, ...] = ("api",)
    requests_per_minute: float | None = None
    concurrent: int | None = None

    def __post_init__(self) -> None:
        for what, good, expected in (
            ("name", isinstance(self.name, str) and _is_name(self.name), "1 to 100 printable characters"),
            ("sha256", isinstance(self.sha256, str) and _is_hash(self.sha256), "64 hexadecimal digits"),
            ("scopes", bool(self.scopes) and set(self.scopes) <= set(SCOPES), f"some of {', '.join(SCOPES)}"),
            ("requests_per_minute", _is_limit(self.requests_per_minute, int | float), "a number above 0"),
            ("concurrent", _is_limit(self.concurrent, int), "a whole number above 0"),
        ):
            if not good:
                raise UsageError(
                    f"{what} of key {str(self.name)[:100]!r} is {getattr(self, what)!r}, expected {expected}"
                )


@dataclass(slots=True)
class Usage:
    """What a key has used."""

    clock: Callable[[], float]
    running: int = 0
    left: float = math.inf  # requests that may come at once; it fills up as time goes by
    filled: float = field(init=False)

    def __post_init__(self) -> None:
        self.filled = self.clock()

    @contextmanager
    def request(self, key: Key) -> Iterator[None]:
        """For as long as a request of this key is worked on; refused where a limit is reached."""
        if key.concurrent is not None and self.running >= key.concurrent:
            raise TooMany(f"this key may have {key.concurrent} requests at once", "concurrency_limit_exceeded", 1)
        if key.requests_per_minute is not None:
            self._fill(key.requests_per_minute)
            if self.left < 1:
                wait = (1 - self.left) * 60 / key.requests_per_minute
                what = f"this key may send {key.requests_per_minute:g} requests a minute"
                raise TooMany(what, "rate_limit_exceeded", wait)
            self.left -= 1
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    def _fill(self, rate: float) -> None:
        now = self.clock()
        self.left = min(max(1.0, rate), self.left + (now - self.filled) * rate / 60)
        self.filled = now


class Keys:
    """The keys of one server: of a file, or one that is given."""

    def __init__(self, keys: Sequence[Key], path: Path | None = None, clock: Callable[[], float] = time.monotonic):
        self._keys = tuple(keys)
        self._path = path
        self._clock = clock
        self._usage: dict[str, Usage] = {}
        self._looked = clock()
        self._stamp = _stamp(path)

    @classmethod
    def of_file(cls, path: Path) -> Keys:
        return cls(read_keys(path), path)

    @classmethod
    def of_one(cls, secret: str) -> Keys:
        """One key that may do everything."""
        return cls([Key("default", hash_of(secret), SCOPES)])

    def find(self, secret: str) -> Key | None:
        """The key with this secret. All hashes are compared, each in constant time."""
        self._look()
        given = hash_of(secret)
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.sha256, given):
                found = key
        return found

    def usage(self, key: Key) -> Usage:
        return self._usage.setdefault(key.name, Usage(self._clock))

    def _look(self) -> None:
        if self._path is None or self._clock() - self._looked < LOOK_S:
            return
        self._looked = self._clock()
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._keys = read_keys(self._path)
            log.warning("%d keys were read from %s", len(self._keys), self._path)
        except PastaError as error:
            log.error("the keys stay as they were: %s", error)


def read_keys(path: Path) -> tuple[Key, ...]:
    """A TOML file with a table `[[key]]` for each."""
    try:
        found = tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"cannot read the keys in {path}: {error.strerror}", "make one with `pasta key`") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}", "expected a table [[key]] for each key") from None
    tables = found.get("key")
    if set(found) != {"key"} or not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise UsageError(f"{path} holds no keys", "expected a table [[key]] for each, as `pasta key` writes it")
    keys = tuple(_read_key(table, path) for table in tables)
    for what in ("name", "sha256"):
        values = [getattr(key, what) for key in keys]
        if len(set(values)) < len(values):
            raise UsageError(f"two keys in {path} have the same {what}", "give each its own")
    return keys


def _read_key(table: dict[str, Any], path: Path) -> Key:
    known = set(Key.__dataclass_fields__)
    unknown = sorted(set(table) - known)
    missing = sorted({"name", "sha256"} - set(table))
    if unknown or missing:
        what = f"an unknown field {unknown[0]!r}" if unknown else f"no {missing[0]!r}"
        raise UsageError(f"a key in {path} has {what}", f"the fields are {', '.join(Key.__dataclass_fields__)}")
    scopes = table.get("scopes", ["api"])
    if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
        raise UsageError(f"scopes of a key in {path} are {scopes!r}, expected a list of {', '.join(SCOPES)}")
    return Key(**{**table, "scopes": tuple(scopes)})


def new_key(
    path: Path,
    name: str,
    *,
    scopes: Sequence[str] = ("api",),
    requests_per_minute: float | None = None,
    concurrent: int | None = None,
) -> str:
    """Adds a key to a file and returns its secret, which is nowhere else."""
    secret = PREFIX + secrets.token_urlsafe(32)
    key = Key(name, hash_of(secret), tuple(scopes), requests_per_minute, concurrent)
    if os.path.exists(path) and any(other.name == name for other in read_keys(path)):
        raise UsageError(f"{path} has a key {name!r} already", "take another name, or delete its table")
    fields: dict[str, Any] = {"name": name, "sha256": key.sha256, "scopes": list(scopes)}
    limits = {"requests_per_minute": requests_per_minute, "concurrent": concurrent}
    fields |= {what: value for what, value in limits.items() if value is not None}
    # JSON's strings of printable characters, its lists and its numbers are TOML's too.
    table = "".join(f"{what} = {json.dumps(value, ensure_ascii=False)}\n" for what, value in fields.items())
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as file:
            file.write(f"\n[[key]]\n{table}")  # on a line of its own, also where an editor ended the last one without
    except OSError as error:
        raise PastaError(f"cannot write to {path}: {error.strerror}") from None
    return secret


def hash_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def _is_name(text: str) -> bool:
    return 0 < len(text) <= 100 and text.isprintable()


def _is_hash(text: str) -> bool:
    return len(text) == 64 and set(text) <= set("0123456789abcdef")


def _is_limit(value: Any, kind: Any) -> bool:
    return value is None or (isinstance(value, kind) and not isinstance(value, bool) and 0 < value < math.inf)


def _stamp(path: Path | None) -> tuple[int, int] | None:
    try:
        found = None if path is None else path.stat()
    except OSError:
        return None
    return None if found is None else (found.st_mtime_ns, found.st_size)
