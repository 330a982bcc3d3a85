"""Arguments of function calls: the Berkeley function-calling leaderboard, from the wheel `bfcl-eval` (Apache-2.0).

`simple_python` is curated, `live_simple` what users asked. The function is given; its arguments are the fields, and
those that the call leaves out are null.
"""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pasta.errors import UsageError
from pasta.eval.extraction.item import Item

SETS = {"tools": "simple_python", "tools-live": "live_simple"}
TYPES = {"dict": "object", "float": "number", "tuple": "array"}
KEPT = ("enum", "items", "properties", "required")


def tool_sets(wheel: Path, most: int) -> Iterator[Item]:
    for name, source in SETS.items():
        items = [item for item in calls(name, *_rows(wheel, source)) if len(item.answers) > 1]
        yield from random.Random(0).sample(items, min(most, len(items)))


def _rows(wheel: Path, source: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    members = (f"bfcl_eval/data/{folder}BFCL_v4_{source}.json" for folder in ("", "possible_answer/"))
    try:
        with zipfile.ZipFile(wheel) as archive:
            asked, right = (archive.read(member).splitlines() for member in members)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise UsageError(f"{wheel}: {error}", hint="pip download --no-deps bfcl-eval==2026.3.23") from None
    return [json.loads(line) for line in asked], [json.loads(line) for line in right]


def calls(name: str, asked: list[dict[str, Any]], right: list[dict[str, Any]]) -> Iterator[Item]:
    truths = {row["id"]: row["ground_truth"] for row in right}
    for row in asked:
        [function], [truth] = row["function"], truths[row["id"]]
        arguments = truth[function["name"]]
        parameters = function["parameters"]
        schema = schema_of(parameters)
        if schema is None or set(arguments) != set(parameters["properties"]):
            continue
        asks = "\n".join(message["content"] for message in row["question"][0])
        yield Item(
            name,
            row["id"],
            f"You call a function for the user.\n\nUser: {asks}\n\nFunction {function['name']}: "
            f"{function['description']}\nArguments:\n{describe(parameters)}\n\nAnswer with one JSON object of the "
            "arguments. An optional argument that the user does not give is null.",
            {**schema, "additionalProperties": False},
            {f"/{key}": values for key, values in arguments.items()},
            "argument",
        )


def schema_of(parameter: Mapping[str, Any]) -> dict[str, Any] | None:
    """The leaderboard's way to write a type as JSON schema; None where it says 'any'."""
    kind = TYPES.get(parameter.get("type", "any"), parameter.get("type", "any"))
    if kind not in ("object", "array", "string", "number", "integer", "boolean"):
        return None
    out: dict[str, Any] = {"type": kind, **{key: parameter[key] for key in KEPT if key in parameter}}
    if "items" in out:
        out["items"] = schema_of(out["items"])
        if out["items"] and "enum" in out and not any(isinstance(choice, list) for choice in out["enum"]):
            out["items"]["enum"] = out.pop("enum")  # choices beside an array are those of its elements
    if "properties" in out:
        out["properties"] = {key: schema_of(value) for key, value in out["properties"].items()}
    whole = out.get("items", {}) is not None and None not in out.get("properties", {}).values()
    return out if whole else None


def describe(parameters: Mapping[str, Any]) -> str:
    lines = []
    for name, about in parameters["properties"].items():
        needed = "required" if name in parameters.get("required", ()) else "optional"
        choices = f", one of {json.dumps(about['enum'])}" if "enum" in about else ""
        lines.append(f"- {name} ({about['type']}, {needed}{choices}): {about.get('description', '')}")
    return "\n".join(lines)
