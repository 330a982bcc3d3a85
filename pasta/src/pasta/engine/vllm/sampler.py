"""From logits to the tokens of lanes, and from those to what the requests go on with. Plain PyTorch, on any device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch

from pasta.core.grammar import Grammar
from pasta.core.taught import Taught
from pasta.core.vocabulary import Vocabulary
from pasta.engine.base import uniform
from pasta.engine.sampling import add_biases, choose
from pasta.engine.vllm.lanes import Lane, Lanes
from pasta.engine.vllm.terms import Terms


@dataclass(slots=True, eq=False)
class Answer:
    """A request with threads in a worker."""

    prompt: tuple[int, ...]
    terms: Terms
    lanes: Lanes
    room: int  # tokens that the request may have, the prompt included
    greedy: bool = field(init=False)  # its tokens are the best that the grammar allows
    scripted: bool = field(init=False)
    chosen: dict[int, int] = field(default_factory=dict)  # by lane, where a step computed only some of them

    def __post_init__(self) -> None:
        self.greedy = self.terms.params.greedy and not self.terms.params.parallelism
        self.scripted = self.terms.script is not None

    def text_steps(self) -> int:
        """As `Lanes.text_steps`, within the request's room; none where a choice depends on all that came before it."""
        if self.terms.params.repetition_penalty != 1:
            return 0
        count = len(self.lanes.deciding)
        room = self.room - self.lanes.held - 2 * count - 2
        return min(self.lanes.text_steps(), room // count) if room > 0 and count else 0

    def take(self, tokens: Sequence[tuple[int, int]]) -> list[int]:
        """Takes the tokens of some lanes, by index; returns what the stream goes on with, once all have one."""
        self.chosen.update(tokens)
        if len(self.chosen) < len(self.lanes.deciding):
            return []
        chosen, self.chosen = [self.chosen[index] for index in range(len(self.lanes.deciding))], {}
        return self.take_all(chosen)

    def take_all(self, chosen: list[int]) -> list[int]:
        """Takes the token of each lane; returns what the stream goes on with."""
        lanes = self.lanes
        try:
            stream = lanes.take(chosen)
        except ValueError:  # a script with a tag where none can come: the front says so; here the answer ends
            return [*chosen, *lanes.cut()]
        if not lanes.finished and lanes.held + 2 * len(lanes.deciding) + 2 > self.room:
            stream += lanes.cut()
        return stream


class Choice(NamedTuple):
    """A lane that decides in a step."""

    answer: Answer
    number: int  # of the lane, in its answer
    ahead: int = 0  # steps of text since its interpreter read one

    @property
    def lane(self) -> Lane:
        return self.answer.lanes.deciding[self.number]

    @property
    def position(self) -> int:
        """Of the last token before the choice."""
        return self.lane.position + self.ahead


class LaneSampler:
    """Chooses as the native engine does: penalties, biases, grammar, temperature, each thread by its own parameters."""

    def __init__(self, vocabulary: Vocabulary, size: int, device: torch.device, taught: Taught):
        self.vocabulary = vocabulary
        self.grammar = Grammar.of(vocabulary, size, taught.deepest) if vocabulary.tags else None
        self.device = device
        self._forbidden = None if self.grammar is None else torch.from_numpy(~self.grammar.allowed).to(device)
        tags = vocabulary.tags.all if vocabulary.tags else frozenset()
        self._spared = torch.tensor(sorted(vocabulary.eos | tags), dtype=torch.long, device=device)

    def answer(self, terms: Terms, prompt: Sequence[int], stream: Sequence[int], room: int) -> Answer:
        """A request that begins here, or one that goes on after a stream which was decoded before."""
        lanes = terms.lanes(len(prompt), self.grammar, self.vocabulary.eos)
        lanes.read(stream)
        return Answer(tuple(prompt), terms, lanes, room)

    def choose(self, logits: torch.Tensor, choices: Sequence[Choice]) -> list[int]:
        """A token for each lane, from its row of logits."""
        params = [choice.answer.terms.params for choice in choices]
        if any(own.repetition_penalty != 1 for own in params):
            logits = self._penalise(logits, choices)
        if any(own.logit_bias for own in params):
            logits = add_biases(logits, params)
        if self._forbidden is not None and self.grammar is not None:
            states = torch.tensor([int(choice.lane.expect) for choice in choices]).to(logits.device, non_blocking=True)
            logits = logits.masked_fill(self._forbidden[states], -torch.inf)
            dials = [own.parallelism for own in params]
            if any(dials):
                logits[:, self.grammar.tags.promise] += torch.tensor(dials, dtype=logits.dtype, device=logits.device)
        draws = [
            uniform(own.seed, self._path(choice), choice.position + 1) if own.temperature > 0 else 0.0
            for choice, own in zip(choices, params, strict=True)
        ]
        return self.play(choose(logits, params, draws), choices)

    def best(self, logits: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """Each row's best token, of those that its state allows."""
        if self._forbidden is not None:
            logits = logits.masked_fill(self._forbidden[states.long()], -torch.inf)
        return logits.argmax(-1)

    def play(self, tokens: list[int], choices: Sequence[Choice]) -> list[int]:
        """The tokens, but where a script says otherwise."""
        return [
            token if choice.answer.terms.script is None else self._scripted(choice, token)
            for token, choice in zip(tokens, choices, strict=True)
        ]

    def _scripted(self, choice: Choice, token: int) -> int:
        """What a script says; where it says nothing, the model's own."""
        assert choice.answer.terms.script is not None
        thread = choice.answer.lanes.interpreter.threads[choice.lane.thread]
        played = choice.answer.terms.script.get(thread.path, ())
        place = thread.sampled + choice.ahead
        return played[place] if place < len(played) else token

    def _path(self, choice: Choice) -> tuple[int, ...]:
        return choice.answer.lanes.interpreter.threads[choice.lane.thread].path

    def _penalise(self, logits: torch.Tensor, choices: Sequence[Choice]) -> torch.Tensor:
        scores = logits.to(torch.float32, copy=True)
        spared = scores[:, self._spared]
        for row, choice in enumerate(choices):
            penalty = choice.answer.terms.params.repetition_penalty
            if penalty != 1:
                tokens = torch.tensor(sorted(seen_tokens(choice)), dtype=torch.long, device=logits.device)
                seen = scores[row, tokens]
                scores[row, tokens] = torch.where(seen > 0, seen / penalty, seen * penalty)
        scores[:, self._spared] = spared
        return scores


def seen_tokens(choice: Choice) -> set[int]:
    """The tokens that the lane's thread sees, the prompt's included."""
    lanes = choice.answer.lanes
    segments = np.frombuffer(lanes.segments, dtype=np.int32)
    place = choice.lane.place - lanes.prompt_length
    own = int(segments[place]) if place >= 0 else 0
    table = np.array([lanes.table.sees[own] >> segment & 1 for segment in range(len(lanes.table.sees))], dtype=bool)
    visible = table[segments] & (np.arange(len(segments)) <= place)
    return {*choice.answer.prompt, *np.frombuffer(lanes.tokens, dtype=np.int32)[visible].tolist()}
