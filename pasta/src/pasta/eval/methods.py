"""Ways to answer a prompt, each as a generator: it yields requests to run side by side, and is sent their results.

So one driver runs them all: many prompts at once, or one alone against the clock.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from pasta.decoding.prompts import make_request
from pasta.decoding.request import Request
from pasta.decoding.results import Result
from pasta.engine.base import Engine
from pasta.eval.answer import Answer, ThreadLine, in_runs, of_result
from pasta.eval.contestants import Contestant
from pasta.lang import escape
from pasta.tasks.marking import is_task
from pasta.tasks.question import Question
from pasta.text.lists import numbered_lines

Method = Generator[list[Request], list[Result], Answer]

SKELETON_TOKENS = 128
POINT_TOKENS = 128
MAX_POINTS = 10
MAX_WORDS = 8  # of a point: a small model writes sentences where headings are asked for

ASK_SKELETON = (
    "{question}\n\nAnswer with an outline only: a numbered list of 3 to 8 short headings (2 to 5 words), no sentences."
)
ASK_POINT = (
    "{question}\n\nThe answer has these parts: {skeleton}.\n\nWrite one or two sentences about this part only: {point}"
)
#: Of a task the parts have headings already, and each is wanted in full: sentences about it solve nothing.
ASK_HEADINGS = "{question}\n\nAnswer with an outline only: a numbered list of the answer's headings alone."
ASK_PART = "{question}\n\nThe answer has these parts: {skeleton}.\n\nWrite this part only, in full: {point}"


def answering(engine: Engine, contestant: Contestant, question: Question, max_tokens: int) -> Method:
    """How this contestant answers a question."""
    if contestant.method == "skeleton":
        return by_skeleton(engine, question, max_tokens)
    if contestant.method == "separate":
        return separately(engine, question, max_tokens)
    return as_trained(engine, question.prompt, max_tokens, contestant.method, contestant.parallelism)


def as_trained(engine: Engine, prompt: str, max_tokens: int, method: str, parallelism: float) -> Method:
    request = make_request(
        engine,
        prompt,
        max_tokens=max_tokens,
        sequential=method == "sequential",
        plain=method == "plain",
        parallelism=parallelism,
    )
    [result] = yield [request]
    return of_result(result, engine.vocabulary.tags)


def by_skeleton(engine: Engine, question: Question, max_tokens: int) -> Method:
    """Skeleton-of-Thought: a numbered plan first, then every point by itself, all at once; nothing is joined.

    Where the plan holds no two points, the prompt is answered as it is, and the plan was for nothing.
    """
    prompt, of_task = question.prompt, is_task(question.row)
    outline, ask_point = (ASK_HEADINGS, ASK_PART) if of_task else (ASK_SKELETON, ASK_POINT)

    def heading(number: int, point: str) -> str:
        return f"**{point}**\n" if of_task else f"{number}. {point}:"

    def ask(text: str, tokens: int, begun: str = "", stop: str = "") -> Request:
        """`begun` is how the answer begins: it is given, not decoded."""
        ids = engine.vocabulary.encode_chat([{"role": "user", "content": text}])
        if begun:
            ids = ids + engine.vocabulary.encode(engine.vocabulary.lead(ids) + begun)
        return make_request(engine, ids, max_tokens=tokens, plain=True, stop=stop)

    [plan] = yield [ask(outline.format(question=prompt), SKELETON_TOKENS, begun="1.")]
    points = read_points("1." + plan.text)
    if len(points) < 2:
        [whole] = yield [ask(prompt, max_tokens)]
        return _joined(engine, plan, [whole], [(1, whole.text)])
    skeleton = "; ".join(points.values())
    results = yield [
        ask(
            ask_point.format(question=prompt, skeleton=skeleton, point=point),
            max_tokens if of_task else POINT_TOKENS,
            begun=heading(number, point),
        )
        for number, point in points.items()
    ]
    parts: list[tuple[int, str]] = []
    for thread, ((number, point), result) in enumerate(zip(points.items(), results, strict=True), start=1):
        between = ("\n\n" if of_task else "\n") if parts else ""
        parts += [(0, between + heading(number, point)), (thread, result.text.rstrip())]
    return _joined(engine, plan, results, parts)


def separately(engine: Engine, question: Question, max_tokens: int) -> Method:
    """What a client could do that knows the parts: a request for each, all at once, and headings between."""
    prompts = question.row["apart"]
    results = yield [make_request(engine, prompt, max_tokens=max_tokens, plain=True) for prompt in prompts]
    parts: list[tuple[int, str]] = []
    for number, result in enumerate(results, start=1):
        heading = f"**{question.row['noun']} {number}**\n"
        parts += [(0, ("\n\n" if parts else "") + heading), (number, result.text.strip())]
    text = "".join(part for _, part in parts)
    lines = [ThreadLine(None, "", 0, 0, ())]
    lines += [
        ThreadLine(0, f"request {n}", 0, result.tokens_total, in_runs(range(1, result.critical_path + 1)))
        for n, result in enumerate(results, start=1)
    ]
    return Answer(
        tuple(parts),
        escape(text),
        tuple(lines),
        sum(result.tokens_total for result in results),
        sum(result.content_tokens for result in results),
        max(result.critical_path for result in results),
        "stop" if all(result.finish_reason == "stop" for result in results) else "length",
    )


def read_points(skeleton: str) -> dict[int, str]:
    """The points of a numbered list, each number once: what stands before a colon, without the marks of bold text."""
    points: dict[int, str] = {}
    for number, point in numbered_lines(skeleton):
        heading = point.replace("*", "").partition(":")[0].strip().rstrip(".")
        if heading and len(points) < MAX_POINTS:
            points.setdefault(number, " ".join(heading.split()[:MAX_WORDS]))
    return points


def _joined(engine: Engine, plan: Result, results: Sequence[Result], parts: Sequence[tuple[int, str]]) -> Answer:
    """The plan is the main thread; what came after it, its children. The path is the plan and the longest child."""
    text = "".join(part for _, part in parts)
    start = plan.critical_path
    lines = [ThreadLine(None, "plan", 0, plan.tokens_total, in_runs(range(1, start + 1)))]
    lines += [
        ThreadLine(0, f"point {n}", 0, result.tokens_total, in_runs(range(start + 1, start + 1 + result.critical_path)))
        for n, result in enumerate(results, start=1)
    ]
    return Answer(
        tuple(parts),
        escape(text),
        tuple(lines),
        plan.tokens_total + sum(result.tokens_total for result in results),
        len(engine.vocabulary.encode(text)),
        plan.critical_path + max(result.critical_path for result in results),
        "stop" if all(result.finish_reason == "stop" for result in results) else "length",
    )
