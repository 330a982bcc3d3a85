"""The bodies of requests, as OpenAI defines them, and the extension `pasta`.

What cannot be done is refused, not passed over: a client that asks for JSON must not get prose. What changes
nothing about the answer (where it is billed) is let through.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from pasta.core.variables import problem_of
from pasta.decoding.results import Result
from pasta.serve.errors import TOKEN_ID
from pasta.serve.formats import ResponseFormat, unsupported
from pasta.serve.messages import Body, Lenient, Messages, Name, Text, text_or_list
from pasta.serve.tools import Calling, ChatCalling
from pasta.structured.result import StructuredResult

MAX_CHOICES = 16
MAX_BIASES = 1024
MAX_LOGPROBS = 20
MAX_PROMPTS = 64
MAX_STOPS = 16

IGNORED = frozenset(
    "metadata store service_tier prompt_cache_retention prompt_cache_options parallel_tool_calls".split()
)  # an answer holds one call of a tool at the most, so that several may be allowed or not
# Fields that are not supported, each with the values that ask for nothing.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "audio": (),
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0, 0.0),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "modalities": (["text"],),
    "prediction": (),
    "presence_penalty": (0, 0.0),
    "reasoning_effort": ("none",),
    "response_format": ({"type": "text"},),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "verbosity": ("medium",),
    "web_search_options": (),
}
INSTEAD = {
    "best_of": "n",
    "frequency_penalty": "repetition_penalty",
    "function_call": "tool_choice",
    "functions": "tools",
    "max_tokens": "max_output_tokens",  # in /v1/responses
    "presence_penalty": "repetition_penalty",
    "reasoning": "chat_template_kwargs",  # in /v1/responses
    "reasoning_effort": "chat_template_kwargs",  # gpt-oss has a variable of this name, Qwen3 `enable_thinking`
}


class Extension(Body):
    """What OpenAI's API has no words for; clients send it as `extra_body={"pasta": {…}}`."""

    events: bool = False  # the stream also carries what each thread does
    annotated: bool = False  # the answer also comes with its tags
    max_threads: Annotated[int, Field(ge=1, le=256)] = 16
    parallelism: Annotated[float, Field(ge=-100, le=100)] = 0.0
    sequential: bool = False
    plain: bool | None = None  # None: as is best for all, see `decoding/worth.py`
    drafts: bool | None = None
    # How fields are decoded: None is `parallel` for an answer with a schema, `leftover` for the arguments of a call.
    mode: Literal["parallel", "lead", "leftover", "checked", "sequential"] | None = None
    at_limit: Literal["cut", "close"] = "cut"  # what becomes of a schema's values that a limit leaves unfinished
    show_schema: bool = True  # tell the model the schema, in a message of its own

    def told(self, result: Result) -> dict[str, Any]:
        """What a choice also carries, as `pasta`."""
        told: dict[str, Any] = {"annotated": result.annotated} if self.annotated else {}
        if self.at_limit == "close" and isinstance(result, StructuredResult):
            told["closed"] = result.closed
        return {"pasta": told} if told else {}


class StreamOptions(Lenient):
    include_usage: bool = False


TokenId = Annotated[str, Field(pattern=TOKEN_ID)]


