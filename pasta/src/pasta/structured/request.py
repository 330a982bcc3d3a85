"""From a prompt and a schema to a request that runs among others."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Unpack

from pasta.core.params import Options, SamplingParams
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.prompts import Prompt, make_request
from pasta.decoding.request import Request, RequestState
from pasta.engine.base import Engine
from pasta.errors import UsageError
from pasta.structured.checked import Apart, CheckedInterpreter
from pasta.structured.errors import SchemaError
from pasta.structured.lane import Beginning, begin
from pasta.structured.matcher import Grammars, Matcher
from pasta.structured.plan import Kind, Plan, Value
from pasta.structured.planner import CHECKED, After, check_after, compile_schema
from pasta.structured.result import StructuredResult, build
from pasta.structured.schema import as_schema, check_bounds
from pasta.structured.telling import PlanTeller
from pasta.structured.text import context
from pasta.structured.threads import AT_LIMIT, CUT, PlanInterpreter

_LOCK = threading.Lock()
MAX_KEPT = 64  # schemas that are kept compiled, for each vocabulary
KEYS = "say of keys a length, a pattern or an enum, one of them alone; or leave it out, and check it afterwards"


@dataclass(frozen=True, slots=True, eq=False)
class Extraction:
    """A plan as the program of a request: `pasta.decoding.program.Program`."""

    plan: Plan
    grammars: Grammars
    lead: str  # what the answer's tokens begin with: `Vocabulary.lead`
    matchers: tuple[Matcher | None, ...]  # by value, at its beginning
    known: Mapping[int, Beginning]  # of the values that see no other
    at_limit: str = CUT  # what becomes of values that a limit leaves unfinished
    apart: Apart | None = None  # how values are guessed, where they are

    def interpreter(self, request: Request, engine: Engine) -> PlanInterpreter:
        limits = request.limits(engine)
        given = (self.plan, self.matchers, self.known, self.grammars, limits, self.lead, self.at_limit)
        if self.apart is None or not checks(engine, request.params):
            return PlanInterpreter(*given)
        return CheckedInterpreter(*given, apart=self.apart)

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
    arrays: str = "sequential",
    at_limit: str = CUT,
    raw: bool = False,
    cache_salt: str | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> Request:
    """Checks all that can be wrong before anything is decoded.

    `schema` is a JSON schema, a pydantic model, or a plan that was compiled from one. `at_limit`: what becomes of a
    value that a limit leaves unfinished. `cut`: it is missing. `close`: it is completed, as shortly as the schema lets
    it, unless no such text is found; then `max_tokens` counts all that is decoded.
    """
    request = make_request(
        engine, prompt, params, raw=raw, cache_salt=cache_salt, chat_template_kwargs=chat_template_kwargs, **options
    )
    if request.params.stop or request.params.stop_token_ids:
        raise UsageError("a schema ends its answer by itself: stop and stop_token_ids cannot be had with one")
    lead = engine.vocabulary.lead(request.prompt)
    handed = handed_by(engine)
    made = make_program(engine.vocabulary, schema, mode=mode, after=after, arrays=arrays, lead=lead, handed=handed)
    return replace(request, program=replace(made, at_limit=check_at_limit(at_limit)))


def checks(engine: Engine, params: SamplingParams) -> bool:
    """Whether guesses can be looked at: else an answer that might have them is decoded without, and is the same."""
    return engine.masks and engine.row_cost is not None and params.greedy and not params.sequential


def check_at_limit(at_limit: str) -> str:
    if at_limit not in AT_LIMIT:
        raise UsageError(f"unknown at_limit {at_limit!r}", hint=f"use one of {', '.join(AT_LIMIT)}")
    return at_limit


def handed_by(engine: Engine) -> str:
    """What an engine tells its model's server of a value: its `grammar`, or its `json` schema; or nothing."""
    return "" if engine.masks else "grammar" if engine.grammars else "json"


