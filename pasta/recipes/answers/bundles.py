"""Right answers to single problems become answers to several, marked as they were made (`pasta.tasks.compose`)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from form import misses
from right import right_answers

from pasta.core.vocabulary import Vocabulary
from pasta.data import counter
from pasta.data.fields import read_pair
from pasta.data.lines import write_lines
from pasta.data.rows import read_rows
from pasta.errors import PastaError
from pasta.eval.apar import without_syncs
from pasta.eval.run import say
from pasta.lang import parse, plain, print_response
from pasta.models import resolve
from pasta.models.checkpoint import read_tokenizer
from pasta.tasks.bundle import Bundle, Style, Task
from pasta.tasks.compose import body_of, compose
from pasta.tasks.drawing import draw_bundles
from pasta.tasks.freely import TAUGHT
from pasta.tasks.marking import code_of, last_function
from pasta.tasks.problem import Problem, read_problems

Row = dict[str, Any]
Answers = dict[tuple[str, bool], list[str]]  # by a problem's id, and whether its function's name was free
Count = Callable[[str], int]

MOST = 400  # tokens of a block
#: How many examples of each kind, at the most: tasks of numbers, and of functions.
WANTED: dict[tuple[Task, bool], int] = {
    ("several", False): 900,
    ("gather", False): 750,
    ("chain", False): 900,
    ("plain", False): 300,
    ("several", True): 300,
    ("gather", True): 300,
    ("plain", True): 120,
    ("freely", True): 240,
}
#: Of the tasks of numbers: most are answered in steps, some so briefly that promises must be told apart.
SHARES: dict[Style, float] = {"steps": 0.7, "brief": 0.3}
UNTAGGED = 0.12  # of the examples that fork, so many come again without tags
STAGE_TWO = 300  # prompts that are kept for stage two: nothing is learned of them before


def bundle(
    model: str,
    files: Sequence[str],
    out: Path,
    *,
    chats: str | None = None,
    run_code: bool = False,
    solutions: bool = False,
    scale: float = 1.0,
    seed: int = 0,
) -> Path:
    """From `answers.jsonl` to `annotated.jsonl`, `apar.jsonl`, and `tasks.jsonl`, the prompts of stage two.

    Args:
        model: Whose tokens count.
        files: The problems that were answered.
        out: The folder of the recipe.
        chats: Annotated chats to learn beside, made by `pasta annotate` or the recipe `default`.
        run_code: Functions that the model wrote may be run, to see which are right.
        solutions: Take the data's own solutions in place of answers, to try the rest without a model that can answer.
        scale: So many times the usual number of examples.
        seed: Of all draws.
    """
    draw = random.Random(seed)
    count = lru_cache(None)(counter(Vocabulary(read_tokenizer(resolve(model).whole.path))))
    rows: list[Row] = []
    for file in files:
        problems = read_problems(file)
        is_code = problems[0].is_code
        right = [] if solutions else in_form(right_answers(out, problems, run_code=run_code))
        shares: dict[Style, float] = {"steps": 1.0} if is_code else SHARES
        for style, share in shares.items():
            answers = by_problem(row for row in right if row["style"] == style and row["tokens"] <= MOST)
            if solutions:
                answers = {(p.id, free): [p.solution] for p in problems for free in (False, True)}
            for (task, of_code), wanted in WANTED.items():
                if of_code == is_code:
                    rows += examples(task, problems, answers, style, round(wanted * scale * share), count, draw)
    if not rows:
        raise PastaError(f"{out / 'answers.jsonl'} holds too few right answers", hint="run the stage sample first")
    draw.shuffle(rows)
    kept = round(min(STAGE_TWO * scale, len(rows) / 5))
    tasks = {row["prompt"]: row["task"] for row in rows[:kept]}
    write_lines(out / "tasks.jsonl", ({"prompt": prompt, **task} for prompt, task in tasks.items()))
    learned = [
        {name: value for name, value in row.items() if name != "task"} for row in rows if row["prompt"] not in tasks
    ]
    forking = [row for row in learned if row["forks"]]
    learned += [untagged(row) for row in draw.sample(forking, round(UNTAGGED * len(forking)))]
    for number, row in enumerate(read_rows(chats) if chats else (), start=1):
        prompt, response = read_pair(str(chats), number, row)
        learned.append({"prompt": prompt, "response": response, "kind": "chat", "forks": "<promise" in response})
    draw.shuffle(learned)
    write_lines(out / "annotated.jsonl", learned)
    write_lines(out / "apar.jsonl", map(as_apar, learned))
    report(learned)
    return out / "annotated.jsonl"


def in_form(rows: Sequence[Row]) -> list[Row]:
    """Of right answers, those that are written as was asked; says why the others are not learned from."""
    why = [misses(row) for row in rows]
    for reason, number in Counter(filter(None, why)).most_common():
        say(f"{number:6,} right answers are left out: {reason}")
    return [row for row, reason in zip(rows, why, strict=True) if reason is None]


def by_problem(rows: Iterable[Row]) -> Answers:
    found: Answers = {}
    for row in rows:
        found.setdefault((row["id"], row["free"]), []).append(row["text"])
    return found


def examples(
    task: Task,
    problems: Sequence[Problem],
    answers: Answers,
    style: Style,
    wanted: int,
    count: Count,
    draw: random.Random,
) -> list[Row]:
    """So many answers to bundles of problems that were solved, each with what would be right, for stage two."""
    free = task == "gather" and problems[0].is_code
    solved = [problem for problem in problems if (problem.id, free) in answers]
    if len(solved) < 6:
        return []
    made = []
    for drawn in drawn_bundles(task, solved, wanted, draw.randrange(1 << 30)):
        bundle = replace(drawn, style=style)
        chosen = [draw.choice(answers[problem.id, free]) for problem in bundle.problems]
        bodies = [body_of(bundle, number, text) for number, text in enumerate(chosen, start=1)]
        if max(map(count, bodies)) > MOST:
            continue
        if (free or task == "freely") and not have_own_names(bodies):
            continue
        response = compose(bundle, chosen, count)
        prompt = draw.choice(TAUGHT)(bundle.problems) if task == "freely" else bundle.prompt
        kind = f"{task} of {'functions' if bundle.is_code else 'numbers'}"
        made.append(
            {"prompt": prompt, "response": print_response(response), "kind": kind,
             "forks": any(response.promises()), "task": as_task(bundle)}
        )  # fmt: skip
    return made


def drawn_bundles(task: Task, problems: Sequence[Problem], wanted: int, seed: int) -> list[Bundle]:
    """About so many. Of chains one half are pairs, and before the others stand problems that need nothing.

    Of what is asked freely a quarter are single functions.
    """
    if task == "freely":
        alone = draw_bundles("plain", problems, parts=wanted // 4, seed=seed)
        several = draw_bundles(task, problems, parts=3 * wanted, seed=seed + 1)
        return several + [replace(bundle, task=task) for bundle in alone]
    if task != "chain":
        return draw_bundles(task, problems, parts=wanted * (1 if task == "plain" else 4), seed=seed)
    found = draw_bundles(task, problems, parts=wanted, seed=seed)
    for size in (3, 4, 5):
        found += draw_bundles(task, problems, size=size, parts=round(size * wanted / 6), seed=seed + size)
    return found


def have_own_names(bodies: Sequence[str]) -> bool:
    """Whether each function can be called by its name beside the others, and beside `main`."""
    names = [last_function(code_of(body)) for body in bodies]
    return len({*names, "main", ""}) == len(names) + 2


def as_task(bundle: Bundle) -> Row:
    row = dict(bundle.question("0").row)
    row.pop("apart", None)
    return row


def untagged(row: Row) -> Row:
    return {**row, "response": plain(parse(row["response"])), "kind": f"{row['kind']}, without tags", "forks": False}


def as_apar(row: Row) -> Row:
    """The same answer as APAR would learn it: it forks, and nothing ever joins."""
    return {**row, "response": without_syncs(row["response"])[0]}


def report(rows: Iterable[Row]) -> None:
    listed = list(rows)
    for kind, number in sorted(Counter(row["kind"] for row in listed).items()):
        say(f"{number:6,} {kind}")
    lengths = [promise.tokens for row in listed for promise, _ in parse(row["response"]).promises()]
    if lengths:
        spread = " ".join(f"{sorted(lengths)[int(q * (len(lengths) - 1))]}" for q in (0, 0.1, 0.5, 0.9, 1))
        say(f"{len(lengths):,} blocks; promises of {spread} tens (least, tenth, middle, nine tenths, most)")
