"""Answers to replay: made up, or a model's own."""

from __future__ import annotations

from dataclasses import dataclass

from pasta.bench.responses import make_responses, plain_tokens
from pasta.core.tree import Tree, flatten
from pasta.decoding.api import run
from pasta.decoding.prompts import make_request
from pasta.engine.base import Engine

PROMPT = 128  # tokens of a prompt that is made up
WORDS = "abcdefghijklmnopqrstuvwxyz"
ASKED = (
    "Name three {} and describe each.",
    "Give four tips about {}.",
    "List five facts about {}.",
    "What are the main kinds of {}? Explain each.",
)
ABOUT = """fruits, sleeping well, bicycles, learning a language, planets, healthy food, saving money, gardening, dogs,
cities, musical instruments, public speaking, trees, job interviews, oceans, board games, cooking, running, birds,
painting, computers, travelling, friendship, reading""".replace("\n", " ").split(", ")


@dataclass(frozen=True, slots=True)
class Script:
    """An answer to replay."""

    prompt: tuple[int, ...]
    annotated: Tree
    plain: Tree

    def content(self, tree: Tree) -> float:
        """The share of a tree's tokens that somebody reads."""
        return len(self.plain) / sum(1 for _ in flatten(tree))


def made_up(engine: Engine, count: int, threads: tuple[int, int] = (4, 12)) -> list[Script]:
    """Answers with real structure, of random words (`bench/responses.py`)."""
    tags = engine.vocabulary.tags
    assert tags is not None
    trees = make_responses(count, tags, engine.vocabulary.encode(WORDS), seed=1, threads=threads)
    return [Script((5,) * PROMPT, tree, plain_tokens(tree, tags)) for tree in trees]


def own_answers(engine: Engine, limit: int | None = None, max_tokens: int = 400) -> tuple[list[Script], int]:
    """The model's own answers that fork and end by themselves, and how many were asked for."""
    tags = engine.vocabulary.tags
    assert tags is not None
    questions = [asked.format(about) for about in ABOUT for asked in ASKED][:limit]
    requests = [make_request(engine, question, max_tokens=max_tokens) for question in questions]
    scripts = [
        Script(tuple(result.prompt_ids), result.tree, plain_tokens(result.tree, tags))
        for result in run(engine, requests)
        if len(result.threads) > 1 and result.finish_reason == "stop"
    ]
    return scripts, len(questions)
