"""Makes results.md and results/*.md from what is saved of evaluations (`benchmarks/results/eval-*`):

    python pasta/docs/make_results.py                    the pages, plots and the README's table, from what is saved
    python pasta/docs/make_results.py DIR [NAME [REFERENCE]]   first saves an evaluation's folder
    python pasta/docs/make_results.py seeds NAME 1=DIR 2=DIR   first saves evaluations of the same recipe, other seeds

Of an evaluation are saved its figures (`eval-NAME.json`) and a row for each answer without its words
(`eval-NAME.rows.jsonl.xz`); with rows, all figures are made of them anew. Each has a page, `results/NAME.md`, with all
of its tables (words: `results/experiments.toml`); results.md is what they say together (`results_summary.py`).
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from results_asked import GOALS
from results_derived import DERIVED, derived
from results_settled import settled
from results_summary import BASELINE, HEAD, WORDS, over_baselines, summary_page
from results_summary import tasks as tasks_of
from results_tables import clocks, elsewhere, equally_treated, lengths, redundancy, speed, stage_two, timed_otherwise

from pasta.data.lines import write_json
from pasta.data.rows import read_rows, write_rows
from pasta.eval.figures import concurrency, pareto
from pasta.eval.folder import RunFolder
from pasta.eval.goals import COLUMNS, goal_rows, is_asked
from pasta.eval.report import interval, make_report
from pasta.eval.rows import Rows, collect, listed, read, write
from pasta.eval.seeds import of_seeds, seed_page
from pasta.eval.summary import of_rows, reference_of
from pasta.eval.task_page import promisable, rivals, table, tasks

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
PAGE = DOCS / "results.md"
PAGES = DOCS / "results"  # a page for each evaluation
README = DOCS.parents[1] / "README.md"

TOLD = tomllib.loads((PAGES / "experiments.toml").read_text("utf-8"))  # what to know of each, in the order of the list


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["seeds"]:
        save_seeds(arguments[1], dict(each.split("=", 1) for each in arguments[2:]))
    elif arguments:
        save(RunFolder(arguments[0]), *arguments[1:])
    found = evaluations()
    for name, summary in found.items():
        if rows_path(name).exists():
            saved = RESULTS / f"eval-{name}.json"
            before = json.loads(saved.read_text("utf-8"))
            write_json(saved, settled(before, {**before, **summary}))
        for target, drawing in plots(name, summary):
            target.write_text(drawing, "utf-8")
        (PAGES / f"{name}.md").write_text(experiment(name, summary), "utf-8")
    PAGE.write_text(page(found), "utf-8")
    README.write_text(readme(README.read_text("utf-8"), found), "utf-8")


def evaluations() -> dict[str, dict[str, Any]]:
    """The figures of every evaluation that is saved."""
    return {path.stem.removeprefix("eval-"): load(path) for path in sorted(RESULTS.glob("eval-*.json"))}


def save(folder: RunFolder, name: str = "alpaca", against: str = "baseline") -> None:
    """The figures and the rows of a folder."""
    summary, _ = make_report(folder, against=against)
    write_json(RESULTS / f"eval-{name}.json", {**summary, "trained": trained(folder)})
    write(collect(folder), str(rows_path(name)))


def trained(folder: RunFolder) -> dict[str, dict[str, Any]]:
    """What the models' trainings wrote down, of those that took part as they were trained."""
    found = {}
    for contestant in folder.contestants():
        path = Path(contestant.model) / "training.json"
        record = json.loads(path.read_text("utf-8")) if path.is_file() and contestant.method == "parallel" else {}
        if "config" in record:  # a mix of models has none
            config = {key: record["config"].get(key) for key in ("learning_rate", "lora_rank", "epochs", "seed")}
            counts = {key: record.get(key) for key in ("examples", "tagged", "tokens", "steps", "seconds", "loss")}
            found[contestant.name] = {**config, **counts}
    return found


