"""What a model asks of attention, call by call, as one token on its way through it shows.

Nothing is known of families here: windows are read from the masks that the model itself asks transformers for, soft
caps and sinks from what its layers hand to their attention.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import causal_mask_function

from pasta.engine.attention import Near

IMPLEMENTATION = "pasta-survey"
FAILS = "its forward pass fails under this engine's attention"
TOKEN = 10  # any ordinary one

NO_MATTER = {"position_ids"}  # tensors that some layers hand to their attention, and that change nothing there


class Unfit(Exception):
    """Why the engine cannot run a model: a sentence about 'it'."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of attention in a forward pass; most layers make one."""

    near: Near | None  # what it sees of what is before it; None: everything
    reach: int | None  # how far back that is at most, in positions
    window: bool  # whether it is a sliding window: exactly so far back, from everywhere
    told: int | None  # the window that the layer names when it calls
    softcap: float | None
    sinks: bool
    slot_bytes: int  # that a token's key and value take


@dataclass(frozen=True, slots=True)
class Mask:
    """What a model asks transformers for: a function of batch, head, query and key; and how far it reaches."""

    function: Callable[..., Any]
    size: int | None

    def visible(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return self.function(0, 0, query, key)

    def near(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        """A key that stands ahead of the query, as a block's may after its join, is as near as can be."""
        return self.visible(torch.maximum(query, key), key)


_calls: ContextVar[list[Call]] = ContextVar("pasta_calls")


def survey(model: PreTrainedModel) -> tuple[Call, ...]:
    """The attention calls of a forward pass, in their order. `Unfit` where there is one that `attend` cannot do."""
    config = model.config.get_text_config(decoder=True)
    if "position_ids" not in inspect.signature(model.forward).parameters:
        raise Unfit("its forward pass takes no positions")
    before = config._attn_implementation
    token = _calls.set([])
    try:
        model.set_attn_implementation(IMPLEMENTATION)
        if config._attn_implementation != IMPLEMENTATION:
            raise Unfit("its attention cannot be replaced (it does not use transformers' attention interface)")
        place = torch.zeros(1, 1, dtype=torch.long, device=model.device)
        with torch.inference_mode():
            model(input_ids=place + TOKEN, position_ids=place, use_cache=False)
        calls = tuple(_calls.get())
    except (Unfit, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # each family has its own ways to fail under another attention
        if f"'{Mask.__name__}'" in str(error):
            raise Unfit("its layers make attention masks of their own") from error
        raise Unfit(f"{FAILS} ({first_line(error)})") from error
    finally:
        _calls.reset(token)
        model.set_attn_implementation(before)
    layers = int(config.num_hidden_layers)
    if len(calls) < layers:
        what = f"only {len(calls)} of its {layers} layers use" if calls else "it does not use"
        raise Unfit(f"its attention cannot be replaced ({what} transformers' attention interface)")
    return calls


def first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:160]}" if text else type(error).__name__


def _note(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of a single token: it sees itself."""
    odd = sorted(name for name, given in options.items() if isinstance(given, torch.Tensor) and name not in NO_MATTER)
    if odd:
        raise Unfit(f"its attention takes {', '.join(odd)}, which this engine's does not")
    reach, window = measure(attention_mask)
    near = None if reach is None else attention_mask.near
    slot_bytes = sum(part.shape[1] * part.shape[3] * part.element_size() for part in (key, value))
    told = options.get("sliding_window")
    _calls.get().append(Call(near, reach, window, told, softcap, s_aux is not None, slot_bytes))
    out = value.repeat_interleave(query.shape[1] // value.shape[1], 1)
    return out.transpose(1, 2).contiguous(), None


def measure(mask: Any) -> tuple[int | None, bool]:
    """How far back a mask lets a token see, and whether that is a window; None: to the beginning."""
    if mask is None or (isinstance(mask, Mask) and mask.function is causal_mask_function):
        return None, False
    if not isinstance(mask, Mask):
        raise Unfit("its layers make attention masks of their own")
    near = torch.arange(64)
    causal = torch.ones(64, 64, dtype=torch.bool).tril()
    try:
        visible = mask.visible(near[:, None], near[None])
    except IndexError:
        raise Unfit("its attention mask depends on what stands at a place, not on positions alone") from None
    if (visible & ~causal).any():
        raise Unfit("its attention is not causal")
    if mask.size is None:
        if not torch.equal(visible, causal):
            raise Unfit("its attention mask is neither causal nor a window")
        return None, False
    far = mask.size + torch.tensor([0, 1, 2, mask.size // 2, mask.size])  # some queries that see less than everything
    edge = mask.visible(far, far - mask.size + 1) & ~mask.visible(far, far - mask.size)
    return mask.size, bool(edge.all())


def _mask(*_: Any, mask_function: Callable[..., Any] = causal_mask_function, **options: Any) -> Mask:
    return Mask(mask_function, options.get("local_size"))


AttentionInterface.register(IMPLEMENTATION, _note)
AttentionMaskInterface.register(IMPLEMENTATION, _mask)
