"""A trained adapter as a package that pip installs; its name is then a model's, over a base from anywhere.

The card (`card.md`) is filled in with what the training and the evaluation wrote down.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pasta.errors import PastaError
from pasta.eval.report import interval, percent, points
from pasta.models.adapter import CONFIG, RECORD, WEIGHTS, is_adapter, read_json

MOST = 25_000_000  # bytes

#: What one prompt of a task asks for.
TASKS = {
    "several4-gsm8k_dev": "4 math problems (GSM8K)",
    "several4-mbpp_dev": "4 functions (MBPP)",
    "gather-gsm8k_dev": "2–6 math problems, then their total or maximum",
    "gather-mbpp_dev": "2–6 functions, then a `main` that calls them",
    "freely-mbpp_dev": "2–6 functions, free-form request",
    "chain-gsm8k_dev": "a math problem that needs another's result",
    "chain4-gsm8k_dev": "4 math problems, the last needs the third",
    "plain-gsm8k_dev": "1 math problem",
    "plain-mbpp_dev": "1 function",
}

PROJECT = """\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "{distribution}"
version = "{version}"
description = "An adapter that teaches {base} to decode independent parts of an answer at once, with pasta-decoding."
readme = "src/{module}/README.md"
license = "Apache-2.0"
requires-python = ">=3.11"

[project.entry-points."pasta.adapters"]
"{name}" = "{module}"

# Weights are not tracked by most repositories, and a build takes what is tracked.
[tool.hatch.build]
artifacts = ["src/{module}/*.safetensors"]

[tool.hatch.build.targets.wheel]
packages = ["src/{module}"]
"""


def package(adapter: Path, evaluation: Path, to: Path, *, name: str, base: str, version: str) -> Path:
    """Writes a project into `to`, ready for `pip install` or `python -m build`; returns the adapter's folder in it."""
    if not is_adapter(adapter):
        raise PastaError(f"{adapter} holds no adapter", hint="run the stage train first")
    size = (adapter / WEIGHTS).stat().st_size
    if size > MOST:
        raise PastaError(
            f"the adapter has {size / 1e6:.0f} MB, and at most {MOST / 1e6:.0f} are wanted", "lower its rank"
        )
    slug = re.sub(r"[^a-z0-9]+", "_", name.lower())
    folder = to / "src" / slug
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(adapter / WEIGHTS, folder / WEIGHTS)
    settings, record = read_json(adapter / CONFIG), read_json(adapter / RECORD)
    write(folder / CONFIG, {**settings, "base_model_name_or_path": base})
    # Whoever has the base from elsewhere, or in other bits, has another checksum.
    write(folder / RECORD, {**{key: value for key, value in record.items() if key != "checksum"}, "base": base})
    (folder / "__init__.py").write_text(f'"""The adapter {name}, for pasta-decoding."""\n', "utf-8")
    training = read_json(adapter / "training.json")
    summary = read_json(evaluation / "summary.json")
    card = (Path(__file__).parent / "card.md").read_text("utf-8").format(
        name=name, base=base, rank=settings["r"], alpha=settings["lora_alpha"], megabytes=size / 1e6,
        trained_on=trained_on(training["config"]["model"], base), rate=training["config"]["learning_rate"],
        table=table(summary, adapter.name), promises=promises(summary, adapter.name),
        chats=chats(summary, adapter.name),
        **{key: training[key] for key in ("examples", "tagged", "steps", "tokens", "seconds")},
    )  # fmt: skip
    (folder / "README.md").write_text(card, "utf-8")
    distribution = f"pasta-adapter-{slug.replace('_', '-')}"
    project = PROJECT.format(distribution=distribution, version=version, base=base, module=slug, name=name)
    (to / "pyproject.toml").write_text(project, "utf-8")
    return folder


def write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")


def trained_on(model: str, base: str) -> str:
    if model.lower().endswith(".gguf"):
        return (
            f"Trained and evaluated on the dequantised weights of a GGUF file ({Path(model).name}). "
            f"It has not been evaluated on the 16-bit weights of `{base}`."
        )
    return "Trained and evaluated on its original weights."


def table(summary: Mapping[str, Any], model: str) -> str:
    """A line for each task on which the model was graded."""
    columns = ("one prompt asks for", "parts", "accuracy (%)", "vs. baseline (points)", "final part (%)", "fork; sync",
               "realised speedup (prompts)", "theoretical speedup", "length ratio")  # fmt: skip
    lines = [
        (
            TASKS.get(task, task), f"{found['parts']:,}",
            *(points(found[key]) for key in ("score", "over_reference", "end")),
            f"{percent(found['forking'])}; {percent(found['syncing'])}", timed(found["realised_speedup"]),
            interval(found["theoretical_speedup"]), interval(found["length_factor"]),
        )
        for task, found in graded(summary, model)
    ]  # fmt: skip
    if not lines:
        raise PastaError(f"nothing of {model} is marked", hint="run the stages evaluate and report first")
    return as_table(columns, lines)


def promises(summary: Mapping[str, Any], model: str) -> str:
    told = [(task, found["promises"]) for task, found in graded(summary, model)]
    told += [("all tasks", (summary.get("promises") or {}).get(model))]
    lines = [
        (
            TASKS.get(task, task), f"{found['blocks']:,}", f"{found['correlation']:.2f}",
            f"{found['within_one']:.0%}", f"{found['within_one_constant']:.0%}",
        )
        for task, found in told
        if found and found["correlation"] is not None
    ]  # fmt: skip
    columns = ("one prompt asks for", "blocks", "correlation", "off by at most one", "best constant")
    return as_table(columns, lines) if lines else "No promises were made."


def chats(summary: Mapping[str, Any], model: str) -> str:
    """What was measured on prompts without right answers, if there were any."""
    found = summary.get("models", {}).get(model)
    if not found or not found.get("answers"):
        return ""
    wins = {judge: told.get("lc_win_rate") for judge, told in found["judged"].items()}
    lines = [
        ("answers that fork", percent(found["forking"])),
        ("realised speedup (prompts)", timed(found["realised_speedup"])),
        ("theoretical speedup", interval(found["theoretical_speedup"])),
        ("length ratio", interval(found["length_factor"])),
        *((f"length-controlled win rate (%), judge `{judge}`", interval(rate, 1)) for judge, rate in wins.items()),
        ("forking answers in which two blocks repeat each other", percent(found["redundancy"]["blocks_repeat"])),
    ]
    return f"\n### Chat\n\n{as_table(('open-ended prompts', str(found['answers'])), lines)}\n"


def graded(summary: Mapping[str, Any], model: str) -> list[tuple[str, Mapping[str, Any]]]:
    return [(task, models[model]) for task, models in summary["tasks"].items() if models.get(model)]


def timed(figure: dict[str, Any] | None) -> str:
    return f"{interval(figure)} ({figure['prompts']})" if figure else "–"


def as_table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (columns, ("---",) * len(columns), *lines))
