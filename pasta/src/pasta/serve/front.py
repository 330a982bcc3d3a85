"""From a request's body to what the scheduler runs: names, limits, tokens."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pasta.core.vocabulary import Vocabulary
from pasta.decoding.prompts import make_request
from pasta.decoding.request import Request
from pasta.decoding.results import Result
from pasta.engine.base import Engine
from pasta.errors import PastaError
from pasta.serve.errors import ApiError
from pasta.serve.protocol import ChatBody, CompletionBody, Options, TokenizeBody
from pasta.serve.settings import Settings

T = TypeVar("T")


class Front:
    """Checks what clients ask for, and encodes it.

    It has a tokenizer and a thread of its own. Encoding switches the tokenizer between text and templates, and
    must neither meet the worker, which decodes with the engine's, nor hold up the event loop.
    """

    def __init__(self, engine: Engine, settings: Settings):
        self.engine = engine
        self.names = (engine.name, *settings.aliases)
        self._settings = settings
        self._slots = min(engine.pool.slots, engine.pool.slots_each)
        self._vocabulary = Vocabulary(copy.deepcopy(engine.vocabulary.tokenizer), tuple(engine.vocabulary.eos))
        self._thread = ThreadPoolExecutor(1, "pasta-tokenizer")

    def close(self) -> None:
        self._thread.shutdown()

    def check_model(self, name: str | None) -> None:
        if name is not None and name not in self.names:
            message = f"The model {name[:200]!r} does not exist; this server has {self.engine.name!r}"
            raise ApiError(404, message, param="model", code="model_not_found")

    async def chat(self, body: ChatBody) -> list[Request]:
        self.check_model(body.model)
        messages = [message.plain() for message in body.messages]
        return self._requests(body, [await self._in_thread(self._encode_chat, messages)], "messages")

    def prefetch(self, body: ChatBody, result: Result, prefetch: Callable[[Request], None]) -> None:
        """Has an answer's text computed as part of the next turn's prompt, while its reader reads.

        Only where it forked: otherwise its keys and values are those of a prompt, and are there already.
        """
        if len(result.threads) > 1:
            answer = {"role": "assistant", "content": result.text}
            messages = [*(message.plain() for message in body.messages), answer]

            def encode() -> None:
                with contextlib.suppress(PastaError):  # too long, or not to the template's taste: then nothing is ready
                    ids = self._encode_chat(messages)
                    prefetch(make_request(self.engine, ids, max_tokens=1, plain=True, cache_salt=body.scope))

            self._thread.submit(encode)

    async def completion(self, body: CompletionBody) -> list[Request]:
        self.check_model(body.model)
        prompts = [
            await self._in_thread(self._vocabulary.encode_text, prompt)
            if isinstance(prompt, str)
            else self._known(prompt)
            for prompt in body.prompts()
        ]
        return self._requests(body, prompts, "prompt")

    async def tokenize(self, body: TokenizeBody) -> list[int]:
        self.check_model(body.model)
        if body.messages is not None:
            return await self._in_thread(self._encode_chat, [message.plain() for message in body.messages])
        text = body.prompt or ""
        return await self._in_thread(
            self._vocabulary.encode_text if body.add_special_tokens else self._vocabulary.encode, text
        )

    # -- tokens -----------------------------------------------------------------------------------------

    async def _in_thread(self, encode: Callable[[T], list[int]], what: T) -> list[int]:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, encode, what)
        except PastaError as error:  # whatever it is, it is about what the client sent
            raise ApiError(400, str(error)) from None

    def _encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        return self._vocabulary.encode_chat(messages)

    def _known(self, ids: list[int]) -> list[int]:
        size = len(self.engine.vocabulary)
        for token in ids:
            if not 0 <= token < size:
                raise ApiError(400, f"token {token} is not one of the model's {size}", param="prompt")
        return ids

    # -- limits -----------------------------------------------------------------------------------------

    def _requests(self, body: Options, prompts: Sequence[list[int]], param: str) -> list[Request]:
        """A request for each answer: `n` of them to each prompt."""
        return [self._request(body, prompt, choice, param) for prompt in prompts for choice in range(body.n or 1)]

    def _request(self, body: Options, prompt: list[int], choice: int, param: str) -> Request:
        if not prompt:
            raise ApiError(400, "the prompt is empty", param=param)
        most = self._most_tokens(len(prompt))
        if most < 1:
            message = f"the prompt is {len(prompt)} tokens long, and no answer fits beside it"
            hint = f"the model's context is {self.engine.context}, the server's memory {self._slots} tokens"
            raise ApiError(400, f"{message} ({hint})", param=param, code="context_length_exceeded")
        field, asked = body.limit
        if asked is not None and asked > self._settings.max_tokens:
            message = f"{field} is too large: {asked}; this server decodes at most {self._settings.max_tokens}"
            raise ApiError(400, message, param=field)
        seed = secrets.randbits(48) if body.seed is None else body.seed
        extension = body.extension
        return make_request(
            self.engine,
            prompt,
            max_tokens=min(most, asked or most),
            max_threads=extension.max_threads,
            sequential=extension.sequential,
            temperature=body.temperature or 0.0,
            top_k=body.top_k or 0,
            top_p=1.0 if body.top_p is None else max(body.top_p, 1e-9),  # 0 leaves the likeliest token alone
            min_p=body.min_p or 0.0,
            repetition_penalty=body.repetition_penalty or 1.0,
            seed=seed + choice,
            parallelism=extension.parallelism,
            plain=extension.plain,
            stop=body.stop or (),
            cache_salt=body.scope,
        )

    def _most_tokens(self, prompt: int) -> int:
        """The longest answer that is taken on beside a prompt."""
        return min(self._settings.max_tokens, self.engine.context - 1 - prompt, self._slots - prompt)
