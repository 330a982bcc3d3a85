"""Judges that are reward models: any of Hugging Face's sequence classifiers, and those that this project trains."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pasta.errors import CorruptModel, UnknownModel
from pasta.judge.base import Comparison
from pasta.judge.encode import Encoder, Pair
from pasta.judge.groups import sigmoid
from pasta.judge.preferences import prompt_key
from pasta.models import hub
from pasta.models.checkpoint import check_weights, is_model, weight_files

RECORD = "judge.json"
LONGEST = 2048  # tokens of prompt and answer, for a model that does not say
NOTHING = -30.0  # the worth of an empty answer
# Characters between which the length term holds: nine of ten judged answers. Beyond, it is as at the edge; a line
# that goes on for ever would give a stub of three words more than any answer can earn.
FITTED = (100, 3000)


def open_reward(name: str, length_control: bool = True) -> RewardModel | FoldedReward:
    if os.path.isfile(Path(name) / RECORD):
        return FoldedReward.read(Path(name), length_control)
    return RewardModel(name)


class Rewarding:
    """Compares by the difference of two rewards, each computed once. An answer that says nothing loses."""

    name: str

    def rewards(self, pairs: Sequence[Pair]) -> list[float]:
        """Of each prompt and answer; differences within a prompt are log odds."""
        raise NotImplementedError

    def worth(self, pairs: Iterable[Pair]) -> dict[Pair, float]:
        """The rewards, by pair, of those that say something; no model is asked about the others."""
        distinct = dict.fromkeys(pairs)
        telling = [pair for pair in distinct if pair[1].strip()]
        return dict.fromkeys(distinct, NOTHING) | dict(zip(telling, self.rewards(telling), strict=True))

    def compare(self, comparisons: Sequence[Comparison]) -> list[float]:
        worth = self.worth(pair for c in comparisons for pair in ((c.prompt, c.reference), (c.prompt, c.answer)))
        return [sigmoid(worth[c.prompt, c.answer] - worth[c.prompt, c.reference]) for c in comparisons]


class RewardModel(Rewarding):
    """A sequence classifier with one output, from a folder, an adapter's folder or the hub; read at its first use."""

    def __init__(self, source: str, *, device: str | None = None, max_length: int | None = None):
        self.name = f"reward:{source}"
        self.source = source if os.path.exists(source) or not hub.is_id(source) else str(hub.folder(source))
        self.device = device
        self.max_length = max_length

    def rewards(self, pairs: Sequence[Pair]) -> list[float]:
        from pasta.judge.learn import score

        model, encoder = self._loaded
        return score(model, encoder, pairs)

    @cached_property
    def _loaded(self) -> tuple[Any, Encoder]:
        import torch

        device = torch.device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
        model, tokenizer = self._adapted() if (Path(self.source) / "adapter_config.json").is_file() else self._whole()
        if model.config.num_labels != 1:
            raise UnknownModel(f"{self.source} gives {model.config.num_labels} numbers an answer, expected one reward")
        longest = self.max_length or min(LONGEST, getattr(model.config, "max_position_embeddings", LONGEST))
        encoder = Encoder(tokenizer, longest)
        if model.config.pad_token_id is None:
            model.config.pad_token_id = encoder.pad
        return model.to(device, dtype).eval(), encoder

    def _whole(self) -> tuple[Any, Any]:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        from pasta.judge.learn import quiet

        if is_model(folder := Path(self.source)):
            check_weights(folder / name for name in weight_files(folder))
        try:
            with quiet():
                tokenizer = AutoTokenizer.from_pretrained(self.source, local_files_only=True)
                model, report = AutoModelForSequenceClassification.from_pretrained(
                    self.source, local_files_only=True, output_loading_info=True
                )
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise UnknownModel(
                f"{self.source} does not read as a reward model: {reason}", "a folder, or an id"
            ) from error
        if report["missing_keys"]:  # transformers would go on with random numbers in their place
            missing = sorted(report["missing_keys"])
            raise CorruptModel(f"{self.source} lacks {missing[0]}: it is a base model, not a reward model")
        return model, tokenizer

    def _adapted(self) -> tuple[Any, Any]:
        from pasta.core.vocabulary import Vocabulary
        from pasta.judge.learn import make_model
        from pasta.models.adapter import base_of
        from pasta.models.merge import apply_adapter

        model, tokenizer = make_model(base_of(self.source).name)
        apply_adapter(model, Vocabulary(tokenizer, []), self.source)
        return model, tokenizer


