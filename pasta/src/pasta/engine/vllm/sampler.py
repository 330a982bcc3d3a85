"""From logits to the tokens of lanes, and from those to what the requests go on with. Plain PyTorch, on any device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch

from pasta.core.grammar import Grammar
from pasta.core.vocabulary import Vocabulary
from pasta.engine.base import uniform
from pasta.engine.sampling import add_biases, choose
from pasta.engine.vllm.lanes import Lane, Lanes
from pasta.engine.vllm.plan import Span
from pasta.engine.vllm.terms import Terms

AHEAD = 256  # slots that a request has beyond those of its next step, for steps that its worker takes on its own


@dataclass(slots=True, eq=False)
class Answer:
    """A request with threads in a worker."""

    prompt: tuple[int, ...]
    terms: Terms
    lanes: Lanes
    room: int  # tokens that the request may have, the prompt included
    chosen: dict[int, int] = field(default_factory=dict)  # by lane, where a step computed only some of them

    def take(self, tokens: Sequence[tuple[int, int]]) -> list[int]:
        """Takes the tokens of some lanes, by index; returns what the stream goes on with, once all have one."""
        self.chosen.update(tokens)
        lanes = self.lanes
        if len(self.chosen) < len(lanes.deciding):
            return []
        chosen, self.chosen = [self.chosen[index] for index in range(len(lanes.deciding))], {}
        try:
            stream = lanes.take(chosen)
        except ValueError:  # a script with a tag where none can come: the front says so; here the answer ends
            return [*chosen, *lanes.cut()]
        if not lanes.finished and lanes.held + 2 * len(lanes.deciding) + 2 > self.room:
            stream += lanes.cut()
        return stream


@dataclass(slots=True)
class Burst:
    """Steps that a worker takes on its own, one after another, while vLLM's scheduler knows of one.

    Only where every request of a step decodes in threads, and as long as all have slots that were allotted ahead.
    """

    answers: list[Answer]
    streams: list[list[int]]  # what each has come to in this step of vLLM's
    rooms: list[int]  # how many tokens each may hold
    pending: list[int] = field(init=False)  # of each, how many were not computed
    extra: list[int] = field(init=False)  # of each, how many were computed beyond what vLLM scheduled

    def __post_init__(self) -> None:
        self.pending = [len(stream) for stream in self.streams]
        self.extra = [0] * len(self.streams)

    def run(self, steps: int, decide: Callable[[list[Span], list[Choice]], list[int]]) -> None:
        """`decide` computes the spans, and returns the token of each choice."""
        for _ in range(steps):
            spans = [
                Span(answer.lanes, answer.lanes.held - count, count)
                for answer, count in zip(self.answers, self.pending, strict=True)
            ]
            if any(answer.lanes.finished for answer in self.answers):
                return  # it is to be told
            if any(span.end > room or not span.rows for span, room in zip(spans, self.rooms, strict=True)):
                return
            choices = [Choice(answer, lane) for answer in self.answers for lane in range(len(answer.lanes.deciding))]
            chosen = iter(decide(spans, choices))
            for index, answer in enumerate(self.answers):
                stream = answer.take([(lane, next(chosen)) for lane in range(len(answer.lanes.deciding))])
                self.extra[index] += self.pending[index]
                self.pending[index] = len(stream)
                self.streams[index] = self.streams[index] + stream


class Choice(NamedTuple):
    """A lane that decides in a step."""

    answer: Answer
    number: int  # of the lane, in its answer

    @property
    def lane(self) -> Lane:
        return self.answer.lanes.deciding[self.number]


class LaneSampler:
    """Chooses as the native engine does: penalties, biases, grammar, temperature, each thread by its own parameters."""

    def __init__(self, vocabulary: Vocabulary, size: int, device: torch.device):
        self.vocabulary = vocabulary
        self.grammar = Grammar.of(vocabulary, size) if vocabulary.tags else None
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
            uniform(own.seed, self._path(choice), choice.lane.position + 1) if own.temperature > 0 else 0.0
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
        return played[thread.sampled] if thread.sampled < len(played) else token

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
