"""The report on a trained judge: agreement with GPT-4 on held-out prompts, beside the baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pasta.judge.agreement import Array, Board, measure

# Agreement with the majority of four humans on 648 pairs of AlpacaFarm, as the package alpaca_eval 0.6.6 holds it in
# leaderboards/evaluators/evaluators_leaderboard.csv. Other pairs than here: they show the order of size, no more.
PUBLISHED = {"alpaca_eval_gpt4": 0.6917, "weighted_alpaca_eval_gpt4_turbo": 0.6573, "humans": 0.6566, "longest": 0.6219}

ROWS = {
    "with_reference": "answer against the reference",
    "reference_won": "… where GPT-4 preferred the reference",
    "reference_lost": "… where GPT-4 preferred the answer",
    "models": "model against model, all pairs that GPT-4 tells apart",
    "models_clear": "… clearly (log odds 2 or more apart)",
    "models_opposite": "… one beats the reference, the other does not",
    "models_both_weak": "… both of weak models",
    "models_both_weak_clear": "… both of weak models, clearly",
    "models_shorter_is_better": "… GPT-4 prefers the shorter",
    "models_longer_is_better": "… GPT-4 prefers the longer",
    "length_ratio_1_to_1.1": "… lengths within 10%",
    "length_ratio_1.1_to_1.5": "… longer by 1.1 to 1.5",
    "length_ratio_1.5_to_2": "… longer by 1.5 to 2",
    "length_ratio_2_to_4": "… longer by 2 to 4",
    "length_ratio_above_4": "… longer by 4 or more",
}


def compose(board: Board, judges: Mapping[str, Sequence[Array]], about: Mapping[str, Any]) -> dict[str, Any]:
    """All figures, by judge. `judges` gives each one's log odds, as the board has its answers."""
    rows = np.concatenate([p[1:] for p in board.preference])
    return {
        **about,
        "prompts": len(board.models),
        "answers": len(rows),
        "models": len(board.names),
        "always_the_reference": float((rows[rows != 0.5] < 0.5).mean()),
        "published": PUBLISHED,
        "judges": {name: measure(board, rewards) for name, rewards in judges.items()},
    }


def markdown(report: Mapping[str, Any]) -> str:
    """The report as tables for people."""
    judges = report["judges"]
    lines = [
        f"Agreement with GPT-4 on held-out prompts: {report['prompts']} prompts, {report['models']} models, "
        f"{report['answers']:,} answers. In brackets: 95% interval, prompts resampled.",
        "",
        "| pairs | number | " + " | ".join(judges) + " |",
        "| --- | ---: |" + " ---: |" * len(judges),
    ]
    for key, label in ROWS.items():
        cells = [judge["agreement"][key] for judge in judges.values()]
        lines.append(f"| {label} | {cells[0]['pairs']:,} | " + " | ".join(map(_percent, cells)) + " |")
    figures = [
        ("balanced agreement with the reference's wins and losses", "balanced_agreement_with_reference"),
        ("rank correlation of the models' win rates", "spearman_of_models"),
        ("correlation with log length, within prompts", "reward_and_length"),
        ("calibration error against the reference", "calibration_error"),
    ]
    for label, key in figures:
        lines.append(f"| {label} | | " + " | ".join(_number(judge[key]) for judge in judges.values()) + " |")
    by_length = next(iter(judges.values()))["gpt4_and_length"]
    published = ", ".join(f"{name} {100 * rate:.1f}%" for name, rate in report["published"].items())
    lines += [
        "",
        f"GPT-4's own log odds correlate with log length by {by_length:.3f}. Always naming the reference agrees in "
        f"{100 * report['always_the_reference']:.1f}% of the comparisons with it. Published agreement with the "
        f"majority of humans, on AlpacaEval's own pairs: {published}.",
    ]
    own = " | ".join([*judges][:2])
    lines += ["", f"| the original preferred to | pairs | {own} |", "| --- | ---: | ---: | ---: |"]
    for kind, row in report["spoiled"].items():
        lines.append(f"| {kind} | {row['pairs']} | {_share(row['reward'])} | {_share(row['reward-raw'])} |")
    return "\n".join(lines) + "\n"


def _percent(cell: Mapping[str, Any]) -> str:
    if cell["rate"] is None:
        return "–"
    low, high = cell["interval"]
    return f"{100 * cell['rate']:.1f}% [{100 * low:.1f}, {100 * high:.1f}]"


def _share(rate: float | None) -> str:
    return "–" if rate is None else f"{100 * rate:.1f}%"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