def save_seeds(name: str, folders: dict[str, str]) -> None:
    """Of each run its rows, each with its seed, and what its models were trained for. Seed 0 is `eval-NAME` itself."""
    runs = {seed: RunFolder(place) for seed, place in folders.items()}
    trainings = {"0": json.loads((RESULTS / f"eval-{name}.json").read_text("utf-8"))["trained"]}
    trainings |= {seed: trained(folder) for seed, folder in runs.items()}
    steps = {seed: steps_of(found) for seed, found in trainings.items()}
    examples = {seed: found["pasta"]["examples"] for seed, found in trainings.items()}
    commands = [command for folder in runs.values() for command in folder.require().get("commands", [])]
    about = {"steps": steps, "examples": examples, "judge": "features", "commands": list(dict.fromkeys(commands))}
    write_json(RESULTS / f"seeds-{name}.json", about)
    rows = ({"seed": seed, **row} for seed, folder in runs.items() for row in listed(collect(folder)))
    write_rows(str(seeds_path(name)), rows)


def steps_of(found: dict[str, dict[str, Any]]) -> dict[str, int]:
    return {model: told["steps"] for model, told in found.items() if model in ("pasta", "baseline")}


def seeds(name: str) -> Iterator[str]:
    """Headline rows with other seeds, where they were saved."""
    if seeds_path(name).exists():
        found, about = over_seeds(name)
        yield from seed_page(found, about["steps"], about.get("examples", {}))


