"""An answer cut into units is its own tokens, whatever the tokenizer puts in front of texts."""

import pytest

from pasta.core.vocabulary import Vocabulary
from pasta.data.example import Example
from pasta.data.units import cut
from toy_tokenizers import toy_tokenizer

TEXTS = [
    "Tea is a drink. It is made of leaves. Coffee is another.",
    "Fruits:\n\n1. Banana, which is yellow and sweet.\n2. Apple, which is red and sour.\n\nThat is all.",
    "- One thing that matters here.\n- Another thing that matters too.",
]


@pytest.mark.parametrize("kind", ["metaspace-first-whole", "prepend", "gemma", "byte-level"])
@pytest.mark.parametrize("template", ["mistral", "chatml"])
@pytest.mark.parametrize("text", TEXTS)
def test_units_are_the_answer(kind: str, template: str, text: str) -> None:
    vocabulary = Vocabulary(toy_tokenizer(kind, template))
    example = Example(row=0, messages=({"role": "user", "content": "Why?"},), text=text)
    answer = cut(example, vocabulary, max_units=20, min_tokens=3, max_prompt=100)
    assert len(answer.units) > 1
    ids = [token for unit in answer.units for token in (*unit.gap, *unit.ids)] + list(answer.tail)
    assert vocabulary.decode(ids) == vocabulary.lead(answer.prompt) + text
