"""Scheme `exact`: after a sync every key stands at its true place, and the engine decodes what that says.

The reference turns keys anew for each query, to where they stood when it ran. Where they stood it is told by the
engine; that this is right, the layout and examples worked out by hand say.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers import AttentionInterface

from dense import TOLERANCE, check_against_dense, pilot
from pasta.decode import generate, generate_all, replay
from pasta.engine.attention import Group
from pasta.engine.cpu import CpuEngine
from pasta.engine.native import NativeEngine, Request, Row
from pasta.engine.rotation import Rotation
from pasta.engine.tags import add_tags
from pasta.errors import UnsupportedModel
from pasta.lang import parse
from pasta.layout import Positions, flatten, lay_out, spell
from pasta.models import load_pretrained
from pasta.result import Result
from pasta.vocab import Vocabulary
from support import FAMILIES, SIZES, PilotedEngine, byte_tokenizer, tiny_engine, tiny_model

PROMPT = "Compare cats and dogs."


@dataclass
class Record:
    """What ran for one request, in the order of its slots."""

    tokens: list[int] = field(default_factory=list)
    paths: list[tuple[int, ...]] = field(default_factory=list)
    stood: list[np.ndarray] = field(default_factory=list)  # when each ran: where all slots stood, its own the last
    logits: dict[int, torch.Tensor] = field(default_factory=dict)


class WatchedEngine(PilotedEngine):
    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.records: dict[Request, Record] = {}

    def _forward(self, rows: list[Row], deciding: list[int], groups: tuple[Group, ...]) -> torch.Tensor:
        logits = super()._forward(rows, deciding, groups)
        for index, row in enumerate(rows):
            record = self.records.setdefault(row.handle.request, Record())
            assert len(record.tokens) == row.place
            record.tokens.append(row.token)
            record.paths.append(row.handle.path)
            record.stood.append(positions_of(row.handle.request))
            assert record.stood[-1][row.place] == row.position
            if index in deciding:
                record.logits[row.place] = logits[deciding.index(index)].clone()
        return logits


class WatchedCpuEngine(WatchedEngine, CpuEngine):
    pass


def positions_of(request: Request) -> np.ndarray:
    """Where every slot of a request stands now."""
    segments = request.segments()
    out = np.zeros(len(segments), dtype=np.int64)
    for segment in set(segments.tolist()):
        own = np.flatnonzero(segments == segment)
        out[own] = request.starts[segment] + np.arange(len(own))
    return out


def watched(family: str = "llama", kind: type[WatchedEngine] = WatchedEngine) -> WatchedEngine:
    model, vocabulary = tiny_model(family), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    return kind(model, vocabulary, name=f"tiny-{family}", slots=4096)


# -- the reference -------------------------------------------------------------------------------------


def turned(x: torch.Tensor, rotary: torch.nn.Module, places: torch.Tensor) -> torch.Tensor:
    """(heads, *places, size), each to its place."""
    cosine, sine = (part[0].view(*places.shape, -1) for part in rotary(x, position_ids=places.reshape(1, -1)))
    size = cosine.shape[-1]
    low, high = x[..., : size // 2], x[..., size // 2 : size]
    return torch.cat([x[..., :size] * cosine + torch.cat([-high, low], -1) * sine, x[..., size:]], -1)


def reference(model: transformers.PreTrainedModel, request: Request, record: Record) -> torch.Tensor:
    """The logits after every slot's token, in one pass."""
    count = len(record.tokens)
    rotary = next(module for name, module in model.named_modules() if name.endswith("rotary_emb"))
    sees, segments = request.table.sees, request.segments().tolist()
    mask = torch.tensor([[bool(sees[a] >> b & 1) for b in segments] for a in segments]).tril()
    places = torch.zeros(count, count, dtype=torch.long)  # of key j when query i ran
    for slot, stood in enumerate(record.stood):
        places[slot, : slot + 1] = torch.from_numpy(stood[: slot + 1])
    own = places.diagonal()

    def attend(module, query, key, value, attention_mask, scaling=None, **_):
        shared = query.shape[1] // key.shape[1]
        keys, values = (part[0].repeat_interleave(shared, 0) for part in (key, value))
        keys, query = keys[:, None].expand(-1, count, -1, -1), query[0]
        if getattr(module, "use_rope", True):
            keys, query = turned(keys, rotary, places), turned(query, rotary, own)
        scores = torch.einsum("his,hijs->hij", query, keys) * scaling
        weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
        return (weights @ values).transpose(0, 1)[None], None

    AttentionInterface.register("turning", attend)
    model.set_attn_implementation("turning")
    with torch.inference_mode():
        logits = model(
            input_ids=torch.tensor([record.tokens]),
            position_ids=torch.zeros(1, count, dtype=torch.long),  # the model itself turns nothing
            attention_mask=torch.zeros(1, 1, count, count),
            use_cache=False,
        ).logits[0]
    model.set_attn_implementation("pasta")
    return logits


