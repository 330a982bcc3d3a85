"""Preference optimisation from prompts to models: `pasta train preference`.

    OUTPUT/baseline.jsonl              the baseline's answers
    OUTPUT/round-1/samples.jsonl       the model's own answers, several a prompt
    OUTPUT/round-1/samples-0-of-4.jsonl  the same, where several processes share the prompts
    OUTPUT/round-1/scores.jsonl        speed, quality and faults of each
    OUTPUT/round-1/pairs-4.jsonl       the best and the worst of each prompt, for lambda 4
    OUTPUT/round-1/reference.jsonl     their log probabilities under the model that drew them
    OUTPUT/round-1/lambda-4/           the model that learned from them, and training.json
    OUTPUT/round-2-lambda-4/…          the same again, with samples of that model

Each step adds what is missing of its file, so that a run may stop anywhere.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pasta.data.lines import append_lines, read_lines, write_lines
from pasta.data.rows import read_rows
from pasta.errors import PastaError, UsageError
from pasta.train.pairs import make_pairs, name_of
from pasta.train.preference_config import PreferenceConfig
from pasta.train.score import Guards, Score, score

SCORED_AT_ONCE = 4096  # samples; a judge batches them as it likes


@dataclass(frozen=True, slots=True)
class Round:
    """One round: who is sampled and improved, and for which weights."""

    folder: Path
    model: str
    weights: tuple[float, ...]
    number: int = 1

    def samples(self) -> Iterator[dict[str, Any]]:
        return read_parts(self.folder, "samples")

    @property
    def scores(self) -> Path:
        return self.folder / "scores.jsonl"

    @property
    def reference(self) -> Path:
        return self.folder / "reference.jsonl"

    def pairs(self, weight: float) -> Path:
        return self.folder / f"pairs-{name_of(weight)}.jsonl"

    def trained(self, weight: float) -> Path:
        return self.folder / f"lambda-{name_of(weight)}"


@dataclass(frozen=True, slots=True)
class Question:
    prompt: str
    reference: str | None  # somebody else's answer, where there is one


def run(config: PreferenceConfig) -> list[dict[str, Any]]:
    """Runs the chosen steps of every round; returns the records of the models trained so far."""
    records: list[dict[str, Any]] = []
    for each in rounds(config):
        if config.round and each.number != config.round:
            continue
        steps = {"sample": sample, "score": score_samples, "pairs": pair, "train": train}
        for step in config.chosen_steps:
            print(f"== round {each.number}: {step} ({each.folder})", file=sys.stderr, flush=True)
            records += steps[step](config, each) or []
    return records


def summary(config: PreferenceConfig) -> list[str]:
    """A short table of what lies in the output folder."""
    lines = [f"{config.output}"]
    for each in rounds(config):
        samples, scores = [*each.samples()], [*read_lines(each.scores)]
        if not samples:
            continue
        forking = sum(row["threads"] > 1 for row in samples) / len(samples)
        lines.append(
            f"  {each.folder.name}: {len(samples)} samples of {len({row['index'] for row in samples})} prompts, "
            f"{forking:.0%} fork, {sum(row['content_tokens'] for row in samples) / len(samples):.0f} tokens each"
        )
        if scores:
            lines.append(f"    {describe_scores([Score.from_dict(row) for row in scores])}")
        for weight in each.weights:
            pairs = [*read_lines(each.pairs(weight))]
            record = each.trained(weight) / "training.json"
            if pairs:
                lines.append(f"    lambda {name_of(weight)}: {len(pairs)} pairs, {contrast(pairs)}")
            if record.exists():
                done = json.loads(record.read_text("utf-8"))
                held = done["held_out"]
                lines.append(
                    f"      trained: {done['steps']} steps, {done['seconds']:.0f} s, held out: "
                    + ", ".join(f"{name} {held[name]:.3g}" for name in ("margin", "right", "sft") if name in held)
                )
    return lines


def rounds(config: PreferenceConfig) -> Iterator[Round]:
    """The first round serves all weights; later ones are each weight's own."""
    first = Round(config.folder / "round-1", find_model(config.model), config.weights)
    yield first
    for weight in config.weights:
        before = first
        for number in range(2, config.rounds + 1):
            folder = config.folder / f"round-{number}-lambda-{name_of(weight)}"
            before = Round(folder, str(before.trained(weight)), (weight,), number)
            yield before


def find_model(name: str) -> str:
    """The default model is an adapter that comes with the package; all else is a folder's name already."""
    if name != "default":
        return name
    from pasta.models import ADAPTER

    return str(ADAPTER)


def read_questions(config: PreferenceConfig) -> list[Question]:
    questions = []
    for row in read_rows(config.prompts):
        prompt = row.get("prompt") or row.get("instruction")
        if not isinstance(prompt, str):
            raise UsageError(f"{config.prompts}: a row has no prompt", hint="rows need prompt or instruction")
        answer = row.get("response") or row.get("output") or row.get("reference")
        questions.append(Question(prompt, answer if isinstance(answer, str) and answer.strip() else None))
        if config.limit and len(questions) == config.limit:
            break
    return questions


