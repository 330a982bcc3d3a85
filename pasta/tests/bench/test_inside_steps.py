"""What benchmarks/inside_vllm.py replays to time a step of so many threads."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from pasta.core.tree import Block
from pasta.decoding.api import replay
from support import tiny_engine

PATH = Path(__file__).parents[2] / "benchmarks" / "inside_vllm.py"
CONTEXT, LENGTH = 1000, 150


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("inside_vllm", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_fits_into_one_request(script: Any) -> None:
    vocabulary = tiny_engine().vocabulary
    for threads in script.THREADS:
        items = script.step_response(vocabulary.tags, vocabulary.encode("abc"), threads, LENGTH)
        tokens = sum(len(item.items) if isinstance(item, Block) else 1 for item in items)
        assert CONTEXT + tokens + 2 * threads + 2 <= script.ROOM  # a step needs two places a thread, and the end two


def test_all_threads_are_live_for_so_many_steps(script: Any) -> None:
    engine = tiny_engine()
    items = script.step_response(engine.vocabulary.tags, engine.vocabulary.encode("abc"), 6, 20)
    result = replay(engine, "?", tuple(items), max_threads=64)
    assert len(result.threads) == 6 and result.finish_reason == "stop"
    all_live = min(each.end_step for each in result.threads) - max(each.start_step for each in result.threads)
    assert 20 <= all_live <= 25
    assert len({each.end_step for each in result.threads[1:]}) == 1
