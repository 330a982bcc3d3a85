"""Packing changes nothing, and every form of the mask is the layout's."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention.flex_attention import flex_attention

from pasta.core.layout import IGNORE, Layout
from pasta.core.positions import Positions
from pasta.core.tags import Tags
from pasta.core.vocabulary import Vocabulary
from pasta.data.batch import Shape, block_mask, collate, dense_mask, mask_function, model_inputs, pack
from pasta.models.tags import add_tags
from pasta.train.examples import make_examples
from pasta.train.head import target_logits
from pasta.train.loss import Meter, token_losses
from support import FAMILIES, byte_tokenizer, tiny_model


def tagged(family: str = "llama"):
    model, vocabulary = tiny_model(family), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    return model, vocabulary


def layouts_of(rows, vocabulary: Vocabulary, positions: str = "predicted") -> list[Layout]:
    return make_examples(rows, vocabulary, Positions.parse(positions)).layouts


def loss_and_gradients(model, batches) -> tuple[float, list[torch.Tensor]]:
    model.zero_grad()
    total = 0.0
    for batch in batches:
        logits = target_logits(model, model_inputs(batch), batch["learned"])
        loss = token_losses(logits, batch["targets"]).sum()
        loss.backward()
        total += float(loss.detach())
    return total, [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("positions", ["predicted", "fixed:40", "stitched"])
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_packed_equals_unpacked(rows, family: str, positions: str) -> None:
    model, vocabulary = tagged(family)
    layouts = layouts_of(rows, vocabulary, positions)
    apart = loss_and_gradients(model, [collate([[layout]]) for layout in layouts])
    packed = pack(layouts, 400)
    assert 1 < len(packed) < len(layouts)
    together = loss_and_gradients(model, [collate(packed, multiple=128, least=Shape(len(packed) + 2, 450, 60))])
    assert together[0] == pytest.approx(apart[0], rel=1e-5)
    for one, other in zip(apart[1], together[1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_no_example_of_a_row_sees_another(rows) -> None:
    """The loss of an example stays the same whatever else stands in its row."""
    model, vocabulary = tagged()
    layouts = layouts_of(rows, vocabulary)
    size = len(layouts[0].ids)
    logits = []
    for company in (layouts[1:3], layouts[4:7]):
        batch = collate([[layouts[0], *company], [*company]])
        mask = dense_mask(batch["segments"], batch["sees"])
        with torch.inference_mode():
            output = model(**{**model_inputs(batch), "attention_mask": mask})
        logits.append(output.logits[0, :size])
    torch.testing.assert_close(*logits, rtol=0, atol=1e-4)


def test_dense_mask_is_the_layouts(rows) -> None:
    layouts = layouts_of(rows, tagged()[1])
    batch = collate([layouts[:3], layouts[3:4]], multiple=64)
    mask = dense_mask(batch["segments"], batch["sees"])
    assert mask.shape == (2, 1, batch["input_ids"].shape[1], batch["input_ids"].shape[1])
    for row, members in enumerate((layouts[:3], layouts[3:4])):
        start = 0
        expected = torch.zeros_like(mask[row, 0])
        for layout in members:
            end = start + len(layout.ids)
            expected[start:end, start:end] = torch.from_numpy(layout.mask())
            start = end
        torch.testing.assert_close(mask[row, 0, :start], expected[:start])
        assert not mask[row, 0, start:, :start].any()
    assert mask.any(-1).all()  # no row without anything to see: its softmax would be nan


def test_flex_mask_equals_dense_mask(rows) -> None:
    layouts = layouts_of(rows, tagged()[1])
    batch = collate(pack(layouts, 300), multiple=128)
    segments, sees = batch["segments"], batch["sees"]
    count, width = segments.shape
    visible = mask_function(segments, sees)
    places = torch.arange(width)
    for index in range(count):
        found = visible(torch.tensor(index), torch.tensor(0), places[:, None], places[None, :])
        torch.testing.assert_close(found, dense_mask(segments, sees)[index, 0])


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_equals_dense_attention(rows) -> None:
    layouts = layouts_of(rows, tagged()[1])
    batch = collate(pack(layouts, 300)[:2], multiple=128)
    segments, sees = batch["segments"], batch["sees"]
    torch.manual_seed(0)
    query, key, value = torch.randn(3, len(segments), 2, segments.shape[1], 16)
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=dense_mask(segments, sees))
    found = flex_attention(query, key, value, block_mask=block_mask(segments, sees))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_labels_are_what_the_thread_puts_next(rows) -> None:
    _, vocabulary = tagged()
    tags = vocabulary.tags
    assert tags is not None
    batch = collate([layouts_of(rows[:1], vocabulary)])
    ids, labels = batch["input_ids"][0].tolist(), batch["labels"][0].tolist()
    assert tags.open not in labels  # the interpreter puts it
    answer = ids.index(tags.promise)
    assert all(label == IGNORE for label in labels[: answer - len("Two: ") - 1])  # the prompt, but for its last token
    for place, token in enumerate(ids):
        if token in tags.length_of:  # a promise ends: next comes what stands after its block
            assert labels[place] == ids[ids.index(tags.close, place) + 1]
        if token == tags.close:
            assert labels[place] == IGNORE
    ends = [place for place, label in enumerate(labels) if label in vocabulary.eos]
    assert ends == [max(place for place, label in enumerate(labels) if label != IGNORE)]


def test_packing_fills_rows_and_loses_nothing(rows) -> None:
    layouts = layouts_of(rows * 30, tagged()[1])
    packed = pack(layouts, 600, seed=3)
    lengths = [sum(len(layout.ids) for layout in row) for row in packed]
    assert max(lengths) <= 600
    assert sum(map(len, packed)) == len(layouts)
    assert sum(lengths) / (600 * len(packed)) > 0.9
    assert pack(layouts, 600, seed=3) == packed != pack(layouts, 600, seed=4)


def test_meter_tells_tags_from_text() -> None:
    tags = Tags(promise=7, lengths=(8, 9), open=10, close=11, sync=12)
    meter = Meter(tags)
    meter.add(torch.tensor([4.0, 1.0, 3.0, 2.0]), torch.tensor([7, 1, 2, 8]))
    meter.add(torch.tensor([6.0]), torch.tensor([9]))
    assert meter.read() == {"tag_loss": 4.0, "text_loss": 2.0, "length_loss": 4.0}
    assert meter.read() == {}
    bare = Meter(None)
    bare.add(torch.tensor([4.0, 1.0]), torch.tensor([7, 1]))
    assert bare.read() == {"text_loss": 2.5}


def test_what_is_learned_is_known_on_the_host(rows) -> None:
    batch = collate(pack(layouts_of(rows, tagged()[1]), 300), multiple=8)
    chosen = batch["labels"] != IGNORE
    assert batch["learned"].tolist() == chosen.flatten().nonzero().flatten().tolist()
    assert batch["targets"].tolist() == batch["labels"][chosen].tolist()


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_takes_the_mask(rows, family: str) -> None:
    """Hiding a block from what stands after it must change the loss: else the mask was dropped on the way."""
    model, vocabulary = tagged(family)
    batch = collate([layouts_of(rows[:2], vocabulary)])
    causal = torch.ones_like(dense_mask(batch["segments"], batch["sees"])).tril()
    losses = []
    for mask in (dense_mask(batch["segments"], batch["sees"]), causal):
        with torch.inference_mode():
            logits = target_logits(model, {**model_inputs(batch), "attention_mask": mask}, batch["learned"])
        losses.append(float(token_losses(logits, batch["targets"]).sum()))
    assert abs(losses[0] - losses[1]) > 0.1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_transformers_flex_attention_takes_the_mask(rows) -> None:
    """The same logits through transformers' compiled FlexAttention, which is what trains on a GPU."""
    model, vocabulary = tagged()
    batch = collate(pack(layouts_of(rows, vocabulary), 300), multiple=128)
    with torch.no_grad():
        expected = model(**model_inputs(batch)).logits
        model.set_attn_implementation("flex_attention")
        found = model(**model_inputs(batch, flex=True)).logits
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
