"""`extract`: an answer as an object of a given shape, its fields decoded at the same time."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack, cast, overload

from pasta.core.commands import MAIN
from pasta.core.params import Options, SamplingParams
from pasta.decoding.api import HasEngine, Several, Stream, arun, engine_of, run
from pasta.decoding.events import Ended, Forked, TextWritten
from pasta.decoding.prompts import Prompt, are_several, check_one, make_params
from pasta.errors import PastaError, UsageError
from pasta.structured.instructions import fitting, show_schema
from pasta.structured.plan import Kind
from pasta.structured.planner import After
from pasta.structured.request import Extraction, make_structured_request
from pasta.structured.result import Field, StructuredResult
from pasta.structured.schema import check_bounds
from pasta.structured.threads import CUT
from pasta.structured.trial import AUTO, run_auto

if TYPE_CHECKING:
    from pasta.decoding.request import Request
    from pasta.decoding.results import Result
    from pasta.engine.base import Engine

OPEN = "{"  # what a thread says that decides whether an object is there
MAX_SHAPES = 64  # of classes that are kept
T = TypeVar("T")


class Incomplete(PastaError):
    """A limit cut the answer before all of its values were there. `result` holds those that were."""

    def __init__(self, result: StructuredResult):
        names = ", ".join(pointer or "the whole" for pointer in result.missing[:5])
        more = "" if len(result.missing) <= 5 else f" and {len(result.missing) - 5} more"
        super().__init__(
            f"a limit cut the answer: {names}{more} missing",
            hint="raise max_tokens or the limit of a value, or have it closed there (at_limit)",
        )
        self.result = result


class Invalid(PastaError):
    """The answer follows the schema, and the type's own checks refuse it."""

    def __init__(self, result: StructuredResult, why: Exception):
        said = " ".join(str(why).split())
        super().__init__(
            f"the answer {result.text:.200} is refused: {said:.300}", hint="ask again, or loosen the checks"
        )
        self.result = result


@dataclass(frozen=True, slots=True)
class Shape(Generic[T]):
    """What an answer must be: a JSON schema, and what makes a Python object of its value."""

    schema: Any
    read: Callable[[StructuredResult], T]

    @classmethod
    def of(cls, schema: Any) -> Shape[Any]:
        """Of a JSON schema, whose answers stay as they are, or of a type that pydantic knows."""
        if isinstance(schema, Mapping | bool):
            check_bounds(schema)
            return Shape(schema, lambda result: result.value)
        return _shape_of_class(schema) if isinstance(schema, type) else _shape_of(schema)

    def value(self, result: Result) -> T:
        assert isinstance(result, StructuredResult)
        if not result.complete:
            raise Incomplete(result)
        return self.read(result)


def _shape_of(schema: Any) -> Shape[Any]:
    """Of a type that pydantic knows."""
    if isinstance(schema, str):
        raise UsageError(f"the schema is the text {schema!r:.60}, expected a mapping or a type", "read it: json.loads")
    try:
        from pydantic import TypeAdapter, ValidationError
        from pydantic.errors import PydanticUserError
    except ImportError:
        raise UsageError(
            f"a schema is a mapping, or a type that pydantic knows, not {schema!r:.80}", "pip install pydantic"
        ) from None
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(schema)
        told = adapter.json_schema()
    except PydanticUserError as error:
        raise UsageError(f"pydantic has no JSON schema for {schema!r:.80}: {str(error).splitlines()[0]}") from None

    def read(result: StructuredResult) -> Any:
        try:
            return adapter.validate_json(result.text)
        except ValidationError as error:
            raise Invalid(result, error) from error

    return Shape(told, read)


_shape_of_class = lru_cache(MAX_SHAPES)(_shape_of)  # asking pydantic takes as long as encoding a prompt


