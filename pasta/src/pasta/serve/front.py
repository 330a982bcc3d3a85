"""From the bytes of a request to what the scheduler runs: JSON, names, limits, tokens."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pasta.core.vocabulary import Vocabulary
from pasta.decoding.prompts import make_request
from pasta.decoding.request import Request
from pasta.decoding.results import Result
from pasta.engine.base import Engine
from pasta.errors import PastaError
from pasta.serve.asked import Asked, MakeProgram, encode_messages, read_chat
from pasta.serve.course import Course, ToolCourse
from pasta.serve.errors import ApiError, from_validation
from pasta.serve.logprobs import Chosen, chosen_tokens
from pasta.serve.messages import Message
from pasta.serve.protocol import ChatBody, CompletionBody, Conversing, Options, TokenizeBody
from pasta.serve.settings import Settings
from pasta.serve.shape import check_shape
from pasta.structured.request import handed_by, make_program

T = TypeVar("T")
BodyT = TypeVar("BodyT", bound=BaseModel)

SHORT = 1 << 15  # bytes of a body that takes no time worth speaking of
MAX_FIELDS = 100


class Lane:
    """A thread that parses and encodes, with a tokenizer of its own.

    Encoding switches the tokenizer between text and templates: it must not meet the worker, which decodes with the
    engine's.
    """

    def __init__(self, vocabulary: Vocabulary, name: str):
        self.vocabulary = Vocabulary(copy.deepcopy(vocabulary.tokenizer), tuple(vocabulary.eos))
        self.vocabulary.rows = vocabulary.rows
        self.thread = ThreadPoolExecutor(1, name)

    async def run(self, work: Callable[[Vocabulary], T]) -> T:
        """Does the work beside the event loop. Work that has not begun when its client goes is never done."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, work, self.vocabulary)


