"""From a prompt and a schema to a request that runs among others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Unpack

from pasta.core.params import Options, SamplingParams
from pasta.decoding.prompts import Prompt, make_request
from pasta.decoding.request import Request, RequestState
from pasta.engine.base import Engine
from pasta.errors import UsageError
from pasta.structured.errors import SchemaError
from pasta.structured.matcher import Grammars, Matcher
from pasta.structured.plan import Plan
from pasta.structured.planner import After, compile_schema
from pasta.structured.result import StructuredResult, build
from pasta.structured.telling import PlanTeller
from pasta.structured.threads import PlanInterpreter


@dataclass(frozen=True, slots=True, eq=False)
class Extraction:
    """A plan as the program of a request: `pasta.decoding.program.Program`."""

    plan: Plan
    grammars: Grammars
    matchers: tuple[Matcher | None, ...]  # by value, at its beginning

    def interpreter(self, request: Request, engine: Engine) -> PlanInterpreter:
        matchers = [None if matcher is None else matcher.copy() for matcher in self.matchers]
        lead = engine.vocabulary.lead(request.prompt)
        return PlanInterpreter(self.plan, matchers, self.grammars, request.limits(engine), lead)

    def teller(self, state: RequestState) -> PlanTeller:
        return PlanTeller(state)

    def result(self, state: RequestState) -> StructuredResult:
        return build(state)


def make_structured_request(
    engine: Engine,
    prompt: Prompt,
    schema: Any,
    params: SamplingParams | None = None,
    *,
    mode: str = "parallel",
    after: After | None = None,
    raw: bool = False,
    cache_salt: str | None = None,
    **options: Unpack[Options],
) -> Request:
    """Checks all that can be wrong before anything is decoded.

    `schema` is a JSON schema, a pydantic model, or a plan that was compiled from one.
    """
    request = make_request(engine, prompt, params, raw=raw, cache_salt=cache_salt, **options)
    if request.params.stop or request.params.stop_token_ids:
        raise UsageError("a schema ends its answer by itself: stop and stop_token_ids cannot be had with one")
    plan = schema if isinstance(schema, Plan) else compile_schema(schema, mode=mode, after=after)
    lead = engine.vocabulary.lead(request.prompt)
    return replace(request, program=program(plan, Grammars.of(engine.vocabulary), lead))


def program(plan: Plan, grammars: Grammars, lead: str = "") -> Extraction:
    """Compiles the grammar of every value; `SchemaError` names what the library cannot enforce, and where."""
    matchers: list[Matcher | None] = []
    for value in plan.values:
        matcher = None
        if value.text is None:
            matcher = grammars.compile(value.schema, value.lead if value.pointer else lead)
            if matcher.error:
                raise SchemaError(_reason(matcher.error), value.pointer)
        matchers.append(matcher)
    return Extraction(plan, grammars, tuple(matchers))


def _reason(error: str) -> str:
    """The library's own words, without the grammar around them."""
    lines = [line.strip() for line in error.split("\n")]
    return lines[0].partition("failed to compile JSON schema: ")[2] or lines[0]
