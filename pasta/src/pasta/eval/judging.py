"""A judge compares every answer with the reference's, and AlpacaEval's own files are written beside."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from pasta.data.lines import append_line, write_json
from pasta.errors import UsageError
from pasta.eval.answers import Say
from pasta.eval.folder import RunFolder
from pasta.eval.names import check_name
from pasta.judge.base import Comparison, ask, lacking
from pasta.judge.kin import Lineage, in_common, judge_of
from pasta.judge.open import open_judge

Answers = dict[str, dict[str, Any]]  # of one model, by the ids of prompts
CHUNK = 32  # prompts; all models' answers to them go to the judge together, so that it reads the reference once


def run_judging(
    folder: RunFolder,
    spec: str,
    questions: str,
    *,
    say: Say,
    against: str = "baseline",
    name: str | None = None,
    models: Sequence[str] = (),
    limit: int = 0,
    minutes: float = 0.0,
) -> list[dict[str, Any]]:
    """Into `judged/NAME/SET/MODEL.jsonl`: for each answer, the probability that it is better than the reference's.

    What got no verdict is not written, so that the next run asks for it again.

    Raises:
        NotJudged: Nothing that was asked got a verdict.
    """
    end = time.monotonic() + 60 * minutes if minutes else float("inf")
    name = name or spec.partition(":")[0]
    check_name("--name", name)
    taking_part = folder.require()["models"]
    for model in (against, *models):
        if model not in taking_part:
            raise UsageError(f"no model {model} took part", hint=f"name one of {', '.join(taking_part)}")
    reference = folder.answers(questions, against)
    if not reference:
        raise UsageError(f"{against} has no answers on {questions}", hint="run: pasta eval answers")
    rivals = {model: folder.answers(questions, model) for model in models or taking_part if model != against}
    answers = comparable(folder, questions, against, reference, rivals, say)
    about = {"judge": spec, "against": against}
    folder.check_judge(name, about)
    judge = open_judge(spec)
    warn_of_kin(folder, spec, answers, say)
    done = {model: folder.judged(name, questions, model) for model in answers}
    ids = list(reference)[:limit] if limit else list(reference)
    missing = {id: [model for model in answers if id in answers[model] and id not in done[model]] for id in ids}
    left = [id for id in ids if missing[id]]  # so that the few that failed before do not each make a chunk of their own
    verdicts: list[float | None] = []
    reason = ""
    begun = time.monotonic()
    for start in range(0, len(left), CHUNK):
        if time.monotonic() > end:
            say("time is up: the rest is left for the next run")
            break
        pairs = [(model, id) for id in left[start : start + CHUNK] for model in missing[id]]
        wins, why = ask(
            judge,
            [
                Comparison(reference[id]["prompt"], reference[id]["text"], answers[model][id]["text"])
                for model, id in pairs
            ],
        )
        verdicts += wins
        reason = reason or why
        found = [(model, id, win) for (model, id), win in zip(pairs, wins, strict=True) if win is not None]
        if found:
            folder.remember_judge(name, about)  # once it judges: one that cannot be read leaves the name free
        for model, id, win in found:
            row = {"id": id, "win": win, "characters": len(answers[model][id]["text"])}
            done[model][id] = {**row, "reference_characters": len(reference[id]["text"])}
            append_line(folder.judged_path(name, questions, model), done[model][id])
        if not any(done.values()):
            break  # nothing here has ever had a verdict of it: the rest would have none either
        seen = len(ids) - len(left) + min(start + CHUNK, len(left))
        say(f"{judge.name}: {seen} of {len(ids)} prompts, {time.monotonic() - begun:.0f} s")
    if told := lacking(judge.name, verdicts, reason):
        say(told)
    return [write_alpaca(folder, name, questions, against, model, reference, answers[model]) for model in answers]


def comparable(
    folder: RunFolder, questions: str, against: str, reference: Answers, rivals: dict[str, Answers], say: Say
) -> dict[str, Answers]:
    """The rivals, by name, that answered what the reference did; says who is left out, and refuses where all are."""
    found = {model: answers for model, answers in rivals.items() if answers.keys() & reference.keys()}
    if not found:
        lacking = f"none by {', '.join(rivals)}" if rivals else "it alone is to be judged"
        raise UsageError(
            f"{folder.path} holds no answers to compare with those of {against} on {questions}: {lacking}",
            "let another answer them: pasta eval answers DIR --model NAME=MODEL",
        )
    for model in (name for name in rivals if name not in found):
        say(f"{model} is left out: it has no answers on {questions} that {against} has, too")
    return found


def warn_of_kin(folder: RunFolder, spec: str, judged: Collection[str], say: Say) -> None:
    """Whoever scored a model's stage two is no witness for it, nor is a judge of the same make."""
    own = Lineage.of(spec)
    for contestant in folder.contestants():
        scorer = judge_of(contestant.model)
        if contestant.name in judged and scorer and (reason := in_common(own, Lineage.of(scorer))):
            say(f"warning: stage two of {contestant.name} was scored by {scorer}, and {reason}: no witness for it")


def write_alpaca(
    folder: RunFolder,
    judge: str,
    questions: str,
    against: str,
    model: str,
    reference: Answers,
    answers: Answers,
) -> dict[str, Any]:
    """`model_outputs.json` as AlpacaEval reads it, and the judge's `annotations.json` as it writes them."""
    judged = folder.judged(judge, questions, model)
    place: Path = folder.path / "alpaca" / questions
    for name, rows in ((model, answers), (against, reference)):
        write_json(
            place / name / "model_outputs.json",
            [{"instruction": row["prompt"], "output": row["text"], "generator": name} for row in rows.values()],
        )
    write_json(
        place / model / judge / "annotations.json",
        [
            {
                "instruction": answers[id]["prompt"],
                "output_1": reference[id]["text"],
                "generator_1": against,
                "output_2": answers[id]["text"],
                "generator_2": model,
                "annotator": judge,
                "preference": 1 + row["win"],
            }
            for id, row in judged.items()
            if id in answers and id in reference
        ],
    )
    wins = [row["win"] for row in judged.values()]
    return {"model": model, "judged": len(wins), "win rate": 100 * sum(wins) / len(wins) if wins else None}
