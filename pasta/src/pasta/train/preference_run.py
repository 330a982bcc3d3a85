"""Preference optimisation from prompts to models: `pasta train preference`.

    OUTPUT/baseline.jsonl              the baseline's answers (baseline.json says whose)
    OUTPUT/round-1/samples.jsonl       the model's own answers, several a prompt
    OUTPUT/round-1/samples-0-of-4.jsonl  the same, where several processes share the prompts
    OUTPUT/round-1/scores.jsonl        speed, quality and faults of each, by the settings in scoring.json
    OUTPUT/round-1/pairs-4.jsonl       the best and the worst of each prompt, for lambda 4
    OUTPUT/round-1/reference.jsonl     their log probabilities under the policy that drew them (policy.json)
    OUTPUT/round-1/lambda-4/           the model that learned from them, and training.json
    OUTPUT/round-2-lambda-4/…          the same again, with samples of that model

Each step adds what is missing of its file, so that a run may stop anywhere. Under `accelerate launch` all processes
sample and train; one of them scores.
"""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from pasta.data.fields import ASKED
from pasta.data.lines import append_lines, read_lines, write_lines
from pasta.errors import PastaError, UsageError
from pasta.judge.base import Judge, NotJudged
from pasta.judge.open import open_judge
from pasta.outputs import check_folder
from pasta.train.beginnings import turning_pairs
from pasta.train.pairs import make_pairs, name_of
from pasta.train.preference_config import PreferenceConfig
from pasta.train.preference_report import contrast, describe_scores
from pasta.train.preference_round import (
    Question,
    Round,
    check_baseline,
    check_prompts,
    read_parts,
    read_questions,
    rounds,
)
from pasta.train.score import Guards, Score, score
from pasta.train.team import Team

if TYPE_CHECKING:
    from pasta.core.layout import Layout
    from pasta.engine.native import NativeEngine
    from pasta.train.preference import Learner
    from pasta.train.preference_batch import Key, Pair

SCORED_AT_ONCE = 512  # samples; a judge batches them as it likes, and what it has judged is written down
LEAST = 0.1  # minutes that a training, or the baseline, gets where nothing is left


def run(config: PreferenceConfig) -> list[dict[str, Any]]:
    """Runs the chosen steps of every round; returns the records of the models trained so far.

    The judge is opened, and the trackers are looked for, before anything is sampled.
    """
    check_folder(config.output)
    team = Team.of(cpu=config.device == "cpu")
    judge = open_judge(config.judge) if "score" in config.chosen_steps and team.first else None
    if "train" in config.chosen_steps:
        from pasta.train.trackers import check_trackers

        check_trackers(config.report_to)
    if "sample" in config.chosen_steps:
        check_baseline(config)
    records: list[dict[str, Any]] = []
    for each in rounds(config):
        if config.round and each.number != config.round:
            continue
        if missing := each.missing_for(config.chosen_steps):
            if config.round:
                raise UsageError(f"round {each.number} cannot begin: {missing}")
            team.say(f"== round {each.number} is left for the next run: {missing}")
            continue
        if {"sample", "train"} & set(config.chosen_steps):
            each.check_model(config)
        for step in config.chosen_steps:
            team.say(f"== round {each.number}: {step} ({each.folder})")
            if step == "sample":
                sample(config, each, team)
            elif step == "score" and judge is not None:
                score_samples(config, each, judge)
            elif step == "pairs" and team.first:
                pair(config, each)
            elif step == "train":
                records += train(config, each, team)
            team.wait()
    return records


# -- sample ----------------------------------------------------------------------------------------------


def sample(config: PreferenceConfig, each: Round, team: Team) -> None:
    from pasta.train.plan import count
    from pasta.train.samples import draw, is_asked

    number, parts = team.share(*config.shard)
    begun = time.monotonic()
    questions = read_questions(config)
    asked = [each.prompt if is_asked(each.prompt) else "" for each in questions]
    if blank := asked.count(""):
        team.say(f"left out {count(blank, 'prompt')}: empty, or not valid Unicode")
    if blank == len(asked):
        raise UsageError(f"{config.prompts} holds no prompt to ask", f"rows need {ASKED}")
    prompts = [prompt if index % parts == number else "" for index, prompt in enumerate(asked)]
    limits = {name: getattr(config, name) for name in ("batch", "max_tokens", "max_prompt_tokens")}
    own = f"-{number}-of-{parts}" if parts > 1 else ""
    rows, known = list(each.samples()), list(read_parts(config.folder, "baseline"))
    check_prompts([*rows, *known], questions, config.folder)
    drawn = {(row["index"], row["sample"]) for row in rows}

    def minutes(share: float) -> float:
        """What is left of a share of the step's time; 0 where it has no limit."""
        return max(LEAST, share * config.minutes - (time.monotonic() - begun) / 60) if config.minutes else 0.0

    engine: NativeEngine | None = None
    if is_missing(prompts, config.samples, drawn):
        if team.first:
            each.remember_policy(config)
        engine = engine_of(config, each.model, team)
        draw(
            engine, prompts, each.folder / f"samples{own}.jsonl", done=drawn,
            samples=config.samples, temperature=config.temperature, parallelism=config.biases, greedy=config.clean,
            seed=config.seed + each.number - 1, **limits,
            minutes=minutes(config.samples / (config.samples + 1)),  # the baseline answers once
        )  # fmt: skip
    # The baseline answers what was sampled, once for all rounds.
    sampled = {row["index"] for row in each.samples()}
    wanted = [prompt if index in sampled else "" for index, prompt in enumerate(prompts)]
    answered = {(row["index"], row["sample"]) for row in known}
    if is_missing(wanted, 1, answered):
        if engine is None or config.baseline != each.model:
            engine = None  # and its memory is free before another takes it
            engine = engine_of(config, config.baseline, team)
        draw(
            engine, wanted, config.folder / f"baseline{own}.jsonl", done=answered,
            samples=1, temperature=0.0, plain=True, minutes=minutes(1.0), **limits,
        )  # fmt: skip


