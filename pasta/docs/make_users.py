"""Makes users.md and its plot from the saved figures (`benchmarks/results/users-*.json`):

    python pasta/docs/make_users.py

Every number below the predictions is read from those files; the words around them stand here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import Any

from pasta.eval.plot import COLOURS, Axis, Panel, Point, draw

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
PAGE, PLOT = DOCS / "users.md", DOCS / "images" / "users.svg"
BOUND = "slowdown 2"  # the server's own

INTRO = """# Many users

What threads are worth when several users share a GPU. Made by `python pasta/docs/make_users.py`.

    python -m pasta.bench.users --json FILE                        # the default model
    python -m pasta.bench.users --shape qwen2.5-1.5b --json FILE   # a shape with random weights

Each user asks, waits for the answer and asks again. The same answers, token for token, are replayed without PASTA
(one thread, no tags), with all their threads at once, and as the server regulates them, through its own scheduler but
without HTTP: threads [give way](serve.md#threads-give-way-to-users), and answers begin [plain when the server is
full](serve.md#plain-answers-when-the-server-is-full). Latency is that of a whole answer, its prompt included; goodput
is the tokens that somebody reads. The modes take turns, so that the ratios are of one run. What a single answer gains:
[performance.md](performance.md#on-a-gpu).

## What was expected

Predicted, before anything ran. A step takes f + e·rows, and of the decoded tokens 0.83 are text, the rest tags and
topics. So with many users PASTA must decode 1.2 tokens for each that somebody reads, and wins only as long as more
rows in a step are cheaper than more steps. With f = 0.9 ms and e = 10 µs (135M; mostly the host) and f = 1.5 ms and e
= 12 µs (1.5B):

| times as fast as without | 1 user | 16 | 64 | 128 |
| --- | --- | --- | --- | --- |
| 135M, all threads | 1.75 | 1.54 | 1.22 | 1.07 |
| 135M, a step at most 1.5 times as long | 1.75 | 1.5 | 1.2 | 1.03 |
| 135M, a step at most 1.1 times as long | 1.75 | 1.3 | 0.95 | 0.89 |
| 1.5B, all threads | 2.1 | 1.9 | 1.44 | 1.22 |
| 1.5B, a step at most 1.5 times as long | 2.1 | 1.9 | 1.4 | 1.11 |

Under this model the bound of 1.1, which the server had, makes 64 users of PASTA slower than 64 users without: the
threads that it holds back are those that pay for the tags. So the bound became 1.5 for the first run.
"""

#: The loads that were measured; of each file, whose answers were replayed.
ANSWERS = {
    "users-default-h200.json": "the default model (bfloat16), its {answers} answers of {questions} that fork",
    "users-1.5b-h200.json": "the shape of Qwen2.5-1.5B (bfloat16, random weights) and {answers} made-up answers",
}
BEFORE = "users-1.5b-h200-before.json"  # with the bound of 1.5
ALWAYS_THREADS = "users-1.5b-h200-always-threads.json"  # when no answer began plain
SLOWER_HOST = "users-1.5b-h200-slower-host.json"  # when the host did twice as much for each token


def load(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / name).read_text("utf-8"))


def by_load(report: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """The rows of each number of users, by mode."""
    users = sorted({row["users"] for row in report["rows"]})
    return [(load, {row["mode"]: row for row in report["rows"] if row["users"] == load}) for load in users]


def modes(report: dict[str, Any]) -> list[str]:
    return [mode for mode in dict.fromkeys(row["mode"] for row in report["rows"]) if mode != "plain"]


def regulated(report: dict[str, Any]) -> bool:
    """Whether answers could begin plain."""
    return all("plain_when_full" in row for row in report["rows"])


def told(mode: str, report: dict[str, Any]) -> str:
    if mode == BOUND and regulated(report):
        return "as served"
    return "all threads" if mode == "free" else f"step at most {mode.split()[1]} times"


def faster(row: dict[str, Any]) -> float:
    return min(row["faster_by_turn"])


def goodput(row: dict[str, Any]) -> float:
    return min(row["goodput_ratio_by_turn"])


def section(name: str) -> Iterator[str]:
    report = load(name)
    named = modes(report)
    yield f"## {report['model']}\n"
    what = ANSWERS[name].format(**report)
    yield (
        f"One {report['machine']['gpu']}, {what}: {report['content_tokens']:.0f} tokens of text each, "
        f"{report['content_share']:.0%} of what is decoded. [{name}](../benchmarks/results/{name})\n"
    )
    heads = ["users", "answer without, s", "tokens/s without", "step without, ms"]
    heads += [f"{told(mode, report)}: {figure}" for mode in named for figure in ("faster", "goodput", "step")]
    heads += ["as served: plain answers"] if regulated(report) else []
    yield "| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads)
    for users, rows in by_load(report):
        plain = rows["plain"]
        cells = [
            f"{users}",
            f"{plain['latency_s']:.2f}",
            f"{plain['goodput']:,.0f}",
            f"{1e3 * plain['step_p50_s']:.2f}",
        ]
        for mode in named:
            row = rows[mode]
            longer = row["step_p50_s"] / plain["step_p50_s"]
            cells += [f"**{faster(row):.2f}**", f"{goodput(row):.2f}", f"{longer:.2f}"]
        cells += [f"{rows[BOUND]['plain_when_full']:.0%}"] if regulated(report) else []
        yield "| " + " | ".join(cells) + " |"
    bound = [rows[BOUND] for _, rows in by_load(report)]
    least = min(bound, key=lambda row: min(faster(row), goodput(row)))
    how = "As served" if regulated(report) else "With the server's bound"
    yield (
        f"\n`faster` and `goodput` are times those without PASTA, the smaller of two turns; `step` is the median step, "
        f"times that without. {how} the least is {min(faster(least), goodput(least)):.2f}, at "
        f"{least['users']} users (0.98 was asked for), and one user's answer comes {faster(bound[0]):.2f} times as "
        f"fast (1.5 was asked for).\n"
    )


def plot() -> str:
    panels = []
    for name in ANSWERS:
        report = load(name)
        points, lines = [], []
        loads = by_load(report)
        for index, mode in enumerate(modes(report)):
            colour, names = COLOURS[1 + index], []
            for users, rows in loads:
                turns = rows[mode]["faster_by_turn"]
                label = told(mode, report) if users == loads[-1][0] else f"·{mode} {users}"
                points.append(Point(label, users, min(turns), None, None, colour))
                names.append(label)
            lines.append((colour, tuple(names)))
        users = tuple(users for users, _ in loads)
        across = Axis("users", users[0] * 0.85, users[-1] * 1.3, True, users)
        up = Axis.around("times as fast as without", [0.8, *(point.y for point in points)])
        panels.append(Panel(report["model"], across, up, tuple(points), tuple(lines)))
    note = (
        "Mean latency of an answer without PASTA over that with it, same answers, same load; the smaller of two turns."
    )
    return draw(panels, "What threads are worth to many users", note, width=640 // len(panels))


def before() -> str:
    """What the first bound did, and what became of it."""
    ((_, rows),) = [each for each in by_load(load(BEFORE)) if each[0] == 128]
    bound, free = rows["slowdown 1.5"], rows["free"]
    return f"""## The bound

The first run, with a bound of 1.5 ([{BEFORE}](../benchmarks/results/{BEFORE})),
gave 128 users of the 1.5B shape {bound["faster"]:.2f} of the speed and {bound["goodput_ratio"]:.2f} of the goodput that
they have without PASTA; all threads at once gave {free["faster"]:.2f} and {free["goodput_ratio"]:.2f}. A row costs some
27 µs there, more than twice what was expected (host and device together), so that with 128 users two thirds of a step
are its rows. For such a step the same prediction is a loss with a bound of 1.5 and a gain with 2, and so the server's
bound is 2 now. The price: whoever's answer does not fork waits up to twice as long for each token while others' do, and
at 128 users a little longer (the column `step`), since what a step would take with one thread each is itself learned.
`--slowdown` sets the bound, from 1: one thread for each, whenever there are several users; then nobody's step is
longer, and who forks pays for the tags.
"""


def limit() -> str:
    """What becomes of it where the machine can do no more."""
    report, then = load(ALWAYS_THREADS), load(SLOWER_HOST)
    (now,) = [rows for users, rows in by_load(report) if users == 128]
    (was,) = [rows for users, rows in by_load(then) if users == 128]
    plain, free, bound = now["plain"], now["free"], now[BOUND]
    each, each_free = (1e6 * row["step_p50_s"] / row["rows_per_step"] for row in (plain, free))
    words = f"""
A run of the 1.5B shape ([{SLOWER_HOST}](../benchmarks/results/{SLOWER_HOST})) gave 128 users
{was["free"]["faster"]:.2f} times the speed that they have without PASTA, and {was[BOUND]["faster"]:.2f} with the
server's bound. Then the host came to do less for each token
([{ALWAYS_THREADS}](../benchmarks/results/{ALWAYS_THREADS})): 128 users had their answers in {plain["latency_s"]:.2f} s
without PASTA, in place of {was["plain"]["latency_s"]:.2f}, and in {free["latency_s"]:.2f} s with all threads, in
place of {was["free"]["latency_s"]:.2f}. So both were faster, and PASTA was the slower of the two. A row cost
{each:.0f} µs without it and {each_free:.0f} with it: a step had no fixed part left that threads could share, and of the
tokens that PASTA decodes {1 - report["content_share"]:.0%} are tags and topics. No order of turns mends that;
threads that wait lost more ({faster(bound):.2f} with the bound, {faster(free):.2f} without it).

What does is not to fork. So the server reckons from its own steps and answers what threads are worth
([serve.md](serve.md#plain-answers-when-the-server-is-full)), and while that is less than 1.1 times what plain answers
give, an answer begins plain: one thread, no tags, what a server without PASTA gives. {measured()}
"""
    return (
        "## At the limit\n\n"
        + "\n\n".join(
            fill(part, 120, break_on_hyphens=False, break_long_words=False) for part in words.strip().split("\n\n")
        )
        + "\n"
    )


def measured() -> str:
    """What the rule did, where it was there."""
    reports = [load(name) for name in ANSWERS]
    if not all(map(regulated, reports)):
        return (
            "The figures above are from before that. Reckoned from them, 128 users of the 1.5B shape have plain "
            "answers, and up to 64 have their threads.\n\n"
            "In one turn of 64 users without PASTA, of each model, nothing went on for about two seconds: Python's "
            "garbage collector, most likely, since answers were held in circles, and no longer are. So the smaller "
            "turn is shown."
        )
    told = [
        f"{row['plain_when_full']:.0%} with {users} users of {report['model']}"
        for report in reports
        for users, rows in by_load(report)
        if (row := rows[BOUND])["plain_when_full"] >= 0.005
    ]
    return f"Plain were {', '.join(told)}, and none of the others." if told else "No load above was enough for that."


def page() -> str:
    parts = [INTRO, "## What came\n", "![What threads are worth to many users](images/users.svg)\n"]
    for name in ANSWERS:
        parts += [f"#{line}" if line.startswith("## ") else line for line in section(name)]
    return "\n".join([*parts, before(), limit(), LEFT]).rstrip() + "\n"


LEFT = """## Left to measure

Users whose answers do not fork among others whose do.
"""

if __name__ == "__main__":
    PLOT.write_text(plot(), "utf-8")
    PAGE.write_text(page(), "utf-8")
