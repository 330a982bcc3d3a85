"""A short forked script through an engine and through the model's own forward pass: they agree, or it is refused.

The script forks, forks inside a block, writes more than was promised, joins both ways, and goes past every window; a
neighbour in the same steps stands at the last position. What it is compared with is transformers' own eager attention
under a dense mask; and, for its beginning, which is plain text, the model called as anybody would call it.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, PretrainedConfig, PreTrainedModel

from pasta.core.grammar import Expect
from pasta.core.layout import IGNORE, Layout
from pasta.core.params import SamplingParams
from pasta.engine.attention import IMPLEMENTATION
from pasta.engine.base import TokenLogprobs
from pasta.engine.native import NativeEngine
from pasta.engine.request import Handle
from pasta.engine.survey import Mask, Unfit, first_line, survey
from pasta.engine.upcast import in_float32

DENSE = "pasta-dense"
WINDOW = 8  # what windows are cut down to for the check, so that a short script goes past them
# Of a row's spread: the worst row in float32, where rounding is about 1e-5; in 16 bits the mean of all, where rounding
# is mostly up to 0.06, mistakes were 0.25 and more, and a single row is far off where a token goes to another expert.
# A model that 16 bits take further from itself may be as far from the engine: two errors of that size, not more.
TOLERANCE, MEAN_TOLERANCE, ROUNDING = 1e-3, 0.15, 2.0

NEEDS_SLOTS, NEEDS_POSITIONS = 128, 64  # of the script and its neighbour
PROMPT = 12  # tokens
PLAIN = 18  # tokens up to the first fork


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far the engine was from the model's own forward pass, in units of the logits' spread."""

    plain: float  # on plain text, from the model as anybody would call it
    forked: float  # on all of the script, from the dense pass
    tolerance: float

    def to_dict(self) -> dict[str, float]:
        return dataclasses.asdict(self)

    @property
    def good(self) -> bool:
        return max(self.plain, self.forked) <= self.tolerance

    def __str__(self) -> str:
        what, off = ("plain text", self.plain) if self.plain > self.tolerance else ("a forked text", self.forked)
        return f"on {what} it differs from the model's own forward pass by {off:.2g} of the logits' spread"


