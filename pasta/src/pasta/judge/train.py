"""`pasta train judge`: a model a fold, its rewards of the prompts it has not seen, and the report on them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pasta.data.rows import check_target, read_rows, write_rows
from pasta.errors import UsageError
from pasta.judge.agreement import Array, Board, fit_scale, length_slope, pearson
from pasta.judge.config import JudgeConfig
from pasta.judge.encode import Encoder, Pair
from pasta.judge.features import FeatureJudge, Linear, fit
from pasta.judge.groups import sigmoid
from pasta.judge.held_out import Parts, Rewards, keys_of, read_held_out, write_held_out
from pasta.judge.preferences import Contest, deal, part_of, prompt_key, read_contests
from pasta.judge.report import compose, markdown
from pasta.judge.reward import RECORD, Fold, FoldedReward, RewardModel
from pasta.judge.trials import Trial, run_trials, summarise
from pasta.outputs import check_apart, check_folder

FEATURES = "features.json"
SAMPLE = 256  # held-out answers that the saved model is tried on


def train_judge(config: JudgeConfig) -> dict[str, Any]:
    """Trains, scores, measures and writes everything; returns the report."""
    begun = time.monotonic()
    out = Path(config.out)
    scores = config.scores or str(out / "scores.jsonl")
    check_apart(scores, [config.score, config.data])
    check_folder(out)
    if (out / RECORD).exists() or (out / FEATURES).exists():
        raise UsageError(f"the output {out} holds a judge already", "name a new folder")
    if config.scores is not None:
        check_target(config.scores)
    if config.score is not None:
        read_asked(config.score)  # what cannot be scored is refused before the training
    if config.method != "features":
        check_model(config)
    contests = part_of(read_contests(config.data, config.reference, config.limit), config.part)
    if len(contests) < 2 * config.folds:
        raise UsageError(f"{config.data} has {len(contests)} prompts, expected {2 * config.folds} or more")
    out.mkdir(parents=True, exist_ok=True)
    prompts = deal(contests, config.folds)
    parts = split(contests, prompts, config.folds)
    say(f"{len(contests)} prompts, {sum(len(c.answers) for c in contests)} answers, {config.folds} folds")
    if config.method == "features":
        report = linear_report(config, parts, prompts, out)
        say(f"{time.monotonic() - begun:.0f} s in all")
        return report
    rewards, training, trials = [], [], []
    for k, part in enumerate(parts):
        say(f"fold {k}: training on {len(contests) - len(part)} prompts")
        held_out, done, tested = train_fold(config, k, others(parts, k), part, out / f"fold-{k}")
        rewards.append(held_out)
        training.append(done)
        trials.append(tested)
    folds = [make_fold(f"fold-{k}", part, rewards[k]) for k, part in enumerate(parts)]
    judge = {
        "base": config.model, "max_length": config.max_length, "temper": config.temper, "training": training,
        "spoiled": summarise(trials, folds), "folds": [asdict(fold) for fold in folds], "prompts": prompts,
        "reference": config.reference, "spoiled_weight": config.spoiled, "features": config.features,
    }  # fmt: skip
    write_held_out(out, parts, rewards)
    (out / RECORD).write_text(json.dumps(judge, indent=1) + "\n", "utf-8")
    report = write_report(out, contests)
    if config.score:
        score_file(str(out), config.score, scores, config.device)
    say(f"{time.monotonic() - begun:.0f} s in all")
    return report


def check_model(config: JudgeConfig) -> None:
    """Refuses a base model or a device that is not there."""
    from pasta.models.catalogue import resolve
    from pasta.models.load import find_device

    resolve(config.model)
    if config.device is not None:
        find_device(config.device)


def train_fold(
    config: JudgeConfig, number: int, learned: Sequence[Contest], held_out: Sequence[Contest], folder: Path
) -> tuple[list[list[float]], dict[str, float], list[Trial]]:
    """Rewards of the held-out answers by prompt, what the training did, and rewards of spoiled answers."""
    import torch

    from pasta.judge.learn import add_updates, make_model, save, score, train

    device = config.device or ("cuda" if torch.cuda.is_available() else "cpu")
    model, tokenizer = make_model(config.model, config.seed + number)
    model.to(device)
    if config.method == "lora":
        add_updates(model, config.lora_rank)
    encoder = Encoder(tokenizer, config.max_length)
    record = train(model, encoder, learned, config, config.minutes / config.folds)
    begun = time.monotonic()
    pairs = [pair for contest in held_out for pair in pairs_of(contest)]
    rewards = iter(score(model, encoder, pairs, config.tokens))
    by_prompt = [[next(rewards) for _ in pairs_of(contest)] for contest in held_out]
    tested = run_trials(held_out, lambda asked: score(model, encoder, asked, config.tokens), config.seed)
    save(model, tokenizer, folder, config.model)
    again = RewardModel(str(folder), device=config.device, max_length=config.max_length).rewards(pairs[:SAMPLE])
    before = [reward for rewards_ in by_prompt for reward in rewards_][: len(again)]
    record["saved_and_trained"] = pearson(np.array(again), np.array(before))
    say(
        f"fold {number}: {len(pairs)} held-out answers scored, model saved (its rewards correlate by "
        f"{record['saved_and_trained']:.4f} with those of the model in training), {time.monotonic() - begun:.0f} s"
    )
    return by_prompt, record, tested


def write_report(out: Path, contests: Sequence[Contest]) -> dict[str, Any]:
    """Measures the judge in `out` by its held-out rewards; fits the linear judge beside it, where it is to have one.

    A linear judge that is there stays as it is.
    """
    judge = json.loads((out / RECORD).read_text("utf-8"))
    folds, prompts = [Fold(**fold) for fold in judge["folds"]], judge["prompts"]
    parts = split([c for c in contests if prompt_key(c.prompt) in prompts], prompts, len(folds))
    held_out, keys = read_held_out(out), keys_of(contest for part in parts for contest in part)
    rewards = [[[held_out[next(keys)] for _ in contest.all_answers] for contest in part] for part in parts]
    board = Board.of([contest for part in parts for contest in part])
    judges = {"reward": log_odds(parts, rewards, folds, True), "reward-raw": log_odds(parts, rewards, folds, False)}
    if (out / FEATURES).exists():
        judges |= of_linear(FeatureJudge.read(str(out / FEATURES)), parts)
    elif judge.get("features"):  # one from before this was written down goes without: it may be as it was asked for
        judges |= fit_linear(parts, prompts, judge["temper"], judge["spoiled_weight"], out)[1]
    about = {name: judge[name] for name in ("base", "max_length", "temper", "training", "spoiled", "folds")}
    return write_down(compose(board, {**judges, "length": board.length}, about), out)


def linear_report(config: JudgeConfig, parts: Parts, prompts: dict[str, int], out: Path) -> dict[str, Any]:
    """Fits the linear judge by itself, and measures it as a reward model is."""
    judge, found = fit_linear(parts, prompts, config.temper, config.spoiled, out)
    trials = [run_trials(part, one.rewards, config.seed) for one, part in zip(judge.linear, parts, strict=True)]
    board = Board.of([contest for part in parts for contest in part])
    about = {"temper": config.temper, "spoiled": summarise(trials, judge.folds), "folds": [*map(asdict, judge.folds)]}
    return write_down(compose(board, {**found, "length": board.length}, about), out)


def fit_linear(
    parts: Parts, prompts: dict[str, int], temper: float, spoiled: float, out: Path
) -> tuple[FeatureJudge, dict[str, list[Array]]]:
    """Fits a linear judge a fold and writes it; returns it with its log odds of the prompts it was not fitted to."""
    say("fitting the linear judge")
    linear = [fit(others(parts, k), temper, spoiled) for k in range(len(parts))]
    own = [make_fold("", part, values) for part, values in zip(parts, count(linear, parts), strict=True)]
    judge = FeatureJudge(linear, own, prompts)
    judge.write(out / FEATURES)
    return judge, of_linear(judge, parts)


def of_linear(judge: FeatureJudge, parts: Parts) -> dict[str, list[Array]]:
    """The log odds of a linear judge, of the prompts that each of its folds was not fitted to."""
    counted = count(judge.linear, parts)
    return {
        "features": log_odds(parts, counted, judge.folds, True),
        "features-raw": log_odds(parts, counted, judge.folds, False),
    }


def count(linear: Sequence[Linear], parts: Parts) -> Rewards:
    return [[one.rewards(pairs_of(contest)) for contest in part] for one, part in zip(linear, parts, strict=True)]


def write_down(report: dict[str, Any], out: Path) -> dict[str, Any]:
    (out / "report.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    (out / "report.md").write_text(markdown(report), "utf-8")
    return report


def log_odds(parts: Parts, rewards: Rewards, folds: Sequence[Fold], control: bool) -> list[Array]:
    """As the judge would give them, but scaled by what was fitted on other prompts."""
    out = []
    for k, (part, by_prompt) in enumerate(zip(parts, rewards, strict=True)):
        other = folds[(k + 1) % len(folds)]
        fold = Fold("", folds[k].length_slope, other.scale, other.raw_scale)
        for contest, values in zip(part, by_prompt, strict=True):
            texts = [answer.text for answer in contest.all_answers]
            out.append(np.array([fold.log_odds(v, len(t), control) for v, t in zip(values, texts, strict=True)]))
    return out


def make_fold(folder: str, part: Sequence[Contest], by_prompt: Sequence[Sequence[float]]) -> Fold:
    """How a fold's rewards become log odds, by its held-out prompts."""
    board = Board.of(part)
    rewards = [np.array(values) for values in by_prompt]
    slope = length_slope(board, rewards)
    plain = Fold(folder, slope, 1.0, 1.0)
    level = [
        np.array([plain.log_odds(r, len(answer.text), True) for r, answer in zip(values, c.all_answers, strict=True)])
        for values, c in zip(by_prompt, part, strict=True)
    ]
    return Fold(folder, slope, fit_scale(board, level), fit_scale(board, rewards))