def over_seeds(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Figures over all seeds, and what was written down of their trainings."""
    about = json.loads((RESULTS / f"seeds-{name}.json").read_text("utf-8"))
    runs = {"0": rows_of(name)}
    for row in read_rows(str(seeds_path(name))):
        keys = [row.pop(key) for key in ("seed", "prompts", "model", "id")]
        runs.setdefault(keys[0], {}).setdefault(keys[1], {}).setdefault(keys[2], {})[keys[3]] = row
    return of_seeds(runs, "pasta", "baseline", about["judge"]), about


def seeds_path(name: str) -> Path:
    return RESULTS / f"seeds-{name}.rows.jsonl.xz"


def rows_path(name: str) -> Path:
    return RESULTS / f"eval-{name}.rows.jsonl.xz"


def rows_of(name: str) -> Rows:
    return read(str(rows_path(name)))


def load(path: Path) -> dict[str, Any]:
    """The figures of an evaluation: made of its rows, where they are saved."""
    saved: dict[str, Any] = json.loads(path.read_text("utf-8"))
    rows = rows_path(path.stem.removeprefix("eval-"))
    if not rows.exists():
        return saved
    made = ("models", "tasks", "timed_alone", "promises", "concurrency", *DERIVED)
    about = {key: value for key, value in saved.items() if key not in made}
    found = read(str(rows))
    told = TOLD.get(path.stem.removeprefix("eval-"), {})
    return {**of_rows(found, about, saved["concurrency"]), **derived(told, found, about, rows_of)}


def plots(name: str, summary: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """Each plot of an evaluation, drawn from its saved figures, and where it belongs."""
    judge = next(iter(summary["judges"]), None)
    for plot, made in (("pareto", pareto(summary, judge)), ("concurrency", concurrency(summary))):
        if made is not None:
            yield DOCS / "images" / f"eval-{name}-{plot}.svg", made[1]


def page(found: dict[str, dict[str, Any]]) -> str:
    lengths_known = json.loads((RESULTS / f"promised-lengths-{WORDS['before']}.json").read_text("utf-8"))
    seeds = {kind: over_seeds(WORDS[kind])[0] for kind in ("again", "seeds", "before")}
    return summary_page(found, seeds, lengths_known, TOLD)


def experiment(name: str, summary: dict[str, Any]) -> str:
    """The page of one evaluation."""
    text = "\n".join(section(name, summary))
    return re.sub("^##", "#", text, flags=re.MULTILINE).rstrip("\n") + "\n"


def readme(text: str, found: dict[str, dict[str, Any]]) -> str:
    """The README with its tables of tasks and of the default model made anew."""
    tables = {
        HEAD: tasks_of(found[WORDS["headline"]]["tasks"], brief=True),
        BASELINE: over_baselines(found, brief=True),
    }
    for head, made in tables.items():
        text = re.sub(rf"^\| {head} \|.*\n(\|.*\n)+", made.replace("\\", r"\\"), text, flags=re.MULTILINE)
    return re.sub(r"eval-qwen15[\w-]*(?=\.json)", f"eval-{WORDS['headline']}", text)


def most_tokens(settings: dict[str, Any]) -> int:
    """Older runs call it by transformers' name."""
    return int(settings.get("max_tokens") or settings["max_new_tokens"])


def section(name: str, summary: dict[str, Any]) -> Iterator[str]:
    told = TOLD.get(name, {"title": f"Evaluation {name}", "about": "", "words": ""})
    judges = list(summary["judges"])
    counts = [figures["answers"] for figures in summary["models"].values()]
    asked = f"{max(counts)} prompts (`{summary['prompts']}`), " if counts else ""
    yield f"## {told['title']}\n"
    yield told["about"]
    yield "[All results](../results.md) and how to read them; definitions: [evaluate.md](../evaluate.md).\n"
    if told["words"]:
        yield told["words"] + "\n"
    yield (
        f"`benchmarks/results/eval-{name}.json`: {asked}at most {most_tokens(summary['settings'])} tokens, greedy; "
        f"reference `{summary['against']}`; "
        f"{'; '.join(machine(key, about) for key, about in summary['machines'].items())}.\n"
    )
    if summary["commands"]:
        yield "```sh\n" + "\n".join(summary["commands"]) + "\n```\n"
    yield from training(summary.get("trained", {}))
    yield from asked_for(summary)
    yield from rivals(summary)
    yield from seeds(name)
    for judge in judges:
        yield from quality(name, summary, judge, first=judge == judges[0])
    if judges and not any(map(is_asked, summary["models"])):
        yield from goals(summary, judges[0])
    if counts:
        yield from stage_two(summary)
        yield from equally_treated(summary)
        yield from elsewhere(summary)
        yield from speed(summary)
        if summary["against"] != "baseline" and rows_path(name).exists():
            yield from timed_otherwise(summary, rows_of(name)[summary["prompts"]])
        yield from redundancy(summary)
        yield from lengths(summary)
    yield from tasks(summary)
    yield from clocks(summary)
    yield from probed(name)
    yield from users(name, summary)


def machine(name: str, about: dict[str, Any]) -> str:
    versions = ", ".join(f"{key} {about[key]}" for key in ("torch", "transformers") if key in about)
    return f"{name}{f' ({versions})' if versions else ''}"


def quality(name: str, summary: dict[str, Any], judge: str, first: bool) -> Iterator[str]:
    other = reference_of(summary, judge)
    against = f", against `{other}`" if other != summary["against"] else ""
    yield f"### Quality and speed, judge `{summary['judges'][judge]['judge']}`{against}\n"
    if first and (DOCS / "images" / f"eval-{name}-pareto.svg").is_file():
        yield f"![Quality against speed](../images/eval-{name}-pareto.svg)\n"
    rows = []
    for model, figures in summary["models"].items():
        judged = figures["judged"].get(judge) or {}
        reference = model == other
        better = figures.get("dominated_by", {}).get(judge)
        rows.append(
            [
                f"`{model}`",
                str(figures["answers"]),
                "50" if reference else interval(judged.get("lc_win_rate"), 1),
                "50" if reference else interval(judged.get("win_rate"), 1),
                interval(figures["realised_speedup"]),
                interval(figures["theoretical_speedup"]),
                interval(length_factor(summary, figures)),
                interval(figures["theoretical_parallelism"]),
                "–" if better is None else names(better["models"]),
            ]
        )
    columns = [
        "model",
        "answers",
        "LC win rate, %",
        "win rate, %",
        "realised speedup",
        "theoretical speedup",
        "length ratio",
        "parallelism",
        "dominated by",
    ]
    yield table(columns, rows)


def length_factor(summary: dict[str, Any], figures: dict[str, Any]) -> dict[str, Any] | None:
    """As it was measured, prompt by prompt; of older figures, what speedup and parallelism say, without an interval."""
    if "length_factor" in figures:
        measured: dict[str, Any] | None = figures["length_factor"]
        return measured
    speedup, parallelism = figures["theoretical_speedup"], figures["theoretical_parallelism"]
    if not speedup or not parallelism:
        return None
    value = speedup["value"] / parallelism["value"]
    return {"value": value, "low": value, "high": value}


def training(found: dict[str, dict[str, Any]]) -> Iterator[str]:
    if not found:
        return
    yield "### Training\n"
    rows = [
        [
            f"`{model}`",
            *("–" if told[key] is None else f"{told[key]:,}" for key in ("examples", "tagged", "tokens", "steps")),
            *(
                "–" if told[key] is None else f"{told[key]:g}"
                for key in ("lora_rank", "learning_rate", "epochs", "seed")
            ),
            f"{told['seconds']:.0f}",
        ]
        for model, told in found.items()
    ]
    columns = [
        "model", "examples", "with tags", "tokens", "steps", "LoRA rank", "learning rate", "epochs", "seed", "seconds",
    ]  # fmt: skip
    yield table(columns, rows)


def asked_for(summary: dict[str, Any]) -> Iterator[str]:
    """A model's targets, one by one; nothing where it has none."""
    if rows := goal_rows(summary):
        yield "### Targets\n"
        yield table(COLUMNS, rows)


def goals(summary: dict[str, Any], judge: str) -> Iterator[str]:
    """What was hoped for, and what came: by the values, whatever their intervals."""
    places: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
    for model, figures in summary["models"].items():
        judged = figures["judged"].get(judge) or {}
        win = judged.get("lc_win_rate") or judged.get("win_rate")
        if win and figures["realised_speedup"]:
            places[model] = (figures["realised_speedup"], win)
    rows = []
    for least, rate in GOALS:
        met = [
            f"`{model}`: {interval(speed)}x on {speed['prompts']} prompts, {interval(win, 1)} %"
            for model, (speed, win) in places.items()
            if speed["value"] >= least and win["value"] >= rate
        ]
        rows.append([f"a model of {least}x realised or more that wins {rate} % or more", "; ".join(met) or "none"])
    for model in (summary["against"], "sot", "apar"):
        found = summary["models"].get(model, {}).get("dominated_by", {}).get(judge)
        if found:
            by = found["speed"].replace("_", " ")
            rows.append([f"`{model}` is dominated: another is as good and as fast ({by})", names(found["models"])])
    yield f"### Stretch targets (judge `{judge}`)\n"
    yield table(["target", "met by"], rows)


def names(models: list[str]) -> str:
    return ", ".join(f"`{model}`" for model in models) or "none"


def probed(name: str) -> Iterator[str]:
    path = RESULTS / f"promised-lengths-{name}.json"
    if path.exists():
        yield from promisable(json.loads(path.read_text("utf-8")), path.name)


def users(name: str, summary: dict[str, Any]) -> Iterator[str]:
    rows = summary["concurrency"]
    if not rows:
        return
    yield "### Concurrent users\n"
    yield "Each user asks, waits for the answer, and asks again. Speedup: of an answer, under the same load.\n"
    if (DOCS / "images" / f"eval-{name}-concurrency.svg").is_file():
        yield f"![Speedup against concurrent users](../images/eval-{name}-concurrency.svg)\n"
    cells = [
        [
            str(row["users"]),
            f"`{row['model']}`",
            f"{row['seconds_an_answer']:.2f}",
            f"{row['tokens_a_second']:,.0f}",
            "–" if row["speedup"] is None else f"{row['speedup']:.2f} [{row['low']:.2f}, {row['high']:.2f}]",
        ]
        for row in rows
    ]
    yield table(["users", "model", "seconds an answer", "tokens a second", "speedup"], cells)


if __name__ == "__main__":
    main(sys.argv[1:])
