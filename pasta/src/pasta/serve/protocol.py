"""The bodies of requests, as OpenAI defines them, and the extension `pasta`.

What cannot be done is refused, not passed over: a client that asks for JSON must not get prose. What changes
nothing about the answer (where it is billed) is let through.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

MAX_CHOICES = 16
MAX_MESSAGES = 4096
MAX_PARTS = 4096
MAX_CALLS = 128
MAX_BIASES = 1024
MAX_LOGPROBS = 20
MAX_PROMPTS = 64
MAX_STOPS = 16
MAX_NAME = 1024  # characters of a name, of a user or a model

LOGPROBS = "message.output_text.logprobs"
IGNORED = frozenset("metadata store service_tier prompt_cache_retention prompt_cache_options".split())
# Fields that are not supported, each with the values that ask for nothing.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "audio": (),
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0, 0.0),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "modalities": (["text"],),
    "parallel_tool_calls": (True, False),
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


def check_text(text: str) -> str:
    """JSON can spell half a character (`\\ud800`), which no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PydanticCustomError("text", "Input should be valid Unicode, without lone surrogates") from None
    return text


Text = Annotated[str, AfterValidator(check_text)]
Name = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(check_text)]


def text_or_list(value: Any) -> str:
    """Which of a union's branches is meant: only its complaint is of use."""
    return "as list" if isinstance(value, list) else "as text"


class Body(BaseModel):
    """Types as they stand: "5" is not a number."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())


class Lenient(Body):
    """Fields that we do not know are none of our business."""

    model_config = ConfigDict(extra="ignore")


class Extension(Body):
    """What OpenAI's API has no words for; clients send it as `extra_body={"pasta": {…}}`."""

    events: bool = False  # the stream also carries what each thread does
    annotated: bool = False  # the answer also comes with its tags
    max_threads: Annotated[int, Field(ge=1, le=256)] = 16
    parallelism: Annotated[float, Field(ge=-100, le=100)] = 0.0
    sequential: bool = False
    plain: bool = False


class StreamOptions(Lenient):
    include_usage: bool = False


class TextPart(Lenient):
    type: Literal["text"]
    text: Text


def check_part(value: Any) -> Any:
    """Names a part that is no text: that it is none of the right type says less."""
    kind = value.get("type") if isinstance(value, dict) else None
    if isinstance(kind, str) and kind not in ("text", "input_text", "output_text"):
        raise PydanticCustomError(
            "unsupported_part", "parts of type {kind} are not supported here", {"kind": kind[:80]}
        )
    return value


Part = Annotated[TextPart, BeforeValidator(check_part)]
TextOrParts = Annotated[
    Annotated[Text, Tag("as text")]
    | Annotated[list[Part], Field(fail_fast=True, max_length=MAX_PARTS), Tag("as list")],
    Discriminator(text_or_list),
]


class Function(Lenient):
    name: Name
    arguments: Text = ""


class ToolCall(Lenient):
    id: Name
    type: Literal["function"] = "function"
    function: Function

    def plain(self) -> dict[str, Any]:
        """Templates want the arguments themselves; what is no JSON stays a text."""
        arguments: Any = self.function.arguments
        with contextlib.suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
        return {"id": self.id, "type": "function", "function": {"name": self.function.name, "arguments": arguments}}


class Message(Lenient):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: TextOrParts | None = None
    name: Name | None = None
    tool_calls: Annotated[list[ToolCall], Field(fail_fast=True, max_length=MAX_CALLS)] | None = None
    tool_call_id: Name | None = None

    @model_validator(mode="after")
    def check_content(self) -> Message:
        if self.content is None and not self.tool_calls:
            raise PydanticCustomError("missing_content", "a message without tool_calls needs content")
        return self

    def plain(self) -> dict[str, Any]:
        """For a chat template. What newer clients call the developer is what templates call the system."""
        role = "system" if self.role == "developer" else self.role
        out: dict[str, Any] = {"role": role, "content": join(self.content)}
        if self.tool_calls:
            out["tool_calls"] = [call.plain() for call in self.tool_calls]
        return out | {name: value for name in ("name", "tool_call_id") if (value := getattr(self, name)) is not None}


def join(content: str | Sequence[TextPart | ResponsePart] | None) -> str:
    return (content or "") if isinstance(content, str | None) else "".join(part.text for part in content)


