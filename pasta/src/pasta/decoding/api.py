"""Drives the interpreter over an engine: one answer, a stream, many requests at once, or a replay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pasta.core.interpreter import Limits
from pasta.core.params import SamplingParams
from pasta.core.positions import Positions, check_unit
from pasta.core.tree import Tree, flatten
from pasta.decoding.events import StepOutput
from pasta.decoding.results import Result
from pasta.decoding.state import Job, Request
from pasta.engine.base import Engine
from pasta.errors import PastaError, UsageError

Prompt = str | Sequence[Mapping[str, str]] | Sequence[int]  # a question, a conversation, or token ids


class Decoder:
    """Runs many requests over one engine, all in the same steps. Requests come and go at any step.

    With `watched=False` nothing is told of the steps: no moments, no texts as they come, and no stop strings.
    Bulk runs want only results, and telling costs more than decoding.
    """

    def __init__(self, engine: Engine, *, watched: bool = True):
        self.engine = engine
        self.watched = watched
        self._jobs: dict[Job, int] = {}  # and how many of its threads are in the table below
        self._threads: dict[Any, tuple[Job, int]] = {}

    def submit(self, request: Request) -> Job:
        """Takes a request in; its prompt runs in the next step."""
        job = Job(request, self.engine)
        job.open()
        self._jobs[job] = 0
        self._know(job)
        return job

    def step(self) -> list[tuple[Job, StepOutput]]:
        """Runs one step of the engine; returns what it did for each request that took part."""
        decoded: dict[Job, list[tuple[int, int]]] = {}
        for handle, token, _ in self.engine.step():
            if handle in self._threads:  # else it ended while the step was under way
                job, thread = self._threads[handle]
                tokens = decoded.setdefault(job, [])
                if isinstance(token, PastaError):
                    job.error = token
                else:
                    tokens.append((thread, token))
        for job, tokens in decoded.items():
            try:
                job.advance(tokens)
            except PastaError as error:
                job.error = error
            self._know(job)
            if job.finished:
                self._drop(job)
        self.engine.launch()
        moments: list[tuple[Job, StepOutput]] = []
        for job in decoded:
            if not self.watched:
                job.forget()
            elif job.error is None:
                moments.append((job, job.report()))
                if job.finished:
                    self._drop(job)
        return moments

    def cancel(self, job: Job) -> None:
        """Ends a request at once and frees what it holds."""
        if job in self._jobs:
            job.interpreter.stop("cancelled")
        self._drop(job)

    @property
    def busy(self) -> bool:
        return bool(self._jobs)

    def _know(self, job: Job) -> None:
        known = self._jobs[job]
        if known < len(job.handles):  # a thread's number is its place among the handles
            for thread in range(known, len(job.handles)):
                self._threads[job.handles[thread]] = (job, thread)
            self._jobs[job] = len(job.handles)

    def _drop(self, job: Job) -> None:
        if job not in self._jobs:
            return
        del self._jobs[job]
        for handle in job.handles.values():
            self._threads.pop(handle, None)
        self.engine.close(job.handle)


# -- what people call -----------------------------------------------------------------------------------


def generate(model: Engine, prompt: Prompt, **options: Any) -> Result:
    """Answers a prompt.

    Args:
        model: From `load`.
        prompt: A question, a conversation (a list of `role` and `content`), or token ids.
        **options: `max_new_tokens`, `max_threads`, `max_thread_tokens`, `max_depth`, `sequential`,
            `temperature`, `top_k`, `top_p`, `min_p`, `repetition_penalty`, `seed`, `parallelism`, `stop`, `positions`.
            `max_depth` is 1: children fork no further, since models are seldom taught to; 0 is sequential.
    """
    return generate_all(model, [prompt], **options)[0]


def generate_all(model: Engine, prompts: Sequence[Prompt], **options: Any) -> list[Result]:
    """Answers many prompts at once, in the same steps. All share the options."""
    requests = [make_request(model, prompt, **options) for prompt in prompts]
    return [job.result() for job in _run(model, requests)]


def stream(model: Engine, prompt: Prompt, **options: Any) -> Iterator[StepOutput]:
    """Answers a prompt step by step. The texts of the moments, one after another, are the answer.

    Ending the iteration early cancels the request.
    """
    return stream_request(model, make_request(model, prompt, **options))


def replay(model: Engine, prompt: Prompt, tree: Tree, **options: Any) -> Result:
    """Decodes with the tokens of a given response in place of the model's choices, threads and all."""
    request = make_request(model, prompt, script=tree, **_unlimited(tree, options))
    return _run(model, [request])[0].result()


