"""Which library should enforce types, llguidance or xgrammar? Both, over real schemas with real instances.

    pip install llguidance xgrammar
    python benchmarks/constraint_libraries.py SCHEMAS.jsonl[.xz] NAME=TOKENIZER … > results/constraint-libraries.json

A row of SCHEMAS: `name`, `schema`, `tests` (each `valid` and `data`). TOKENIZER is a folder. For each schema:
- taken: a matcher was built within the time limit, without an error;
- valid accepted, invalid refused: the instance as the library writes JSON (its keys in the schema's order, which both
  insist on), token by token through the masks. a schema is without a wrong verdict where all of its tests agree;
- build: from the schema to the first mask; mask: one mask, over the tokens of the valid instances. Both in processor
  time of one thread, which a busy machine does not change.

Every schema runs in a child process of its library, which is started anew where one takes longer than the limit
or ends the process.
"""

from __future__ import annotations

import argparse
import json
import lzma
import multiprocessing
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pasta.bench.machine import describe

LIBRARIES = ("llguidance", "llguidance, oneOf as anyOf", "xgrammar")
MOST_TOKENS = 2000  # of an instance; what is longer is left out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("schemas", type=Path)
    parser.add_argument("tokenizers", nargs="+", metavar="NAME=TOKENIZER")
    parser.add_argument("--every", type=int, default=1, help="take every so many-th schema")
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--seconds", type=float, default=60.0, help="the time limit of a schema, by the clock")
    parser.add_argument("--jobs", type=int, default=1, help="processes at the same time")
    parser.add_argument("--rows", type=Path, help="write a line for each schema and library")
    options = parser.parse_args()
    rows = read(options.schemas)[:: options.every]
    found: dict[str, Any] = {
        "schemas": len(rows),
        "instances": sum(len(row["tests"]) for row in rows),
        "time_limit_s": options.seconds,
        "machine": describe(),
        "versions": {library: version(library.partition(",")[0]) for library in options.libraries},
        "tokenizers": {},
    }
    lines = []
    for given in options.tokenizers:
        name, _, folder = given.partition("=")
        results = {
            library: measure_all(library, folder, rows, options.seconds, options.jobs) for library in options.libraries
        }
        found["tokenizers"][name] = summary(results)
        lines += [{"tokenizer": name, "library": key, **row} for key, rows_of in results.items() for row in rows_of]
        print(name, json.dumps(found["tokenizers"][name], indent=1), file=sys.stderr, flush=True)
    if options.rows:
        options.rows.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    print(json.dumps(found, indent=1))


def read(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    return [json.loads(line) for line in (lzma.decompress(data) if path.suffix == ".xz" else data).splitlines()]


# -- a library -------------------------------------------------------------------------------------------


class Matcher(Protocol):
    """At the beginning of an instance."""

    def mask(self) -> np.ndarray:
        """The tokens that may come next, a bit each, in words of 32."""

    def accept(self, token: int) -> bool: ...

    def may_end(self) -> bool: ...


class Llguidance:
    def __init__(self, folder: str, coerce_one_of: bool = False):
        import llguidance
        import llguidance.hf
        import llguidance.numpy
        from transformers import AutoTokenizer

        self.tokenizer = llguidance.hf.from_tokenizer(AutoTokenizer.from_pretrained(folder))
        self.library = llguidance
        self.defaults = {"coerce_one_of": coerce_one_of}

    def build(self, schema: Any) -> Any:
        grammar = self.library.LLMatcher.grammar_from_json_schema(json.dumps(schema), self.defaults)
        return self.library.LLMatcher(self.tokenizer, grammar, log_level=0)

    def matcher(self, built: Any) -> Matcher:
        return self.Matcher(built.deep_copy(), self)

    class Matcher:
        def __init__(self, matcher: Any, library: Llguidance):
            self.matcher = matcher
            self.kernels = library.library.numpy
            self.bits = self.kernels.allocate_token_bitmask(1, library.tokenizer.vocab_size)
            if matcher.is_error():
                raise ValueError(matcher.get_error())

        def mask(self) -> np.ndarray:
            self.kernels.fill_next_token_bitmask(self.matcher, self.bits)
            if self.matcher.is_error():
                raise ValueError(self.matcher.get_error())
            return self.bits[0]

        def accept(self, token: int) -> bool:
            return bool(self.matcher.consume_token(token))

        def may_end(self) -> bool:
            return bool(self.matcher.is_accepting())


class Xgrammar:
    def __init__(self, folder: str):
        import xgrammar
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(folder)
        self.library = xgrammar
        self.info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=len(tokenizer))
        self.ends = list(self.info.stop_token_ids)

    def build(self, schema: Any) -> Any:
        compiler = self.library.GrammarCompiler(self.info, max_threads=1, cache_enabled=False)
        return compiler.compile_json_schema(json.dumps(schema), strict_mode=False)

    def matcher(self, built: Any) -> Matcher:
        return self.Matcher(self.library.GrammarMatcher(built), self)

    class Matcher:
        def __init__(self, matcher: Any, library: Xgrammar):
            self.matcher = matcher
            self.ends = library.ends
            self.tensor = library.library.allocate_token_bitmask(1, library.info.vocab_size)
            self.bits = self.tensor.numpy()

        def mask(self) -> np.ndarray:
            self.tensor.fill_(-1)
            self.matcher.fill_next_token_bitmask(self.tensor)
            return self.bits[0]

        def accept(self, token: int) -> bool:
            return bool(self.matcher.accept_token(token))

        def may_end(self) -> bool:
            bits = self.mask()
            return any(allowed(bits, token) for token in self.ends)


