"""What a conversation asks for, in tokens and plans: its prompt, the shape of its answer, and the tools it may call.

All of it is the work of a thread beside the event loop, with a vocabulary of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pasta.core.vocabulary import Vocabulary
from pasta.decoding.program import Program
from pasta.serve.course import Calls
from pasta.serve.errors import ApiError
from pasta.serve.formats import ANY_OBJECT
from pasta.serve.history import Messages, settle
from pasta.serve.protocol import Conversing
from pasta.structured.errors import SchemaError
from pasta.structured.instructions import fitting, show_schema, show_tools

OPENING = ('{"name": ', ', "arguments": ')  # of a call, where the model's template has no way of its own
ARGUMENTS = "leftover"  # the mode of a call's arguments: in parallel, optional ones are filled where nobody gave them

MakeProgram = Callable[[Mapping[str, Any], str, str], Program]  # of a schema, the spaces before the answer, the mode


@dataclass(frozen=True, slots=True)
class Asked:
    prompt: list[int]
    program: Program | None = None  # of the answer's text; None: any text
    calls: Calls | None = None

    @property
    def longest(self) -> int:
        """The tokens of the longest prompt that comes of it."""
        openings = () if self.calls is None else self.calls.openings.values()
        return len(self.prompt) + max(map(len, openings), default=0)


def read_chat(
    body: Conversing, variables: Mapping[str, Any], vocabulary: Vocabulary, make_program: MakeProgram
) -> Asked:
    """`variables`: of the chat template."""
    given, encode = settle(vocabulary, body.conversation()), vocabulary.encode_chat
    schema, messages = body.schema_of, given
    if schema not in (None, ANY_OBJECT) and body.extension.show_schema:  # of any object there is nothing to tell
        messages = fitting(vocabulary, given, show_schema(given, schema))
    opening, tools = None, body.shown or None
    if tools is not None:
        if encode(messages, tools, variables) == encode(messages, None, variables):  # the template leaves them out
            messages, tools = fitting(vocabulary, given, show_tools(messages, tools)), None
        else:
            opening = vocabulary.opening_of_a_call(messages, tools, variables)
    prompt = encode(messages, tools, variables)
    program = None
    if schema is not None:
        program = _program(schema, vocabulary.lead(prompt), "parallel", body.schema_at, make_program)
    calls = None
    if body.callable:
        calls = _calls(body, opening or OPENING, vocabulary, make_program)
        if program is not None and not body.must_call and calls.opening_text.lstrip().startswith("{"):
            why = "the model's template does not tell a call of a tool from an answer in JSON: set tool_choice"
            raise ApiError(400, why, param=body.format_at, code="unsupported_parameter")
    return Asked(prompt, program, calls)


def encode_messages(vocabulary: Vocabulary, messages: Messages, variables: Mapping[str, Any]) -> list[int]:
    """A conversation's tokens."""
    return vocabulary.checked(vocabulary.encode_chat(settle(vocabulary, messages), variables=variables))


def _calls(body: Conversing, opening: tuple[str, str], vocabulary: Vocabulary, make_program: MakeProgram) -> Calls:
    # Spaces at the end of an opening belong to the token that comes next.
    (before, name_lead), (between, lead) = map(_without_spaces, opening)
    encode = vocabulary.encode_opening
    places = {tool.name: body.parameters_at.format(index) for index, tool in enumerate(body.functions)}
    names = [tool.name for tool in body.callable]
    return Calls(
        tuple(encode(before)),
        before,
        {name: tuple(encode(f"{before}{name_lead}{json.dumps(name)}{between}")) for name in names},
        make_program({"enum": names}, name_lead, "parallel"),
        {
            tool.name: _program(tool.schema_of, lead, ARGUMENTS, places[tool.name], make_program)
            for tool in body.callable
        },
    )


def _without_spaces(text: str) -> tuple[str, str]:
    """A text, and the spaces that it ended with."""
    kept = text.rstrip(" ")
    return kept, text[len(kept) :]


def _program(schema: Mapping[str, Any], lead: str, mode: str, place: str, make_program: MakeProgram) -> Program:
    try:
        return make_program(schema, lead, mode)
    except SchemaError as error:
        raise ApiError(400, f"{place}: {error}", param=place, code="invalid_schema") from None
