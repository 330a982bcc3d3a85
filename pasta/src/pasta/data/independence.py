"""The model to be finetuned says what depends on what: its loss of a piece, with earlier pieces hidden.

A piece whose loss hardly rises when its siblings are hidden can be written apart from them, whatever it looks
like; a list item whose loss does rise cannot, whatever number it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pasta.data.example import Decision, Example
from pasta.data.plan import Block, Plan
from pasta.data.probes import Hiding, Probe, Scorer
from pasta.data.runs import Rise, Run, choose, grow, weigh
from pasta.data.units import Answer, cut

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from pasta.core.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Budget:
    """How much may be lost for speed, and what is looked at.

    Attributes:
        nats: Added loss that an answer may have, per token of it.
        limit: Added loss that a single piece may have, per token of it.
        min_saved: Decode steps that a run of blocks must save.
        min_tokens: Shorter pieces are no blocks.
        max_units: Answers of more sentences are cut into paragraphs.
        window: The longest run, in pieces.
        rounds: Forward passes of each answer, at most; each asks what the last one left open.
        max_tokens: Longer answers are left as they are.
    """

    nats: float = 0.2
    limit: float = 0.5
    hiding: Hiding = Hiding.omit
    min_saved: int = 10
    min_tokens: int = 12
    max_units: int = 24
    window: int = 16
    rounds: int = 8
    max_prompt: int = 512
    max_tokens: int = 1500


class Independence:
    """The annotator `independence`."""

    name = "independence"

    def __init__(
        self,
        model: PreTrainedModel,
        vocabulary: Vocabulary,
        budget: Budget | None = None,
        *,
        name: str = "",
        batch: int | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        self.budget = budget or Budget()
        self.model_name = name
        self.scorer = Scorer(model, batch_tokens=batch_tokens)
        self.batch = batch or (8 if model.device.type == "cpu" else 512)

    def settings(self) -> Mapping[str, Any]:
        return {"model": self.model_name, **asdict(self.budget)}

    def decide(self, examples: Sequence[Example]) -> Iterator[Decision]:
        budget = self.budget
        answers = []
        for example in examples:
            answer = cut(
                example,
                self.vocabulary,
                max_units=budget.max_units,
                min_tokens=budget.min_tokens,
                max_prompt=budget.max_prompt,
                hints=budget.hiding is Hiding.topic,
            )
            if sum(unit.is_block for unit in answer.units) < 2:
                yield Decision(example.row, Plan(), "fewer than two pieces that could be blocks")
            elif answer.length > budget.max_tokens:
                yield Decision(example.row, Plan(), f"longer than {budget.max_tokens} tokens")
            else:
                answers.append(answer)
        for answer, runs in zip(answers, self.runs(answers), strict=True):
            yield self._decision(answer, runs)

    def runs(self, answers: Sequence[Answer]) -> list[list[Run]]:
        """Of each answer, the runs that the budget's limit for a piece allows."""
        budget = self.budget
        known: list[dict[tuple[Probe | None, int], float]] = [{} for _ in answers]
        finished: dict[int, list[Run]] = {}
        for last in [False] * (budget.rounds - 1) + [True]:
            asked: list[tuple[int, list[Probe]]] = []
            for number, answer in enumerate(answers):
                if number in finished:
                    continue
                grown = [
                    grow(answer, start, rise_in(known[number]), budget.limit, window=budget.window, ahead=4)
                    for start, unit in enumerate(answer.units[:-1])
                    if unit.is_block
                ]
                wanted = list(dict.fromkeys(probe for one in grown for probe in one.wanted))
                if wanted and not last:
                    asked.append((number, wanted))
                else:
                    finished[number] = [run for one in grown for run in weigh(answer, one.elements)]
            if not asked:
                break
            losses = self.scorer.score([(answers[number], probes) for number, probes in asked], budget.hiding)
            for (index, probe, unit), nats in losses.items():
                known[asked[index][0]][probe, unit] = nats
        return [finished[number] for number in range(len(answers))]

    def _decision(self, answer: Answer, runs: Sequence[Run]) -> Decision:
        budget = self.budget
        row = answer.example.row
        if not runs:
            return Decision(row, Plan(), "every piece needs the one before it")
        chosen = choose(answer, runs, budget.nats * answer.length, budget.min_saved)
        if not chosen:
            return Decision(row, Plan(), "no blocks within the budget")
        blocks = [
            Block(answer.units[element.first].piece.start, answer.units[element.last].piece.end)
            for run in chosen
            for element in run.elements
            if element.is_block
        ]
        syncs = [answer.units[run.last].piece.end for run in chosen if run.last + 1 < len(answer.units)]
        added = sum(run.rise for run in chosen) / answer.length
        return Decision(row, Plan(tuple(blocks), tuple(syncs)), figures={"added_nats": round(added, 4)})


def probes_of(answer: Answer, plan: Plan) -> list[Probe]:
    """The blocks of a plan as probes: each with its siblings since the last sync hidden."""
    first_at = {unit.piece.start: index for index, unit in enumerate(answer.units)}
    last_at = {unit.piece.end: index for index, unit in enumerate(answer.units)}
    probes = []
    start: int | None = None
    behind = -1
    for block in sorted(plan.blocks, key=lambda block: block.start):
        if block.start not in first_at or block.end not in last_at:
            continue
        first, last = first_at[block.start], last_at[block.end]
        if start is None or any(behind <= place <= block.start for place in plan.syncs):
            start = first
        probes.append(Probe(start, first, last))
        behind = block.end
    return probes


def rise_in(known: Mapping[tuple[Probe | None, int], float]) -> Rise:
    """The rise of a unit's loss under a probe, from the losses known so far."""

    def rise(probe: Probe, unit: int) -> float | None:
        hidden, seen = known.get((probe, unit)), known.get((None, unit))
        return None if hidden is None or seen is None else hidden - seen

    return rise