# -- sample ----------------------------------------------------------------------------------------------


def sample(config: PreferenceConfig, each: Round) -> None:
    from pasta.train.samples import draw

    number, parts = config.shard
    questions = read_questions(config)
    prompts = [each.prompt if index % parts == number else "" for index, each in enumerate(questions)]
    limits = {name: getattr(config, name) for name in ("batch", "max_new_tokens", "max_prompt_tokens", "minutes")}
    own = f"-{number}-of-{parts}" if parts > 1 else ""
    drawn = {(row["index"], row["sample"]) for row in each.samples()}
    if is_missing(prompts, config.samples, drawn):
        draw(
            open_engine(config, each.model), prompts, each.folder / f"samples{own}.jsonl", done=drawn,
            samples=config.samples, temperature=config.temperature, seed=config.seed + each.number - 1, **limits,
        )  # fmt: skip
    # The baseline answers what was sampled, once for all rounds.
    sampled = {row["index"] for row in each.samples()}
    wanted = [prompt if index in sampled else "" for index, prompt in enumerate(prompts)]
    answered = {(row["index"], row["sample"]) for row in read_parts(config.folder, "baseline")}
    if is_missing(wanted, 1, answered):
        draw(
            open_engine(config, config.baseline), wanted, config.folder / f"baseline{own}.jsonl", done=answered,
            samples=1, temperature=0.0, sequential=True, **limits,
        )  # fmt: skip


def is_missing(prompts: Sequence[str], samples: int, done: Collection[tuple[int, int]]) -> bool:
    return any(prompt and (index, n) not in done for index, prompt in enumerate(prompts) for n in range(samples))


