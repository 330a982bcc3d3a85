"""The requests that make up one choice, one after another.

Mostly it is one. Where tools may be called, the model first shows whether it begins a call, then chooses the name of
a tool, and then fills in all of its arguments at once. A beginning that may become a call is looked at further: models
write calls between backticks, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pasta.decoding.program import Program
from pasta.decoding.request import Request
from pasta.decoding.results import Result

NAME_TOKENS = 128  # a tool's name has no more
BEGINNING = 24  # tokens that show whether an answer is a call
FENCE = re.compile(r"\s*`{1,3}\w*\s*")
JSON_CALL = '{"name":'


class Course:
    """A single request."""

    called: str | None = None  # the tool whose arguments the answer's text is

    def __init__(self, first: Request):
        self.first = first
        self.prompt = first.prompt  # as the client knows it
        self.earlier: list[Result] = []  # of what was decoded before the last request, and belongs to the answer

    @property
    def answering(self) -> bool:
        """Whether what is decoded now is told to the client."""
        return True

    def follow(self, result: Result) -> Request | None:
        """What comes after a request's result; None: it was the last."""
        return None


@dataclass(frozen=True, slots=True)
class Calls:
    """How the tools of a request are called, for all of its choices."""

    opening: tuple[int, ...]  # what the model writes before a tool's name
    opening_text: str
    openings: Mapping[str, tuple[int, ...]]  # by tool: what it writes before the arguments
    names: Program  # one of the names
    arguments: Mapping[str, Program]

    def begun_by(self, result: Result) -> bool | None:
        """Whether an answer that begins like this is a call; None: it may become one."""
        if result.threads[0].token_ids[:1] == self.opening[:1] and not self.opening_text.startswith("{"):
            return True  # no text begins so
        written = "".join(FENCE.sub("", result.text, count=1).split())
        forms = ["".join(form.split()) for form in (self.opening_text, JSON_CALL)]
        if any(written.startswith(form) for form in forms):
            return True
        return None if any(form.startswith(written) for form in forms) else False


class ToolCourse(Course):
    """A call of a tool; or a text, where no tool must be called and the model does not begin a call."""

    def __init__(self, text: Request, calls: Calls, *, must_call: bool):
        self._text = text
        self._bare = replace(text, in_a_crowd=None)
        self._calls = calls
        self._stage = self._look
        super().__init__(self._name() if must_call else self._probe())
        self.prompt = text.prompt

    @property
    def answering(self) -> bool:
        return self._stage == self._done

    def follow(self, result: Result) -> Request | None:
        return self._stage(result)

    # -- requests -------------------------------------------------------------------------------------------

    def _probe(self, tokens: int = 1) -> Request:
        """The first tokens of an answer as the model would begin it, to see where they lead."""
        params = replace(self._text.params, max_tokens=tokens, plain=True)
        return replace(self._bare, params=params, program=None)

    def _name(self) -> Request:
        if len(self._calls.openings) == 1:
            return self._fill(next(iter(self._calls.openings)))
        self._stage = self._named
        params = replace(self._text.params, max_tokens=NAME_TOKENS)
        return replace(
            self._bare, prompt=(*self._text.prompt, *self._calls.opening), params=params, program=self._calls.names
        )

    def _fill(self, name: str) -> Request:
        self._stage, self.called = self._done, name
        prompt = (*self._text.prompt, *self._calls.openings[name])
        return replace(self._bare, prompt=prompt, program=self._calls.arguments[name])

    # -- what a result leads to -------------------------------------------------------------------------------

    def _look(self, result: Result) -> Request | None:
        begun = self._calls.begun_by(result)
        if begun is None and result.finish_reason == "length":
            self._stage = self._look_again
            return self._probe(BEGINNING)
        return self._decide(bool(begun))

    def _look_again(self, result: Result) -> Request | None:
        return self._decide(bool(self._calls.begun_by(result)))

    def _decide(self, call: bool) -> Request:
        if call:
            return self._name()
        self._stage = self._done
        return self._text

    def _named(self, result: Result) -> Request | None:
        self.earlier.append(result)
        return self._fill(json.loads(result.text))

    def _done(self, result: Result) -> Request | None:
        return None
