"""What lies in a folder of preference optimisation, in a few lines."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pasta.data.lines import read_lines
from pasta.train.pairs import name_of
from pasta.train.preference_config import PreferenceConfig
from pasta.train.preference_round import rounds
from pasta.train.score import Score


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
                told = ", ".join(f"{name} {held[name]:.3g}" for name in ("margin", "right", "sft") if name in held)
                lines.append(
                    f"      trained: {done['steps']} steps, {done['seconds']:.0f} s, held out: {told or 'no pairs'}"
                )
    return lines


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

    whole = [each for each in pairs if "n" in each]  # not a beginning and what it went on to

    def mean(side: str, name: str) -> float:
        return sum(each[f"{side}_score"][name] for each in whole) / max(1, len(whole))

    return "  ".join(
        f"{name} {mean('chosen', name):.2f} against {mean('rejected', name):.2f}"
        for name in ("speedup", "quality", "redundancy")
    ) + (f"  {len(pairs) - len(whole)} of them of beginnings" if len(whole) < len(pairs) else "")
