"""What people call: `generate`, `stream` and their kin, for one caller or many at once."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Protocol, Unpack, cast, overload

from pasta.core.params import Options, SamplingParams
from pasta.core.tree import Tree
from pasta.decoding.events import StepOutput
from pasta.decoding.prompts import Message, Prompt, are_several, check_one, make_params, make_request, replay_options
from pasta.decoding.request import Request, RequestState
from pasta.decoding.results import Result
from pasta.decoding.runner import Runner, Update, runner_of
from pasta.engine.base import Engine
from pasta.errors import UsageError


class HasEngine(Protocol):
    """A `Model`."""

    @property
    def engine(self) -> Engine: ...


Several = list[str] | Sequence[Sequence[Message]] | Sequence[Sequence[int]]


@overload
def generate(
    model: HasEngine | Engine,
    prompt: Several,
    params: SamplingParams | None = None,
    *,
    raw: bool = False,
    cache_salt: str | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> list[Result]: ...
@overload
def generate(
    model: HasEngine | Engine,
    prompt: Prompt,
    params: SamplingParams | None = None,
    *,
    raw: bool = False,
    cache_salt: str | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> Result: ...
def generate(
    model: HasEngine | Engine,
    prompt: Prompt | Several,
    params: SamplingParams | None = None,
    *,
    raw: bool = False,
    cache_salt: str | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> Result | list[Result]:
    """Answers a prompt, or each prompt of a list, in the same steps.

    Args:
        model: From `load` or `connect`. Many threads may use one model at the same time.
        prompt: A question, a conversation (a list of `role` and `content`), token ids, or a list of these.
        params: How to decode; the options, fields of `SamplingParams` by name, override it.
        raw: Take a text to the letter, without the model's chat template.
        cache_salt: Requests of one salt share the keys and values of what their prompts begin with; None with nobody.
        chat_template_kwargs: Variables of the model's chat template, such as `{"enable_thinking": False}`.

    Example:
        >>> model = pasta.load()
        >>> pasta.generate(model, "Name three fruits.", max_tokens=64).text
    """
    several = are_several(prompt)
    prompts = cast(Sequence[Prompt], prompt if several else [prompt])
    results = generate_all(
        model, prompts, params, raw=raw, cache_salt=cache_salt, chat_template_kwargs=chat_template_kwargs, **options
    )
    return results if several else results[0]


def generate_all(
    model: HasEngine | Engine,
    prompts: Sequence[Prompt],
    params: SamplingParams | None = None,
    *,
    raw: bool = False,
    cache_salt: str | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> list[Result]:
    """Answers many prompts at once. All share the options; with `n`, each result has that many `choices`.

    Example:
        >>> [result.text for result in pasta.generate_all(model, ["What is tea?", "What is coffee?"])]
    """
    engine = engine_of(model)
    if isinstance(prompts, str | Mapping) or not any(hasattr(prompts, way) for way in ("__iter__", "__getitem__")):
        raise UsageError(f"generate_all takes a list of prompts, not {prompts!r:.40}", "for one, call generate")
    shared = make_params(params, options)
    asked = [
        make_request(engine, prompt, shared, raw=raw, cache_salt=cache_salt, chat_template_kwargs=chat_template_kwargs)
        for prompt in prompts
    ]
    requests = [choice for request in asked for choice in _choices(request)]
    results = run(engine, requests)
    if shared.n == 1:
        return results
    groups = [tuple(results[start : start + shared.n]) for start in range(0, len(results), shared.n)]
    return [replace(group[0], choices=group) for group in groups]


def stream(
    model: HasEngine | Engine,
    prompt: Prompt,
    params: SamplingParams | None = None,
    *,
    raw: bool = False,
    cache_salt: str | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> Stream:
    """Answers a prompt step by step. The texts of the steps, one after another, are the answer.

    Example:
        >>> for step in pasta.stream(model, "Name three fruits."):
        ...     print(step.text, end="", flush=True)
    """
    engine, params = engine_of(model), make_params(params, options)
    check_one(prompt, "stream", params.n)
    request = make_request(
        engine, prompt, params, raw=raw, cache_salt=cache_salt, chat_template_kwargs=chat_template_kwargs
    )
    return Stream(engine, request)


async def agenerate(
    model: HasEngine | Engine,
    prompt: Prompt,
    params: SamplingParams | None = None,
    *,
    raw: bool = False,
    cache_salt: str | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> Result:
    """`generate` for asyncio: tasks share the engine's steps, and a cancelled task frees what it held.

    Example:
        >>> answers = await asyncio.gather(*(pasta.agenerate(model, question) for question in questions))
    """
    engine = engine_of(model)
    check_one(prompt, "agenerate")
    request = make_request(
        engine, prompt, params, raw=raw, cache_salt=cache_salt, chat_template_kwargs=chat_template_kwargs, **options
    )
    tasks = [asyncio.create_task(arun(engine, choice)) for choice in _choices(request)]
    try:
        first, *others = await asyncio.gather(*tasks)
    finally:
        for task in tasks:  # where one fails, the others too
            task.cancel()
    return replace(first, choices=(first, *others)) if others else first


async def astream(
    model: HasEngine | Engine,
    prompt: Prompt,
    params: SamplingParams | None = None,
    *,
    raw: bool = False,
    cache_salt: str | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> AsyncIterator[StepOutput]:
    """`stream` for asyncio.

    Example:
        >>> async for step in pasta.astream(model, "Name three fruits."):
        ...     print(step.text, end="", flush=True)
    """
    engine, params = engine_of(model), make_params(params, options)
    check_one(prompt, "astream", params.n)
    request = make_request(
        engine, prompt, params, raw=raw, cache_salt=cache_salt, chat_template_kwargs=chat_template_kwargs
    )
    asked = _Asked(engine, request, watched=True)
    try:
        async for output in asked:
            yield output
    finally:
        asked.close()


def replay(
    model: HasEngine | Engine,
    prompt: Prompt,
    tree: Tree,
    params: SamplingParams | None = None,
    **options: Unpack[Options],
) -> Result:
    """Decodes with the tokens of a given response in place of the model's choices, threads and all.

    Example:
        >>> first = pasta.generate(model, "Name three fruits.")
        >>> pasta.replay(model, "Name three fruits.", first.tree, sequential=True).wall_s
    """
    engine = engine_of(model)
    check_one(prompt, "replay")
    if tree is None:  # a record that was not found, say: without a script the model would answer
        raise UsageError("the response is None, expected tokens of this model's", "pass the tree of a result")
    request = make_request(engine, prompt, params, script=tree, **replay_options(options))
    return run(engine, [request], watched=True)[0]


def engine_of(model: HasEngine | Engine) -> Engine:
    engine = model.engine if hasattr(model, "engine") else model
    if not hasattr(engine, "vocabulary"):
        raise UsageError(f"the model is {model!r:.60}, expected a loaded one", "pass what pasta.load() gives")
    return engine


# -- the ways of waiting ----------------------------------------------------------------------------------


def run(engine: Engine, requests: Sequence[Request], *, watched: bool = False) -> list[Result]:
    """Runs requests to their end; whatever goes wrong, nothing of theirs stays in the engine."""
    runner = runner_of(engine)
    states = runner.submit(requests, (lambda _, update: None) if watched else None)
    try:
        for state in states:
            state.done.wait()
    except BaseException:
        runner.cancel(states)
        raise
    return [state.result() for state in states]


async def arun(engine: Engine, request: Request) -> Result:
    """The same of one request, for asyncio; a cancelled task frees what it held."""
    return await _Asked(engine, request).result()


class Stream:
    """An answer on its way: iterate over its steps. `result` is the whole of it, once it has ended.

    Closing it (from any thread), leaving its context, or letting go of it cancels the request.
    """

    def __init__(self, engine: Engine, request: Request):
        self._state: RequestState | None = None  # None: nobody has asked for a step yet
        self._closed = False  # nothing more is told
        self._begins = threading.Lock()
        self._runner: Runner = runner_of(engine)
        self._updates: queue.SimpleQueue[Update] = queue.SimpleQueue()
        self._request = request

    @property
    def result(self) -> Result:
        """Waits for the end where it has not come yet."""
        for _ in self:
            pass
        if self._state is None:
            raise UsageError("the stream was closed before its answer began", "read the result before closing it")
        self._state.done.wait()  # whoever closes it in another thread does not wait for us
        return self._state.result()

    def __iter__(self) -> Iterator[StepOutput]:
        return self

    def __next__(self) -> StepOutput:
        if self._closed:
            raise StopIteration
        try:
            self._begin()
            update = self._updates.get()
        except BaseException:  # an interrupt
            self.close()
            raise
        if isinstance(update, StepOutput) and not self._closed:
            return update
        if isinstance(update, RequestState):
            self._updates.put(update)  # for whoever else waits for a step
            closed, self._closed = self._closed, True
            if update.error is not None and not closed:
                raise update.error
        raise StopIteration

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the answer, in whichever thread it is read. Then nothing of it is in the engine."""
        self._closed = True
        if self._state is not None:
            self._runner.cancel([self._state])
            self._runner.wait(self._state)

    def __del__(self) -> None:
        if self._state is not None:
            self._runner.cancel([self._state])  # no waiting: it may be any thread whose garbage this is

    def _begin(self) -> None:
        with self._begins:
            if self._state is None:
                put = self._updates.put  # the runner holds what listens: it must not hold the stream
                [self._state] = self._runner.submit([self._request], lambda _, update: put(update))
        if self._closed:  # meanwhile
            self._runner.cancel([self._state])


class _Asked:
    """A request whose updates come to an event loop."""

    def __init__(self, engine: Engine, request: Request, *, watched: bool = False):
        loop = asyncio.get_running_loop()
        self._runner = runner_of(engine)
        self._updates: asyncio.Queue[Update] = asyncio.Queue()

        def tell(_: int, update: Update) -> None:
            if watched or isinstance(update, RequestState):  # with stop strings, steps are told all the same
                loop.call_soon_threadsafe(self._updates.put_nowait, update)

        self._states = self._runner.submit([request], tell, watched=watched)

    async def result(self) -> Result:
        try:
            async for _ in self:
                pass
            return self._states[0].result()
        finally:
            self.close()

    async def __aiter__(self) -> AsyncIterator[StepOutput]:
        while isinstance(update := await self._updates.get(), StepOutput):
            yield update
        if update.error is not None:
            raise update.error

    def close(self) -> None:
        self._runner.cancel(self._states)


def _choices(request: Request) -> list[Request]:
    """A request for each of the `n` answers, which differ in their seed."""
    params = request.params
    return [replace(request, params=replace(params, seed=params.seed + choice, n=1)) for choice in range(params.n)]
