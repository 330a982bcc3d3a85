"""Which JSON schemas are supported, and whether every answer is valid: a model that knows nothing answers them all.

    python benchmarks/schema_coverage.py SCHEMAS.jsonl.xz [--model tiny] [--out FILE.json]

Each line of the file has a `name` and a `schema`. A schema counts as one that the library takes if `llguidance`
compiles the whole of it. Answers are decoded greedily and sampled, with a bias that lets strings and lists end.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema

from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import run
from pasta.errors import PastaError
from pasta.structured import SchemaError, StructuredResult, make_program, make_structured_request
from pasta.structured.matcher import Grammars

ENDS = ('"', "]", "}", "0")  # tokens that get a bias, so that a random model comes to an end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("schemas", type=Path)
    parser.add_argument("--model", default="tiny", help="a model's name, or `tiny`: random weights")
    parser.add_argument("--mode", choices=["parallel", "sequential"], default="parallel")
    parser.add_argument("--value-tokens", type=int, default=400, help="that one value may take")
    parser.add_argument("--bias", type=float, default=6.0, help="on the tokens that end strings and lists")
    parser.add_argument("--limit", type=int, help="only so many schemas")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    engine = tiny() if given.model == "tiny" else loaded(given.model)
    count: Counter[str] = Counter()
    refused: list[dict[str, str]] = []
    started = time.perf_counter()
    for index, (name, schema) in enumerate(read(given.schemas, given.limit)):
        taken = library_takes(engine.vocabulary, schema)
        count["schemas"] += 1
        count["library takes"] += taken
        outcome, why = answer(engine, schema, given)
        count[outcome] += 1
        count[f"{outcome}, library takes"] += taken
        if outcome != "valid":
            refused.append({"name": name, "outcome": outcome, "why": why, "library takes": str(taken)})
            print(f"{name}: {outcome}: {why}"[:240], file=sys.stderr)
        if index % 50 == 49:
            print(f"{index + 1} schemas, {time.perf_counter() - started:.0f} s", file=sys.stderr)
    took = max(1, count["library takes"])
    refused_taken = count["refused, library takes"]
    report = {
        "command": " ".join(["python", *sys.argv]),
        "model": engine.name,
        "mode": given.mode,
        **count,
        "supported of those that the library takes": 1 - refused_taken / took,
        "not valid": refused,
    }
    if given.out:
        given.out.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    for key, value in report.items():
        if key != "not valid":
            print(f"{key}: {value}")


def read(path: Path, limit: int | None) -> Iterator[tuple[str, Any]]:
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as lines:
        for index, line in enumerate(lines):
            if index == limit:
                return
            row = json.loads(line)
            yield row["name"], row["schema"]


def library_takes(vocabulary: Vocabulary, schema: Any) -> bool:
    """Whether the library compiles the whole schema as it is."""
    return not Grammars.of(vocabulary).compile(schema, "").error


def answer(engine: Any, schema: Any, given: argparse.Namespace) -> tuple[str, str]:
    """Decodes the schema greedily and sampled; the worst outcome of the two."""
    try:
        make_program(engine.vocabulary, schema, mode=given.mode)
    except SchemaError as error:
        return "refused", str(error)
    biases = [(token, given.bias) for end in ENDS for token in engine.vocabulary.encode(end)[-1:]]
    worst = "valid", ""
    for temperature in (0.0, 1.0):
        try:
            result = decode(engine, schema, given, temperature=temperature, logit_bias=biases)
        except PastaError as error:
            return "failed", str(error)
        except Exception as error:  # none may come: it is counted
            return "exception", repr(error)
        if not result.complete:
            worst = "cut", f"at temperature {temperature}: {', '.join(result.missing)[:200]}"
            continue
        kind = jsonschema.validators.validator_for(schema)
        wrong = next(iter(kind(schema).iter_errors(result.value)), None)
        if wrong is not None:
            return "invalid", f"{wrong.json_path}: {wrong.message[:120]} in {result.text[:200]}"
    return worst


def decode(engine: Any, schema: Any, given: argparse.Namespace, **options: Any) -> StructuredResult:
    """A model that knows nothing may write a string for ever: a value has a limit, and then it is cut and says so."""
    request = make_structured_request(
        engine, "Fill this in.", schema, mode=given.mode, seed=3, max_tokens=100_000,
        max_thread_tokens=given.value_tokens, **options,
    )  # fmt: skip
    [result] = run(engine, [request])
    assert isinstance(result, StructuredResult)
    return result


def tiny() -> Any:
    """A Llama of two layers with random weights; every byte is a token."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    from pasta.engine.native import NativeEngine

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({piece: index for index, piece in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", bos_token="<s>")
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=258, max_position_embeddings=32768, pad_token_id=0,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.25)
    return NativeEngine(model.eval(), Vocabulary(fast), name="tiny-random", slots=1 << 17)


def loaded(name: str) -> Any:
    from pasta.decoding.model import load

    return load(name).engine


if __name__ == "__main__":
    main()
