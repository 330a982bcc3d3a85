"""What a page says of tasks with right answers: who was right, and how fast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pasta.eval.lengths import of_promises
from pasta.eval.report import interval, percent, points


def tasks(summary: dict[str, Any]) -> Iterator[str]:
    names = list(dict.fromkeys(task for figures in summary["models"].values() for task in figures["tasks"]))
    for task in summary.get("tasks", names):
        yield f"### Tasks with right answers: `{task}`\n"
        every = {model: figures["tasks"].get(task) for model, figures in summary["models"].items()}
        found = {model: told for model, told in summary.get("tasks", {}).get(task, every).items() if told}
        if all("parts" not in told for told in found.values()):  # older figures, of conditions and numbers
            rows = [
                [
                    f"`{model}`",
                    share(told["score"]),
                    share(told["all_right"]),
                    "–" if model == summary["against"] else share(told["over_reference"]),
                    percent(told["forking"]),
                ]
                for model, told in found.items()
            ]
            yield table(["model", "conditions met", "prompts all right", "over the reference", "forking"], rows)
            continue
        rows = [
            [
                f"`{model}`",
                f"{told['parts']:,} ({told['prompts']})",
                points(told["score"]),
                *(
                    "–" if model == summary["against"] else points(told[key])
                    for key in ("over_reference", "over_reference_at_worst")
                ),
                points(told["end"]),
                "–" if model == summary["against"] else points(told["end_over_reference"]),
                percent(told["forking"]),
                percent(told["syncing"]),
                interval(told["realised_speedup"]),
                interval(told["theoretical_speedup"]),
                interval(told["length_factor"]),
            ]
            for model, told in found.items()
        ]
        columns = [
            "model", "parts (prompts)", "right, %", "over the reference, points", "… at worst", "what needs all, %",
            "… over the reference", "forking", "with syncs", "realised", "theoretical", "length ratio",
        ]  # fmt: skip
        yield table(columns, rows)
        yield from promises({model: told["promises"] for model, told in found.items()})
    if any(summary.get("promises", {}).values()):
        yield "### Promised lengths, all tasks together\n"
        yield from promises(summary["promises"])


#: What a prompt of a task asks for, in the words of a short table.
ASKED = {
    "several4-gsm8k_dev": "four sums",
    "several4-mbpp_dev": "four functions",
    "gather-gsm8k_dev": "two to six sums, then their total or largest",
    "gather-mbpp_dev": "two to six functions, then a `main`",
    "freely-mbpp_dev": "two to six functions, asked for freely",
    "chain-gsm8k_dev": "a sum that needs another",
    "chain4-gsm8k_dev": "four sums, the last of which needs the third",
    "plain-gsm8k_dev": "one sum",
    "plain-mbpp_dev": "one function",
    "several4": "four sums, or four functions",
    "gather": "sums with their total or largest, or functions with a `main`",
}

RIVALS = (  # of which tasks the models stand beside each other, by what
    ("several4-gsm8k_dev", "over_reference", "four sums"),
    ("several4-mbpp_dev", "over_reference", "four functions"),
    ("gather-gsm8k_dev", "end_over_reference", "the total or largest of all"),
    ("gather-mbpp_dev", "end_over_reference", "a `main` of all"),
    ("chain-gsm8k_dev", "over_reference", "a sum that needs another"),
    ("chain4-gsm8k_dev", "over_reference", "four, the last needs the third"),
)


def rivals(summary: dict[str, Any]) -> Iterator[str]:
    """All models beside each other: what they are, what their training had, and how right they are."""
    found = summary.get("tasks", {})
    models = [name for name in summary.get("specs", {}) if any(name in found.get(task, {}) for task, _, _ in RIVALS)]
    if len(models) < 3:
        return
    rows = []
    for name in models:
        spec = summary["specs"][name].partition("=")[2]
        weights, _, method = spec.partition("@")
        trained = summary.get("trained", {}).get(weights)
        cells = []
        for task, key, _ in RIVALS:
            figure = found.get(task, {}).get(name, {}).get(key)
            cells.append(f"{points(figure)} ({figure['prompts']})" if figure and name != summary["against"] else "–")
        steps = f"{trained['steps']} in {trained['seconds']:.0f} s" if trained else "–"
        speed = found.get(RIVALS[0][0], {}).get(name, {}).get("theoretical_speedup")
        rows.append([f"`{name}`", f"`{weights}`", method or "as trained", steps, *cells, interval(speed)])
    yield "### Rivals\n"
    yield f"Points over `{summary['against']}`, of right parts or of what needs all (prompts).\n"
    asked = [words for _, _, words in RIVALS]
    yield table(["model", "weights", "decoded", "their steps", *asked, "theoretical, four sums"], rows)


def promises(found: dict[str, dict[str, Any] | None]) -> Iterator[str]:
    """Promised lengths against the best constant, which is chosen with all lengths known; and against each task's."""
    by_task = any(told and "mean_error_by_task" in told for told in found.values())
    rows = [
        [
            f"`{model}`",
            str(told["blocks"]),
            "–" if told["correlation"] is None else f"{told['correlation']:.2f}",
            f"{100 * told['within_one']:.0f}%",
            f"{100 * told['within_one_constant']:.0f}% (of {told['best_constant']})",
            f"{told['mean_error']:.2f}",
            f"{told['mean_error_constant']:.2f}",
            *([f"{told['mean_error_by_task']:.2f}"] if by_task else []),
        ]
        for model, told in found.items()
        if told
    ]
    if rows:
        columns = [
            "model", "blocks", "correlation", "within one", "… the best constant", "mean error", "… the best constant",
            *(["… each task's best"] if by_task else []),
        ]  # fmt: skip
        yield table(columns, rows)


def promisable(saved: dict[str, Any], file: str) -> Iterator[str]:
    """Lengths that a decoder could promise, from the distribution over the length tokens, as this file saves them."""
    sets = sorted({row[0] for row in saved["rows"]})
    lines = []
    for kind in [*sets, None]:
        rows = [dict(zip(saved["columns"], row, strict=True)) for row in saved["rows"] if kind in (None, row[0])]
        found = {
            way: of_promises((row[way], row["written"]) for row in rows) for way in ("likeliest", "median", "mean")
        }
        cells = [
            f"{'–' if told['correlation'] is None else format(told['correlation'], '.2f')}; {told['mean_error']:.2f}; "
            f"{100 * sum(row['written'] > row[way] for row in rows) / len(rows):.0f}%"
            for way, told in found.items()
            if told
        ]
        constant = next(told["mean_error_constant"] for told in found.values() if told)
        lines.append([f"`{kind}`" if kind else "all", str(len(rows)), *cells, f"{constant:.2f}"])
    yield "### Promised lengths: what the length tokens' distribution knows\n"
    yield (
        f"`benchmarks/results/{file}` (`{saved['command']}`): of each way to promise, correlation with what "
        f"was written, mean error in units of {saved['unit']} tokens, and share of blocks longer than promised.\n"
    )
    yield table(["set", "blocks", "likeliest", "median", "mean", "mean error of the best constant"], lines)


def table(columns: list[str], rows: Iterator[list[str]] | list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def share(figure: dict[str, Any] | None) -> str:
    """A share of one as per cent, with its interval."""
    if figure is None:
        return "–"
    value, low, high = (f"{100 * figure[key]:.0f}" for key in ("value", "low", "high"))
    return f"{value}%" if low == high else f"{value}% [{low}, {high}]"
