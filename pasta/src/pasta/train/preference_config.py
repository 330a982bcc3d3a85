"""What preference optimisation is told."""

# ruff: noqa: RUF009  (`told` makes a field)
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pasta.errors import UsageError
from pasta.models.catalogue import find_adapter
from pasta.settings import SEEDS, Settings, read_part, told
from pasta.train.config import Attention

Method = Literal["auto", "full", "lora"]
STEPS = ("sample", "score", "pairs", "train")
LEARNING_RATES = {"full": 1e-6, "lora": 2e-5}


@dataclass(frozen=True, slots=True)
class PreferenceConfig(Settings):
    """Samples of a model, scored by speed and quality; the model learns the best against the worst."""

    # what
    prompts: str = told("", "Rows in any form: the first question is asked; its answer, if there is one, is a rival.")
    output: str = told("", "Folder for every step's files and the models.")
    model: str = told("default", "The model to improve: a finetuned model's folder, or an adapter's.")
    baseline: str = told("", "The sequential model to be faster and better than (the paper's Baseline-SFT).")
    base: str | None = told(None, "Where an adapter's base model lies, if not where the adapter says.")
    judge: str = told("", "Who judges quality, as `pasta eval` names judges: reward:FOLDER, llm:MODEL@URL, …")
    limit: int = told(0, "Use so many prompts at most; 0: all.")
    steps: str = told(",".join(STEPS), "The steps to run; each goes on where it stopped.")
    rounds: int = told(1, "Each further round samples from the models of the one before, once for each lambda.")

    round: int = told(0, "Run the steps of this round alone; 0: of every round.")

    # sample
    samples: int = told(10, "Answers a prompt.")
    temperature: float = told(1.0, "Of the samples.")
    parallelism: str = told(
        "0", "Added to the logit of a fork, with commas: the samples of a prompt take turns.", numbers=True
    )
    batch: int = told(64, "Answers at once; on a large GPU 1024.")
    max_tokens: int = told(512, "Tokens an answer may have.")
    max_prompt_tokens: int = told(384, "Longer prompts are left out.")

    part: str = told("0/1", "Sample and score this part of the prompts: 2/6 in the third of six processes.")

    # score and pair
    lambdas: str = told("1,2,4,8,inf", "Weights of quality against speed; a model is trained for each.", numbers=True)
    overlap: float = told(0.7, "Blocks that share more of their words repeat each other: never the best.")
    redundancy: float = told(0.5, "What saying things twice costs: so much times the largest overlap of two blocks.")
    clean: bool = told(
        False, "Topics that repeat or read badly are faults; faults decide; the first sample is greedy; see the docs."
    )
    any_topic: bool = told(
        False, "With clean, a topic that reads badly is no fault: one of more than three words, say."
    )
    short: float = told(0.7, "An answer shorter than this share of the baseline's gains nothing by being short.")
    shortest: float = told(0.0, "An answer shorter than this share of the baseline's has a fault; 0: no bound.")
    longest: float = told(0.0, "An answer longer than so many times the baseline's has a fault; 0: no bound.")
    min_gap: float = told(0.0, "Leave out prompts whose best and worst are no further apart.")
    same_prompts_as: str | None = told(
        None,
        "Another run's output, or a file of its pairs: choose pairs of the prompts that it has pairs of, and no more.",
    )
    pairs: int = told(1, "Of a prompt; 2: the best also against the worst of those without a fault.")
    alike: bool = told(
        False, "Set lists against lists alone, and other forms likewise: it learns how to write one, and not when."
    )
    turns: int = told(3, "With clean, of a prompt so many answers, at most, teach where they went wrong.")

    # train
    method: Method = told("auto", "lora goes on with an adapter; full trains all weights; auto: as the model is.")
    alpha: float = told(0.005, "Weight of the SFT term; the IPO term has the rest.")
    margin: float = told(0.0, "Nats between best and worst to aim at; 0: the closed form for so many samples.")
    epochs: float = told(1.0, "Passes over the pairs.")
    learning_rate: float | None = told(None, "Peak learning rate; by default 2e-5 (LoRA) or 1e-6 (full).")
    warmup: float = told(0.1, "Share of the steps over which the learning rate rises.")
    max_grad_norm: float = told(1.0, "Gradients are clipped to this norm.")
    batch_size: int = told(8, "Rows a step, each of as many pairs as fit.")
    max_length: int = told(2048, "Tokens in a row. Longer pairs are left out.")
    held_out: float = told(0.04, "Share of the prompts whose pairs only measure.")
    minutes: float = told(0.0, "Each step stops after so long; training shares it among the lambdas. 0: no limit.")
    seed: int = told(0, "Of the samples, the order and the packing.")

    # machine
    device: str | None = told(None, "cpu or cuda; by default a GPU where there is one.")
    attention: Attention = told("auto", "flex: FlexAttention; dense: an explicit mask; auto: flex on CUDA.")
    logging_steps: int = told(10, "Log after so many steps.")
    save_steps: int = told(50, "Checkpoint after so many steps, to go on from; 0: never.")
    report_to: str = told("none", "Trackers: none, tensorboard, wandb, trackio; several with commas.")

    def __post_init__(self) -> None:
        self.check_given("prompts", "output")
        self.check_positive("batch", "batch_size", "max_length", "max_tokens", "rounds", "logging_steps")
        self.check_choices("method", "attention")
        if not 0 < self.epochs < math.inf:
            raise UsageError(f"epochs is {self.epochs:g}, expected more than 0")
        self.check_between(
            0, math.inf, "limit", "minutes", "learning_rate", "max_grad_norm", "save_steps", "temperature", "margin",
            "overlap", "redundancy", "short", "turns", "round",
        )  # fmt: skip
        self.check_between(0, 1, "alpha", "held_out", "warmup")
        self.check_between(0, SEEDS, "seed")
        if self.temperature == 0:
            raise UsageError("temperature is 0, expected more: all samples of a prompt would be the same")
        if self.samples < 2:
            raise UsageError(f"samples is {self.samples}, expected 2 or more: a pair is a best and a worst")
        if not 0 <= self.shortest <= 1:
            raise UsageError(f"shortest is {self.shortest}, expected 0 to 1, a share of the baseline's tokens")
        if self.longest and self.longest < 1:
            raise UsageError(f"longest is {self.longest}, expected 1 or more times the baseline's tokens, or 0")
        if self.pairs not in (1, 2):
            raise UsageError(f"pairs is {self.pairs}, expected 1 or 2", hint="see --pairs in the help")
        unknown = [step for step in self.chosen_steps if step not in STEPS]
        if unknown:
            raise UsageError(f"unknown step {unknown[0]!r}", hint=f"steps are {', '.join(STEPS)}")
        if "score" in self.chosen_steps and not self.judge:
            raise UsageError("judge is missing", hint="name one, for example --judge reward:FOLDER; see docs/judge.md")
        if "sample" in self.chosen_steps and not self.baseline:
            raise UsageError("baseline is missing", hint="pass --baseline: speed and quality are measured against it")
        _ = self.weights, self.shard, self.biases

    @property
    def chosen_steps(self) -> tuple[str, ...]:
        return tuple(step.strip() for step in self.steps.split(",") if step.strip())

    @property
    def weights(self) -> tuple[float, ...]:
        return self._numbers("lambdas", lambda weight: weight >= 0, "1,4,inf")

    @property
    def biases(self) -> tuple[float, ...]:
        """Some samples may fork where the model would not yet: what it never draws, it cannot learn to prefer."""
        return self._numbers("parallelism", math.isfinite, "0,2")

    def _numbers(self, name: str, good: Callable[[float], bool], example: str) -> tuple[float, ...]:
        text = getattr(self, name)
        try:
            numbers = tuple(map(float, text.split(",")))
        except ValueError:
            numbers = ()
        if not numbers or not all(map(good, numbers)):
            raise UsageError(f"{name} is {text!r}", hint=f"write numbers with commas, for example {example}")
        return numbers

    @property
    def shard(self) -> tuple[int, int]:
        """Which part of the prompts to sample and score, and of how many."""
        return read_part(self.part)

    def base_for(self, name: str) -> str | None:
        """Where this model's base lies, if it is an adapter and its base lies elsewhere than it says."""
        return self.base if find_adapter(name) else None

    @property
    def folder(self) -> Path:
        return Path(self.output)