class Options(Body):
    """What all kinds of completion take. `temperature` is 0 where it is not given, as on the command line."""

    model: Name | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=1 << 20)] | None = None  # 0 and -1: off
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100)] | None = None
    seed: Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)] | None = None
    stop: (
        Annotated[
            Annotated[Name, Tag("as text")]
            | Annotated[list[Name], Field(fail_fast=True, max_length=MAX_STOPS), Tag("as list")],
            Discriminator(text_or_list),
        ]
        | None
    ) = None
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = None
    logit_bias: (
        Annotated[dict[TokenId, Annotated[float, Field(ge=-100, le=100)]], Field(max_length=MAX_BIASES)] | None
    ) = None
    user: Name | None = None  # who asks, by whichever of its names: requests share KV only where all three are the same
    safety_identifier: Name | None = None
    prompt_cache_key: Name | None = None
    pasta: Extension | None = None
    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = NEUTRAL

    @model_validator(mode="before")
    @classmethod
    def refuse_unsupported(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        neutral = cls.unsupported
        for name in neutral.keys() & data.keys():
            value = data[name]
            if isinstance(value, dict):  # as clients send one that they never filled in
                value = {key: each for key, each in value.items() if each is not None}
            if value is not None and not any(type(value) is type(good) and value == good for good in neutral[name]):
                instead = INSTEAD.get(name)
                hint = f": use {instead}" if instead in cls.model_fields else ""
                raise unsupported(name, f"{{name}} is not supported here{hint}")
        dropped = (IGNORED - cls.model_fields.keys()) | neutral.keys()
        return {name: value for name, value in data.items() if name not in dropped}

    @model_validator(mode="after")
    def check_streaming(self) -> Options:
        for name, asked in (
            ("stream_options", self.stream_options is not None),
            ("pasta.events", self.pasta is not None and self.pasta.events),
        ):
            if asked and not self.stream:
                raise PydanticCustomError(
                    "unsupported_parameter", "{name} is only allowed when stream is true", {"name": name}
                )
        return self

    @property
    def limit(self) -> tuple[str, int | None]:
        """How many tokens are asked for at the most, and the name of the field that says so."""
        return "max_tokens", self.max_tokens

    def salt(self, owner: str | None) -> str:
        """Whose keys and values an answer may find, and leave for the next. `owner` is the API key's name."""
        names = json.dumps([owner, self.user, self.safety_identifier, self.prompt_cache_key])
        return hashlib.sha256(names.encode()).hexdigest()

    @property
    def extension(self) -> Extension:
        return self.pasta or Extension()

    @property
    def likeliest(self) -> int | None:
        """Of how many tokens logprobs are told beside the chosen one's; None: of none at all."""
        return None

    @property
    def wants_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage


STRUCTURED = frozenset("response_format tools tool_choice".split())


def check_variables(variables: dict[str, Any]) -> dict[str, Any]:
    if (problem := problem_of(variables)) is not None:
        raise PydanticCustomError("template", "{problem}", {"problem": problem})
    for name, value in variables.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise PydanticCustomError("template", "expected a finite number for {name}", {"name": name[:80]})
    return variables


Variables = Annotated[dict[str, Any], AfterValidator(check_variables)]  # of the chat template, in vLLM's words


def not_together(name: str, other: str) -> PydanticCustomError:
    told = {"name": name, "other": other}
    return PydanticCustomError("unsupported_parameter", "{name} is not supported together with {other}", told)


class Conversing(Options, Calling):
    """What both routes of conversations take: an answer may be held to a schema, or be a call of a tool."""

    chat_template_kwargs: Variables | None = None
    format_at: ClassVar[str]  # where a body says what the answer has to be like,
    schema_at: ClassVar[str]  # where the schema of that stands,
    parameters_at: ClassVar[str]  # and where those of a tool, by its index

    @property
    def schema_of(self) -> Mapping[str, Any] | None:
        """What the answer's text has to be like; None: anything."""
        raise NotImplementedError

    @property
    def characters(self) -> int:
        """Of all messages and schemas: what a prompt may show."""
        raise NotImplementedError

    def conversation(self) -> list[dict[str, Any]]:
        """The messages, for a chat template."""
        raise NotImplementedError

    @property
    def structured(self) -> bool:
        """Whether the answer is anything but free text."""
        return self.schema_of is not None or bool(self.callable)

    def check_together(self) -> None:
        """What an answer of a shape cannot have, and what only such an answer can."""
        if self.callable and self.likeliest is not None:
            raise not_together("logprobs", "tools")
        if self.schema_of is not None:
            for name, asked in (("logprobs", self.likeliest is not None), ("stop", bool(self.stop))):
                if asked:
                    raise not_together(name, self.format_at)
        elif self.extension.mode is not None and not self.functions:
            told = {"name": "pasta.mode"}
            raise PydanticCustomError("unsupported_parameter", "{name} is of answers with a JSON schema", told)

    @property
    def size_of_schemas(self) -> int:
        schemas = [schema for schema in (self.schema_of, *self.shown) if schema is not None]
        return sum(len(json.dumps(schema)) for schema in schemas)


class ChatBody(Conversing, ChatCalling):
    """`POST /v1/chat/completions`."""

    messages: Messages
    response_format: ResponseFormat | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None
    format_at = "response_format"
    schema_at = "response_format.json_schema.schema"
    parameters_at = "tools[{}].function.parameters"
    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        name: values for name, values in NEUTRAL.items() if name not in STRUCTURED
    }

    @model_validator(mode="after")
    def check_logprobs(self) -> ChatBody:
        if self.top_logprobs and not self.logprobs:
            name = "top_logprobs"
            raise PydanticCustomError("unsupported_parameter", "{name} needs logprobs to be true", {"name": name})
        self.check_together()
        return self

    @property
    def characters(self) -> int:
        return sum(message.characters for message in self.messages) + self.size_of_schemas

    @property
    def schema_of(self) -> Mapping[str, Any] | None:
        return None if self.response_format is None else self.response_format.schema_of

    @property
    def limit(self) -> tuple[str, int | None]:
        if self.max_completion_tokens is not None:
            return "max_completion_tokens", self.max_completion_tokens
        return super().limit

    @property
    def likeliest(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None

    def conversation(self) -> list[dict[str, Any]]:
        return [message.plain() for message in self.messages]


Ids = Annotated[list[int], Field(fail_fast=True, min_length=1)]


def kind_of_prompt(value: Any) -> str:
    if not isinstance(value, list):
        return "as text"
    match value[:1]:
        case [str()]:
            return "as texts"
        case [list()]:
            return "as lists of tokens"
    return "as tokens"


class CompletionBody(Options):
    """`POST /v1/completions`: text to go on with, as it stands, or its tokens; or several of either."""

    prompt: Annotated[
        Annotated[Text, Tag("as text")]
        | Annotated[Ids, Tag("as tokens")]
        | Annotated[list[Text], Field(fail_fast=True, max_length=MAX_PROMPTS), Tag("as texts")]
        | Annotated[list[Ids], Field(fail_fast=True, max_length=MAX_PROMPTS), Tag("as lists of tokens")],
        Discriminator(kind_of_prompt),
    ]

    logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None

    @property
    def likeliest(self) -> int | None:
        return self.logprobs

    def prompts(self) -> dict[str, str | list[int]]:
        """By their places in the body."""
        prompt = self.prompt
        if isinstance(prompt, str):
            return {"prompt": prompt}
        if all(isinstance(part, int) for part in prompt):
            return {"prompt": [part for part in prompt if isinstance(part, int)]}
        several = [part for part in prompt if not isinstance(part, int)]
        return {f"prompt[{index}]": part for index, part in enumerate(several)}


class TokenizeBody(Body):
    """`POST /tokenize`: a text, or a conversation as the model would get it."""

    model: Name | None = None
    prompt: Text | None = None
    messages: Messages | None = None
    chat_template_kwargs: Variables | None = None
    add_special_tokens: bool = True

    @model_validator(mode="after")
    def check_one(self) -> TokenizeBody:
        if (self.prompt is None) == (self.messages is None):
            raise PydanticCustomError("value_error", "pass either prompt or messages")
        return self
