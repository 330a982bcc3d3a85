"""The model answers training problems one by one, and chats, many at once. Nothing is marked: that needs no GPU."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from pasta.data.fields import prompt_of
from pasta.data.lines import append_line, read_lines
from pasta.data.rows import read_rows
from pasta.decoding.bulk import as_completed
from pasta.decoding.prompts import make_request
from pasta.decoding.request import Request
from pasta.decoding.results import Result
from pasta.engine.base import Engine
from pasta.engine.load import load_engine
from pasta.errors import PastaError
from pasta.eval.run import say
from pasta.tasks.bundle import Style, plain_prompt
from pasta.tasks.problem import Problem, read_problems
from pasta.text.lists import kind

ANSWERS, CHATS = "answers.jsonl", "chats/samples.jsonl"  # the second is as the recipe `default` has it
SAY_S = 10.0
ROOM = 256  # tokens of a prompt, beside those of its answer
LONGEST_PROMPT = 384  # tokens of a chat's


@dataclass(frozen=True, slots=True)
class Try:
    """One answer to be drawn: what is asked, the file that the answer goes to, and what tells it from others there."""

    prompt: str
    file: str
    row: Mapping[str, Any]
    tokens: int  # at most
    manner: str = ""  # how it is to be answered: said before the prompt, and not learned

    @property
    def key(self) -> tuple[Any, ...]:
        return self.file, *(self.row[name] for name in KEYS[self.file])


KEYS = {ANSWERS: ("code", "id", "style", "free", "sample"), CHATS: ("index", "sample")}


def tries(problems: Sequence[Problem], samples: int, code_samples: int, tokens: int) -> Iterator[Try]:
    """Every problem in every way, so many times: a number in both styles, a function with a name and without."""
    for problem in problems:
        styles: Sequence[Style] = ("steps",) if problem.is_code else get_args(Style)
        for style in styles:
            for free in (False, True) if problem.is_code else (False,):
                for number in range(code_samples if problem.is_code else samples):
                    row = {"code": problem.is_code, "id": problem.id, "style": style, "free": free, "sample": number}
                    yield Try(plain_prompt(problem, style, free=free), ANSWERS, row, tokens)


def chats(source: str, limit: int, tokens: int, seed: int) -> Iterator[Try]:
    """So many prompts of a file, drawn evenly, each to be answered as it stands."""
    prompts = [prompt for row in read_rows(source) if (prompt := prompt_of(row)) and prompt.strip()]
    for index in sorted(random.Random(seed).sample(range(len(prompts)), min(limit, len(prompts)))):
        yield Try(prompts[index], CHATS, {"index": index, "sample": 0, "prompt": prompts[index]}, tokens)


def in_manner(first: Try, answer: str, samples: int, manner: str) -> list[Try]:
    """A chat once more, in a manner: where it was answered with a list, and nowhere else.

    The manner says how points are told. Where there would be none by themselves, a story, a letter, a short answer or
    one that keeps to conditions would become a list.
    """
    if first.file != CHATS or first.row["sample"] or kind(answer) != "list":
        return []
    return [replace(first, row={**first.row, "sample": number}, manner=manner) for number in range(1, samples)]


def sample(
    model: str,
    files: Sequence[str],
    out: Path,
    *,
    chat_prompts: str | None = None,
    chat_limit: int = 1500,
    chat_samples: int = 1,
    chat_manner: str = "",
    samples: int = 1,
    code_samples: int = 3,
    limit: int = 0,
    batch: int = 512,
    max_tokens: int = 400,
    chat_tokens: int = 400,
    temperature: float = 0.7,
    seed: int = 0,
    part: tuple[int, int] = (0, 1),
    minutes: float = 0.0,
    device: str | None = None,
) -> None:
    """A row for each answer, written as it comes, in random order: it may stop anywhere, and goes on from there.

    One core feeds a GPU only so fast: several processes may each draw a `part`, into the same folder.
    """
    begun = time.monotonic()
    until = begun + 60 * minutes if minutes else float("inf")
    every = [
        one for file in files for one in tries(read_problems(file)[: limit or None], samples, code_samples, max_tokens)
    ]
    if chat_prompts:
        every += chats(chat_prompts, limit or chat_limit, chat_tokens, seed)
    random.Random(seed).shuffle(every)
    number, parts = part
    every = every[number::parts]
    done = {
        (file, *(row[name] for name in names)): row for file, names in KEYS.items() for row in read_lines(out / file)
    }
    again = [
        more
        for one in every
        if one.key in done
        for more in in_manner(one, done[one.key].get("response", ""), chat_samples, chat_manner)
    ]
    left = [one for one in (*every, *again) if one.key not in done]
    if not left:
        say(f"{out} holds all {len(every) + len(again)} answers")
        return
    engine = load_engine(model, slots=batch * (max(one.tokens for one in left) + ROOM), device=device)
    say(f"{len(left)} answers to draw, {len(done)} are there; the model took {time.monotonic() - begun:.0f} s")

    draw = random.Random(f"{seed}.{number}")
    draw.shuffle(left)
    count = tokens = 0
    decoding = said = time.monotonic()
    for one, result in drawn(engine, left, batch, until=until, temperature=temperature, seed=seed):
        append_line(out / one.file, {**one.row, **told(one, result), "tokens": result.tokens_total})
        for more in in_manner(one, result.text, chat_samples, chat_manner):
            left.insert(draw.randint(0, len(left)), more)
        count += 1
        tokens += result.tokens_total
        if (now := time.monotonic()) - said > SAY_S:
            said = now
            say(f"{count} answers, {len(left)} to begin, {tokens / (now - decoding):,.0f} tokens a second")
    if time.monotonic() >= until:
        say("time is up: the rest is left for the next run")
    seconds = time.monotonic() - decoding
    say(f"{count} answers, {tokens:,} tokens, {tokens / max(seconds, 1e-9):,.0f} a second, {seconds:.0f} s")


def drawn(
    engine: Engine, left: list[Try], batch: int, *, until: float, temperature: float, seed: int
) -> Iterator[tuple[Try, Result]]:
    """Takes from the end of `left`, so many at once; whoever gets the answers may put more in. Long chats fall out."""

    def requests() -> Iterator[tuple[Try, Request]]:
        while left:
            one = left.pop()
            before = [{"role": "system", "content": one.manner}] if one.manner else []
            ids = engine.vocabulary.encode_chat([*before, {"role": "user", "content": one.prompt}])
            if len(ids) > LONGEST_PROMPT and one.file == CHATS:
                continue
            own = random.Random(f"{seed}.{one.key}").getrandbits(48)  # whatever the order is
            yield one, make_request(engine, ids, max_tokens=one.tokens, temperature=temperature, seed=own, plain=True)

    while left and time.monotonic() < until:  # more is put in also after the last was taken
        for one, state in as_completed(engine, requests(), batch, until=until):
            try:
                result = state.result()
            except PastaError as error:
                say(f"{one.key}: {error}")
            else:
                yield one, result


def told(one: Try, result: Result) -> dict[str, Any]:
    ended = result.finish_reason == "stop"
    if one.file == CHATS:
        return {"response": result.text.strip(), "finished": ended}
    return {"text": result.text, "ended": ended}