def _run(model: Engine, requests: Sequence[Request]) -> list[Job]:
    """Runs requests to their end; whatever goes wrong, nothing of theirs stays in the engine."""
    decoder = Decoder(model)
    jobs: list[Job] = []
    try:
        for request in requests:
            jobs.append(decoder.submit(request))
        while decoder.busy:
            decoder.step()
    finally:
        for job in jobs:
            decoder.cancel(job)
    return jobs


def stream_request(model: Engine, request: Request, job_out: list[Job] | None = None) -> Iterator[StepOutput]:
    """Like `stream`, for a request made beforehand; `job_out` receives the job, whose result holds the rest."""
    decoder = Decoder(model)
    job = decoder.submit(request)
    if job_out is not None:
        job_out.append(job)
    try:
        while decoder.busy:
            for _, moment in decoder.step():
                yield moment
        if job.error is not None:
            raise job.error
    finally:
        decoder.cancel(job)


def make_request(
    model: Engine,
    prompt: Prompt,
    *,
    max_new_tokens: int = 512,
    max_threads: int = 16,
    max_thread_tokens: int = 512,
    max_depth: int = 1,
    sequential: bool = False,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    seed: int = 0,
    parallelism: float = 0.0,
    repetition_penalty: float = 1.0,
    stop: str | Sequence[str] = (),
    positions: Positions | str | None = None,
    script: Tree | None = None,
    scope: str | None = None,
) -> Request:
    """Checks and gathers what `generate` and `stream` take."""
    ids = encode_prompt(model, prompt)
    for name, value in (
        ("max_new_tokens", max_new_tokens),
        ("max_threads", max_threads),
        ("max_thread_tokens", max_thread_tokens),
    ):
        if value < 1:
            raise UsageError(f"{name} is {value}, expected 1 or more")
    if isinstance(positions, str):
        positions = Positions.parse(positions)
    if positions is not None and positions.gap is None:
        check_unit(positions, model.vocabulary)
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    return Request(
        prompt=ids,
        sampling=SamplingParams(temperature, top_k, top_p, min_p, seed, parallelism, repetition_penalty),
        limits=Limits(max_new_tokens, max_threads, max_thread_tokens, 0 if sequential else max_depth, model.context),
        positions=positions or model.positions,
        stop=tuple(text for text in stops if text),
        script=script,
        scope=scope,
    )


def encode_prompt(model: Engine, prompt: Prompt) -> tuple[int, ...]:
    if isinstance(prompt, str):
        if not prompt.strip():
            raise UsageError("the prompt is empty", hint="pass a question")
        ids = model.vocabulary.encode_chat([{"role": "user", "content": prompt}])
    elif prompt and isinstance(prompt[0], Mapping):
        ids = model.vocabulary.encode_chat(prompt)  # type: ignore[arg-type]
    else:
        ids = [int(token) for token in prompt]  # type: ignore[arg-type]
    if not ids:
        raise UsageError("the prompt is empty", hint="pass a question")
    if len(ids) >= model.context - 1:
        raise UsageError(
            f"the prompt is {len(ids)} tokens long, but the context of {model.name or 'the model'} is {model.context}",
            hint="shorten the prompt",
        )
    return tuple(ids)


def _unlimited(tree: Tree, options: Mapping[str, Any]) -> dict[str, Any]:
    """A script has its own end: no limit but those asked for may cut it."""
    length = sum(1 for _ in flatten(tree)) + 2
    return {"max_new_tokens": length, "max_thread_tokens": length, "max_depth": 100, **options}
