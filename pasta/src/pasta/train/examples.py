"""From rows of a data set to laid-out examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pasta.core.layout import Layout, lay_out
from pasta.core.positions import Positions
from pasta.core.tags import Tags
from pasta.core.tree import Block, Item, Tree, depth_of, flatten, spell
from pasta.core.vocabulary import Vocabulary
from pasta.data.fields import mark_of, read_example
from pasta.errors import PastaError, UsageError
from pasta.lang import LangError, parse, plain


@dataclass(slots=True)
class Examples:
    """Laid-out examples, how deep their blocks lie in each other, and why the other rows were refused."""

    layouts: list[Layout] = field(default_factory=list)
    depth: int = 0
    refused: Counter[str] = field(default_factory=Counter)


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
    tags = None if strip_tags else vocabulary.tags
    for row in rows:
        if limit and len(examples.layouts) >= limit:
            break
        try:
            prompt, tree = spell_row(row, vocabulary, scheme, strip_tags=strip_tags)
            layout = lay_out(prompt, tree, tags, scheme, end)
        except LangError as error:
            examples.refused[f"not PASTA-LANG ({error.code})"] += 1
            continue
        except UsageError as error:
            examples.refused[error.message] += 1
            continue
        if len(layout.ids) > max_length:
            examples.refused[f"longer than {max_length} tokens"] += 1
            continue
        if max(layout.positions) >= max_length:  # promises reserve more than their blocks fill
            examples.refused[f"longer than {max_length} positions"] += 1
            continue
        examples.layouts.append(layout)
        examples.depth = max(examples.depth, depth_of(tree))
    return examples


def spell_row(
    row: Mapping[str, Any], vocabulary: Vocabulary, scheme: Positions, *, strip_tags: bool = False
) -> tuple[list[int], Tree]:
    """The tokens of a row's prompt, and of its answer."""
    messages, answer = split_row(row)
    response = parse(answer)
    prompt = vocabulary.encode_chat(messages)
    tree: Tree
    if strip_tags:
        tree = tuple(vocabulary.encode(vocabulary.lead(prompt) + plain(response)))
    else:
        if not response.is_merged:
            raise UsageError("a promise without its block")
        tree = spell(response, vocabulary, prompt)
        assert vocabulary.tags is not None  # or spell would have refused
        tree = measure(tree, vocabulary.tags, scheme)
    return prompt, tree


def split_row(row: Mapping[str, Any]) -> tuple[list[dict[str, str]], str]:
    """The conversation before the answer, and the answer.

    Earlier answers lose their tags: a server's history is plain text. Those of a row that `pasta annotate` wrote
    have none, nor has one that is not PASTA-LANG: they are taken to the letter, whatever they look like.
    """
    example = read_example(0, row)
    if isinstance(example, str):
        raise UsageError(example)
    messages = [dict(message) for message in example.messages]
    for message in messages if mark_of(row) is None else ():
        if message["role"] == "assistant":
            message["content"] = without_tags(message["content"])
    return messages, example.text


def without_tags(answer: str) -> str:
    """An answer as people read it; to the letter where it only looks like PASTA-LANG."""
    try:
        return plain(parse(answer))
    except LangError:
        return answer


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
    for token in vocabulary.closing():
        if token in vocabulary.eos:
            return token
    if vocabulary.tokenizer.eos_token_id is not None:
        return int(vocabulary.tokenizer.eos_token_id)
    if not vocabulary.eos:
        raise PastaError("this model's tokenizer has no token that ends a response")
    return min(vocabulary.eos)
