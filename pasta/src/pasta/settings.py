"""What every configuration has: fields with help, and ways to be read from a YAML file or from flags."""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pasta.errors import UsageError

SEEDS = 1 << 32  # numpy takes so many


def told(default: Any, help: str, *, numbers: bool = False) -> Any:
    """A field with its help, which the command line shows; `numbers`: its text is of numbers with commas."""
    return dataclasses.field(default=default, metadata={"help": help, "numbers": numbers})


class Settings:
    """What every configuration can do: be read from a mapping or a file, and be written down."""

    __slots__ = ()

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """From what a file or the flags say; `learning-rate` and `learning_rate` are the same."""
        known = typing.get_type_hints(cls)
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        of_numbers = {field.name for field in fields if field.metadata.get("numbers")}
        given: dict[str, Any] = {}
        for key, value in values.items():
            name = str(key).replace("-", "_")
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                raise UsageError(f"unknown setting {key!r}", hint=f"did you mean {near[0]}?" if near else None)
            given[name] = coerce(name, with_commas(value) if name in of_numbers else value, known[name])
        return cls(**given)

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any], file: str | None = None) -> Self:
        """From the flags that were passed, which go before a YAML file."""
        passed = {name: value for name, value in flags.items() if value is not None}
        return cls.from_mapping({**(read_yaml(file) if file else {}), **passed})

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)  # type: ignore[call-overload]

    # -- what a configuration checks of itself -------------------------------------------------------------

    def check_given(self, *names: str) -> None:
        for name in names:
            if not getattr(self, name):
                raise UsageError(f"{name} is missing", hint=f"pass --{name}")

    def check_positive(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}, expected 1 or more")

    def check_between(self, least: float, below: float, *names: str) -> None:
        """Of those that are not None."""
        bound = "" if below == math.inf else f", below {below}"
        for name in names:
            value = getattr(self, name)
            if value is not None and not least <= value < below:
                raise UsageError(f"{name} is {value}, expected {least} or more{bound}")

    def check_choices(self, *names: str) -> None:
        for name in names:
            allowed = typing.get_args(typing.get_type_hints(type(self))[name])
            if getattr(self, name) not in allowed:
                raise UsageError(f"{name} is {getattr(self, name)!r}", hint=f"use one of {', '.join(allowed)}")


def read_yaml(path: str) -> dict[str, Any]:
    import yaml  # type: ignore[import-untyped]

    try:
        values = yaml.safe_load(Path(path).read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UsageError(f"{path} holds a {type(values).__name__}, expected settings, one to a line")
    return {str(key).replace("-", "_"): value for key, value in values.items()}


def read_part(text: str) -> tuple[int, int]:
    """`2/6`: the third of six processes that share some work."""
    number, _, parts = text.partition("/")
    if not (number.isdecimal() and parts.isdecimal() and int(number) < int(parts)):
        raise UsageError(f"part is {text!r}", hint="write 0/6 for the first of six parts")
    return int(number), int(parts)


def with_commas(value: Any) -> Any:
    """Numbers as a command line has them, where YAML read one (`4`) or a list (`[1, 4]`); anything else as it is."""
    listed = value if isinstance(value, list) else [value]
    if not listed or not all(isinstance(each, int | float | str) and not isinstance(each, bool) for each in listed):
        return value
    return ",".join(map(str, listed))


def coerce(name: str, value: Any, kind: Any) -> Any:
    """A value of a file as the field's type: YAML reads `5e-5` as text, and `1` where a float is meant."""
    options = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if value is None and type(None) in options:
        return None
    plain = next(option for option in options if option is not type(None))
    if plain is bool and isinstance(value, bool):
        return value
    if plain in (int, float) and not isinstance(value, bool):
        try:
            number = plain(value)
            if float(number) == float(value):
                return number
        except (TypeError, ValueError, OverflowError):
            pass
    elif plain is not bool and isinstance(value, str):
        return value
    raise UsageError(f"{name} is {value!r}, expected {getattr(plain, '__name__', 'text')}")