def score_file(judge: str, source: str, target: str, device: str | None = None) -> None:
    """Adds `reward` (log odds, controlled for length), `reward_raw`, and `probability` where a line has a reference."""
    check_apart(target, [source])
    check_target(target)
    rows, pairs, references = read_asked(source)
    asked = [*pairs, *filter(None, references)]
    controlled, raw = (FoldedReward.read(Path(judge), control, device) for control in (True, False))
    raw.models = controlled.models  # read once
    begun = time.monotonic()
    level, plain = controlled.worth(asked), raw.worth(asked)
    for row, pair, reference in zip(rows, pairs, references, strict=True):
        row["reward"], row["reward_raw"] = round(level[pair], 4), round(plain[pair], 4)
        if reference is not None:
            row["probability"] = round(sigmoid(level[pair] - level[reference]), 4)
    write_rows(target, rows)
    say(f"{len(rows)} lines scored in {time.monotonic() - begun:.0f} s: {target}")


def read_asked(source: str) -> tuple[list[dict[str, Any]], list[Pair], list[Pair | None]]:
    """The lines to score, of each its prompt and answer, and its prompt and reference where it has one."""
    rows = list(read_rows(source))
    pairs = [(text_of(row, "prompt", "instruction"), text_of(row, "answer", "output", "response")) for row in rows]
    references = [
        None if row.get("reference") is None else (prompt, text_of(row, "reference"))
        for (prompt, _), row in zip(pairs, rows, strict=True)
    ]
    return rows, pairs, references


def text_of(row: dict[str, Any], *names: str) -> str:
    for name in names:
        if isinstance(row.get(name), str):
            return str(row[name])
    raise UsageError(f"a line has no {names[0]}: {json.dumps(row)[:80]}", f"expected one of {', '.join(names)}")


def pairs_of(contest: Contest) -> list[Pair]:
    return [(contest.prompt, answer.text) for answer in contest.all_answers]


def split(contests: Sequence[Contest], prompts: dict[str, int], folds: int) -> list[list[Contest]]:
    return [[contest for contest in contests if prompts[prompt_key(contest.prompt)] == k] for k in range(folds)]


def others(parts: Parts, left_out: int) -> list[Contest]:
    return [contest for k, part in enumerate(parts) if k != left_out for contest in part]


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
