"""The body of `POST /v1/responses`, as OpenAI defines it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from pasta.serve.formats import FlatFormat
from pasta.serve.items import Items, conversation, size_of_item
from pasta.serve.messages import Lenient, Name, Text, text_or_list
from pasta.serve.protocol import MAX_LOGPROBS, NEUTRAL, Conversing
from pasta.serve.tools import FlatCalling

LOGPROBS = "message.output_text.logprobs"
HERE = {"tools", "tool_choice", "echo", "suffix", "best_of"}  # supported, or fields of nobody's


class TextFormat(Lenient):
    format: FlatFormat | None = None
    verbosity: Literal["medium"] | None = None


class ResponsesBody(Conversing, FlatCalling):
    """`POST /v1/responses`: text to text. Nothing is stored, so every request carries its whole conversation."""

    input: Annotated[
        Annotated[Text, Tag("as text")] | Annotated[Items, Tag("as list")],
        Discriminator(text_or_list),
    ]
    instructions: Text | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None
    include: Annotated[list[Name], Field(max_length=16)] | None = None
    text: TextFormat | None = None
    metadata: Annotated[dict[Name, Text], Field(max_length=16)] | None = None  # told back
    parallel_tool_calls: bool | None = None  # told back, too
    format_at = "text.format"
    schema_at = "text.format.schema"
    parameters_at = "tools[{}].parameters"
    unsupported: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **{name: values for name, values in NEUTRAL.items() if name not in HERE},
        "background": (False,),
        "context_management": ([],),
        "conversation": (),
        "max_tokens": (),
        "max_tool_calls": (),
        "moderation": (),
        "n": (1,),
        "previous_response_id": (),
        "prompt": (),
        "reasoning": ({}, {"effort": "none"}),
        "truncation": ("disabled",),
    }

    @model_validator(mode="after")
    def check_include(self) -> ResponsesBody:
        for index, name in enumerate(self.include or ()):
            if name != LOGPROBS:
                told = {"name": f"include[{index}]", "asked": json.dumps(name[:80])}
                why = f"{{name}} is {{asked}}, which is not supported here: expected {LOGPROBS}"
                raise PydanticCustomError("unsupported_parameter", why, told)
        self.check_together()
        return self

    @property
    def characters(self) -> int:
        said = len(self.input) if isinstance(self.input, str) else sum(map(size_of_item, self.input))
        return len(self.instructions or "") + said + self.size_of_schemas

    @property
    def schema_of(self) -> Mapping[str, Any] | None:
        return None if self.text is None or self.text.format is None else self.text.format.schema_of

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
        return [*first, *conversation(self.input)]
