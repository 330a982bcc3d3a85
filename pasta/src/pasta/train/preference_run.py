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

import math
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pasta.data.lines import append_lines, read_lines, write_lines
from pasta.errors import PastaError
from pasta.train.pairs import make_pairs, name_of
from pasta.train.preference_config import PreferenceConfig
from pasta.train.preference_report import contrast, describe_scores
from pasta.train.preference_round import Question, Round, read_parts, read_questions, rounds
from pasta.train.score import Guards, Score, score

if TYPE_CHECKING:
    from pasta.engine.native import NativeEngine

SCORED_AT_ONCE = 4096  # samples; a judge batches them as it likes


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


# -- sample ----------------------------------------------------------------------------------------------


def sample(config: PreferenceConfig, each: Round) -> None:
    from pasta.train.samples import draw

    number, parts = config.shard
    questions = read_questions(config)
    prompts = [each.prompt if index % parts == number else "" for index, each in enumerate(questions)]
    limits = {name: getattr(config, name) for name in ("batch", "max_tokens", "max_prompt_tokens", "minutes")}
    own = f"-{number}-of-{parts}" if parts > 1 else ""
    drawn = {(row["index"], row["sample"]) for row in each.samples()}
    if is_missing(prompts, config.samples, drawn):
        draw(
            engine_of(config, each.model), prompts, each.folder / f"samples{own}.jsonl", done=drawn,
            samples=config.samples, temperature=config.temperature, parallelism=config.biases,
            seed=config.seed + each.number - 1, **limits,
        )  # fmt: skip
    # The baseline answers what was sampled, once for all rounds.
    sampled = {row["index"] for row in each.samples()}
    wanted = [prompt if index in sampled else "" for index, prompt in enumerate(prompts)]
    answered = {(row["index"], row["sample"]) for row in read_parts(config.folder, "baseline")}
    if is_missing(wanted, 1, answered):
        draw(
            engine_of(config, config.baseline), wanted, config.folder / f"baseline{own}.jsonl", done=answered,
            samples=1, temperature=0.0, plain=True, **limits,
        )  # fmt: skip


def is_missing(prompts: Sequence[str], samples: int, done: Collection[tuple[int, int]]) -> bool:
    return any(prompt and (index, n) not in done for index, prompt in enumerate(prompts) for n in range(samples))


def engine_of(config: PreferenceConfig, name: str) -> NativeEngine:
    from pasta.engine.load import load_engine

    # Room for all of them at once, as if each were as long as it may be; with less, some would wait.
    slots = config.batch * (config.max_prompt_tokens + config.max_tokens)
    return load_engine(name, device=config.device, slots=slots, base=config.base_for(name))


# -- score -----------------------------------------------------------------------------------------------


def score_samples(config: PreferenceConfig, each: Round) -> None:
    from pasta.judge.open import open_judge

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


# -- train -----------------------------------------------------------------------------------------------


def train(config: PreferenceConfig, each: Round) -> list[dict[str, Any]]:
    """A model for each weight; the model is read, and its attention compiled, once for all of them."""
    from pasta.train.preference import Learner, is_trained, write_record
    from pasta.train.preference_batch import LayOut, pairs_of, responses_of, split

    left = [weight for weight in each.weights if not is_trained(each.trained(weight))]
    if not left:
        return []
    begun = time.monotonic()
    learner = Learner(each.model, config)
    files = {weight: list(read_lines(each.pairs(weight))) for weight in left}
    if not any(files.values()):
        raise PastaError(f"{each.folder} holds no pairs to train on", hint="run the step pairs first")
    lay = LayOut(learner.vocabulary, learner.positions)
    layouts = responses_of((row for rows in files.values() for row in rows), lay)
    known = {(row["index"], row["sample"]): row["log_prob"] for row in read_lines(each.reference)}
    missing = {key: it for key, it in layouts.items() if key not in known and len(it.ids) <= config.max_length}
    planned = {
        weight: split(pairs_of(rows, layouts, known, config.max_length, config.margin), config.held_out)
        for weight, rows in files.items()
    }
    learner.plan(missing, planned.values())
    print(f"{len(missing)} reference log probabilities are missing", file=sys.stderr, flush=True)
    for some in learner.score(missing):
        known |= some
        rows = ({"index": index, "sample": number, "log_prob": value} for (index, number), value in some.items())
        append_lines(each.reference, rows)
    print(f"ready to train after {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)

    records = []
    for place, weight in enumerate(left):
        used = (time.monotonic() - begun) / 60
        if config.minutes and used >= config.minutes:
            print(f"time is up after {used:.1f} min: lambda {name_of(weight)} is left", file=sys.stderr, flush=True)
            break
        minutes = (config.minutes - used) / (len(left) - place) if config.minutes else 0.0
        pairs, held = split(pairs_of(files[weight], layouts, known, config.max_length, config.margin), config.held_out)
        print(f"-- lambda {name_of(weight)}: {len(pairs)} pairs", file=sys.stderr, flush=True)
        record = learner.learn(pairs, held, each.trained(weight), minutes)
        record = {"lambda": name_of(weight), "round": each.number, "output": str(each.trained(weight)), **record}
        write_record(each.trained(weight), {"config": config.to_dict(), **record})
        records.append(record)
    return records
