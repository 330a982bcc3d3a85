"""Several trainings of stage two, each measured on prompts that none of them learns from; which one to keep, by a cost.

    python pasta/recipes/default/trials.py --model default --base BASE --prompts PROMPTS.jsonl --dev DEV.jsonl \
        --judge features:SCORER.json --out RUN --processes 8

`--trials` (trials.yaml) says in what each trial differs from `--config` (once-more.yaml). A trial goes on with
`--model` or, `from` it, with an earlier trial; or it is a `mix` of earlier ones. Trials that go on with the same model
share its samples, and those that can are trained at the same time (`--processes`). A run goes on where an earlier
one stopped.

    OUT/drawn/MODEL/     samples and scores of a model that is to be improved, and the baseline's answers
    OUT/trials/NAME/     a trial: its pairs, and its model under round-1/
    OUT/dev/             the answers of all of them, a folder of `pasta eval`
    OUT/trials.json      the figures of the table that comes last, best first
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from cost import TODAY, costs

from pasta.data.lines import write_json
from pasta.errors import PastaError, UsageError
from pasta.eval.table import table
from pasta.models.catalogue import resolve
from pasta.processes import at_once
from pasta.settings import read_yaml
from pasta.train.pairs import name_of
from pasta.train.preference_config import PreferenceConfig

HERE = Path(__file__).parent
#: What a trial may set: what comes after its samples and their scores, which it shares with others.
OWN = frozenset(
    "lambdas min_gap pairs alike turns method alpha margin epochs learning_rate warmup max_grad_norm batch_size "
    "max_length held_out minutes seed".split()
)
SHARED = ("samples*.jsonl", "scores.jsonl", "policy.json", "scoring.json")  # of a round, by all that go on with a model


@dataclass(frozen=True, slots=True)
class Trial:
    """One line of the file: how a model is made of earlier ones."""

    name: str
    begins: str = TODAY  # with the model of this trial
    mix: Mapping[str, float] = field(default_factory=dict)  # of trials, by their share
    settings: Mapping[str, Any] = field(default_factory=dict)  # beside those of --config

    @property
    def needs(self) -> set[str]:
        return set(self.mix) if self.mix else {self.begins}


@dataclass(frozen=True)
class Run:
    """What is the same for all trials, and where the files of each lie. It goes to other processes."""

    options: Mapping[str, Any]

    @property
    def out(self) -> Path:
        return Path(self.options["out"])

    @cached_property
    def trials(self) -> list[Trial]:
        return read_trials(self.options["trials"])

    def drawn(self, model: str) -> Path:
        return self.out / "drawn" / model

    def folder(self, name: str) -> Path:
        return self.out / "trials" / name

    def model(self, name: str) -> str:
        """The folder of a trial's model, whether it is made yet or not; of today's, what it is called."""
        if name == TODAY:
            return str(self.options["model"])
        trial = next(each for each in self.trials if each.name == name)
        if trial.mix:
            return str(self.folder(name))
        (weight,) = self.config(trial).weights
        return str(self.folder(name) / "round-1" / f"lambda-{name_of(weight)}")

    def is_made(self, name: str) -> bool:
        return name == TODAY or (Path(self.model(name)) / "training.json").exists()

    def config(self, trial: Trial, steps: str = "pairs,train", **more: Any) -> PreferenceConfig:
        given = {key: self.options[key] for key in ("base", "prompts", "limit", "judge", "device") if self.options[key]}
        told = {
            **given, "steps": steps, "model": self.model(trial.begins), "baseline": self.options["baseline"],
            "output": str(self.folder(trial.name)), "minutes": self.options["minutes"], **trial.settings, **more,
        }  # fmt: skip
        return PreferenceConfig.from_flags(told, self.options["config"])


def main(arguments: Sequence[str] | None = None) -> None:
    try:
        run(Run(vars(parser().parse_args(arguments))))
    except PastaError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def run(this: Run) -> None:
    for trial in (each for each in this.trials if not each.mix):  # what is wrong is said before anything is drawn
        if len(this.config(trial).weights) > 1:
            raise UsageError(
                f"{trial.name} has the lambdas {this.config(trial).lambdas}", "give each a trial of its own"
            )
    for wave in waves(this.trials, {each.name for each in this.trials if this.is_made(each.name)}):
        for model in dict.fromkeys(each.begins for each in wave if not each.mix and not this.is_made(each.name)):
            draw(this, model)
        at_once([(make, (this, each)) for each in wave if not this.is_made(each.name)], this.options["processes"])
        answering = [(answer, (this, name)) for name in (TODAY, *(each.name for each in wave))]
        at_once(answering, this.options["processes"])
    rows = costs(this.out / "dev", [TODAY, *(each.name for each in this.trials)])
    write_json(this.out / "trials.json", rows)
    print(table(rows))


def waves(trials: Sequence[Trial], made: Set[str] = frozenset()) -> Iterator[list[Trial]]:
    """What can be made at once, in order; with what is `made` already, or was put there."""
    made, left = {TODAY, *made}, list(trials)
    while left:
        wave = [each for each in left if each.name in made or each.needs <= made]
        yield wave
        made |= {each.name for each in wave}
        left = [each for each in left if each not in wave]


# -- what runs in processes of its own ------------------------------------------------------------------------


def draw(this: Run, model: str) -> None:
    """Samples and scores of a model, once for all trials that go on with it."""
    if model != TODAY:  # the baseline is the same
        link(this.drawn(TODAY), this.drawn(model), "baseline*")
    each = Trial("drawn", model)
    parts = [f"{number}/{this.options['processes']}" for number in range(this.options["processes"])]
    for step in ("sample", "score"):
        at_once([(step_of, this.config(each, step, output=str(this.drawn(model)), minutes=0, part=p)) for p in parts])


def step_of(config: PreferenceConfig) -> None:
    from pasta.train.preference_run import run

    run(config)


def make(work: tuple[Run, Trial]) -> None:
    this, trial = work
    if trial.mix:
        from mix import mix

        models = [
            (str(resolve(this.model(name), this.options["base"]).path), share) for name, share in trial.mix.items()
        ]
        mix(models, this.folder(trial.name))
        return
    drawn, own = this.drawn(trial.begins), this.folder(trial.name)
    link(drawn, own, "baseline*")
    link(drawn / "round-1", own / "round-1", *SHARED)
    step_of(this.config(trial))


def link(source: Path, to: Path, *names: str) -> None:
    """Files that are the same for several folders."""
    to.mkdir(parents=True, exist_ok=True)
    for path in (path for name in names for path in source.glob(name) if not (to / path.name).exists()):
        (to / path.name).symlink_to(path.resolve())


def answer(work: tuple[Run, str]) -> None:
    """The answers of a model to the prompts that it is measured on."""
    from pasta.eval.answers import run_answers
    from pasta.eval.contestants import Contestant
    from pasta.eval.decoding import Decoding
    from pasta.eval.folder import RunFolder
    from pasta.eval.questions import QuestionSet

    this, name = work
    options = this.options
    run_answers(
        RunFolder(this.out / "dev"), [Contestant(name, this.model(name))], [QuestionSet("dev", options["dev"])],
        say=lambda text: print(text, file=sys.stderr, flush=True), limit=options["dev_limit"],
        at_once=options["batch"], decoding=Decoding(device=options["device"], base=options["base"]),
    )  # fmt: skip


# -- what is read and shown -----------------------------------------------------------------------------------


def read_trials(path: str) -> list[Trial]:
    found: list[Trial] = []
    for name, told in read_yaml(path).items():
        if not isinstance(told, dict) or name == TODAY:
            raise UsageError(f"{path}: {name} is {told!r}, expected the settings of a trial", "see recipes/README.md")
        settings = {key.replace("-", "_"): value for key, value in told.items() if key not in ("from", "mix")}
        if shared := sorted(settings.keys() - OWN):
            hint = f"a trial may set {', '.join(sorted(OWN))}; what all have in common stands in --config"
            raise UsageError(f"{path}: {name} sets {shared[0]}", hint)
        mixed = {known_as(other): share for other, share in told.get("mix", {}).items()}
        trial = Trial(name, known_as(told.get("from", TODAY)), mixed, settings)
        known = {TODAY, *(each.name for each in found)}
        if missing := sorted(trial.needs - known):
            raise UsageError(f"{path}: {name} begins with {missing[0]}, which is no earlier trial")
        found.append(trial)
    if not found:
        raise UsageError(f"{path} names no trial")
    return found


def known_as(name: str) -> str:
    """As `read_yaml` has it."""
    return name.replace("-", "_")


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--trials", default=str(HERE / "trials.yaml"), help="what is tried (trials.yaml)")
    out.add_argument("--config", default=str(HERE / "once-more.yaml"), help="what all have in common (once-more.yaml)")
    out.add_argument("--model", default="default", help="the model to improve (default)")
    out.add_argument("--baseline", default="default", help="whose answers without tags speed is held against (default)")
    out.add_argument("--base", help="where the adapters' base model lies, if not where they say")
    out.add_argument("--prompts", required=True, help="JSON lines to sample from")
    out.add_argument("--limit", type=int, default=0, help="so many of them at most")
    out.add_argument("--dev", required=True, help="JSON lines to measure on, none of them in --prompts")
    out.add_argument("--dev-limit", type=int, default=0, help="so many of them at most")
    out.add_argument("--judge", required=True, help="who judges quality: features:FILE, reward:FOLDER, …")
    out.add_argument("--out", required=True, help="folder for everything that is made")
    out.add_argument("--processes", type=int, default=1, help="draw, score, train and answer in so many (1)")
    out.add_argument("--batch", type=int, default=96, help="answers to --dev at once (96)")
    out.add_argument("--minutes", type=float, default=0.0, help="each training stops after so long")
    out.add_argument("--device", help="cpu or cuda; by default a GPU where there is one")
    return out


if __name__ == "__main__":
    main()
