"""The report on a trained judge, made again from its folder and the preferences that it was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pasta.data.lines import read_json
from pasta.errors import CorruptModel, UsageError
from pasta.judge.features import FeatureJudge
from pasta.judge.held_out import keys_of, read_held_out
from pasta.judge.preferences import prompt_key, read_contests
from pasta.judge.reward import RECORD
from pasta.judge.train import FEATURES, write_report


def report_again(folder: Path, data: str) -> dict[str, Any]:
    """Reads the preferences as the judge's record says it was trained on them; the judge itself stays as it is.

    Raises:
        UsageError: The folder holds no reward model, or these are not the preferences that it was trained on.
    """
    if not (folder / RECORD).is_file():
        raise UsageError(
            f"{folder} holds no {RECORD}, and so no reward model to report on",
            "name a folder of `pasta train judge`; of a linear judge alone (--method features), see its report.md",
        )
    record = read_json(folder / RECORD)
    if not isinstance(record, dict) or not isinstance(prompts := record.get("prompts"), dict):
        raise CorruptModel(f"{folder / RECORD} does not read: it names no prompts", "train the judge again")
    linear = folder / FEATURES
    if linear.exists() and FeatureJudge.read(str(linear)).prompts != prompts:
        raise UsageError(f"{linear} was made of other prompts than {folder / RECORD}", "move it to another folder")
    rewards = read_held_out(folder)
    reference = record.get("reference") or next(iter(rewards))[1]  # a prompt's first: it was not always written down
    known = [contest for contest in read_contests(data, reference) if prompt_key(contest.prompt) in prompts]
    answers = [answer for contest in known for answer in contest.all_answers]
    for answer, key in zip(answers, keys_of(known), strict=True):
        if key not in rewards:
            raise UsageError(
                f"{folder} has no reward of the answer that {answer.model} gave to {answer.prompt!r:.60}",
                f"name the preferences that it was trained on; {data} holds others",
            )
    if not known:
        raise UsageError(f"{data} has no prompt that {folder} was trained on", "name the preferences of its training")
    return write_report(folder, known)
