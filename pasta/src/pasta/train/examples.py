"""From rows of a data set to laid-out examples."""

from __future__ import annotations

import gzip
import json
import lzma
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pasta.errors import PastaError, UsageError
from pasta.lang import LangError, parse, plain
from pasta.layout import Block, Item, Layout, Positions, Tree, flatten, lay_out, spell
from pasta.vocab import Tags, Vocabulary

OPENERS: dict[str, Any] = {".xz": lzma.open, ".gz": gzip.open}
MARK = "@answer@"


@dataclass(slots=True)
class Examples:
    """Laid-out examples, and why the other rows were refused."""

    layouts: list[Layout] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)


def read_rows(source: str) -> Iterator[dict[str, Any]]:
    """The rows of a JSON-lines file, or of a Hugging Face data set (a folder or an id)."""
    path = Path(source)
    if not path.is_file():
        yield from read_dataset(source)
        return
    opener = OPENERS.get(path.suffix, open)
    with opener(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise UsageError(f"{source}:{number}: not JSON: {error}") from error
            if not isinstance(row, dict):
                raise UsageError(f"{source}:{number}: expected an object with prompt and response, or messages")
            yield row


def read_dataset(source: str) -> Iterator[dict[str, Any]]:
    try:
        import datasets
    except ModuleNotFoundError:
        raise UsageError(
            f"no file {source}", hint="for a Hugging Face data set, pip install 'pasta-decoding[train]'"
        ) from None
    path = Path(source)
    if path.is_dir() and (path / "dataset_info.json").exists():
        data = datasets.load_from_disk(source)
    else:
        data = datasets.load_dataset(source, split="train")
    yield from (dict(row) for row in data)


def make_examples(
    rows: Iterable[Mapping[str, Any]],
    vocabulary: Vocabulary,
    scheme: Positions,
    *,
    strip_tags: bool = False,
    max_length: int = 1 << 30,
    limit: int = 0,
) -> Examples:
    """Lays out every row that can be; the others are counted by reason, since one bad row is no reason to stop."""
    examples = Examples()
    end = end_of_turn(vocabulary)
    for row in rows:
        if limit and len(examples.layouts) >= limit:
            break
        try:
            layout = make_example(row, vocabulary, scheme, end, strip_tags=strip_tags)
        except LangError as error:
            examples.refused[f"not PASTA-LANG ({error.code})"] += 1
            continue
        except UsageError as error:
            examples.refused[error.message] += 1
            continue
        if len(layout.ids) > max_length:
            examples.refused[f"longer than {max_length} tokens"] += 1
            continue
        examples.layouts.append(layout)
    return examples


def make_example(
    row: Mapping[str, Any], vocabulary: Vocabulary, scheme: Positions, end: int, *, strip_tags: bool = False
) -> Layout:
    messages, answer = split_row(row)
    response = parse(answer)
    tree: Tree
    if strip_tags:
        tree = tuple(vocabulary.encode(plain(response)))
    else:
        tree = spell(response, vocabulary)
        assert vocabulary.tags is not None  # or spell would have refused
        tree = measure(tree, vocabulary.tags, scheme)
    tags = None if strip_tags else vocabulary.tags
    return lay_out(vocabulary.encode_chat(messages), tree, tags, scheme, end)


def split_row(row: Mapping[str, Any]) -> tuple[list[dict[str, str]], str]:
    """The conversation before the answer, and the answer. Earlier answers lose their tags."""
    if "messages" in row:
        *before, last = [dict(message) for message in row["messages"]] or [{}]
        if not before or last.get("role") != "assistant":
            raise UsageError("the messages do not end with an assistant's answer to something")
        for message in before:
            if message["role"] == "assistant":
                message["content"] = plain(parse(message["content"]))
        return before, str(last["content"])
    prompt, answer = row.get("prompt"), row.get("response", row.get("completion"))
    if not prompt or not answer:
        raise UsageError("no prompt and response, nor messages")
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}], answer
    return [dict(message) for message in prompt], answer


def measure(tree: Tree, tags: Tags, scheme: Positions) -> Tree:
    """Sets each promise's length to that of its block in this vocabulary, whoever counted it before."""

    def items(nodes: Sequence[Item]) -> Tree:
        out: list[Item] = []
        for item in nodes:
            if isinstance(item, Block):
                block = Block(items(item.items))
                out[-1] = tags.lengths[scheme.length(sum(1 for _ in flatten(block.items))) - 1]
                out.append(block)
            else:
                out.append(item)
        return tuple(out)

    return items(tree)


def end_of_turn(vocabulary: Vocabulary) -> int:
    """The token with which the chat template ends an answer: not always the one that ends a text."""
    tokenizer = vocabulary.tokenizer
    if tokenizer.chat_template is not None:
        turn = [{"role": "user", "content": "?"}, {"role": "assistant", "content": MARK}]
        after = str(tokenizer.apply_chat_template(turn, tokenize=False)).rpartition(MARK)[2]
        for token in tokenizer.encode(after, add_special_tokens=False):
            if token in vocabulary.eos:
                return int(token)
    if tokenizer.eos_token_id is not None:
        return int(tokenizer.eos_token_id)
    if not vocabulary.eos:
        raise PastaError("this model's tokenizer has no token that ends a response")
    return min(vocabulary.eos)
