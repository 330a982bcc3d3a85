"""Variables of a chat template that are the asker's to set, such as `enable_thinking` of a model that can think."""

from __future__ import annotations

from collections.abc import Container, Mapping

MAX_VARIABLES = 16
MAX_CHARACTERS = 1000  # of a name, or of a text
GIVEN = frozenset("self messages tools documents chat_template add_generation_prompt tokenize".split())


def problem_of(variables: object, given: Container[str] = ()) -> str | None:
    """What keeps these from being variables for a template; None where nothing does.

    `given` is what the tokenizer's own method takes: among it a template, which would be a program of the asker's. Any
    other name may be a variable: to a template, what it does not know is nothing, as what it is not given is.
    """
    if not isinstance(variables, Mapping):
        return "expected names with values, as in {'enable_thinking': False}"
    if len(variables) > MAX_VARIABLES:
        return f"expected at most {MAX_VARIABLES} variables, not {len(variables)}"
    for name, value in variables.items():
        if not isinstance(name, str) or not name.isidentifier() or len(name) > MAX_CHARACTERS:
            return f"{name!r:.40} cannot be the name of a variable"
        if name in GIVEN or name in given:
            return f"{name} cannot be set: the template has it from elsewhere"
        if not isinstance(value, str | bool | int | float | None):
            return f"expected a text, a number, true, false or null for {name}"
        if isinstance(value, str) and len(value) > MAX_CHARACTERS:
            return f"expected at most {MAX_CHARACTERS} characters for {name}, not {len(value)}"
        if isinstance(value, str) and value != value.encode("utf-8", "ignore").decode():
            return f"expected Unicode for {name}, without halves of characters"
    return None