def make_program(
    vocabulary: Vocabulary,
    schema: Any,
    *,
    mode: str = "parallel",
    after: After | None = None,
    arrays: str = "sequential",
    lead: str = "",
    handed: str = "",
) -> Extraction:
    """What a request's `program` is; `lead` is the vocabulary's own, for the prompt. It runs in any thread.

    `handed`: what of a value goes to the model's server: see `handed_by`.
    `SchemaError` names what cannot be enforced, and where.
    """
    grammars = Grammars.of(vocabulary)
    if isinstance(schema, Plan):
        return program(schema, grammars, lead, handed)
    schema, after = as_schema(schema), check_after(after)
    try:
        key = json.dumps([schema, mode, after, arrays, lead, handed])
    except (TypeError, ValueError, RecursionError):  # no JSON, or without an end: said below
        check_bounds(schema)
        raise
    with _LOCK:
        found = grammars.programs.pop(key, None)
    if found is None:
        found = program(compile_schema(schema, mode=mode, after=after, arrays=arrays), grammars, lead, handed)
        if mode == CHECKED and not handed:
            apart = program(compile_schema(schema, after=after), grammars, lead)
            found = replace(found, apart=Apart(apart.plan, apart.known))
    with _LOCK:
        grammars.programs[key] = found  # the one that was asked for last is last
        if len(grammars.programs) > MAX_KEPT:
            del grammars.programs[next(iter(grammars.programs))]
    return found


def program(plan: Plan, grammars: Grammars, lead: str = "", handed: str = "") -> Extraction:
    """The same of a plan."""
    matchers = tuple(_matcher(value, grammars, lead, handed) for value in plan.values)
    known = {}
    for value, matcher in zip(plan.values, matchers, strict=True):
        if matcher is not None and not value.sees and value.pointer:
            before = (lead + context(plan, value.index, {}, plan.order.index)).encode()
            known[value.index] = begin(value, matcher, before, b"", grammars)
            known[value.index].matcher.look_ahead()
    return Extraction(plan, grammars, lead, matchers, known)


def _matcher(value: Value, grammars: Grammars, lead: str, handed: str) -> Matcher | None:
    if value.kind is Kind.KNOWN:
        return None
    before = value.lead if value.pointer else lead
    matcher: Matcher
    if handed:
        matcher = grammars.hand_gate() if value.kind is Kind.GATE else grammars.hand(value.schema, handed)
    else:
        matcher = grammars.gate(before) if value.kind is Kind.GATE else grammars.compile(value.schema, before)
    if matcher.error:
        raise _refusal(matcher.error, value.pointer)
    return matcher


def _refusal(error: str, pointer: str) -> SchemaError:
    """The library's own words, without the grammar around them, with the keyword where it names one."""
    first = error.split("\n", 1)[0]
    reason = first.partition("failed to compile JSON schema: ")[2] or first
    if reason.startswith("oneOf"):
        return SchemaError("oneOf whose branches may overlap cannot be enforced", pointer, "oneOf", "say anyOf")
    if named := re.search(r'Unimplemented keys: \["([^"]+)"', reason):
        hint = KEYS if named[1] == "propertyNames" else "leave it out, and check it afterwards"
        return SchemaError(f"{named[1]} cannot be enforced", pointer, named[1], hint)
    if re.search(r"Failed to generate regex for (integer|float) range", reason):
        why = "minimum and maximum cannot be enforced so far from 0"
        return SchemaError(why, pointer, "minimum", "leave them out, and check them afterwards")
    hint = "say it in other words, or leave it out and check it afterwards"
    if told := re.search(r"regex parse error:\n    (.*)\n *\^+\nerror: (.*)", error):
        return SchemaError(f"the pattern {told[1]!r:.80} cannot be enforced: {told[2]}", pointer, "pattern", hint)
    if told := re.search(r"(.*) in regex /(.*)/$", reason):
        return SchemaError(f"the pattern {told[2]!r:.80} cannot be enforced: {told[1]}", pointer, "pattern", hint)
    if told := re.match(r"Unknown format: (.*)", reason):
        why = f"the format {told[1]!r} cannot be enforced"
        return SchemaError(why, pointer, "format", "leave it out, and check it afterwards")
    if reason.startswith("Unsatisfiable schema: Regex is empty"):
        return SchemaError("no text has all of its pattern, format and length", pointer)
    return SchemaError(reason.partition(": json-schema:")[0], pointer)  # without the place in a copy of the schema
