"""From a prompt as people write it to a request: a question, a conversation, plain text, or token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeGuard, Unpack

from pasta.core.params import Options, SamplingParams
from pasta.core.positions import Positions, check_unit
from pasta.core.tree import Tree, flatten
from pasta.decoding.request import Request
from pasta.engine.base import Engine
from pasta.errors import UsageError

Message = Mapping[str, str]  # its `role` and its `content`
UNLIMITED = 1 << 40

Prompt = str | Sequence[Message] | Sequence[int]
EXPECTED = "a question, a conversation (a list of role and content), token ids, or a list of these"


def make_request(
    engine: Engine,
    prompt: Prompt,
    params: SamplingParams | None = None,
    *,
    raw: bool = False,
    script: Tree | None = None,
    cache_salt: str | None = None,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> Request:
    """Checks and gathers what `generate` and `stream` take."""
    params = make_params(params, options)
    _check_tokens(params, len(engine.vocabulary))
    if not isinstance(cache_salt, str | None):
        raise UsageError(f"cache_salt is {cache_salt!r:.40}, expected a text, or None")
    _check_text(cache_salt or "", "cache_salt")
    if script is not None:
        _check_script(script, engine.vocabulary.usable)
        if params.logprobs is not None:
            raise UsageError("logprobs are of tokens that the model chooses, and a script chooses them instead")
    positions = params.positions
    if positions is not None:
        if not isinstance(positions, Positions):
            raise UsageError(f"positions is {positions!r:.40}, expected a scheme, as in 'predicted' or 'fixed:40'")
        if positions.gap is None:
            check_unit(positions, engine.vocabulary)
    return Request(
        prompt=encode_prompt(engine, prompt, raw=raw, chat_template_kwargs=chat_template_kwargs),
        params=params,
        positions=positions or engine.positions,
        script=script,
        cache_salt=cache_salt,
    )


def make_params(params: SamplingParams | None, options: Options) -> SamplingParams:
    """Parameters with some of them given by name."""
    if not isinstance(params, SamplingParams | None):
        raise UsageError(f"params is {params!r:.40}, expected SamplingParams", "or pass the options by name")
    unknown = sorted(set(options) - set(SamplingParams.__dataclass_fields__))
    if unknown:
        known = ", ".join(SamplingParams.__dataclass_fields__)
        raise UsageError(f"unknown option {unknown[0]!r}", hint=f"the options are {known}")
    return replace(params or SamplingParams(), **options)  # type: ignore[arg-type]


def _check_tokens(params: SamplingParams, size: int) -> None:
    """A token that the model does not have would be passed over in silence."""
    for name, tokens in (
        ("logit_bias", [token for token, _ in params.logit_bias]),
        ("stop_token_ids", params.stop_token_ids),
    ):
        for token in tokens:
            if not 0 <= token < size:
                raise UsageError(f"{name} has the token {token}, expected 0 to {size - 1}, the model's tokens")


def _check_script(tree: Tree, size: int) -> None:
    """What are no tokens of the model's would end its engine, and with it every answer under way."""
    if not isinstance(tree, tuple) or not all(isinstance(token, int) and 0 <= token < size for token in flatten(tree)):
        raise UsageError(f"the response is {tree!r:.40}, expected tokens of this model's", "pass the tree of a result")


def check_one(prompt: Prompt, name: str, n: int = 1) -> None:
    """What gives one answer cannot take several prompts, nor several choices."""
    if are_several(prompt):
        raise UsageError(f"{name} takes one prompt, and this is a list of {len(prompt)}", f"call {name} for each")
    if n != 1:
        raise UsageError(f"n is {n}, but {name} gives one answer", f"call {name} for each seed, or generate")


def replay_options(options: Options) -> Options:
    """A script has its own end: no limit but those asked for may cut it."""
    return {"max_tokens": UNLIMITED, **options}


