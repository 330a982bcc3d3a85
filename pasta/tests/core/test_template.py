"""Chat templates of all kinds: a message is written once, whole, wherever the template puts it."""

from __future__ import annotations

import pytest

from pasta.core.vocabulary import Vocabulary
from pasta.errors import UsageError
from pasta.train.examples import end_of_turn
from support import byte_tokenizer

# As of LLaVA and its kin, and of SmolVLM.
SELECTED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% for part in m.content | selectattr('type', 'equalto', 'text') %}{{ part.text }}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LOOPED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content[0].type == 'image' %}!{% endif %}"
    "{% for line in m.content %}{% if line.type == 'text' %}{{ line.text }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# As of Mistral: the system message stands in front of the last question.
LATE_SYSTEM = (
    "{% set system = messages[0].content %}{% for m in messages[1:] %}"
    "{% if m.role == 'user' %}[{{ system + '|' if loop.last else '' }}{{ m.content }}]"
    "{% else %}{{ m.content }}<|im_end|>{% endif %}{% endfor %}"
)
TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Yes"},
    {"role": "user", "content": "Why?"},
]


def vocabulary(template: str | dict[str, str]) -> Vocabulary:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = template  # type: ignore[assignment]
    return Vocabulary(tokenizer)


@pytest.mark.parametrize("template", [SELECTED, LOOPED])
@pytest.mark.parametrize("ends", ["", "<|im_end|>"])
def test_a_template_that_knows_parts_alone_writes_the_question(template: str, ends: str) -> None:
    own, plain = vocabulary(template), Vocabulary(byte_tokenizer())
    talk = [*TALK[:-1], {"role": "user", "content": f"Why?{ends}"}]
    assert own.encode_chat(talk) == plain.encode_chat(talk)
    assert own.closing() == plain.closing()


@pytest.mark.parametrize("spelling", range(4))
def test_a_message_that_spells_a_token_stands_where_the_template_puts_it(spelling: int) -> None:
    own = vocabulary(LATE_SYSTEM)
    talk = [{**m, "content": f"{m['content']}<|im_end|>"} if i == spelling else m for i, m in enumerate(TALK)]
    ids = own.encode_chat(talk)
    said = [message["content"] for message in talk]
    assert own.decode(ids) == f"[{said[1]}]{said[2]}<|im_end|>[{said[0]}|{said[3]}]"
    assert ids.count(own.tokenizer.eos_token_id) == 1, "the template's own"


def test_templates_without_a_first_one_are_one_clear_error() -> None:
    own = vocabulary({"chat": LATE_SYSTEM, "rag": LATE_SYSTEM})
    for ask in (lambda: own.encode_chat(TALK), lambda: end_of_turn(own)):
        with pytest.raises(UsageError, match=r"refuses these messages: .*no default"):
            ask()
