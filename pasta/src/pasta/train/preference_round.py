"""The rounds of preference optimisation, and where the files of each lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pasta.data.fields import ASKED, prompt_of, reference_of
from pasta.data.lines import read_json, read_lines, write_json
from pasta.data.rows import read_rows
from pasta.errors import UsageError
from pasta.judge.kin import identity
from pasta.models.adapter import weights_checksum
from pasta.models.catalogue import resolve
from pasta.train.examples import without_tags
from pasta.train.pairs import name_of
from pasta.train.preference_config import PreferenceConfig
from pasta.train.preference_loss import Policy

#: What a score depends on, beside its judge.
SCORING = ("overlap", "short", "redundancy", "clean", "shortest", "longest")


@dataclass(frozen=True, slots=True)
class Round:
    """One round: who is sampled and improved, and for which weights."""

    folder: Path
    model: str
    weights: tuple[float, ...]
    number: int = 1

    def missing_for(self, steps: Sequence[str]) -> str | None:
        """Why a later round cannot begin yet: its model is made by the round before, and these steps may not sample."""
        if self.number > 1 and not (Path(self.model) / "training.json").exists():
            return f"{self.model} is not trained yet"
        if self.number > 1 and "sample" not in steps and next(self.samples(), None) is None:
            return f"{self.folder} holds no samples yet"
        return None

    def samples(self) -> Iterator[dict[str, Any]]:
        return read_parts(self.folder, "samples")

    @property
    def scores(self) -> Path:
        return self.folder / "scores.jsonl"

    def pairs(self, weight: float) -> Path:
        return self.folder / f"pairs-{name_of(weight)}.jsonl"

    def prompts_of(self, other: str, weight: float) -> set[str]:
        """The prompts of which another run (or a file of its pairs) has pairs, of this round and weight."""
        path = Path(other)
        if path.is_dir():
            path = path / self.folder.name / self.pairs(weight).name
        prompts = {row["prompt"] for row in read_lines(path)}
        if not prompts:
            raise UsageError(f"same_prompts_as is {other}, but {path} holds no pairs", "run the step pairs there first")
        return prompts

    def remember_policy(self, config: PreferenceConfig) -> None:
        """Writes down how the samples of this round are drawn; other settings would mix two policies."""
        path = self.folder / "policy.json"
        told: dict[str, Any] = {"temperature": config.temperature, "parallelism": list(config.biases)}
        model = read_json(path).get("model") if path.exists() else self._model(config)
        told |= {"model": model} if model else {}  # which those who drew before it was written down did not say
        remember(path, told, f"{self.folder} holds samples", "name another --output")

    def check_model(self, config: PreferenceConfig) -> None:
        """Refuses samples that another model drew: their log probabilities would be taken for this one's."""
        path = self.folder / "policy.json"
        known = read_json(path).get("model") if path.exists() else None
        if known is not None and known != self._model(config):
            raise UsageError(
                f"{self.folder} holds samples of another model than {self.model} is now",
                "name another --output, or the model of before",
            )

    def _model(self, config: PreferenceConfig) -> str:
        return weights_checksum(resolve(self.model, config.base_for(self.model)).path)

    def remember_scoring(self, config: PreferenceConfig) -> None:
        """Writes down how the samples are scored; scores of other settings cannot be compared with these."""
        path = self.folder / "scoring.json"
        known = read_json(path) if path.exists() else {"scored_by": config.judge}
        told = scoring_of(config)
        if known.get("judge") == last_part(config.judge):
            told["judge"] = known["judge"]
        if "scored_by" in known:  # its folder may have been moved since
            told["scored_by"] = known["scored_by"]
        remember(path, told, f"{self.folder} holds scores", self._anew(path))

    def check_scoring(self, config: PreferenceConfig) -> None:
        """Refuses pairs by other settings than the scores were made with: faults and costs are in the scores."""
        path = self.folder / "scoring.json"
        if path.exists():  # those who scored before it was written down have none
            known = read_json(path)  # who chooses pairs needs to name no judge
            told = {**scoring_of(config), **{name: known[name] for name in ("judge", "scored_by") if name in known}}
            remember(path, told, f"{self.folder} holds scores", self._anew(path))

    def scored_by(self, config: PreferenceConfig) -> str:
        """Whose scores these are, whatever judge the last command named; of old ones, it may be part of a name."""
        path = self.folder / "scoring.json"
        known = read_json(path) if path.exists() else {"scored_by": config.judge}
        own = config.judge if last_part(config.judge) == known.get("judge") else known.get("judge", "")
        return str(known.get("scored_by", own))

    def _anew(self, path: Path) -> str:
        return f"delete {self.scores.name} and {path.name} there to score all anew, or name another --output"

    def policy(self, config: PreferenceConfig) -> Policy:
        path = self.folder / "policy.json"
        if not path.exists():
            return Policy(config.temperature, config.biases)
        known = read_json(path)
        return Policy(known["temperature"], tuple(known["parallelism"]))

    def trained(self, weight: float) -> Path:
        return self.folder / f"lambda-{name_of(weight)}"