def is_missing(prompts: Sequence[str], samples: int, done: Collection[tuple[int, int]]) -> bool:
    return any(prompt and (index, n) not in done for index, prompt in enumerate(prompts) for n in range(samples))


def engine_of(config: PreferenceConfig, name: str, team: Team) -> NativeEngine:
    from pasta.engine.load import load_engine

    # Room for all of them at once, as if each were as long as it may be; with less, some would wait.
    slots = config.batch * (config.max_prompt_tokens + config.max_tokens)
    return load_engine(name, device=team.device or config.device, slots=slots, base=config.base_for(name))


# -- score -----------------------------------------------------------------------------------------------


def score_samples(config: PreferenceConfig, each: Round, judge: Judge) -> None:
    until = time.monotonic() + 60 * config.minutes if config.minutes else math.inf
    number, parts = config.shard
    questions = read_questions(config)
    baseline = {row["index"]: row for row in read_parts(config.folder, "baseline")}
    done = {(row["index"], row["sample"]) for row in read_lines(each.scores)}
    asked = set(range(number, len(questions), parts)) & baseline.keys()
    drawn = list(each.samples())
    if not drawn and "sample" not in config.chosen_steps:
        raise PastaError(f"{each.folder} holds no samples", "run the step sample first")
    own = [row for row in drawn if row["index"] in asked]
    check_prompts(own, questions, each.folder)
    each.remember_scoring(config)
    samples = [row for row in own if (row["index"], row["sample"]) not in done]
    comparisons = sum(1 + (questions[row["index"]].reference is not None) for row in samples)
    print(f"{len(samples)} samples to score, {comparisons} comparisons by {judge.name}", file=sys.stderr, flush=True)
    guards = Guards(
        config.overlap, config.short, config.redundancy, config.clean, config.shortest, config.longest, config.any_topic
    )
    begun = time.monotonic()
    for start in range(0, len(samples), SCORED_AT_ONCE):
        if time.monotonic() > until:
            print(f"time is up: {len(samples) - start} samples are left for the next run", file=sys.stderr)
            break
        some = samples[start : start + SCORED_AT_ONCE]
        indices = {row["index"] for row in some}
        rivals = {index: rivals_of(questions[index], baseline[index]) for index in indices}
        try:
            append_lines(each.scores, (got.to_dict() for got in score(some, rivals, baseline, judge, guards)))
        except NotJudged as lacking:
            if not each.scores.exists():
                raise
            print(lacking, file=sys.stderr, flush=True)  # it judges, but not these: what it always refuses ends no run
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
    each.check_scoring(config)
    found = 0
    print(describe_scores(scores), file=sys.stderr, flush=True)
    for weight in each.weights:
        wanted = each.prompts_of(config.same_prompts_as, weight) if config.same_prompts_as else None
        min_gap = config.min_gap if wanted is None else 0.0  # what the other run learns from is not left out here
        pairs = make_pairs(samples, scores, weight, min_gap, config.clean, config.pairs, config.alike)
        pairs += turning_pairs(samples, config.overlap, config.turns, config.any_topic) if config.clean else ()
        if wanted is not None:
            pairs = [row for row in pairs if row["prompt"] in wanted]
            lacking = len(wanted - {row["prompt"] for row in pairs})
            print(
                f"{len(wanted)} prompts as in {config.same_prompts_as}, {lacking} of them without a pair here",
                file=sys.stderr,
            )
        write_lines(each.pairs(weight), pairs)
        found += len(pairs)
        print(f"lambda {name_of(weight)}: {len(pairs)} pairs  {contrast(pairs)}", file=sys.stderr, flush=True)
    if not found:
        raise no_pairs(scores, config)


