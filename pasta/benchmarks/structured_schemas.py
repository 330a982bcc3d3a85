"""How many real schemas become objects, and is every object valid? With any model, greedy and sampled.

    python benchmarks/structured_schemas.py SCHEMAS.jsonl[.xz] [--model M] [--every N] > results/structured-schemas.json
    python benchmarks/structured_schemas.py SCHEMAS.jsonl[.xz] --random --close 6 > results/structured-schemas-tiny.json
    python benchmarks/structured_schemas.py SCHEMAS.jsonl[.xz] --rows FILE [--seconds S]   # goes on where it stopped
    python benchmarks/structured_schemas.py SCHEMAS.jsonl[.xz] --at-limit close --max-value-tokens 48

A row of SCHEMAS has `name` and `schema`. A schema counts as taken by the library where one matcher for the whole of it
can be built, as supported where the planner takes it. Every supported one is decoded, and the answer
validated by `jsonschema` (formats included). `--random` takes a random model of two layers instead, with the same
tokenizer. It hardly ever ends a string: `--close B` adds B to the logits of quotes and brackets, which a constraint
then allows or not. An answer that the token limit cut is no valid answer: it is counted apart. `--at-limit close`
completes what a limit leaves unfinished, and counts the values that it did so with. `--rows` keeps a row for each
answer as it comes, and asks for none again that is there.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import torch
import transformers
from jsonschema.validators import validator_for

from pasta.bench.machine import describe
from pasta.core.params import SamplingParams
from pasta.data.rows import read_rows
from pasta.decoding.api import run
from pasta.engine.load import load_engine
from pasta.models.load import load_model
from pasta.structured import SchemaError, make_structured_request
from pasta.structured.matcher import Grammars

CLOSERS = ('"', "}", "]", '"}', '"]')
Rows = Sequence[dict[str, Any]]
WAYS = ("greedy, parallel", "greedy, sequential", "sampled, parallel")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("schemas", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--device")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--close", type=float, default=0.0)
    parser.add_argument("--max-tokens", type=int, default=800)
    parser.add_argument("--max-value-tokens", type=int, default=None)
    parser.add_argument("--at-limit", default="cut")
    parser.add_argument("--batch", type=int, default=16, help="answers at once")
    parser.add_argument("--rows", type=Path, help="keeps each answer's outcome here, and goes on from it")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="asks for no more answers after so long")
    parser.add_argument("--only", action="append", choices=WAYS, help="may be repeated")
    options = parser.parse_args()
    rows = list(read_rows(str(options.schemas)))[:: options.every]
    engine = random_engine(options.model) if options.random else load_engine(options.model, device=options.device)
    bias = [(ids[0], options.close) for text in CLOSERS if len(ids := engine.vocabulary.encode(text)) == 1]
    greedy = SamplingParams(
        max_tokens=options.max_tokens,
        max_thread_tokens=options.max_value_tokens,
        logit_bias=tuple(bias) if options.close else (),
    )
    params = {"greedy": greedy, "sampled": replace(greedy, temperature=1.0, seed=1)}
    taken = [by_library(engine, row["schema"]) for row in rows]
    print(f"the library takes {sum(taken)} of {len(rows)}", file=sys.stderr, flush=True)
    refused = [by_planner(engine, row["schema"]) for row in rows]
    supported = [row for row, why in zip(rows, refused, strict=True) if why is None]
    report: dict[str, Any] = {
        "model": engine.name,
        "machine": describe(),
        "max_tokens": options.max_tokens,
        "max_value_tokens": options.max_value_tokens,
        "at_limit": options.at_limit,
        "schemas": len(rows),
        "taken_by_library": sum(taken),
        "supported": len(supported),
        "supported_of_taken": sum(own and why is None for own, why in zip(taken, refused, strict=True)),
        "refused": Counter(why for why in refused if why is not None).most_common(),
        "decoded": {},
    }
    until = time.monotonic() + options.seconds
    for way in options.only or WAYS:
        name, mode = way.split(", ")
        ask = partial(answers, engine, params=params[name], mode=mode, at_limit=options.at_limit)
        found = decode(ask, supported, options.batch, Kept(options.rows, way), until)
        report["decoded"][way] = found
        print(way, json.dumps(found), file=sys.stderr, flush=True)
    print(json.dumps(report, indent=1))


def random_engine(name: str | None) -> Any:
    """Two layers of noise that read and write the tokens of a real model."""
    torch.manual_seed(0)
    tokenizer = load_model(name, device="cpu").vocabulary.tokenizer
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    ends = {"eos_token_id": tokenizer.eos_token_id, "bos_token_id": tokenizer.bos_token_id}
    config = transformers.LlamaConfig(**sizes, **ends, vocab_size=len(tokenizer), max_position_embeddings=4096)
    with tempfile.TemporaryDirectory() as folder:
        transformers.LlamaForCausalLM(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        engine = load_engine(folder, device="cpu", check=False)
    engine.name = "random"
    return engine


def by_library(engine: Any, schema: Any) -> bool:
    return not Grammars.of(engine.vocabulary).compile(schema, "").error


def by_planner(engine: Any, schema: Any) -> str | None:
    """Why the schema is refused; None where it is not."""
    try:
        make_structured_request(engine, "?", schema)
    except SchemaError as error:
        return f"{error.keyword or 'library'}: {error}"[:160]
    return None


class Kept:
    """The outcomes of one way of decoding, by schema; in a file, where there is one."""

    def __init__(self, path: Path | None, way: str):
        self._path, self._way = path, way
        rows = read_rows(str(path)) if path is not None and path.exists() else ()
        self.rows: dict[str, dict[str, Any]] = {row["name"]: row for row in rows if row["way"] == way}

    def add(self, row: dict[str, Any]) -> None:
        self.rows[row["name"]] = row
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"way": self._way, **row}) + "\n")


def decode(ask: Callable[[Rows], list[Any]], rows: Rows, at_once: int, kept: Kept, until: float) -> dict[str, Any]:
    began = time.monotonic()
    missing = [row for row in rows if row["name"] not in kept.rows]
    for first in range(0, len(missing), at_once):
        if time.monotonic() > until:
            break
        batch = missing[first : first + at_once]
        for row, result in zip(batch, ask(batch), strict=True):
            kept.add({"name": row["name"], **outcome(result, row["schema"])})
        if first // at_once % 5 == 0:
            print(f"{first} of {len(missing)}, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    seen = [kept.rows[row["name"]] for row in rows if row["name"] in kept.rows]
    wrong = [f"{row['name']}: {row['why']}"[:300] for row in seen if row["why"]]
    counts = Counter(row["outcome"] for row in seen)
    sums = {name: sum(row.get(name, 0) for row in seen) for name in ("threads", "values", "closed", "tokens")}
    return {"seen": len(seen), **counts, **sums, "wrong": wrong}


def outcome(result: Any, schema: Any) -> dict[str, Any]:
    if isinstance(result, Exception):
        return {"outcome": "exceptions", "threads": 0, "why": f"{type(result).__name__}: {result}"}
    counts = {"threads": len(result.threads), "tokens": result.decoded_tokens}
    counts |= {"values": len(result.fields), "closed": len(result.closed)}
    if not result.complete:
        return {"outcome": "cut by the limit", **counts, "why": None}
    why = problem(result.value, schema)
    return {"outcome": "valid" if why is None else "invalid", **counts, "why": why}


def answers(engine: Any, rows: Rows, **how: Any) -> list[Any]:
    """What each gave, an exception included; together where all go well, else one by one, so that it has a name."""
    requests = [make_structured_request(engine, "Write an example.", row["schema"], **how) for row in rows]
    try:
        return run(engine, requests)
    except Exception:
        return [_alone(engine, request) for request in requests]


def _alone(engine: Any, request: Any) -> Any:
    try:
        return run(engine, [request])[0]
    except Exception as error:
        return error


def problem(value: Any, schema: Any) -> str | None:
    checker = validator_for(schema, default=jsonschema.Draft202012Validator)
    found = next(iter(checker(schema, format_checker=checker.FORMAT_CHECKER).iter_errors(value)), None)
    return None if found is None else f"{found.json_path}: {found.message}"


if __name__ == "__main__":
    main()
