"""A model that is a function of the thread and the place: what it writes is the same whenever it is asked."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from pasta.core.commands import Command, Put
from pasta.core.grammar import Expect, Grammar
from pasta.core.interpreter import Interpreter
from pasta.core.positions import Positions
from pasta.core.thread import Limits, Status
from pasta.core.vocabulary import Vocabulary
from support import byte_tokenizer

VOCABULARY = Vocabulary(byte_tokenizer())
VOCABULARY.add_tags()
GRAMMAR = Grammar.of(VOCABULARY, len(VOCABULARY))
TAGS = GRAMMAR.tags
EOS = max(VOCABULARY.eos)
LETTERS = VOCABULARY.encode("abcdefgh")
PROMPT = 5


@dataclass(frozen=True)
class Writer:
    """Writes short blocks that fork often, nest, sync, and end by themselves."""

    seed: int
    length: int = 30  # about so many tokens to a thread, and then it ends
    max_depth: int = 3

    def choose(self, path: tuple[int, ...], index: int, expect: Expect) -> int:
        chance = random.Random(f"{self.seed}/{path}/{index}")
        allowed = GRAMMAR.allowed[expect]
        if expect >= Expect.TOPIC_START:
            options = [*LETTERS[:2], *TAGS.lengths[:3]]
        elif index > self.length / (1 + len(path)):
            options = [TAGS.close, EOS]
        else:
            promises = [TAGS.promise] * 4 if len(path) < self.max_depth else []
            options = [*LETTERS[:4], *promises, TAGS.sync, TAGS.sync]
            options += [TAGS.close, EOS] if index > 12 else []
        return chance.choice([token for token in options if allowed[token]] or [int(allowed.nonzero()[0][0])])


@dataclass
class Play:
    """One run of an interpreter under a writer. `late` answers threads one at a time, in any order."""

    writer: Writer
    limits: Limits = field(default_factory=lambda: Limits(max_tokens=1 << 30))
    positions: Positions = field(default_factory=Positions)
    late: random.Random | None = None
    commands: list[Command] = field(default_factory=list)
    steps: int = 0

    def run(self) -> Interpreter:
        interpreter = Interpreter(GRAMMAR, VOCABULARY.eos, self.limits, self.positions)
        expect = {0: interpreter.begin(PROMPT)}
        while interpreter.finish_reason is None:
            self.steps += 1
            assert len(interpreter.running) <= self.limits.max_threads
            assert expect, "nothing decodes, and nothing is finished"
            owed = list(expect)
            for thread_id in [self.late.choice(owed)] if self.late is not None else owed:
                if interpreter.finish_reason is not None:
                    break
                thread = interpreter.threads[thread_id]
                assert thread.decodes or thread.status is Status.HALTED
                token = self.writer.choose(thread.path, thread.sampled, expect.pop(thread_id))
                for command in interpreter.feed(thread_id, token):
                    self.commands.append(command)
                    if isinstance(command, Put) and command.expect is not None:
                        expect[command.thread] = command.expect
        return interpreter
