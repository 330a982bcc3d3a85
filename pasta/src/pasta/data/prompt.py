"""What the annotating language model is told, and how its answer is read.

It is shown the answer in numbered lines and names ranges of numbers: it never writes the answer again, so it
cannot alter it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from pasta.data.example import Example
from pasta.data.examples import WORKED
from pasta.data.pieces import Kind, Piece, pieces
from pasta.data.plan import Block, Plan, PlanError
from pasta.data.topics import clean
from pasta.lang.checker import MIN_BLOCK_WORDS

RULES = """\
You mark which parts of an answer can be written at the same time by different writers.

You get a question and its answer, cut into numbered lines. First decide whether any parts are independent. Then name
the independent parts as blocks. A block is a range of lines that a writer could write knowing only the question, the
text before the block that is not in other blocks, and a topic of one to three words; and no later text may need it,
unless that text waits.

Rules:
- A block is written without seeing any other block since the last wait. If a line needs what another line says, they
  belong into the same block, or the second one stays outside and comes after a wait.
- The text outside of blocks is written by the main writer, who does not see the blocks either until a wait.
- Mark at least two blocks between waits, or none: one block alone saves no time.
- Numbers and bullets are written by the main writer: items of one list are blocks of their own, never one block.
- A block has at least five words. Lines marked (fixed) cannot be in a block.
- A topic has at most three words, and tells its block from all other blocks of the answer.
- Use waits sparingly: each one costs time. A wait is needed only before text that uses what the blocks say, such as a
  conclusion. Never put one at the end.
- Many answers have no independent parts, such as stories, calculations and steps that build on each other. For those
  give no blocks.

Answer with one JSON object and nothing else:
{"blocks": [{"first": 2, "last": 3, "topic": "few words"}], "wait_after": [3]}"""


def messages(example: Example) -> list[dict[str, str]]:
    """The conversation to send: the rules, seven worked examples, and the answer to mark."""
    turns = [{"role": "system", "content": RULES}]
    for worked in WORKED:
        blocks = [{"first": first, "last": last, "topic": topic} for first, last, topic in worked.blocks]
        told = {"why": worked.why, "blocks": blocks, "wait_after": list(worked.waits)}
        turns += [
            {"role": "user", "content": show(worked.prompt, worked.answer)},
            {"role": "assistant", "content": json.dumps(told)},
        ]
    return [*turns, {"role": "user", "content": show(example.prompt, example.text)}]


def show(prompt: str, text: str) -> str:
    """A question and its answer in numbered lines."""
    lines = []
    at = 0
    for number, piece in enumerate(pieces(text), start=1):
        lead = " ".join(text[at : piece.start].split())  # a list's number or bullet
        body = " ".join(text[piece.start : piece.end].split())
        note = " (fixed)" if not _may_be_block(piece) else ""
        lines.append(f"[{number}]{note} {lead + ' ' if lead else ''}{body}")
        at = piece.end
    return f"Question:\n{prompt}\n\nAnswer:\n" + "\n".join(lines)


def read_plan(reply: str, text: str) -> Plan:
    """The plan in a reply.

    Raises:
        PlanError: The reply is not JSON of the right form, or names lines that cannot be a block.
    """
    lines = pieces(text)
    data = _read_object(reply)
    blocks = [_read_block(entry, lines, text) for entry in _list(data, "blocks")]
    blocks.sort(key=lambda block: block.start)
    if len(blocks) == 1:
        raise PlanError("a single block saves nothing")
    if any(second.start < first.end for first, second in pairwise(blocks)):
        raise PlanError("two blocks overlap")
    syncs = []
    for number in _list(data, "wait_after"):
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= len(lines):
            raise PlanError("wait_after names a line that does not exist")
        place = lines[number - 1].end
        if any(block.start < place < block.end for block in blocks):
            raise PlanError("a wait stands inside a block")
        syncs.append(place)
    return Plan(tuple(blocks), tuple(syncs))


def _read_object(reply: str) -> dict[str, Any]:
    found = re.search(r"\{.*\}", reply, re.DOTALL)  # models like to put a fence or a sentence around it
    try:
        data = json.loads(found[0]) if found else None
    except ValueError:
        data = None
    if not isinstance(data, dict) or "blocks" not in data:
        raise PlanError("the reply is not a JSON object with blocks")
    return data


def _list(data: dict[str, Any], name: str) -> list[Any]:
    value = data.get(name, [])
    if not isinstance(value, list):
        raise PlanError(f"{name} is not a list")
    return value


def _read_block(entry: Any, lines: Sequence[Piece], text: str) -> Block:
    if not isinstance(entry, dict):
        raise PlanError("a block is not an object")
    first, last, topic = entry.get("first"), entry.get("last"), entry.get("topic")
    if type(first) is not int or type(last) is not int or not 1 <= first <= last <= len(lines):
        raise PlanError("a block names lines that do not exist")
    if not isinstance(topic, str) or not clean(topic):
        raise PlanError("a block has no topic")
    inside = lines[first - 1 : last]
    if not all(_may_be_block(piece) for piece in inside):
        raise PlanError("a block holds a fixed line")
    if any(piece.kind is Kind.ITEM and piece.region == inside[0].region for piece in inside[1:]):
        raise PlanError("a block holds several items of a list, so that a writer would have to know its number")
    start, end = inside[0].start, inside[-1].end
    if len(text[start:end].split()) < MIN_BLOCK_WORDS:
        raise PlanError("a block is too short")
    return Block(start, end, topic)


def _may_be_block(piece: Piece) -> bool:
    return piece.kind in (Kind.ITEM, Kind.SENTENCE)
