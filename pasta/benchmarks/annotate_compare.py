"""Does measuring dependence find what patterns miss, and refuse what patterns mark?

    python benchmarks/annotate_compare.py DATA.jsonl results/annotate-compare.json [--rows 60] [--model M]

Draws short answers of three kinds: lists that `structure` marks, lists of steps (the prompt asks how to do or to
make something), and prose in which `structure` finds nothing. Reports, for both annotators, what they mark, what
it saves and what it costs: the added loss of the blocks with their siblings hidden, in nats per token.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from pasta.core.vocabulary import Vocabulary
from pasta.data.annotate import finish
from pasta.data.example import Decision, Refused
from pasta.data.fields import read_example
from pasta.data.independence import Budget, Independence, probes_of
from pasta.data.plan import Plan, counter
from pasta.data.probes import Hiding
from pasta.data.report import geometric_mean
from pasta.data.rows import read_rows
from pasta.data.structure import Structure
from pasta.data.units import Answer, cut
from pasta.models import bundled, load_model

STEPS = re.compile(r"\b(?:how (?:to|do|can|would)|recipe|steps|instructions|guide|process|procedure|tutorial)\b", re.I)
KINDS = ("list", "steps", "prose")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--model", default=bundled.NAME)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--max-tokens", type=int, default=170)
    parser.add_argument("--nats", type=float, default=Budget().nats)
    parser.add_argument("--limit", type=float, default=Budget().limit)
    parser.add_argument("--hiding", type=Hiding, default=Budget().hiding)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    loaded = load_model(options.model, device=options.device, dtype="float32")
    model, vocabulary, model_name = loaded.model, loaded.vocabulary, loaded.name
    count = counter(vocabulary)
    structure = Structure(count)
    budget = Budget(nats=options.nats, limit=options.limit, hiding=options.hiding)
    independence = Independence(model, vocabulary, budget, name=model_name)
    drawn = draw(options, structure, vocabulary, budget)
    began = time.monotonic()

    rows: list[dict[str, Any]] = []
    for at in range(0, len(drawn), independence.batch):
        group = drawn[at : at + independence.batch]
        answers = [answer for _, answer in group]
        examples = [answer.example for answer in answers]
        by_row = {decision.row: decision for decision in independence.decide(examples)}
        both = {
            "structure": [structure.plan(example) for example in examples],
            "independence": [by_row[example.row] for example in examples],
        }
        figures: list[dict[str, Any]] = [
            {"kind": kind, "row": answer.example.row, "tokens": answer.length} for kind, answer in group
        ]
        probes = {
            name: [probes_of(answer, plan_of(one)) for answer, one in zip(answers, decisions, strict=True)]
            for name, decisions in both.items()
        }
        asked = [list(dict.fromkeys([*a, *b])) for a, b in zip(*probes.values(), strict=True)]
        losses = independence.scorer.score(list(zip(answers, asked, strict=True)), budget.hiding)
        for name, decisions in both.items():
            for number, (figure, answer, decision) in enumerate(zip(figures, answers, decisions, strict=True)):
                done = finish(answer.example, decision, structure, "", count)
                assert not isinstance(done, Refused), done
                mark = done[2]
                blocks = []
                for probe in probes[name][number] if mark["blocks"] else ():
                    inside = range(probe.first, probe.last + 1)
                    nats = sum(losses[number, probe, unit] - losses[number, None, unit] for unit in inside)
                    blocks.append([sum(answer.units[unit].length for unit in inside), round(nats, 2)])
                figure[name] = {"critical_path": mark["critical_path"], "reason": mark["reason"], "blocks": blocks}
        rows += figures
        found = {
            "model": model_name,
            "budget": {"nats": options.nats, "limit": options.limit, "hiding": options.hiding.value},
            "seed": options.seed,
            "seconds": round(time.monotonic() - began, 1),
            "summary": {kind: summary([row for row in rows if row["kind"] == kind]) for kind in KINDS},
            "rows": rows,
        }
        options.out.write_text(json.dumps(found) + "\n")  # after each batch: a slow run can be read early
        print(len(rows), "of", len(drawn), file=sys.stderr, flush=True)


def plan_of(decision: Decision) -> Plan:
    return Plan() if isinstance(decision.plan, Refused) else decision.plan


def draw(
    options: argparse.Namespace, structure: Structure, vocabulary: Vocabulary, budget: Budget
) -> list[tuple[str, Answer]]:
    """As many answers of each kind as fit into `rows`."""
    every = list(read_rows(options.data))
    order = list(range(len(every)))
    random.Random(options.seed).shuffle(order)
    want = options.rows // len(KINDS)
    drawn: dict[str, list[tuple[str, Answer]]] = {kind: [] for kind in KINDS}
    for index in order:
        if all(len(found) >= want for found in drawn.values()):
            break
        example = read_example(index, every[index])
        if (
            isinstance(example, str)
            or not 250 < len(example.text) < 5 * options.max_tokens
            or len(example.prompt) > 400
        ):
            continue
        answer = cut(
            example, vocabulary, max_units=budget.max_units, min_tokens=budget.min_tokens, max_prompt=budget.max_prompt
        )
        if sum(unit.is_block for unit in answer.units) < 3 or answer.length > options.max_tokens:
            continue
        decision = structure.plan(example)
        marked = bool(plan_of(decision))
        if marked and "\n1." in "\n" + example.text:
            kind = "steps" if STEPS.search(example.prompt) else "list"
        elif not marked and "\n" not in example.text.strip().replace("\n\n", ""):
            kind = "prose"
        else:
            continue
        if len(drawn[kind]) < want:
            drawn[kind].append((kind, answer))
    return [one for group in zip(*drawn.values(), strict=False) for one in group]


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {"answers": len(rows)}
    for name in ("structure", "independence"):
        marked = [row for row in rows if row[name]["blocks"]]
        blocks = [block for row in marked for block in row[name]["blocks"]]
        tokens, nats = sum(block[0] for block in blocks), sum(block[1] for block in blocks)
        per_block = [nats / tokens for tokens, nats in blocks]
        out[name] = {
            "annotated": len(marked),
            "blocks": len(blocks),
            "parallelism": round(geometric_mean(row["tokens"] / row[name]["critical_path"] for row in rows), 3),
            "added_nats_per_block_token": round(nats / tokens, 4) if tokens else 0.0,
            "worst_tenth_of_blocks": round(statistics.quantiles(per_block, n=10)[-1], 3) if len(per_block) > 1 else 0.0,
        }
    return out


if __name__ == "__main__":
    main()