class Front:
    """Checks what clients ask for, and encodes it.

    None of it happens on the event loop. Short bodies and long ones go different ways, so that whoever asks a question
    does not wait for whoever sends a book.
    """

    def __init__(self, engine: Engine, settings: Settings):
        self.engine = engine
        self.names = (engine.name, *settings.aliases)
        self._settings = settings
        self._slots = min(engine.pool.slots, engine.pool.slots_each)
        self._short = Lane(engine.vocabulary, "pasta-short")
        self._long = Lane(engine.vocabulary, "pasta-long")
        self._max_values = max(SHORT, 2 * engine.context)
        # No text with more characters than this can fit: a token stands for no more than the longest of them spells.
        longest = max(map(len, engine.vocabulary.tokenizer.get_vocab()), default=1)
        self._max_characters = self.max_model_len * longest

    @property
    def max_model_len(self) -> int:
        """The tokens that a prompt and its answer may have together."""
        return min(self.engine.context, self._slots)

    def close(self) -> None:
        for lane in (self._short, self._long):
            lane.thread.shutdown(cancel_futures=True)

    def lane(self, size: int) -> Lane:
        return self._short if size <= SHORT else self._long

    async def parse(self, data: bytes, kind: type[BodyT]) -> BodyT:
        """A body, checked."""
        return await self.lane(len(data)).run(lambda _: self._parse(data, kind))

    def check_model(self, name: str | None) -> None:
        if name is not None and name not in self.names:
            message = f"The model {name[:200]!r} does not exist; this server has {self.engine.name!r}"
            raise ApiError(404, message, param="model", code="model_not_found")

    async def chat(self, body: Conversing, owner: str | None) -> list[Course]:
        self.check_model(body.model)
        param = "messages" if isinstance(body, ChatBody) else "input"
        size = body.characters
        self._check_characters(size, param)
        variables, maker = self._variables(body), self._program_maker(body)
        asked = await self._encode(size, lambda vocabulary: read_chat(body, variables, vocabulary, maker))
        return self._courses(body, {param: asked}, owner)

    def prefetch(self, body: Conversing, salt: str, result: Result, prefetch: Callable[[Request], None]) -> None:
        """Has an answer's text computed as part of the next turn's prompt, while its reader reads.

        Only where it forked: otherwise its keys and values are those of a prompt, and are there already.
        """
        if len(result.threads) > 1 and not body.structured:
            answer = {"role": "assistant", "content": result.text}

            def encode() -> None:
                messages = [*body.conversation(), answer]
                with contextlib.suppress(PastaError):  # too long, or not to the template's taste: then nothing is ready
                    ids = encode_messages(self._long.vocabulary, messages, self._variables(body))
                    prefetch(make_request(self.engine, ids, max_tokens=1, plain=True, cache_salt=salt))

            self._long.thread.submit(encode)

    async def completion(self, body: CompletionBody, owner: str | None) -> list[Course]:
        self.check_model(body.model)
        asked = {place: Asked(await self._encode_prompt(prompt, place)) for place, prompt in body.prompts().items()}
        return self._courses(body, asked, owner)

    async def tokenize(self, body: TokenizeBody, owner: str | None) -> list[int]:
        self.check_model(body.model)
        if body.messages is not None:
            return await self._encode_chat(body.messages, self._variables(body))
        text = body.prompt or ""
        if body.add_special_tokens:
            return await self._encode_prompt(text, "prompt")
        self._check_characters(len(text), "prompt")
        return await self._encode(len(text), lambda vocabulary: vocabulary.encode_text(text, bos=False))

    def chosen(self, result: Result) -> list[Chosen]:
        """The tokens of an answer with their logprobs."""
        return chosen_tokens(result, self.engine.vocabulary)

    # -- JSON -------------------------------------------------------------------------------------------

    def _parse(self, data: bytes, kind: type[BodyT]) -> BodyT:
        try:
            text = data.decode().removeprefix("\ufeff")  # files of Windows begin with a mark
            check_shape(data, self._max_values)
            value = json.loads(text)
        except UnicodeDecodeError as error:
            why = f"it is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}"
            raise ApiError(400, f"the body is not valid JSON: {why}", code="invalid_json") from None
        except (ValueError, RecursionError) as error:  # also of numbers too long to be read
            why = str(error).partition(";")[0]  # what follows is advice to Python's programmers
            raise ApiError(400, f"the body is not valid JSON: {why}"[:300], code="invalid_json") from None
        if isinstance(value, dict) and len(value) > MAX_FIELDS:
            raise ApiError(400, f"the body has {len(value)} fields, expected at most {MAX_FIELDS}")
        try:
            return kind.model_validate(value)
        except ValidationError as error:
            raise from_validation(error.errors(include_url=False)) from None

    # -- tokens -----------------------------------------------------------------------------------------

    def _variables(self, body: Conversing | TokenizeBody) -> dict[str, Any]:
        """Of the chat template: the operator's, and before each of them the request's own."""
        return {**(self._settings.chat_template_kwargs or {}), **(body.chat_template_kwargs or {})}

    async def _encode_chat(self, messages: Sequence[Message], variables: Mapping[str, Any]) -> list[int]:
        size = sum(message.characters for message in messages)
        self._check_characters(size, "messages")
        return await self._encode(
            size, lambda vocabulary: encode_messages(vocabulary, [message.plain() for message in messages], variables)
        )

    async def _encode_prompt(self, prompt: str | list[int], param: str) -> list[int]:
        if isinstance(prompt, list):
            return await self._encode(4 * len(prompt), lambda vocabulary: known(prompt, vocabulary.usable, param))
        self._check_characters(len(prompt), param)
        return await self._encode(len(prompt), lambda vocabulary: vocabulary.checked(vocabulary.encode_text(prompt)))

    async def _encode(self, size: int, encode: Callable[[Vocabulary], T]) -> T:
        try:
            return await self.lane(size).run(encode)
        except PastaError as error:  # whatever it is, it is about what the client sent
            raise ApiError(400, str(error)) from None

    def _check_characters(self, count: int, param: str) -> None:
        if count > self._max_characters:
            why = f"the prompt has {count} characters, and so many tokens spell {self._max_characters} at the most"
            raise self._too_long(why, param)

    def _too_long(self, why: str, param: str) -> ApiError:
        """In OpenAI's and vLLM's words: clients that shorten a conversation, or ask elsewhere, know it by them."""
        message = f"This model's maximum context length is {self.max_model_len} tokens: {why}"
        hint = f"in {param}; the model's context is {self.engine.context}, the server's memory {self._slots} tokens"
        return ApiError(400, f"{message} ({hint})", param=param, code="context_length_exceeded")

    # -- limits -----------------------------------------------------------------------------------------

    def _courses(self, body: Options, asked: Mapping[str, Asked], owner: str | None) -> list[Course]:
        """The way to each answer: `n` of them to each prompt. `asked` is by its place in the body."""
        salt, n, most = body.salt(owner), body.n or 1, self._settings.most_at_once
        if n * len(asked) > most:
            why = f"{n * len(asked)} answers are asked for (n: {n}, prompts: {len(asked)})"
            message = f"{why}, and the server takes {most} at the most: ask for fewer at a time"
            raise ApiError(400, message, param="n" if n > 1 else "prompt")
        return [self._course(body, each, choice, param, salt) for param, each in asked.items() for choice in range(n)]

    def _course(self, body: Options, asked: Asked, choice: int, param: str, salt: str) -> Course:
        request = self._request(body, asked, choice, param, salt)
        if asked.calls is None:
            return Course(request)
        assert isinstance(body, Conversing)
        return ToolCourse(request, asked.calls, must_call=body.must_call)

    def _request(self, body: Options, asked: Asked, choice: int, param: str, salt: str) -> Request:
        prompt = asked.prompt
        if not prompt:
            raise ApiError(400, f"{param} is an empty prompt: expected at least one token", param=param)
        most = self._most_tokens(asked.longest)
        if most < 1:
            raise self._too_long(f"the prompt has {len(prompt)}, and no answer fits beside it", param)
        field, wanted = body.limit
        if wanted is not None and wanted > self._settings.max_tokens:
            message = f"{field} is too large: {wanted}; this server decodes at most {self._settings.max_tokens}"
            raise ApiError(400, message, param=field)
        seed = secrets.randbits(48) if body.seed is None else body.seed
        extension = body.extension
        request = make_request(
            self.engine,
            prompt,
            max_tokens=min(most, wanted or most),
            max_threads=extension.max_threads,
            sequential=extension.sequential,
            temperature=body.temperature or 0.0,
            top_k=max(0, body.top_k or 0),
            top_p=1.0 if body.top_p is None else max(body.top_p, 1e-9),  # 0 leaves the likeliest token alone
            min_p=body.min_p or 0.0,
            repetition_penalty=body.repetition_penalty or 1.0,
            logit_bias=self._biases(body),
            logprobs=body.likeliest,
            seed=seed + choice,
            parallelism=extension.parallelism,
            plain=bool(extension.plain),
            drafts=extension.drafts,
            stop=body.stop or (),
            cache_salt=salt,
        )
        request = replace(request, program=asked.program)
        if self._settings.plain_when_full and extension.plain is None and request.may_fork:
            return replace(request, in_a_crowd=replace(request, params=replace(request.params, plain=True)))
        return request

    def _program_maker(self, body: Conversing) -> MakeProgram:
        """Compiles schemas. The grammars are the engine's own, which the worker asks too, and take a moment to make."""
        vocabulary, asked = self.engine.vocabulary, body.extension.mode
        handed, at_limit = handed_by(self.engine), body.extension.at_limit
        return lambda schema, lead, mode: replace(
            make_program(vocabulary, schema, mode=asked or mode, lead=lead, handed=handed), at_limit=at_limit
        )

    def _biases(self, body: Options) -> list[tuple[int, float]]:
        size = len(self.engine.vocabulary)
        biases = [(int(token), bias) for token, bias in (body.logit_bias or {}).items()]
        for token, _ in biases:
            if token >= size:
                raise ApiError(400, f"token {token} is not one of the model's {size}", param="logit_bias")
        return biases

    def _most_tokens(self, prompt: int) -> int:
        """The longest answer that is taken on beside a prompt."""
        return min(self._settings.max_tokens, self.engine.context - 1 - prompt, self._slots - prompt)


def known(ids: list[int], size: int, param: str) -> list[int]:
    for token in ids:
        if not 0 <= token < size:
            raise ApiError(400, f"{param} has token {token}, which is not one of the model's {size}", param=param)
    return ids
