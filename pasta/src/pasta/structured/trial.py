"""`mode="auto"`: many prompts of one schema, in the mode that the first few speak for, without right answers.

Those are decoded both ways. Where the two mostly say the same, little can be lost in parallel; where they do not, the
fields depend on each other, or the model is unsure of them: then the rest is sequential, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from pasta.decoding.api import run
from pasta.structured.result import StructuredResult

if TYPE_CHECKING:
    from pasta.decoding.prompts import Prompt
    from pasta.decoding.request import Request
    from pasta.engine.base import Engine

AUTO = "auto"
TRIAL = 10  # prompts that are decoded both ways; where there are no more, all are sequential
ALIKE = 0.7  # of their fields, that must be the same both ways for the rest to be decoded in parallel


def run_auto(
    engine: Engine, prompts: Sequence[Prompt], ask: Callable[[Prompt, str], Request]
) -> list[StructuredResult]:
    """The results of all prompts; `ask` makes the request of a prompt in a mode."""
    first, rest = prompts[:TRIAL], prompts[TRIAL:]
    sequential = [ask(prompt, "sequential") for prompt in first]
    if not rest:
        return cast(list[StructuredResult], run(engine, sequential))
    tried = cast(list[StructuredResult], run(engine, [*sequential, *(ask(prompt, "parallel") for prompt in first)]))
    kept, others = tried[: len(first)], tried[len(first) :]
    mode = "parallel" if agreement(kept, others) >= ALIKE else "sequential"
    return [*kept, *cast(list[StructuredResult], run(engine, [ask(prompt, mode) for prompt in rest]))]


def agreement(ours: Sequence[StructuredResult], theirs: Sequence[StructuredResult]) -> float:
    """The share of fields that two answers to each prompt say the same of; those that a limit cut do not count."""
    same = total = 0
    for one, other in zip(ours, theirs, strict=True):
        said, also = ({field.pointer: plain(field.value) for field in each.fields} for each in (one, other))
        cut = {*one.missing, *other.missing}
        places = [place for place in said | also if place not in cut]
        same += sum(place in said and place in also and said[place] == also[place] for place in places)
        total += len(places)
    return same / total if total else 0.0


def plain(value: Any) -> str:
    """The same for values that say the same: texts without case, spaces and punctuation at the words' ends."""
    if isinstance(value, str):
        return " ".join(re.sub(r"(?<!\w)\W+|\W+(?!\w)", " ", value.casefold()).split())
    return json.dumps(value, sort_keys=True)