def check_against_reference(engine: WatchedEngine, results: list[Result]) -> None:
    tags = engine.vocabulary.tags
    assert tags is not None
    for (request, record), result in zip(engine.records.items(), results, strict=True):
        logits = reference(engine.model, request, record)
        assert len(record.logits) > 40
        for slot, seen in record.logits.items():
            torch.testing.assert_close(seen, logits[slot], rtol=0, atol=TOLERANCE)
        # After a sync of the main thread, all stands as in the merged response.
        layout = lay_out(result.prompt_ids, result.tree, tags, Positions.parse("exact"))
        syncs = [slot for slot, token in enumerate(record.tokens) if token == tags.sync]
        merged = iter(itertools.accumulate(result.tree, lambda n, item: n + size(item), initial=len(result.prompt_ids)))
        ends = [end for end, item in zip(merged, (*result.tree, None), strict=True) if item == tags.sync]
        main = [slot for slot in syncs if record.paths[slot] == ()]
        assert len(main) == len(ends) == 2
        for slot, end in zip(main, ends, strict=True):
            order = np.argsort(record.stood[slot][: slot + 1])
            assert record.stood[slot][order].tolist() == list(range(end + 1))
            assert [record.tokens[place] for place in order] == list(layout.ids[: end + 1])
        # And after one of a child, so does what it wrote.
        assert len(syncs) > len(main)
        for slot in set(syncs) - set(main):
            path = record.paths[slot]
            own = [place for place in range(slot + 1) if record.paths[place][: len(path)] == path]
            places = sorted(record.stood[slot][own].tolist())
            assert places == list(range(places[0], places[0] + len(own)))


def size(item: Any) -> int:
    return 1 if isinstance(item, int) else sum(1 for _ in flatten(item.items))


@pytest.mark.parametrize("length,body", [(1, 6), (2, 30), (9, 4)], ids=["right", "too-short", "too-long"])
def test_decoding_equals_the_reference(length: int, body: int) -> None:
    engine = watched()
    pilot(engine, length, body)
    result = generate(engine, PROMPT, positions="exact", max_depth=2)
    assert result.finish_reason == "stop"
    assert len(result.threads) == 6
    check_against_reference(engine, [result])
    assert engine.pool.free_slots == engine.pool.slots


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family(family: str) -> None:
    """Among them one that turns half of each key, and one with layers that turn none."""
    engine = watched(family)
    pilot(engine, 2, 9)
    check_against_reference(engine, [generate(engine, PROMPT, positions="exact", max_depth=2)])


def test_several_requests_and_few_turns() -> None:
    engine = watched(kind=WatchedCpuEngine)
    pilot(engine, 1, 9)
    prompts = [PROMPT, "Hello!", "Why is the sky blue, and the sea too? Say more."]
    check_against_reference(engine, generate_all(engine, prompts, positions="exact", max_depth=2, max_threads=2))


def test_it_is_predicted_where_the_prediction_is_right() -> None:
    """Blocks of just ten and twenty tokens: nothing has to turn, and one dense pass says the same."""
    engine = tiny_engine()
    text = 'Say <promise topic="a" tokens=1/><async>12345678</async>, <promise topic="b" tokens=2/>'
    text += "<async>123456789012345678</async>.<sync/> So."
    tree = spell(parse(text), engine.vocabulary)
    result = replay(engine, PROMPT, tree, positions="exact")
    assert lay_out(result.prompt_ids, tree, engine.vocabulary.tags, Positions.parse("exact")).positions == tuple(
        range(len(result.prompt_ids) + result.tokens_total)
    )
    for choice in engine.seen:
        object.__setattr__(choice, "piloted", True)  # none is the model's own
    check_against_dense(engine, [result], "exact")