Messages = Annotated[list[Message], Field(fail_fast=True, min_length=1, max_length=MAX_MESSAGES)]


TokenId = Annotated[str, Field(pattern=r"^\d{1,9}$")]


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
            if value is not None and not any(type(value) is type(good) and value == good for good in neutral[name]):
                raise PydanticCustomError("unsupported_parameter", "{name} is not supported here", {"name": name})
        return {name: value for name, value in data.items() if name not in IGNORED and name not in neutral}

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


class ChatBody(Options):
    """`POST /v1/chat/completions`."""

    messages: Messages
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None

    @model_validator(mode="after")
    def check_logprobs(self) -> ChatBody:
        if self.top_logprobs and not self.logprobs:
            name = "top_logprobs"
            raise PydanticCustomError("unsupported_parameter", "{name} needs logprobs to be true", {"name": name})
        return self

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


class ResponsePart(Lenient):
    type: Literal["input_text", "output_text", "text"]
    text: Text


class Item(Lenient):
    """A message of `input`. What `output` of an earlier response holds may be sent back as it is."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[
        Annotated[Text, Tag("as text")]
        | Annotated[
            list[Annotated[ResponsePart, BeforeValidator(check_part)]],
            Field(fail_fast=True, max_length=MAX_PARTS),
            Tag("as list"),
        ],
        Discriminator(text_or_list),
    ]

    def plain(self) -> dict[str, Any]:
        return {"role": "system" if self.role == "developer" else self.role, "content": join(self.content)}


class TextFormat(Lenient):
    format: dict[str, Any] | None = None
    verbosity: Literal["medium"] | None = None

    @model_validator(mode="after")
    def check_format(self) -> TextFormat:
        if self.format is not None and self.format.get("type") != "text":
            raise PydanticCustomError("unsupported_parameter", "{name} is not supported here", {"name": "text.format"})
        return self


class ResponsesBody(Options):
    """`POST /v1/responses`: text to text. Nothing is stored, so every request carries its whole conversation."""

    input: Annotated[
        Annotated[Text, Tag("as text")]
        | Annotated[list[Item], Field(fail_fast=True, min_length=1, max_length=MAX_MESSAGES), Tag("as list")],
        Discriminator(text_or_list),
    ]
    instructions: Text | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None
    include: Annotated[list[Name], Field(max_length=16)] | None = None
    text: TextFormat | None = None
    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **{name: values for name, values in NEUTRAL.items() if name not in ("echo", "suffix", "best_of")},
        "background": (False,),
        "context_management": ([],),
        "conversation": (),
        "max_tool_calls": (),
        "moderation": (),
        "n": (1,),
        "previous_response_id": (),
        "prompt": (),
        "reasoning": ({},),
        "truncation": ("disabled",),
    }

    @model_validator(mode="after")
    def check_include(self) -> ResponsesBody:
        for name in self.include or ():
            if name != LOGPROBS:
                told = {"name": f"include {name[:80]}"}
                raise PydanticCustomError("unsupported_parameter", "{name} is not supported here", told)
        return self

    @property
    def limit(self) -> tuple[str, int | None]:
        return "max_output_tokens", self.max_output_tokens

    @property
    def likeliest(self) -> int | None:
        wanted = LOGPROBS in (self.include or ()) or self.top_logprobs
        return (self.top_logprobs or 0) if wanted else None

    def conversation(self) -> list[dict[str, Any]]:
        first = [] if self.instructions is None else [{"role": "system", "content": self.instructions}]
        if isinstance(self.input, str):
            return [*first, {"role": "user", "content": self.input}]
        return [*first, *(item.plain() for item in self.input)]


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

    def prompts(self) -> list[str | list[int]]:
        prompt = self.prompt
        if isinstance(prompt, str):
            return [prompt]
        if all(isinstance(part, int) for part in prompt):
            return [[part for part in prompt if isinstance(part, int)]]
        return [part for part in prompt if not isinstance(part, int)]


class TokenizeBody(Body):
    """`POST /tokenize`: a text, or a conversation as the model would get it."""

    model: Name | None = None
    prompt: Text | None = None
    messages: Messages | None = None
    add_special_tokens: bool = True

    @model_validator(mode="after")
    def check_one(self) -> TokenizeBody:
        if (self.prompt is None) == (self.messages is None):
            raise PydanticCustomError("value_error", "pass either prompt or messages")
        return self
