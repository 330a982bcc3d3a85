"""Makes users.md and its plot from the saved figures (`benchmarks/results/users-*.json`):

    python pasta/docs/make_users.py

Every measured number is read from those files; the words around them, and the predictions, stand here.
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

How much does parallel decoding gain when several users share one GPU? Answers get faster by a factor that shrinks
with the number of users: 2 for one user, little or none for 128. This page is made by
`python pasta/docs/make_users.py`.

    python -m pasta.bench.users --json FILE                        # the default model
    python -m pasta.bench.users --shape qwen2.5-1.5b --json FILE   # an architecture with random weights

**Method.** Each user asks, waits for the answer, and asks again. The same answers, token for token, are replayed in
three modes:

- *without* PASTA: one thread, no tags;
- *all threads* at once, which is what the server does on a GPU;
- *regulated*, which is what it does on a CPU: threads [give way](serve.md#threads-and-users), and answers start
  [plain when the server is full](serve.md#plain-answers-when-the-server-is-full).

All modes use the server's scheduler, without HTTP, and take turns in one run. Latency is that of a whole answer,
prompt included. Goodput counts only the tokens that users read. For a single answer, see
[performance.md](performance.md#on-a-gpu).
"""

EXPECTED = """## Predictions

Written before the first run. A step takes f + e·rows. Of the decoded tokens 0.83 are text; the others are tags and
topics. So with many users PASTA decodes 1.2 tokens for each that somebody reads, and wins only while more rows in a
step are cheaper than more steps. With f = 0.9 ms and e = 10 µs (135M; mostly the host) and f = 1.5 ms and e = 12 µs
(1.5B), the predicted speedups were:

| | 1 user | 16 | 64 | 128 |
| --- | --- | --- | --- | --- |
| 135M, all threads | 1.75 | 1.54 | 1.22 | 1.07 |
| 135M, a step at most 1.5 times as long | 1.75 | 1.5 | 1.2 | 1.03 |
| 135M, a step at most 1.1 times as long | 1.75 | 1.3 | 0.95 | 0.89 |
| 1.5B, all threads | 2.1 | 1.9 | 1.44 | 1.22 |
| 1.5B, a step at most 1.5 times as long | 2.1 | 1.9 | 1.4 | 1.11 |

In this model, the bound of 1.1 that the server had makes 64 users slower with PASTA than without: it holds back the
threads that pay for the tags. So the bound became 1.5 for the first run.
"""

#: The loads that were measured; of each file, whose answers were replayed.
ANSWERS = {
    "users-default-h200.json": "the default model (bfloat16), the {answers} of its {questions} answers that fork",
    "users-1.5b-h200.json": "Qwen2.5-1.5B's architecture (bfloat16, random weights), {answers} synthetic answers",
}
BEFORE = "users-1.5b-h200-before.json"  # with the bound of 1.5
SMALL_BEFORE = "users-default-h200-before.json"  # of an earlier default model
ALWAYS_THREADS = "users-1.5b-h200-always-threads.json"  # when no answer began plain
SLOWER_HOST = "users-1.5b-h200-slower-host.json"  # when the host did twice as much for each token


def load(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / name).read_text("utf-8"))


