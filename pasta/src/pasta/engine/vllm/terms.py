"""What an answer is asked with, as it travels to the workers: a text in `SamplingParams.extra_args["pasta"]`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from pasta.core.grammar import Grammar
from pasta.core.interpreter import Interpreter
from pasta.core.params import SamplingParams
from pasta.core.thread import Limits
from pasta.engine.base import Script
from pasta.engine.vllm.lanes import Lanes

KEY = "pasta"  # in `extra_args`, or in `vllm_xargs` of an HTTP request


@dataclass(frozen=True, slots=True)
class Terms:
    """How one answer is decoded. Both ends make their interpreters of it, so that they agree on every token."""

    params: SamplingParams
    context: int  # positions that the model knows
    max_segments: int
    end: int  # the token that ends the stream
    script: Script | None = None

    def write(self) -> str:
        params = {**asdict(self.params), "positions": str(self.params.positions)}
        script = None if self.script is None else [[path, ids] for path, ids in self.script.items()]
        values = {"context": self.context, "max_segments": self.max_segments, "end": self.end}
        return json.dumps({"params": params, "script": script, **values})

    @classmethod
    def read(cls, text: str) -> Terms:
        values: dict[str, Any] = json.loads(text)
        script = values.pop("script")
        played = None if script is None else {tuple(path): tuple(ids) for path, ids in script}
        params = values.pop("params")
        return cls(SamplingParams(**params), script=played, **values)

    def lanes(self, prompt_length: int, grammar: Grammar | None, eos: frozenset[int]) -> Lanes:
        params = self.params
        limits = Limits(
            max_tokens=params.max_tokens,
            max_threads=1 if params.sequential else params.max_threads,
            max_thread_tokens=params.max_thread_tokens,
            context=self.context,
            max_segments=self.max_segments,
        )
        assert not (params.positions is None or isinstance(params.positions, str))
        ends = frozenset(params.stop_token_ids) - eos
        interpreter = Interpreter(grammar, eos, limits, params.positions, promises=not params.plain, ends=ends)
        return Lanes(prompt_length, interpreter, self.end)