def read_parts(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """The rows of a file that several processes may have written a part of."""
    for path in sorted(folder.glob(f"{name}*.jsonl")):
        yield from read_lines(path)


def open_engine(config: PreferenceConfig, name: str) -> Any:
    import torch

    from pasta.engine.make import make_engine
    from pasta.interpreter import Limits
    from pasta.serve.scheduler import slots_needed
    from pasta.train.model import read_model, vocabulary_of

    device = torch.device(config.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    model, tokenizer = read_model(name, torch.bfloat16 if device.type == "cuda" else torch.float32, config.base)
    slots = config.batch * slots_needed(config.max_prompt_tokens, Limits(max_new_tokens=config.max_new_tokens))
    return make_engine(model.to(device).eval(), vocabulary_of(model, tokenizer), name=Path(name).name, slots=slots)


# -- score -----------------------------------------------------------------------------------------------


def score_samples(config: PreferenceConfig, each: Round) -> None:
    from pasta.judge.base import open_judge

    until = time.monotonic() + 60 * config.minutes if config.minutes else math.inf
    judge = open_judge(config.judge)
    questions = read_questions(config)
    baseline = {row["index"]: row for row in read_parts(config.folder, "baseline")}
    done = {(row["index"], row["sample"]) for row in read_lines(each.scores)}
    samples = [row for row in each.samples() if (row["index"], row["sample"]) not in done and row["index"] in baseline]
    asked = sum(1 + (questions[row["index"]].reference is not None) for row in samples)
    print(f"{len(samples)} samples to score, {asked} comparisons by {judge.name}", file=sys.stderr, flush=True)
    guards = Guards(config.overlap, config.short)
    begun = time.monotonic()
    for start in range(0, len(samples), SCORED_AT_ONCE):
        if time.monotonic() > until:
            print(f"time is up: {len(samples) - start} samples are left for the next run", file=sys.stderr)
            break
        some = samples[start : start + SCORED_AT_ONCE]
        indices = {row["index"] for row in some}
        rivals = {index: rivals_of(questions[index], baseline[index]) for index in indices}
        lengths = {index: baseline[index]["content_tokens"] for index in indices}
        append_lines(each.scores, (got.to_dict() for got in score(some, rivals, lengths, judge, guards)))
        took = time.monotonic() - begun
        print(f"{start + len(some)}/{len(samples)} scored, {took:.0f} s", file=sys.stderr, flush=True)


def rivals_of(question: Question, baseline: Mapping[str, Any]) -> dict[str, str]:
    rivals = {"baseline": baseline["text"]}
    if question.reference is not None:
        rivals["reference"] = question.reference
    return rivals


# -- pairs -----------------------------------------------------------------------------------------------


def pair(config: PreferenceConfig, each: Round) -> None:
    samples = list(each.samples())
    scores = [Score.from_dict(row) for row in read_lines(each.scores)]
    if not scores:
        raise PastaError(f"{each.scores} holds no scores", hint="run the steps sample and score first")
    print(describe_scores(scores), file=sys.stderr, flush=True)
    for weight in each.weights:
        pairs = make_pairs(samples, scores, weight, config.min_gap)
        write_lines(each.pairs(weight), pairs)
        print(f"lambda {name_of(weight)}: {len(pairs)} pairs  {contrast(pairs)}", file=sys.stderr, flush=True)


def describe_scores(scores: Sequence[Score]) -> str:
    count = max(1, len(scores))
    faults = Counter(fault for each in scores for fault in each.faults)
    shown = ", ".join(f"{fault} {times / count:.1%}" for fault, times in faults.most_common())
    speed = math.exp(sum(math.log(max(each.speedup, 1e-9)) for each in scores) / count)
    better = sum(each.chances["baseline"] for each in scores) / count
    return (
        f"{len(scores)} scored: speedup {speed:.2f} (geometric mean), {better:.1%} better than the baseline; "
        f"faults: {shown or 'none'}"
    )


def contrast(pairs: Sequence[Mapping[str, Any]]) -> str:
    """What the best have that the worst have not, on average."""

    def mean(side: str, name: str) -> float:
        return sum(each[f"{side}_score"][name] for each in pairs) / max(1, len(pairs))

    return "  ".join(
        f"{name} {mean('chosen', name):.2f} against {mean('rejected', name):.2f}"
        for name in ("speedup", "quality", "redundancy")
    )


# -- train -----------------------------------------------------------------------------------------------


def train(config: PreferenceConfig, each: Round) -> list[dict[str, Any]]:
    """A model for each weight; the model is read, and its attention compiled, once for all of them."""
    from pasta.train.preference import Learner, is_trained, training_batches, write_record
    from pasta.train.preference_batch import LayOut, Pair, Response, layouts_of, pair_rows, responses_of
    from pasta.train.preference_loss import target_margin

    left = [weight for weight in each.weights if not is_trained(each.trained(weight))]
    if not left:
        return []
    begun = time.monotonic()
    learner = Learner(each.model, config)
    lay = LayOut(learner.vocabulary, learner.positions)
    files = {weight: list(read_lines(each.pairs(weight))) for weight in left}
    layouts = responses_of((row for rows in files.values() for row in rows), lay)
    layouts = {key: layout for key, layout in layouts.items() if len(layout.ids) <= config.max_length}

    def make(weight: float, known: Mapping[tuple[int, int], float]) -> list[Pair]:
        pairs = []
        for row in files[weight]:
            keys = [(row["index"], row[f"{side}_score"]["sample"]) for side in ("chosen", "rejected")]
            if all(key in layouts for key in keys):
                best, worst = (Response(key, layouts[key], known.get(key, 0.0)) for key in keys)
                pairs.append(Pair(best, worst, config.margin or target_margin(row["n"])))
        return [pair for pair in pairs if pair.tokens <= config.max_length]

    known = {(row["index"], row["sample"]): row["log_prob"] for row in read_lines(each.reference)}
    missing = {key: layout for key, layout in layouts.items() if key not in known}
    planned = {weight: split(make(weight, known), config.held_out) for weight in left}
    if not any(pairs for pairs, _ in planned.values()):
        raise PastaError(f"{each.folder} holds no pairs to train on", hint="run the step pairs first")
    learner.plan(
        [
            *([layouts[key] for key in row] for row in learner.response_rows(missing)),
            *(layouts_of(row) for pairs, _ in planned.values() for b in training_batches(pairs, config) for row in b),
            *(layouts_of(row) for _, held in planned.values() for row in pair_rows(held, config.max_length, 0)),
        ]
    )
    print(f"{len(missing)} reference log probabilities are missing", file=sys.stderr, flush=True)
    for some in learner.score(missing):
        known |= some
        append_lines(
            each.reference,
            ({"index": index, "sample": number, "log_prob": value} for (index, number), value in some.items()),
        )
    print(f"ready to train after {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    records = []
    for place, weight in enumerate(left):
        if config.minutes and (used := (time.monotonic() - begun) / 60) >= config.minutes:
            print(f"time is up after {used:.1f} min: lambda {name_of(weight)} is left", file=sys.stderr, flush=True)
            break
        minutes = (config.minutes - (time.monotonic() - begun) / 60) / (len(left) - place) if config.minutes else 0.0
        pairs, held = split(make(weight, known), config.held_out)
        print(f"-- lambda {name_of(weight)}: {len(pairs)} pairs", file=sys.stderr, flush=True)
        record = learner.learn(pairs, held, each.trained(weight), minutes)
        record = {"lambda": name_of(weight), "round": each.number, "output": str(each.trained(weight)), **record}
        write_record(each.trained(weight), {"config": config.to_dict(), **record})
        records.append(record)
    return records


def split(pairs: Sequence[Any], share: float) -> tuple[list[Any], list[Any]]:
    """Those to train on, and those held out: by prompt, so that every weight and every round holds out the same."""
    held = [each for each in pairs if _place(each.best.key[0]) < share]
    return [each for each in pairs if _place(each.best.key[0]) >= share], held


def _place(index: int) -> float:
    return int.from_bytes(hashlib.blake2b(str(index).encode(), digest_size=4).digest(), "big") / 2**32
