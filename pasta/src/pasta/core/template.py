"""A model's chat template: what it writes of a conversation."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pasta.core.variables import problem_of
from pasta.errors import UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

WORD = "kq7zxw"  # which no template writes of its own accord


class Template:
    """Renders messages whose contents are texts.

    Templates of models that read images may know contents as lists of parts alone, and write nothing of a text: those
    are given a text as the one part of a list.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase):
        self._tokenizer = tokenizer
        self._probed: tuple[Any, bool] = (None, False)  # a template, and whether it wants parts

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        *,
        tokenize: bool,
        prompt: bool,
    ) -> Any:
        """`prompt`: ready for the answer. `variables`: more that the template may know, see `problem_of`."""
        given: dict[str, Any] = {"tokenize": tokenize, "add_generation_prompt": prompt, "return_dict": False}
        if tools is not None:
            given["tools"] = list(tools)
        shown = [in_parts(message) for message in messages] if self._wants_parts() else list(messages)
        try:
            return self._tokenizer.apply_chat_template(shown, **given, **variables or {})
        except Exception as error:  # jinja raises its own types, and so do templates
            raise UsageError(f"the model's chat template refuses these messages: {error}") from error

    def check(self, variables: Mapping[str, Any], specials: Iterable[str]) -> None:
        """Refuses what cannot be set, or would write a special token into the prompt."""
        if self._tokenizer.chat_template is None:
            raise UsageError("the model has no chat template, and chat_template_kwargs is for one", "leave it out")
        problem = problem_of(variables, inspect.signature(self._tokenizer.apply_chat_template).parameters)
        if problem is not None:
            raise UsageError(f"chat_template_kwargs: {problem}")
        for name, value in variables.items():
            spells = isinstance(value, str) and any(special in value for special in specials)
            if spells or name in self._tokenizer.special_tokens_map:
                raise UsageError(f"chat_template_kwargs: {name} cannot be a special token of one's own")

    def _wants_parts(self) -> bool:
        template = self._tokenizer.chat_template
        if self._probed[0] != template:
            message = {"role": "user", "content": WORD}
            self._probed = template, not self._shows(message) and self._shows(in_parts(message))
        return self._probed[1]

    def _shows(self, message: Mapping[str, Any]) -> bool:
        try:
            return WORD in self._tokenizer.apply_chat_template([message], tokenize=False)
        except Exception:  # as above
            return False


def in_parts(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    return {**message, "content": [{"type": "text", "text": content}] if isinstance(content, str) else content}


def texts(value: Any) -> Iterator[str]:
    """All that is spelled in a field of a message."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from texts(name)
            yield from texts(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from texts(inner)