def no_pairs(scores: Sequence[Score], config: PreferenceConfig) -> PastaError:
    """Why no prompt has a sample that may be the best, and another to set against it."""
    faulty = Counter(fault for each in scores for fault in each.faults)
    cut = faulty["cut off"]
    if config.same_prompts_as:
        hint = f"none of their prompts has a pair in {config.same_prompts_as}"
    elif cut > len(scores) / 2:
        hint = f"{cut} were cut off after {config.max_tokens} tokens: pass a higher --max-tokens, and a new --output"
    elif faulty:
        hint = "; ".join(f"{count} {fault}" for fault, count in faulty.most_common())
    else:
        hint = f"their scores are no further apart than min_gap, {config.min_gap}"
    return PastaError(f"no pairs come of {len(scores)} samples", hint)


# -- train -----------------------------------------------------------------------------------------------


def train(config: PreferenceConfig, each: Round, team: Team) -> list[dict[str, Any]]:
    """A model for each weight."""
    from pasta.train.preference import Learner, is_trained, with_reference, write_record
    from pasta.train.preference_batch import LayOut, pairs_of, responses_of, split

    left = []
    for weight in each.weights:
        if is_trained(each.trained(weight)):
            team.say(f"{each.trained(weight)} is trained already")
        else:
            left.append(weight)
    begun = time.monotonic()
    records = []
    for place, weight in enumerate(left):
        rows = list(read_lines(each.pairs(weight)))
        if not rows:
            if not each.pairs(weight).exists():
                raise PastaError(f"{each.pairs(weight)} is missing", hint="run the step pairs first")
            team.say(f"lambda {name_of(weight)} has no pairs, and is left out")
            continue
        used = (time.monotonic() - begun) / 60
        if config.minutes and used >= config.minutes:
            team.say(f"time is up after {used:.1f} min: lambda {name_of(weight)} is left")
            break
        learner = Learner(each.model, config)
        layouts = responses_of(rows, LayOut(learner.vocabulary, learner.positions))
        pairs = pairs_of(rows, layouts, {}, config.max_length, config.margin)
        if not pairs:
            raise PastaError(
                f"no pair of {each.pairs(weight)} fits into rows of {config.max_length} tokens", "raise --max-length"
            )
        if left_out := len(rows) - len(pairs):
            told = "1 pair is" if left_out == 1 else f"{left_out} pairs are"
            team.say(f"{told} left out: longer than {config.max_length} tokens together")
        wanted = {response.key: response.layout for it in pairs for response in (it.best, it.worst)}
        known = references(learner, wanted, each, team, pairs)
        chosen, held = split(with_reference(pairs, known), config.held_out)
        team.say(f"-- lambda {name_of(weight)}: {len(chosen)} pairs, {len(held)} held out")
        used = (time.monotonic() - begun) / 60  # reading the model and scoring its answers took time, too
        minutes = max(LEAST, config.minutes - used) / (len(left) - place) if config.minutes else 0.0
        record = learner.learn(chosen, held, each.trained(weight), minutes)
        record = {"lambda": name_of(weight), "round": each.number, "output": str(each.trained(weight)), **record}
        if team.first:
            write_record(each.trained(weight), {"config": config.to_dict(), "judge": each.scored_by(config), **record})
        records.append(record)
    return records


def references(
    learner: Learner, wanted: Mapping[Key, Layout], each: Round, team: Team, pairs: Sequence[Pair]
) -> dict[Key, float]:
    """The log probability of each response under the policy that drew it.

    Each process sees to its own share, whatever the others have written by now. A row says of which response it is:
    beginnings are numbered as their samples, and are others once there are other samples or settings.
    """
    contents = {key: blake2b(repr(layout).encode(), digest_size=8).hexdigest() for key, layout in wanted.items()}

    def written() -> dict[Key, float]:
        rows = (((row["index"], row["sample"]), row) for row in read_parts(each.folder, "reference"))
        return {key: row["log_prob"] for key, row in rows if row.get("of", contents.get(key)) == contents.get(key)}

    known = written()
    share = list(wanted.items())[team.rank :: team.size]
    missing = {key: layout for key, layout in share if key not in known}
    learner.plan(wanted, pairs)
    team.say(f"{sum(key not in known for key in wanted)} reference log probabilities are missing")
    own = f"-{team.rank}-of-{team.size}" if team.size > 1 else ""
    tags = learner.vocabulary.tags
    policy = replace(each.policy(learner.config), opens=tags.promise if tags else None)
    for some in learner.score(missing, policy):
        known |= some
        rows = (
            {"index": key[0], "sample": key[1], "of": contents[key], "log_prob": value} for key, value in some.items()
        )
        append_lines(each.folder / f"reference{own}.jsonl", rows)
    team.wait()
    return known | written()