def scoring_of(config: PreferenceConfig) -> dict[str, Any]:
    """What the scores of a round depend on."""
    told = {"judge": identity(config.judge), **{name: getattr(config, name) for name in SCORING}}
    return told | ({"any_topic": True} if config.any_topic else {})  # scores from before the choice are as without


def last_part(judge: str) -> str:
    """As judges were once written down."""
    return judge.rpartition("/")[2]


def remember(path: Path, told: dict[str, Any], holds: str, hint: str) -> None:
    """Writes settings down once; several processes may do so at the same time."""
    if not path.exists():
        write_json(path, told)
    elif (known := read_json(path)) != told:
        other = [name for name in {**known, **told} if known.get(name) != told.get(name)]
        before, now = ({name: each.get(name) for name in other} for each in (known, told))
        raise UsageError(f"{holds} of {before}, now they are {now}", hint)


@dataclass(frozen=True, slots=True)
class Question:
    prompt: str
    reference: str | None  # somebody else's answer, where there is one


def rounds(config: PreferenceConfig) -> Iterator[Round]:
    """The first round serves all weights; later ones are each weight's own."""
    first = Round(config.folder / "round-1", config.model, config.weights)
    yield first
    for weight in config.weights:
        before = first
        for number in range(2, config.rounds + 1):
            folder = config.folder / f"round-{number}-lambda-{name_of(weight)}"
            before = Round(folder, str(before.trained(weight)), (weight,), number)
            yield before


def read_questions(config: PreferenceConfig) -> list[Question]:
    questions = []
    for index, row in enumerate(read_rows(config.prompts)):
        prompt = prompt_of(row)
        if prompt is None:
            raise UsageError(f"{config.prompts}: row {index} has no prompt", hint=f"rows need {ASKED}")
        answer = reference_of(row)
        # prompts may be the rows that `pasta annotate` wrote
        questions.append(Question(prompt, without_tags(answer) if answer and answer.strip() else None))
        if config.limit and len(questions) == config.limit:
            break
    return questions


def check_prompts(rows: Sequence[Mapping[str, Any]], questions: Sequence[Question], folder: Path) -> None:
    """Refuses to go on with answers to other prompts: rows know theirs by number."""
    for row in rows:
        if row["index"] < len(questions) and row["prompt"] != questions[row["index"]].prompt:
            asked = " ".join(row["prompt"].split())[:60]
            raise UsageError(
                f"{folder} holds answers to other prompts: there, prompt {row['index']} is {asked!r}",
                "name another --output, or the prompts of before",
            )


def check_baseline(config: PreferenceConfig) -> None:
    """Refuses to mix the answers of two baselines. Which one answers is written down before it does."""
    path = config.folder / "baseline.json"
    model = weights_checksum(resolve(config.baseline, config.base_for(config.baseline)).path)
    if next(read_parts(config.folder, "baseline"), None) is None:
        write_json(path, {"model": model})
    elif path.exists() and read_json(path)["model"] != model:  # those who drew before it was written down have none
        raise UsageError(
            f"{config.folder} holds answers of another baseline than {config.baseline} is now",
            "name another --output, or the baseline of before",
        )


def read_parts(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """The rows of a file that several processes may have written a part of."""
    for path in sorted(folder.glob(f"{name}*.jsonl")):
        yield from read_lines(path)