def encode_prompt(
    engine: Engine, prompt: Prompt, *, raw: bool = False, chat_template_kwargs: Mapping[str, Any] | None = None
) -> tuple[int, ...]:
    """The prompt's tokens, checked. A text is a question to a chat model; `raw` takes it to the letter."""
    ids: Sequence[int]
    vocabulary = engine.vocabulary
    if not isinstance(prompt, str) and not _is_listed(prompt):
        raise UsageError(f"the prompt is {prompt!r:.40}", hint=f"expected {EXPECTED}")
    if chat_template_kwargs and (raw or not (isinstance(prompt, str) or _is_conversation(prompt))):
        raise UsageError("chat_template_kwargs is for the chat template, which this prompt goes without")
    if isinstance(prompt, str):
        _check_text(prompt, "the prompt")
        if not prompt.strip():
            raise UsageError("the prompt is empty", hint="pass a question")
        if raw:
            ids = vocabulary.checked(vocabulary.encode_text(prompt))
        else:
            question = [{"role": "user", "content": prompt}]
            ids = vocabulary.checked(vocabulary.encode_chat(question, variables=chat_template_kwargs))
    elif _is_conversation(prompt):
        if raw:
            raise UsageError("raw takes a text to the letter, and this is a conversation", "pass a text, or no raw")
        _check_messages(prompt)
        ids = vocabulary.checked(vocabulary.encode_chat(prompt, variables=chat_template_kwargs))
    else:
        ids = _check_ids(prompt, vocabulary.usable)
    if not ids:
        raise UsageError("the prompt is empty", hint="pass a question")
    if len(ids) >= engine.context - 1:
        raise UsageError(
            f"the prompt is {len(ids)} tokens long, but the context of {engine.name or 'the model'} is "
            f"{engine.context}",
            hint="shorten the prompt",
        )
    return tuple(ids)


def are_several(prompt: Prompt | Sequence[Prompt]) -> TypeGuard[Sequence[Prompt]]:
    """Whether this is a list of prompts rather than one."""
    if not _is_listed(prompt) or not len(prompt):
        return False
    first: Any = prompt[0]
    is_id = hasattr(first, "__index__") and getattr(first, "ndim", 0) == 0  # a row of an array has the method as well
    return not isinstance(first, Mapping) and not is_id


def _is_listed(prompt: object) -> bool:
    """Whether it has items by number, as lists have, arrays and tensors; bytes are a text that was not decoded."""
    if isinstance(prompt, str | bytes | bytearray | memoryview | Mapping) or getattr(prompt, "ndim", 1) == 0:
        return False
    return hasattr(prompt, "__len__") and hasattr(prompt, "__getitem__")


def _is_conversation(prompt: Sequence[Message] | Sequence[int]) -> TypeGuard[Sequence[Message]]:
    return len(prompt) > 0 and isinstance(prompt[0], Mapping)


def _check_messages(messages: Sequence[Message]) -> None:
    for index, message in enumerate(messages):
        for field in ("role", "content"):
            if not isinstance(message, Mapping) or not isinstance(message.get(field), str):
                raise UsageError(
                    f"messages[{index}] is {message!r:.80}", hint="expected a role and a content, both texts"
                )
            _check_text(message[field], f"messages[{index}].{field}")


def _check_text(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{what} is no Unicode: character {error.start} is half of one ({text[error.start]!a})"
        ) from None


def _check_ids(ids: Sequence[object], size: int) -> list[int]:
    for index, token in enumerate(ids):
        if isinstance(token, bool) or not hasattr(token, "__index__"):
            raise UsageError(
                f"the prompt's item {index} is {token!r:.40}, expected a token id",
                hint=f"expected {EXPECTED}",
            )
        if not 0 <= token.__index__() < size:
            raise UsageError(f"the prompt's token {index} is {token}, expected 0 to {size - 1}, the model's tokens")
    return [token.__index__() for token in ids]  # type: ignore[attr-defined]
