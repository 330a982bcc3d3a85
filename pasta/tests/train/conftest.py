"""Fixtures of the training tests: a tiny model's folder, and annotated rows."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from support import byte_tokenizer, tiny_model

ANSWERS = [
    'Two: <promise topic="{a}" tokens=9/><async>{a} is {a}.</async> '
    '<promise topic="{b}" tokens=1/><async>{b}, yes.</async><sync/> Done {a}.',
    'Say <promise topic="{a}" tokens=1/><async>{a}: <promise topic="in" tokens=1/><async>so {b}</async> and'
    "<sync/> {a}.</async> {b}.",
    "Only {a} and {b}.",
]
COLOURS = ["red", "blue", "green", "white", "black", "pink", "grey", "gold", "teal", "plum", "lime"]


def toy_rows(count: int = 10) -> list[dict[str, str]]:
    return [
        {"prompt": f"{a} {b}?", "response": ANSWERS[i % len(ANSWERS)].format(a=a, b=b)}
        for i, (a, b) in enumerate(pairwise(COLOURS[: count + 1]))
    ]


@pytest.fixture
def rows() -> list[dict[str, str]]:
    return toy_rows()


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in toy_rows()))
    return str(path)


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tiny")
    tiny_model().save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return str(folder)