def by_load(report: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """The rows of each number of users, by mode."""
    users = sorted({row["users"] for row in report["rows"]})
    return [(load, {row["mode"]: row for row in report["rows"] if row["users"] == load}) for load in users]


def modes(report: dict[str, Any]) -> list[str]:
    """Those that are shown; a file may hold other bounds."""
    return [mode for mode in (SERVED, BOUND) if any(row["mode"] == mode for row in report["rows"])]


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
        f"One {report['machine']['gpu']}, {what}; {report['content_tokens']:.0f} text tokens per answer, "
        f"{report['content_share']:.0%} of all decoded tokens ([{name}](../benchmarks/results/{name})).\n"
    )
    heads = ["users", "without: latency, s", "without: tokens/s", "without: step, ms"]
    heads += [f"{told(mode)}: {figure}" for mode in named for figure in ("speedup", "goodput", "step")]
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
        f"\nSpeedup, goodput and step are ratios to decoding without PASTA: speedup and goodput the smaller of two "
        f"turns, step the median. With all threads, the smallest ratio is {worst(least):.2f}, at {least['users']} "
        f"users (target: 0.98), and one user's speedup is {faster(served[0]):.2f} (target: 1.5).\n"
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
    now, small = (at(128, load(name)) for name in ("users-1.5b-h200.json", SMALL_BEFORE))
    words = f"""
128 users of the 1.5B architecture are where threads were in doubt. In the first run
([{BEFORE}](../benchmarks/results/{BEFORE})), their speedup was {first["slowdown 1.5"]["faster"]:.2f} with a bound of
1.5 on the length of a step, and {first["free"]["faster"]:.2f} without a bound; so the bound became 2. The second run
([{SLOWER_HOST}](../benchmarks/results/{SLOWER_HOST})) gave {slower[BOUND]["faster"]:.2f} with that bound and
{slower["free"]["faster"]:.2f} without. Then the host's work per token was cut
([{ALWAYS_THREADS}](../benchmarks/results/{ALWAYS_THREADS})), which helped decoding without PASTA more, and PASTA
became the slower of the two: {faster(always[BOUND]):.2f} with the bound, {faster(always["free"]):.2f} without. A row
cost {row_us(always["plain"]):.0f} µs without PASTA and {row_us(always["free"]):.0f} µs with it: a step had no fixed
cost left for threads to share.

Two changes followed. The server learned to estimate the gain of threads, and to start answers plain, without tags,
while it is below 1.1 ([serve.md](serve.md#plain-answers-when-the-server-is-full)). And steps got cheaper: they come
in sizes between the powers of two, garbage collection is rarer, and prompts of a new length no longer trigger kernel
compilation under load. The prediction: with the rule, 128 users of the 1.5B architecture get plain answers and lose
nothing, and up to 64 get their threads.

The cheaper steps settled it, and the rule made it worse. With 128 users, all threads at once cost
{row_us(now["free"]):.0f} µs a row instead of {row_us(always["free"]):.0f}, and the speedups of the two turns were
{faster(now["free"]):.2f} and {max(now["free"]["faster_by_turn"]):.2f}. Regulated, they were {faster(now[BOUND]):.2f}
and {max(now[BOUND]["faster_by_turn"]):.2f}, and with the default model of that day
([{SMALL_BEFORE}](../benchmarks/results/{SMALL_BEFORE})) {faster(small[BOUND]):.2f} and
{max(small[BOUND]["faster_by_turn"]):.2f}: when some answers are plain and others fork, the forking ones make
everybody's steps longer, and fewer answers share that cost. The estimate was poor, too: with 64 users of the 1.5B
architecture, {at(64, load("users-1.5b-h200.json"))[BOUND]["plain_when_full"]:.0%} of the answers were plain, although
threads gave {faster(at(64, load("users-1.5b-h200.json"))["free"]):.2f}.

So on a GPU, the server regulates nothing unless told to. The price: a user whose answer does not fork waits up to
{max_step():.1f} times as long for each token while others' answers fork (the column "step"). `--slowdown` bounds
that, at everybody's expense. On a CPU, where a row costs as much as a step, both rules stay on.
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
    parts = [INTRO, "## Results\n", "![What threads are worth to many users](images/users.svg)\n"]
    for name in ANSWERS:
        parts += [f"#{line}" if line.startswith("## ") else line for line in section(name)]
    return "\n".join([*parts, limit(), EXPECTED, LEFT]).rstrip() + "\n"


LEFT = """## Threats, and what is left

The 1.5B architecture and the predictions: code of 16 November 2026 (commit 92368e5, with `engine/cuda` of e673075).
The default model: code of 19 November, which landed as 3708d568, on a machine with 16 cores that was slower with 128
users than with 64. Every mode answers each load once before it is measured. Turns of one mode differ by up to a third,
and there were only two. Users whose answers do not fork were not measured among others whose do.
"""

if __name__ == "__main__":
    PLOT.write_text(plot(), "utf-8")
    PAGE.write_text(page(), "utf-8")
