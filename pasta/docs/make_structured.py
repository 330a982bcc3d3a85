"""Makes structured-results.md from the saved measurements of structured output (`benchmarks/results/structured-*`):

    python pasta/docs/make_structured.py

The words around the numbers stand in structured-results.toml, the numbers in the files that each section names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from structured_fresh import told_fresh
from structured_guide import guide
from structured_quality import quality
from structured_saved import DOCS, RESULTS, WORDS, load, on_cpu, table
from structured_speed import speed

PAGE = DOCS / "structured-results.md"
GUIDE = DOCS / "structured.md"
MADE = "<!-- made by make_structured.py -->"  # before and after the guide's table of quality


def main() -> None:
    PAGE.write_text(page(), "utf-8")
    text = GUIDE.read_text("utf-8")
    before, after = text.partition(MADE)[0], text.rpartition(MADE)[2]
    GUIDE.write_text(f"{before}{MADE}\n{guide()}{MADE}{after}", "utf-8")


def page() -> str:
    return "\n".join([WORDS["intro"], *quality(), *told_fresh(), *speed(), *schemas(), *libraries()])


def schemas() -> Iterator[str]:
    files = {path.name: json.loads(path.read_text("utf-8")) for path in RESULTS.glob("structured-schemas-*.json")}
    if not files:
        return
    yield WORDS["schemas"].format(**next(iter(files.values())))
    for closes in (True, False):
        chosen = [name for name in sorted(files) if (files[name].get("at_limit") == "close") is closes]
        if chosen:
            yield WORDS["closed" if closes else "cut"].format(**{"max_tokens": 800, **files[chosen[0]]})
        for name in chosen:
            yield from _decoded(name, files[name], closes)


def _decoded(name: str, found: dict[str, Any], closes: bool) -> Iterator[str]:
    who = f"`{found['model']}`"
    if found["model"] == "random":
        who = WORDS["random"] + ("" if closes else WORDS["favoured"])
    yield f"By {who} (`{name}`):\n"
    kinds = ("valid", "cut by the limit", "invalid", "exceptions", "threads", *(("values", "closed") if closes else ()))
    rows = []
    for way, own in found["decoded"].items():
        seen = f"{own.get('seen', found['supported'])} of {found['supported']}"
        rows.append([way, seen, *(str(own.get(kind, 0)) for kind in kinds)])
    yield table(["decoded", "schemas", *kinds], rows)
    if isinstance(parts := found["machine"].get("sampled"), list):
        told = [f"{count} on {where if isinstance(where, str) else on_cpu(where)}" for count, where in parts]
        yield f"Greedy on {found['machine']['greedy']}; sampled: {', '.join(told)}.\n"
    wrong = dict.fromkeys(line for own in found["decoded"].values() for line in own["wrong"])
    yield from (f"- {line.partition(':')[0]}: `{line.partition(': ')[2][:160]}`" for line in wrong)
    yield "" if wrong else "No answer was invalid, and no exception was raised.\n"


def libraries() -> Iterator[str]:
    files = [found for name in ("constraint-libraries.json", "constraint-llguidance.json") if (found := load(name))]
    if not files:
        return
    yield WORDS["libraries"].format(machine=files[0]["machine"]["cpu"])
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
    columns = ["library", "tokenizer", "accepted", "valid accepted", "invalid refused", "build, ms", "p99", "mask, µs"]
    yield table([*columns, "p99", f"over {files[0]['time_limit_s']:g} s"], rows)


if __name__ == "__main__":
    main()