def allowed(bits: np.ndarray, token: int) -> bool:
    return bool(int(bits[token >> 5]) >> (token & 31) & 1)


# -- a schema --------------------------------------------------------------------------------------------


def measure_all(library: str, folder: str, rows: list[Any], limit: float, jobs: int) -> list[dict[str, Any]]:
    """`measure`, the rows dealt out to so many children; the results in the order of the rows."""
    dealt = [rows[first::jobs] for first in range(jobs)]
    with ThreadPoolExecutor(jobs) as pool:
        hands = list(pool.map(lambda hand: list(measure(library, folder, hand, limit)), dealt))
    return [hands[index % jobs][index // jobs] for index in range(len(rows))]


def measure(library: str, folder: str, rows: list[dict[str, Any]], limit: float) -> Iterator[dict[str, Any]]:
    context = multiprocessing.get_context("spawn")
    child: multiprocessing.process.BaseProcess | None = None
    for number, row in enumerate(rows):
        if child is None:
            ours, theirs = context.Pipe()
            child = context.Process(target=work, args=(library, folder, theirs), daemon=True)
            child.start()
            theirs.close()
            ours.recv()  # its tokenizer is ready
        ours.send((row["schema"], row["tests"]))
        try:
            result = ours.recv() if ours.poll(limit) else {"error": f"longer than {limit:g} s"}
        except EOFError:
            result = {"error": "the process ended"}
        if result.get("error") in (f"longer than {limit:g} s", "the process ended"):
            child.kill()
            child = None
        yield {"name": row["name"], **result}
        if number % 50 == 49:
            print(f"{library}: {number} of {len(rows)}", file=sys.stderr, flush=True)
    if child is not None:
        child.kill()


def work(library: str, folder: str, pipe: Connection) -> None:
    from transformers import AutoTokenizer

    made: Any = Xgrammar(folder) if library == "xgrammar" else Llguidance(folder, library != "llguidance")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    pipe.send("ready")
    while True:
        schema, tests = pipe.recv()
        try:
            pipe.send(examine(made, tokenizer, schema, tests))
        except Exception as error:
            pipe.send({"error": f"{type(error).__name__}: {error}"[:300]})


def examine(library: Any, tokenizer: Any, schema: Any, tests: list[dict[str, Any]]) -> dict[str, Any]:
    began = time.process_time()
    built = library.build(schema)
    library.matcher(built).mask()
    build = time.process_time() - began
    masks: list[float] = []
    marks = []
    for test in tests:
        text = json.dumps(ordered(test["data"], schema, schema), ensure_ascii=False)
        ids = tokenizer.encode(text, add_special_tokens=False)
        if len(ids) <= MOST_TOKENS:
            accepted = follow(library.matcher(built), ids, masks if test["valid"] else [])
            marks.append([test["valid"], accepted])
    return {"build_s": build, "masks_s": masks, "tests": marks}


def follow(matcher: Matcher, ids: list[int], masks: list[float]) -> bool:
    """Whether the masks let these tokens through, to an end."""
    for token in ids:
        began = time.process_time()
        bits = matcher.mask()
        masks.append(time.process_time() - began)
        if not allowed(bits, token) or not matcher.accept(token):
            return False
    return matcher.may_end()


def ordered(data: Any, schema: Any, root: Any, depth: int = 0) -> Any:
    """The same value, the keys of its objects in the order in which the schema names them."""
    if isinstance(data, list):
        items = _part(schema, "items", root)
        return [ordered(item, items, root, depth + 1) for item in data]
    if not isinstance(data, dict) or depth > 40:
        return data
    parts = _properties(schema, root)
    first = [key for key in parts if key in data]
    rest = [key for key in data if key not in parts]
    return {key: ordered(data[key], parts.get(key, {}), root, depth + 1) for key in first + rest}


def _resolve(schema: Any, root: Any) -> Any:
    for _ in range(20):
        if not isinstance(schema, dict) or not str(schema.get("$ref", "")).startswith("#"):
            return schema
        target = root
        for step in str(schema["$ref"]).lstrip("#").strip("/").split("/"):
            step = step.replace("~1", "/").replace("~0", "~")
            target = target.get(step, {}) if isinstance(target, dict) else target if not step else {}
        schema = target if target is not root or schema["$ref"] == "#" else {}
    return schema


def _alternatives(schema: Any, root: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    schema = _resolve(schema, root)
    if isinstance(schema, dict) and depth < 6:
        yield schema
        for keyword in ("allOf", "anyOf", "oneOf"):
            for part in schema.get(keyword) or []:
                yield from _alternatives(part, root, depth + 1)


def _properties(schema: Any, root: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for each in _alternatives(schema, root):
        for key, value in (each.get("properties") or {}).items():
            out.setdefault(key, value)
    return out


def _part(schema: Any, keyword: str, root: Any) -> Any:
    return next((each[keyword] for each in _alternatives(schema, root) if isinstance(each.get(keyword), dict)), {})


# -- what it comes to --------------------------------------------------------------------------------------


def summary(results: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    out: dict[str, Any] = {library: of_library(rows) for library, rows in results.items()}
    both = [all("error" not in row for row in pair) for pair in zip(*results.values(), strict=True)]
    out["taken_by_both"] = {
        "schemas": sum(both),
        **{
            library: of_library([row for row, kept in zip(rows, both, strict=True) if kept])
            for library, rows in results.items()
        },
    }
    return out


def of_library(rows: list[dict[str, Any]]) -> dict[str, Any]:
    taken = [row for row in rows if "error" not in row]
    marks = [mark for row in taken for mark in row["tests"]]
    valid = [accepted for good, accepted in marks if good]
    invalid = [not accepted for good, accepted in marks if not good]
    builds = [1e3 * row["build_s"] for row in taken]
    masks = [1e6 * seconds for row in taken for seconds in row["masks_s"]]
    wrong = [row for row in taken if any(good != accepted for good, accepted in row["tests"])]
    return {
        "taken": len(taken),
        "share_taken": round(len(taken) / max(1, len(rows)), 4),
        "valid_accepted": [sum(valid), len(valid)],
        "invalid_refused": [sum(invalid), len(invalid)],
        "schemas_without_a_wrong_verdict": len(taken) - len(wrong),
        "build_ms": spread(builds),
        "mask_us": spread(masks),
        "masks": len(masks),
        "too_slow": sum("longer than" in row.get("error", "") for row in rows),
        "crashes": sum("process ended" in row.get("error", "") for row in rows),
    }


def spread(values: list[float]) -> dict[str, float]:
    if not values:
        return {}
    ranks = np.quantile(values, [0.9, 0.99])
    return {
        "median": round(statistics.median(values), 2),
        "mean": round(statistics.fmean(values), 2),
        "p90": round(float(ranks[0]), 2),
        "p99": round(float(ranks[1]), 2),
        "max": round(max(values), 2),
    }


if __name__ == "__main__":
    main()