@dataclass(frozen=True, slots=True)
class Fold:
    """A model of a trained judge, and how its numbers become log odds."""

    folder: str
    length_slope: float  # reward that a model's own answer gains with each e-fold of its length, all else equal
    scale: float  # of the reward without that
    raw_scale: float  # of the reward as it is

    def log_odds(self, reward: float, characters: int, length_control: bool) -> float:
        if length_control:
            counted = min(max(characters, FITTED[0]), FITTED[1])
            return self.scale * (reward - self.length_slope * math.log(counted + 1))
        return self.raw_scale * reward


UNREADABLE = (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError)  # of a record


def read_folds(record: Any) -> tuple[list[Fold], dict[str, int]]:
    """The folds of a judge's record, of which there is one or more, and each prompt's.

    Raises:
        KeyError, TypeError, ValueError: Something is missing, or is not what it should be.
    """
    held, prompts = record["folds"], record["prompts"]
    if not isinstance(held, list) or not held:
        raise ValueError(f"folds are {held!r:.40}, expected a list of one or more")
    if not isinstance(prompts, dict):
        raise ValueError(f"prompts are {prompts!r:.40}, expected an object that names the fold of each")
    scales = ("length_slope", "scale", "raw_scale")
    folds = [Fold(str(fold["folder"]), *(number(fold[name], name) for name in scales)) for fold in held]
    for key, fold in prompts.items():
        if type(fold) is not int or not 0 <= fold < len(folds):
            raise ValueError(f"prompt {key:.40} is of fold {fold!r:.40}, expected 0 to {len(folds) - 1}")
    return folds, prompts


def number(value: Any, name: str) -> float:
    """A value of a record.

    Raises:
        ValueError: It is no finite number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is {value!r:.40}, expected a number")
    return float(value)


def problem_of(error: Exception) -> str:
    return f"it has no {error}" if isinstance(error, KeyError) else str(error)


class FoldedReward(Rewarding):
    """What `pasta train judge` makes: a prompt is scored by the model that was not trained on it.

    All models together, averaged, score a prompt that none has seen.
    """

    def __init__(
        self, folder: Path, folds: Sequence[Fold], prompts: dict[str, int], max_length: int,
        length_control: bool = True, device: str | None = None,
    ):  # fmt: skip
        self.name = f"{'reward' if length_control else 'reward-raw'}:{folder}"
        self.folds = tuple(folds)
        self.prompts = prompts
        self.length_control = length_control
        self.models = [
            RewardModel(_weights(folder / fold.folder), device=device, max_length=max_length) for fold in folds
        ]

    @classmethod
    def read(cls, folder: Path, length_control: bool = True, device: str | None = None) -> FoldedReward:
        try:
            record = json.loads((folder / RECORD).read_text("utf-8"))
            folds, prompts = read_folds(record)
            return cls(folder, folds, prompts, int(record["max_length"]), length_control, device)
        except UNREADABLE as error:
            raise CorruptModel(
                f"{folder / RECORD} does not read: {problem_of(error)}", "train the judge again"
            ) from error

    def rewards(self, pairs: Sequence[Pair]) -> list[float]:
        """Log odds, up to a constant of the prompt."""
        total, votes = [0.0] * len(pairs), [0] * len(pairs)
        own = [self.prompts.get(prompt_key(prompt)) for prompt, _ in pairs]
        for number, (fold, model) in enumerate(zip(self.folds, self.models, strict=True)):
            mine = [index for index, fold_of in enumerate(own) if fold_of in (None, number)]
            if not mine:
                continue
            for index, reward in zip(mine, model.rewards([pairs[index] for index in mine]), strict=True):
                total[index] += fold.log_odds(reward, len(pairs[index][1]), self.length_control)
                votes[index] += 1
        return [sum_ / count for sum_, count in zip(total, votes, strict=True)]


def _weights(folder: Path) -> str:
    """The whole model where it is there, else its adapter."""
    return str(folder if (folder / "config.json").is_file() else folder / "adapter")
