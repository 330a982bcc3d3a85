"""A trained adapter as a package that pip installs; its name is then a model's, over a base from anywhere.

The card (`card.md`) is filled in with what the training and the evaluation wrote down.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pasta.errors import PastaError
from pasta.eval.report import interval, percent, points
from pasta.models.adapter import CONFIG, RECORD, WEIGHTS, is_adapter, read_json

MOST = 25_000_000  # bytes

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
            f"Trained and measured over the dequantised weights of a GGUF file ({Path(model).name}), a few bits "
            f"each. Over the weights of `{base}` in 16 bits it has not been measured."
        )
    return f"Trained and measured over `{base}`."


def table(summary: Mapping[str, Any], model: str) -> str:
    """A line for each task that the model was marked on."""
    columns = ("task", "parts", "right, %", "over `baseline`", "end right, %", "forking", "with syncs",
               "theoretical speedup", "realised", "length factor")  # fmt: skip
    lines = []
    for task, models in summary["tasks"].items():
        found = models.get(model)
        if found:
            shown = (
                task, str(found["parts"]), *(points(found[key]) for key in ("score", "over_reference", "end")),
                percent(found["forking"]), percent(found["syncing"]), interval(found["theoretical_speedup"]),
                interval(found["realised_speedup"]), interval(found["length_factor"]),
            )  # fmt: skip
            lines.append(shown)
    if not lines:
        raise PastaError(f"nothing of {model} is marked", hint="run the stages evaluate and report first")
    rows = [columns, ("---",) * len(columns), *lines]
    return "\n".join(f"  | {' | '.join(row)} |" for row in rows)


def promises(summary: Mapping[str, Any], model: str) -> str:
    told = []
    for task, models in summary["tasks"].items():
        found = (models.get(model) or {}).get("promises")
        if found and found["correlation"] is not None:
            told.append(
                f"{task}: correlation {found['correlation']:.2f}, within ten tokens {found['within_one']:.0%} "
                f"(the best constant {found['within_one_constant']:.0%})"
            )
    return "; ".join(told) or "None were made."