def test_positions_by_hand() -> None:
    engine = tiny_engine()
    # Of the blocks, the first is 7 tokens long and promises 20, the second 13 and promises 10.
    text = 'ab<promise topic="x" tokens=2/><async>12345</async>c<promise topic="y" tokens=1/>'
    tree = spell(parse(text + "<async>12345678901</async>de<sync/>f"), engine.vocabulary)
    main, first, second = replay(engine, [1, 2, 3], tree, positions="exact").threads
    assert main.position_ids == (
        *(3, 4, 5, 6, 7),  # a, b, the promise
        *(28, 29, 30, 31),  # c, the promise: 20 further on
        *(42, 43),  # d, e: 10 further on
        *(34, 35),  # the sync, f: where they truly are, 3 + 5 + 7 + 4 + 13 + 2
    )
    assert first.position_ids == tuple(range(8, 15))
    assert second.position_ids == tuple(range(32, 45))


def test_a_context_that_the_true_places_fill() -> None:
    """The predictions are far too short: the answer ends before the gathered threads exceed the context."""
    for context in (70, 90, 110, 130):
        engine = tiny_engine(context=context)
        tree = spell(parse('<promise topic="x" tokens=1/><async>' + 30 * "a" + "</async>" * 1), engine.vocabulary)
        tree = (*tree, *spell(parse('<promise topic="y" tokens=1/><async>' + 50 * "b" + "</async>"), engine.vocabulary))
        tags = engine.vocabulary.tags
        assert tags is not None
        result = replay(engine, [1, 2, 3], (*tree, tags.sync, *engine.vocabulary.encode("so")), positions="exact")
        assert result.finish_reason == ("stop" if context >= 110 else "length")
        assert all(place < context for thread in result.threads for place in thread.position_ids)
        assert len(result.prompt_ids) + result.tokens_total <= context


# -- what cannot be ------------------------------------------------------------------------------------


def test_models_that_turn_otherwise_are_refused() -> None:
    torch.manual_seed(0)
    sizes = {key: value for key, value in SIZES.items() if key != "head_dim"}
    interleaved = transformers.CohereForCausalLM(transformers.CohereConfig(**sizes)).eval()
    learned = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=258, n_positions=512)
    ).eval()
    for model, why in ((interleaved, "do not turn by the same angle"), (learned, "not have one rotary embedding")):
        engine = NativeEngine(model, Vocabulary(byte_tokenizer()))
        with pytest.raises(UnsupportedModel, match=f"positions exact.*{why}"):
            Rotation(engine.model, engine.context)


def test_a_model_trained_for_it_is_tried_at_once() -> None:
    model = transformers.CohereForCausalLM(
        transformers.CohereConfig(**{key: value for key, value in SIZES.items() if key != "head_dim"})
    ).eval()
    model.config.pasta = {"positions": "exact"}
    with pytest.raises(UnsupportedModel, match="use positions predicted"):
        NativeEngine(model, Vocabulary(byte_tokenizer()))


def test_scaled_rotations_turn_too() -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024, "rope_theta": 1e4}
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, rope_parameters=scaling)).eval()
    vocabulary = Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    engine = NativeEngine(model, vocabulary, slots=4096)
    assert model.model.rotary_emb.attention_scaling > 1.05
    assert Rotation(engine.model, engine.context).layers == [0, 1]


@pytest.mark.slow
def test_real_weights(default_folder) -> None:
    model, tokenizer = load_pretrained(default_folder, device="cpu")
    vocabulary = Vocabulary(tokenizer)
    add_tags(model, vocabulary)
    engine = WatchedCpuEngine(model, vocabulary, slots=4096)
    pilot(engine, 2, 9)
    check_against_reference(engine, [generate(engine, PROMPT, positions="exact", max_depth=2)])
    rough = NativeEngine(model.to(torch.bfloat16), vocabulary)
    assert Rotation(rough.model, rough.context).layers == list(range(30))
