"""What the annotating language model is told.

It is shown the answer in numbered lines and labels each of them: it never writes the answer again, so it cannot
alter it. With each label it repeats the line's number and first words: a small model that names numbers alone, or
ranges, loses count, and this way it shows.
"""

from __future__ import annotations

from pasta.data.example import Example
from pasta.data.examples import WORKED
from pasta.data.pieces import pieces
from pasta.data.reply import FIRST_WORDS, may_be_block, numbered

RULES = """\
You mark which parts of an answer can be written at the same time by different writers.

You get a question and its answer, cut into numbered lines. First decide whether any parts are independent. Then give
every line a label: the topic of its block, or "main", or "wait". A block is a line, or several lines in a row with
the same label, that a writer could write knowing only the question, the main text before the block, and the topic.

Rules:
- A block is written without seeing any other block since the last wait. If a line needs what another line says, give
  both the same label, or label the second one "wait".
- "main" is for text that the main writer writes, who does not see the blocks either until a wait.
- "wait" is for main text that uses what the blocks say, such as a conclusion: the main writer waits for all blocks
  before it. Use it sparingly: each wait costs time.
- Mark at least two blocks before a wait, or none: one block alone saves no time.
- Items of one list are blocks of their own, each with its own topic.
- A block has at least five words. Lines marked (fixed) are "main" or "wait".
- A topic has one to three words, and tells its block from all other blocks of the answer.
- Many answers have no independent parts, such as stories, calculations and steps that build on each other. For those
  every line is "main".

Answer with one or two sentences that say why, and then with every line's number, its first two words, and its label:
[1] First words… -> main
[2] First words… -> first topic
[3] First words… -> second topic
[4] First words… -> wait"""


def messages(example: Example) -> list[dict[str, str]]:
    """The conversation to send: the rules, seven worked examples, and the answer to mark."""
    turns = [{"role": "system", "content": RULES}]
    for worked in WORKED:
        starts = (" ".join(line.split()[:FIRST_WORDS]) for line in numbered(worked.answer))
        rows = enumerate(zip(starts, worked.labels, strict=True), start=1)
        lines = [f"[{number}] {start}… -> {label}" for number, (start, label) in rows]
        turns += [
            {"role": "user", "content": show(worked.prompt, worked.answer)},
            {"role": "assistant", "content": "\n".join([worked.why, *lines])},
        ]
    return [*turns, {"role": "user", "content": show(example.prompt, example.text)}]


def show(prompt: str, text: str) -> str:
    """A question and its answer in numbered lines."""
    rows = enumerate(zip(numbered(text), pieces(text), strict=True), start=1)
    lines = [f"[{number}]{'' if may_be_block(piece) else ' (fixed)'} {line}" for number, (line, piece) in rows]
    return f"Question:\n{prompt}\n\nAnswer:\n" + "\n".join(lines)