def self_check(engine: NativeEngine) -> Agreement:
    """Plays the script. The engine is left as it was. `Unfit` where it cannot be played."""
    model = engine.model
    try:
        with short_windows(engine):
            return agree(model, play(engine))
    except (Unfit, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # each family has its own ways to fail
        raise Unfit(f"a short script cannot be run through it ({first_line(error)})") from error
    finally:
        model.set_attn_implementation(IMPLEMENTATION)


def agree(model: PreTrainedModel, played: Played) -> Agreement:
    exact = model.dtype in (torch.float32, torch.float64)
    plain = own_logits(model, played.layout.ids[:PLAIN])
    forked = dense_logits(model, played.layout)
    beginning = {row: told for row, told in played.told.items() if row < PLAIN}
    agreement = Agreement(
        distance(beginning, plain, worst=exact),
        distance(played.told, forked, worst=exact),
        TOLERANCE if exact else MEAN_TOLERANCE,
    )
    if exact or agreement.good:
        return agreement
    return dataclasses.replace(agreement, tolerance=max(MEAN_TOLERANCE, ROUNDING * rounding(model, played, forked)))


def rounding(model: PreTrainedModel, played: Played, logits: torch.Tensor) -> float:
    """How far 16 bits take the model's own pass over the script from the same in 32, as `distance` measures it."""
    with in_float32(model):
        exact = dense_logits(model, played.layout)
    own = logits.float().log_softmax(-1)
    told = {}
    for row, said in played.told.items():
        tokens = [token for token, _ in said.top]
        told[row] = dataclasses.replace(said, top=tuple(zip(tokens, own[row, tokens].tolist(), strict=True)))
    return distance(told, exact, worst=False)


@contextmanager
def short_windows(engine: NativeEngine) -> Iterator[None]:
    """Cuts the windows of model and engine down to a few tokens; the fields are those that transformers' masks read."""
    if engine.reach is None:
        yield
        return
    config = engine.model.config.get_text_config(decoder=True)
    fields = ("sliding_window", "attention_chunk_size")
    kept = {name: getattr(config, name) for name in fields if isinstance(getattr(config, name, None), int)}
    try:
        for name, size in kept.items():
            setattr(config, name, min(WINDOW, size))
        calls = survey(engine.model)
        if any(call.reach is not None and call.reach > WINDOW for call in calls):
            raise Unfit("its windows cannot be cut down to be checked")
        engine.look_within(calls)
        engine.model.set_attn_implementation(IMPLEMENTATION)
        yield
    finally:
        engine.look_within(engine.calls)
        for name, size in kept.items():
            setattr(config, name, size)


# -- the script ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Played:
    layout: Layout
    told: dict[int, TokenLogprobs]  # what the engine said after the token with this index


class Player:
    """Feeds an engine, and notes what was fed and what it said."""

    def __init__(self, engine: NativeEngine):
        self.engine = engine
        size = int(engine.model.get_output_embeddings().weight.shape[0])
        self._tokens = ordinary_tokens(engine.model.config, size)
        self.ids = [next(self._tokens) for _ in range(PROMPT)]
        self.positions = list(range(PROMPT))
        self.told: dict[int, TokenLogprobs] = {}
        self._asked = [PROMPT - 1]
        params = SamplingParams(logprobs=min(20, size))
        self.main = engine.open(self.ids, Expect.TEXT, params)
        self.segments = [self.main.thread.segment] * PROMPT

    def feed(self, thread: Handle, position: int, tokens: int) -> None:
        for place in range(position, position + tokens):
            token = next(self._tokens)
            self._asked.append(len(self.ids))
            self.ids.append(token)
            self.positions.append(place)
            self.segments.append(thread.thread.segment)
            self.engine.feed(thread, token, place, Expect.TEXT)

    def step(self, *, apart: bool = False) -> None:
        """`apart`: a prompt runs before the step, wherever the engine might run it within."""
        kept = self.engine.prompt_rows
        self.engine.prompt_rows = 0 if apart else kept
        said: list[TokenLogprobs] = []
        while len(said) < len(self._asked):  # an engine may take a step for prompts and one for the rest
            for decoded in self.engine.step():
                assert decoded.logprobs is not None
                said.append(decoded.logprobs)
        self.told.update(zip(self._asked, said, strict=True))
        self._asked = []
        self.engine.prompt_rows = kept

    def played(self) -> Played:
        targets = (IGNORE,) * len(self.ids)
        sees = tuple(self.main.request.table.sees)
        return Played(Layout(tuple(self.ids), tuple(self.positions), tuple(self.segments), targets, sees), self.told)


def ordinary_tokens(config: PretrainedConfig, size: int) -> Iterator[int]:
    """All kinds of tokens, but none that stands for an image or the like."""
    named = [value for name, value in config.to_dict().items() if name.endswith(("_token_id", "_token_index"))]
    special = {token for value in named for token in (value if isinstance(value, list) else [value])}
    stride = next(number for number in (7919, 7907, 7901) if size % number)
    return (token for index in count() if (token := index * stride % size) not in special)


def play(engine: NativeEngine) -> Played:
    player = Player(engine)
    neighbour, last = engine.open(player.ids[:2], None, SamplingParams()), engine.context - 1
    try:
        main = player.main
        player.step(apart=True)
        engine.feed(neighbour, player.ids[2], last, None)
        player.feed(main, 12, 6)
        player.step()
        first = engine.fork(main)  # promises ten tokens
        player.feed(main, 28, 1)
        second = engine.fork(main)  # promises five
        player.feed(main, 34, 3)
        player.feed(first, 18, 4)
        player.feed(second, 29, 4)
        player.step()
        inner = engine.fork(first)  # promises six
        player.feed(first, 28, 2)
        player.feed(inner, 22, 5)
        engine.feed(neighbour, player.ids[3], last, None)
        player.step()
        engine.join(first, [inner])
        player.feed(first, 30, 9)  # more than was promised: beyond where the main thread stands
        player.feed(main, 37, 2)
        player.feed(second, 33, 3)
        player.step()
        engine.join(main, [first, second])
        player.feed(main, 39, 6)
        player.step()
        return player.played()
    finally:
        engine.close(player.main)
        engine.close(neighbour)


# -- the model's own word ----------------------------------------------------------------------------------


@torch.inference_mode()
def own_logits(model: PreTrainedModel, ids: tuple[int, ...]) -> torch.Tensor:
    """The model as anybody calls it: its own masks, its own positions."""
    model.set_attn_implementation("eager")
    return model(input_ids=torch.tensor([ids], device=model.device), use_cache=False).logits[0]


@torch.inference_mode()
def dense_logits(model: PreTrainedModel, layout: Layout) -> torch.Tensor:
    """Its own eager attention under the layout's mask and positions, each layer's windows over positions."""
    device = model.device
    ids, positions = (torch.tensor([column], device=device) for column in (layout.ids, layout.positions))
    token = _dense.set((torch.from_numpy(layout.mask()).to(device), positions[0]))
    try:
        model.set_attn_implementation(DENSE)
        return model(
            input_ids=ids, position_ids=positions, attention_mask=torch.ones_like(ids), use_cache=False
        ).logits[0]
    finally:
        _dense.reset(token)


def distance(told: dict[int, TokenLogprobs], logits: torch.Tensor, *, worst: bool) -> float:
    """How far what was told is from the logits, in units of a row's spread: the worst row, or their mean."""
    expected = logits.float().log_softmax(-1)
    rows = []
    for row, own in told.items():
        tokens, values = zip(*own.top, strict=True)
        off = (expected[row, list(tokens)] - torch.tensor(values, device=logits.device)).abs().max()
        rows.append(float(off / expected[row].std().clamp_min(1e-6)))
    if not all(map(math.isfinite, rows)):
        return math.inf
    return max(rows) if worst else sum(rows) / len(rows)


_dense: ContextVar[tuple[torch.Tensor, torch.Tensor]] = ContextVar("pasta_dense")


def _dense_mask(*_: Any, mask_function: Callable[..., Any], dtype: torch.dtype = torch.float32, **__: Any) -> Any:
    visible, positions = _dense.get()
    near = Mask(mask_function, None).near(positions[:, None], positions[None])
    scores = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    return scores.masked_fill_(~(visible & near), torch.finfo(dtype).min)[None, None]


def _own_eager(module: torch.nn.Module, *args: Any, **options: Any) -> Any:
    """The attention that the module's own file calls eager."""
    return sys.modules[type(module).__module__].eager_attention_forward(module, *args, **options)


AttentionInterface.register(DENSE, _own_eager)
AttentionMaskInterface.register(DENSE, _dense_mask)