@overload
def extract(
    model: HasEngine | Engine,
    prompt: Several,
    schema: type[T],
    params: SamplingParams | None = None,
    *,
    mode: str = "parallel",
    after: After | None = None,
    at_limit: str = CUT,
    show: bool = True,
    raw: bool = False,
    cache_salt: str | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> list[T]: ...
@overload
def extract(
    model: HasEngine | Engine,
    prompt: Prompt,
    schema: type[T],
    params: SamplingParams | None = None,
    *,
    mode: str = "parallel",
    after: After | None = None,
    at_limit: str = CUT,
    show: bool = True,
    raw: bool = False,
    cache_salt: str | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> T: ...
@overload
def extract(
    model: HasEngine | Engine,
    prompt: Prompt | Several,
    schema: Any,
    params: SamplingParams | None = None,
    *,
    mode: str = "parallel",
    after: After | None = None,
    at_limit: str = CUT,
    show: bool = True,
    raw: bool = False,
    cache_salt: str | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> Any: ...
def extract(
    model: HasEngine | Engine,
    prompt: Prompt | Several,
    schema: Any,
    params: SamplingParams | None = None,
    *,
    mode: str = "parallel",
    after: After | None = None,
    at_limit: str = CUT,
    show: bool = True,
    raw: bool = False,
    cache_salt: str | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> Any:
    """Answers a prompt with an object, or each prompt of a list, in the same steps.

    Args:
        model: From `load`. Any model: nothing has to be trained.
        prompt: A text, a conversation (a list of `role` and `content`), token ids, or a list of these.
        schema: A pydantic model, or any type that pydantic knows: then the answer is an object of it. A JSON schema, as
            a mapping: then it is what JSON gives.
        params: How to decode; the options, fields of `SamplingParams` by name, override it.
        mode: `parallel` decodes fields at the same time; `lead` the first and then the others, which see it;
            `leftover` those that are required and then the optional ones, each seeing all of these; `sequential` one
            after another, each seeing those before it; `checked` gives the sequential answer in fewer steps;
            `auto`, for many prompts, decodes the first ten in parallel and sequentially, and the rest by how far the
            two agree.
        after: By field: others that it needs, waits for and sees. `{"tax": ["total"]}`; or `x-after` in the schema.
        at_limit: What becomes of values that a limit leaves unfinished. `cut`: an error names them. `close`: they are
            completed, as shortly as the schema allows, and `result.closed` names them. What no text is found for is
            missing.
        show: Tell the model the schema, in a system message. Token ids and raw text are taken as they stand.
        raw: Take a text to the letter, without the model's chat template.
        cache_salt: Requests of one salt share the keys and values of what their prompts begin with.
        chat_template_kwargs: Variables of the model's chat template, such as `{"enable_thinking": False}`.

    Example:
        >>> pasta.extract(model, "Ada is 36.", {"type": "object", "properties": {"age": {"type": "integer"}}})
    """
    engine = engine_of(model)
    shape = Shape.of(schema)
    several = are_several(prompt)
    prompts = cast(Sequence[Prompt], prompt if several else [prompt])
    how: _How = {
        "mode": mode, "after": after, "at_limit": at_limit, "show": show, "raw": raw, "cache_salt": cache_salt,
        "chat_template_kwargs": chat_template_kwargs,
    }  # fmt: skip

    def ask(each: Prompt, mode: str) -> Request:
        return _make_request(engine, each, shape, params, {**how, "mode": mode}, options)

    results = run_auto(engine, prompts, ask) if mode == AUTO else run(engine, [ask(each, mode) for each in prompts])
    values = [shape.value(result) for result in results]
    return values if several else values[0]


async def aextract(
    model: HasEngine | Engine,
    prompt: Prompt,
    schema: Any,
    params: SamplingParams | None = None,
    *,
    mode: str = "parallel",
    after: After | None = None,
    at_limit: str = CUT,
    show: bool = True,
    raw: bool = False,
    cache_salt: str | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> Any:
    """`extract` of one prompt for asyncio: tasks share the engine's steps, and a cancelled task frees what it held.

    Example:
        >>> people = await asyncio.gather(*(pasta.aextract(model, text, Person) for text in texts))
    """
    engine = engine_of(model)
    check_one(prompt, "aextract")
    shape = Shape.of(schema)
    how: _How = {
        "mode": mode, "after": after, "at_limit": at_limit, "show": show, "raw": raw, "cache_salt": cache_salt,
        "chat_template_kwargs": chat_template_kwargs,
    }  # fmt: skip
    return shape.value(await arun(engine, _make_request(engine, prompt, shape, params, how, options)))


def extract_stream(
    model: HasEngine | Engine,
    prompt: Prompt,
    schema: Any,
    params: SamplingParams | None = None,
    *,
    mode: str = "parallel",
    after: After | None = None,
    at_limit: str = CUT,
    show: bool = True,
    raw: bool = False,
    cache_salt: str | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> Extracting:
    """`extract`, field by field as they are done.

    Example:
        >>> answer = pasta.extract_stream(model, "Ada is 36, from London.", Person)
        >>> for field in answer:
        ...     print(field.pointer, field.value)
        >>> answer.value, answer.result.steps
    """
    engine = engine_of(model)
    check_one(prompt, "extract_stream")
    shape = Shape.of(schema)
    how: _How = {
        "mode": mode, "after": after, "at_limit": at_limit, "show": show, "raw": raw, "cache_salt": cache_salt,
        "chat_template_kwargs": chat_template_kwargs,
    }  # fmt: skip
    return Extracting(engine, _make_request(engine, prompt, shape, params, how, options), shape)


class Extracting:
    """An object on its way: iterate over its fields, in the order in which they are done.

    `steps` has the same step by step, for those who want to watch. Ending the iteration early, or leaving the object's
    context, cancels the request.
    """

    def __init__(self, engine: Engine, request: Request, shape: Shape[Any]):
        assert isinstance(request.program, Extraction)
        self.steps = Stream(engine, request)
        self._shape = shape
        self._values = {value.pointer: value for value in request.program.plan.values}

    @property
    def result(self) -> StructuredResult:
        """How it came about: steps, tokens, seconds, threads, and every field. Waits for the end."""
        return cast(StructuredResult, self.steps.result)

    @property
    def value(self) -> Any:
        """The whole, checked. Waits for the end."""
        return self._shape.value(self.result)

    def __iter__(self) -> Iterator[Field]:
        pointers, texts, tokens = {MAIN: ""}, defaultdict[int, str](str), Counter[int]()
        told: set[str] = set()
        for output in self.steps:
            for event in output.events:
                match event:
                    case Forked(_, thread, pointer):
                        pointers[thread] = pointer
                    case TextWritten(thread, text, count):
                        texts[thread] += text
                        tokens[thread] += count
                    case Ended(thread, "stop" | "closed" as how) if texts[thread].strip() not in ("", OPEN):
                        value, text = self._values[pointers[thread]], texts[thread].strip()
                        if value.kind is Kind.COUNT:  # of elements, which are told by themselves
                            continue
                        said = None if value.optional and text == "null" else text
                        found = None if said is None else json.loads(said)
                        told.add(value.pointer)
                        yield Field(value.pointer, said, found, thread, tokens[thread], True, how == "closed")
        for field in self.result.fields:  # what the schema says by itself
            if field.complete and field.pointer not in told:
                yield field

    def __enter__(self) -> Extracting:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.steps.close()


class _How(TypedDict):
    """What the three ways of asking share."""

    mode: str
    after: After | None
    at_limit: str
    show: bool
    raw: bool
    cache_salt: str | None
    chat_template_kwargs: Mapping[str, Any] | None


def _make_request(
    engine: Engine, prompt: Prompt, shape: Shape[Any], params: SamplingParams | None, how: _How, options: Options
) -> Request:
    given = make_params(params, options)
    for name, asked in (("n", given.n != 1), ("logprobs", given.logprobs is not None)):
        if asked:
            raise UsageError(f"{name} is {getattr(given, name)}, and an object has none", hint="leave it out")
    shown = _shown(engine, prompt, shape, how["show"] and not how["raw"])
    return make_structured_request(
        engine,
        shown,
        shape.schema,
        given,
        mode=how["mode"],
        after=how["after"],
        at_limit=how["at_limit"],
        raw=how["raw"],
        cache_salt=how["cache_salt"],
        chat_template_kwargs=how["chat_template_kwargs"],
    )


def _shown(engine: Engine, prompt: Prompt, shape: Shape[Any], show: bool) -> Prompt:
    """The prompt with the schema, as far as it is words."""
    if isinstance(prompt, str):
        if not show or not prompt.strip():
            return prompt
        prompt = [{"role": "user", "content": prompt}]
    if not show or not isinstance(prompt, Sequence) or not prompt or not isinstance(prompt[0], Mapping):
        return prompt
    given = cast(Sequence[Mapping[str, Any]], prompt)
    return fitting(engine.vocabulary, given, show_schema(given, shape.schema))
