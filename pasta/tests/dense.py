"""The reference: one dense pass over the merged response; and a pilot that makes responses with every kind of fork."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from pasta.core.grammar import Expect
from pasta.core.layout import IGNORE, Layout, lay_out
from pasta.core.positions import Positions
from pasta.core.tags import Tags
from pasta.core.tree import Block, Tree
from pasta.decoding.results import Result
from pasta.engine.native import NativeEngine
from support import PilotedEngine

TOLERANCE = 1e-4


def script(tags: Tags, topic: list[int], length: int, body: int) -> dict[tuple[int, ...], dict[int, int]]:
    """Two promises, the first of which forks again and joins; text; a sync; text; a third promise; a sync; the end.

    `length` is what every promise says, `body` how long blocks really are: estimates may be wrong.
    """

    def promise(at: int) -> dict[int, int]:
        return {
            at: tags.promise,
            **{at + 1 + i: t for i, t in enumerate(topic)},
            at + 1 + len(topic): tags.lengths[length - 1],
        }

    size = len(topic) + 2
    return {
        (): {
            **promise(3),
            **promise(3 + size),
            3 + 2 * size + 4: tags.sync,
            **promise(3 + 2 * size + 8),
            3 + 3 * size + 9: tags.sync,
            3 + 3 * size + 14: -1,  # the end
        },
        (0,): {**promise(2), 2 + size + 3: tags.sync, 2 + size + 3 + body: tags.close},
        (0, 0): {body: tags.close},
        (1,): {**promise(1), body + size + 1: tags.close},  # a child left open at its end
        (1, 0): {2 * body: tags.close},
        (2,): {body: tags.close},
    }


def pilot(engine: PilotedEngine, length: int, body: int) -> None:
    tags = engine.vocabulary.tags
    assert tags is not None
    fly(engine, script(tags, engine.vocabulary.encode("cat"), length, body))


def fly(engine: PilotedEngine, steps: Mapping[tuple[int, ...], Mapping[int, int]]) -> None:
    """Puts these tokens, by thread and choice; -1 is the end."""
    tags = engine.vocabulary.tags
    assert tags is not None
    end = min(engine.vocabulary.eos)
    forbidden_end = engine.vocabulary.eos

    def choose(path: tuple[int, ...], index: int) -> int | None:
        token = steps[path].get(index)
        return end if token == -1 else token

    engine.pilot = choose  # type: ignore[method-assign]
    # Nothing but the pilot ends a response or puts a tag.
    assert engine._forbidden is not None
    engine._forbidden[:8, list(tags.all | forbidden_end)] = True


def dense(engine: NativeEngine, layout: Layout) -> torch.Tensor:
    """Logits of one forward pass over prompt and merged response, under the layout's mask and positions."""
    engine.model.set_attn_implementation("eager")
    with torch.inference_mode():
        logits = engine.model(
            input_ids=torch.tensor([layout.ids]),
            position_ids=torch.tensor([layout.positions]),
            attention_mask=masks(engine.model.config.get_text_config(), layout),
            use_cache=False,
        ).logits[0]
    engine.model.set_attn_implementation("pasta")
    return logits


def masks(config: Any, layout: Layout) -> torch.Tensor | dict[str, torch.Tensor]:
    """The mask of all layers, or of each kind: a sliding layer sees what is less than a window behind, by position."""

    def as_scores(visible: np.ndarray) -> torch.Tensor:
        mask = torch.zeros(1, 1, *visible.shape)
        return mask.masked_fill_(~torch.from_numpy(visible), torch.finfo(torch.float32).min)

    visible, positions = layout.mask(), np.array(layout.positions)
    window = getattr(config, "sliding_window", None)
    if not window:
        return as_scores(visible)
    near = as_scores(visible & (positions[:, None] - positions[None] < window))
    kinds = getattr(config, "layer_types", None)
    return near if kinds is None else {"full_attention": as_scores(visible), "sliding_attention": near}


def check_against_dense(
    engine: PilotedEngine, results: list[Result], positions: str, logit_tolerance: float = TOLERANCE
) -> None:
    """Every row of logits from which a token was chosen equals the dense pass's, and the choice is its best."""
    assert engine._forbidden is not None
    requests = list(dict.fromkeys(choice.request for choice in engine.seen))
    for request, result in zip(requests, results, strict=True):
        layout = lay_out(result.prompt_ids, result.tree, engine.vocabulary.tags, Positions.parse(positions))
        logits = dense(engine, layout)
        choices = {(choice.path, choice.index): choice for choice in engine.seen if choice.request is request}
        rows = rows_by_thread(result.tree, len(result.prompt_ids))
        assert set(rows) <= set(choices)
        for place, row in rows.items():
            choice, target = choices[place], layout.targets[row]
            torch.testing.assert_close(choice.logits, logits[row], rtol=0, atol=logit_tolerance)
            if target != IGNORE and not choice.piloted:
                best = logits[row].masked_fill(engine._forbidden[Expect.TEXT], -torch.inf).max()
                assert logits[row, target] >= best - TOLERANCE


def rows_by_thread(tree: Tree, start: int) -> dict[tuple[tuple[int, ...], int], int]:
    """(path, n-th choice) -> the index in merged order of the token after which it was made."""
    rows: dict[tuple[tuple[int, ...], int], int] = {}
    cursor = start

    def walk(items: Tree, path: tuple[int, ...]) -> None:
        nonlocal cursor
        last, choice, forks = (start - 1 if not path else None), 0, 0
        for item in items:
            if isinstance(item, Block):
                walk(item.items, (*path, forks))
                forks += 1
                continue
            if last is not None:
                rows[path, choice] = last
                choice += 1
            last = cursor
            cursor += 1
        if not path and last is not None:
            rows[path, choice] = last

    walk(tree, ())
    return rows
