"""What `pasta train judge` is told."""

# ruff: noqa: RUF009  (`told` makes a field)
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pasta.errors import UsageError
from pasta.models import bundled
from pasta.settings import SEEDS, Settings, told

Method = Literal["lora", "full", "features"]
REFERENCE = "gpt4_1106_preview"  # the baseline of AlpacaEval 2
LEARNING_RATES = {"lora": 5e-4, "full": 5e-5}


@dataclass(frozen=True, slots=True)
class JudgeConfig(Settings):
    """A reward model trained on preferences, one a fold of the prompts; or a linear judge."""

    data: str = told("", "Preferences, JSON lines: instruction, generator, output, preference (1 to 2).")
    out: str = told("", "Folder for the judge: a model a fold, judge.json, held-out rewards, the report.")
    model: str = told(bundled.NAME, "The base model: a folder, a .gguf file or a Hugging Face id.")
    reference: str = told(REFERENCE, "The generator that all others were compared with.")
    folds: int = told(2, "Parts of the prompts; each part is scored by a model that was trained on the others.")
    limit: int = told(0, "Use so many prompts at most; 0: all.")
    part: str = told("0/1", "Use this part of the prompts: 0/2 for one judge and 1/2 for another share none.")
    method: Method = told("lora", "lora: low-rank updates; full: all weights; features: the linear judge alone.")
    lora_rank: int = told(24, "Rank of the updates.")
    learning_rate: float | None = told(None, "Peak learning rate; by default 5e-4 (lora) or 5e-5 (full).")
    epochs: float = told(2.0, "Passes over the data.")
    minutes: float = told(0.0, "Time for the training of all folds together; 0: no limit.")
    group: int = told(14, "Answers to one prompt that are compared with each other, and with the reference.")
    prompts: int = told(8, "Groups in a step.")
    spoiled: float = told(0.25, "Weight of answers spoiled on purpose, beside GPT-4's preferences; 0: none.")
    temper: float = told(0.5, "How far GPT-4's log odds are believed, 0 to 1.")
    features: bool = told(True, "Also fit the linear judge, and report on it.")
    max_length: int = told(640, "Tokens of prompt and answer; longer ones lose their middle.")
    tokens: int = told(12288, "Tokens in one forward pass, padding included.")
    seed: int = told(0, "Of the order, the groups and the spoiled answers.")
    device: str | None = told(None, "cpu or cuda; by default a GPU where there is one.")
    score: str | None = told(None, "JSON lines with prompt and answer (or instruction and output) to score afterwards.")
    scores: str | None = told(None, "Where the scored lines go; by default scores.jsonl in the judge's folder.")

    def __post_init__(self) -> None:
        self.check_given("data", "out")
        if self.folds < 2:
            raise UsageError(f"folds is {self.folds}, expected 2 or more", "a judge must not score what it was taught")
        self.check_positive("group", "prompts", "lora_rank")
        if not 0 < self.epochs < math.inf:
            raise UsageError(f"epochs is {self.epochs:g}, expected more than 0")
        self.check_between(0, math.inf, "limit", "minutes", "learning_rate", "spoiled")
        self.check_between(0, SEEDS, "seed")
        if not 0 <= self.temper <= 1:
            raise UsageError(f"temper is {self.temper:g}, expected 0 to 1")
        self.check_choices("method")
        if self.method == "features" and self.score is not None:
            raise UsageError("score asks for a reward model, and method is features", "leave one of them out")
        number, _, parts = self.part.partition("/")
        if not (number.isdecimal() and parts.isdecimal() and int(number) < int(parts)):
            raise UsageError(f"part is {self.part!r}", hint="write 0/2 for the first of two parts")
        if self.max_length < 64 or self.tokens < self.max_length:
            raise UsageError(f"max_length is {self.max_length}, expected 64 to tokens ({self.tokens})")

    @property
    def peak_learning_rate(self) -> float:
        return LEARNING_RATES[self.method] if self.learning_rate is None else self.learning_rate
