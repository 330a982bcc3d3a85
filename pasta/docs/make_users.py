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
SERVED = "free"  # what the server does on a GPU
BOUND = "slowdown 2"  # with --slowdown 2 --plain-when-full, as it does on a CPU

INTRO = """# Many users

What threads are worth when several users share a GPU. Made by `python pasta/docs/make_users.py`.

    python -m pasta.bench.users --json FILE                        # the default model
    python -m pasta.bench.users --shape qwen2.5-1.5b --json FILE   # a shape with random weights

Each user asks, waits for the answer and asks again. The same answers, token for token, are replayed without PASTA
(one thread, no tags), with all their threads at once, as the server does on a GPU, and regulated, as it does on a CPU:
threads [give way](serve.md#threads-and-users), and answers begin [plain when the server is
full](serve.md#plain-answers-when-the-server-is-full). All through the server's own scheduler, without HTTP. Latency is
that of a whole answer, its prompt included; goodput is the tokens that somebody reads. The modes take turns, so that
the ratios are of one run. What a single answer gains: [performance.md](performance.md#on-a-gpu).

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


def told(mode: str) -> str:
    return "all threads" if mode == SERVED else "regulated"


def faster(row: dict[str, Any]) -> float:
    return min(row["faster_by_turn"])


def goodput(row: dict[str, Any]) -> float:
    return min(row["goodput_ratio_by_turn"])


def worst(row: dict[str, Any]) -> float:
    return min(faster(row), goodput(row))


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
    heads += [f"{told(mode)}: {figure}" for mode in named for figure in ("faster", "goodput", "step")]
    heads.append("regulated: plain answers")
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
        cells.append(f"{rows[BOUND]['plain_when_full']:.0%}")
        yield "| " + " | ".join(cells) + " |"
    served = [rows[SERVED] for _, rows in by_load(report)]
    least = min(served, key=worst)
    yield (
        f"\n`faster` and `goodput` are times those without PASTA, the smaller of two turns; `step` is the median step, "
        f"times that without. As served, with all threads, the least is {worst(least):.2f}, at {least['users']} users "
        f"(0.98 was asked for), and one user's answer comes {faster(served[0]):.2f} times as fast (1.5 was asked "
        f"for).\n"
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
                label = told(mode) if users == loads[-1][0] else f"·{mode} {users}"
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


def at(users: int, report: dict[str, Any]) -> dict[str, Any]:
    """The rows of one load, by mode."""
    return dict(by_load(report))[users]


def row_us(row: dict[str, Any]) -> float:
    return 1e6 * row["step_p50_s"] / row["rows_per_step"]


def limit() -> str:
    """What became of threads, and of what was to regulate them, where many users share the machine."""
    first, slower, always = (at(128, load(name)) for name in (BEFORE, SLOWER_HOST, ALWAYS_THREADS))
    now, small = (at(128, load(name)) for name in ("users-1.5b-h200.json", "users-default-h200.json"))
    words = f"""
128 users of the 1.5B shape are where threads were ever in doubt. The first run
([{BEFORE}](../benchmarks/results/{BEFORE})) gave them {first["slowdown 1.5"]["faster"]:.2f} of the speed that they have
without PASTA with a bound of 1.5 and {first["free"]["faster"]:.2f} without a bound; so the bound became 2. The second
([{SLOWER_HOST}](../benchmarks/results/{SLOWER_HOST})) gave {slower[BOUND]["faster"]:.2f} with that bound and
{slower["free"]["faster"]:.2f} without. Then the host came to do less for each token
([{ALWAYS_THREADS}](../benchmarks/results/{ALWAYS_THREADS})), more so without PASTA than with it, and PASTA was the
slower of the two: {faster(always[BOUND]):.2f} with the bound, {faster(always["free"]):.2f} without. A row cost
{row_us(always["plain"]):.0f} µs without PASTA and {row_us(always["free"]):.0f} with it: a step had no fixed part left
that threads could share.

Two things were done about that. The server learned to reckon what threads are worth, and to begin answers plain,
without tags, while that is less than 1.1 ([serve.md](serve.md#plain-answers-when-the-server-is-full)).
And steps got cheaper: they come in sizes between the powers of two, a garbage collector that came too often comes
rarely, and prompts of a new length no longer have kernels compiled for them in the midst of it.
Predicted: with the rule, 128 users of the 1.5B
shape have plain answers and lose nothing; up to 64 have their threads.

What came, above: the steps settled it, and the rule made it worse. All threads at once cost
{row_us(now["free"]):.0f} µs a row with 128 users, in place of {row_us(always["free"]):.0f}, and gave them
{faster(now["free"]):.2f} and {max(now["free"]["faster_by_turn"]):.2f} times the speed in the two turns.
Regulated it was {faster(now[BOUND]):.2f} and {max(now[BOUND]["faster_by_turn"]):.2f}, and with the default model
{faster(small[BOUND]):.2f} and {max(small[BOUND]["faster_by_turn"]):.2f}, where some answers were plain and others not:
those that fork make everybody's steps longer, and fewer of them share the cost. Nor did the rule reckon well: 64 users
of the 1.5B shape had plain answers for
{at(64, load("users-1.5b-h200.json"))[BOUND]["plain_when_full"]:.0%}, where threads gave
{faster(at(64, load("users-1.5b-h200.json"))["free"]):.2f}. So on a GPU the server regulates nothing now, unless it
is told to. The price: whoever's answer does not fork waits up to {max_step():.1f} times as long for each token while
others' do (the column `step`). `--slowdown` sets a bound for him; all together pay for it. On a CPU, where a row costs
what a step costs, both stay as they were.
"""
    return (
        "## At the limit\n\n"
        + "\n\n".join(
            fill(part, 120, break_on_hyphens=False, break_long_words=False) for part in words.strip().split("\n\n")
        )
        + "\n"
    )


def max_step() -> float:
    """How many times as long a step is at the most, as served."""
    loads = [rows for name in ANSWERS for _, rows in by_load(load(name))]
    return max(rows[SERVED]["step_p50_s"] / rows["plain"]["step_p50_s"] for rows in loads)


def page() -> str:
    parts = [INTRO, "## What came\n", "![What threads are worth to many users](images/users.svg)\n"]
    for name in ANSWERS:
        parts += [f"#{line}" if line.startswith("## ") else line for line in section(name)]
    return "\n".join([*parts, limit(), LEFT]).rstrip() + "\n"


LEFT = """## How it was measured, and what is left

Code of 16 November 2026 (commit 92368e5, with `engine/cuda` of e673075). Every mode answers each load once before it is
measured. Left to measure: users whose answers do not fork among others whose do; more than two turns with 64 and 128
users, where turns of one mode differ by up to a fifth.
"""

if __name__ == "__main__":
    PLOT.write_text(plot(), "utf-8")
    PAGE.write_text(page(), "utf-8")
