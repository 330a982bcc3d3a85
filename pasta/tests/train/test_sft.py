"""Finetuning, end to end: what is trained is what is decoded."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers

from pasta.clock import Clock
from pasta.core.layout import lay_out
from pasta.core.positions import Positions
from pasta.core.taught import Taught
from pasta.core.tree import spell, threads_of
from pasta.data.batch import collate, model_inputs
from pasta.data.rows import read_rows
from pasta.decoding.api import generate, replay
from pasta.decoding.prompts import encode_prompt
from pasta.engine.native import NativeEngine
from pasta.lang import parse, plain
from pasta.models import load_model
from pasta.models.taught import taught_of
from pasta.train import sft
from pasta.train.config import SftConfig
from pasta.train.examples import end_of_turn, make_examples, measure
from pasta.train.head import target_logits
from pasta.train.loss import token_losses
from pasta.train.model import train_rows
from support import tiny_engine, tiny_model

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def engine_of(folder: str) -> NativeEngine:
    loaded = load_model(folder, device="cpu")
    return NativeEngine(loaded.model, loaded.vocabulary, name=folder)


@pytest.mark.parametrize("positions", ["predicted", "ones", "fixed:40", "stitched"])
def test_loss_is_the_sum_of_the_interpreters_log_probabilities(rows, positions: str) -> None:
    scheme = Positions.parse(positions)
    engine = tiny_engine(unit=scheme.unit)
    vocabulary = engine.vocabulary
    end, tags = end_of_turn(vocabulary), vocabulary.tags
    assert tags is not None
    for row in rows[:4]:
        engine.seen.clear()
        tree = measure(spell(parse(row["response"]), vocabulary), tags, scheme)
        replay(engine, row["prompt"], tree, positions=positions)
        put = {path: (*ids, end) if path == () else ids[1:] for path, ids in threads_of(tree).items()}
        decoded = sum(-float(choice.logits.log_softmax(-1)[put[choice.path][choice.index]]) for choice in engine.seen)
        assert len(engine.seen) == sum(map(len, put.values()))

        batch = collate([make_examples([row], vocabulary, scheme).layouts])
        engine.model.set_attn_implementation("sdpa")
        with torch.inference_mode():
            logits = target_logits(engine.model, model_inputs(batch), batch["learned"])
        engine.model.set_attn_implementation("pasta")
        trained = float(token_losses(logits, batch["targets"]).sum())
        assert trained == pytest.approx(decoded, rel=1e-5)


def test_the_head_sees_what_is_learned_alone(rows) -> None:
    """The logits of the other tokens are never made, and those that are made are the model's own."""
    engine = tiny_engine()
    engine.model.set_attn_implementation("sdpa")
    vocabulary, scheme = engine.vocabulary, Positions.parse("predicted")
    batch = collate([[layout] for layout in make_examples(rows[:3], vocabulary, scheme).layouts])
    labels, inputs = batch["labels"], model_inputs(batch)
    seen: list[torch.Size] = []
    engine.model.get_output_embeddings().register_forward_hook(lambda _, given, out: seen.append(out.shape))
    with torch.inference_mode():
        logits = target_logits(engine.model, inputs, batch["learned"])
        torch.testing.assert_close(logits, engine.model(**inputs).logits[labels >= 0])
    assert 0 < seen[0][0] == int((labels >= 0).sum()) < labels.numel() == seen[1][0] * seen[1][1]


@pytest.mark.filterwarnings("ignore::UserWarning")  # of a CPU that has no instructions for 16 bits
def test_under_autocast_updates_take_activations_as_they_are() -> None:
    """Casting them to float32 and back again keeps copies for the way back, and changes nothing."""
    from pasta.models.lora import for_autocast, new_adapter

    model = new_adapter(tiny_model().to(torch.bfloat16), [1], 4, 8.0)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight)

    def called() -> tuple[torch.Tensor, int]:
        kept: dict[int, torch.Tensor] = {}
        keep = lambda it: kept.setdefault(it.untyped_storage().data_ptr(), it)  # noqa: E731
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda it: it), torch.autocast("cpu", torch.bfloat16):
            logits = model(input_ids=torch.arange(2, 12)[None]).logits
        return logits, sum(it.untyped_storage().nbytes() for it in kept.values())

    expected, most = called()
    for_autocast(model)
    got, bytes_kept = called()
    torch.testing.assert_close(got, expected, rtol=0, atol=0)
    assert bytes_kept < most


@pytest.mark.parametrize(
    "method, positions",
    [
        ("full", "predicted"),
        pytest.param("lora", "predicted", marks=pytest.mark.slow),
        pytest.param("full", "ones", marks=pytest.mark.slow),
        pytest.param("lora", "ones", marks=pytest.mark.slow),
    ],
)
def test_overfits_ten_examples_and_decodes_them_in_parallel(
    tmp_path: Path, base: str, data: str, method: str, positions: str
) -> None:
    config = SftConfig(
        data=data,
        output=str(tmp_path / "out"),
        model=base,
        method=method,  # type: ignore[arg-type]
        positions=positions,
        lora_rank=32,
        epochs=90 if method == "full" else 200,
        learning_rate=1e-2,
        batch_size=2,
        max_length=512,
        logging_steps=50,
        schedule="cosine",
        eval_data=data,
        eval_answers=10,
        max_tokens=200,
    )
    summary = sft.train(config)
    assert (summary.examples, summary.tagged) == (10, 7)
    last = summary.log[-1]
    assert (last["eval_forks"], last["eval_well_formed"], last["eval_ended"]) == (0.7, 1.0, 1.0)
    assert summary.rows < 10  # packed
    assert {"tag_loss", "text_loss"} <= set(summary.log[0])
    engine = engine_of(config.output)
    assert str(engine.positions) == positions
    forks = syncs = 0
    speedups = []
    for row in read_rows(data):
        result = generate(engine, row["prompt"], max_tokens=200)
        assert result.text == plain(parse(row["response"]))
        tags = engine.vocabulary.tags
        assert tags is not None
        expected = measure(spell(parse(row["response"]), engine.vocabulary), tags, engine.positions)
        assert result.tree == expected
        forks += len(result.threads) - 1
        speedups.append(result.parallelism)
        syncs += result.annotated.count("<sync/>")
    assert last["eval_speedup"] == pytest.approx(geometric_mean(speedups), rel=1e-4)
    assert forks == 14
    assert syncs == 7


def test_round_trip(tmp_path: Path, base: str, data: str) -> None:
    config = SftConfig(data=data, output=str(tmp_path / "out"), model=base, max_steps=2, positions="fixed:40")
    sft.train(config)
    from pasta.engine.load import load_engine

    engine = load_engine(config.output, device="cpu")
    assert str(engine.positions) == "fixed:40"
    assert engine.grammar is not None and engine.grammar.depth == 2
    assert engine.vocabulary.tags is not None
    model = load_model(config.output, device="cpu").model
    assert model.config.use_cache is True
    again = tmp_path / "again"
    model.save_pretrained(again)
    engine.vocabulary.tokenizer.save_pretrained(again)
    second = engine_of(str(again))
    assert second.positions == engine.positions
    assert second.vocabulary.tags == engine.vocabulary.tags
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(second.model.state_dict()[name], weight)
    record = json.loads((tmp_path / "out" / "training.json").read_text())
    assert record["config"]["positions"] == "fixed:40"
    assert record["steps"] == 2


def test_lengths_that_weigh_more_are_learned_first(tmp_path: Path, base: str, data: str) -> None:
    """The same few steps: what is promised is known better, and what is held out is measured without the weight."""
    usual = SftConfig(
        data=data, output=str(tmp_path / "1"), model=base, max_steps=24, learning_rate=3e-3, batch_size=2,
        max_length=512, eval_data=data, eval_answers=0, logging_steps=24,
    )  # fmt: skip
    light = sft.train(usual).log
    heavy = sft.train(replace(usual, output=str(tmp_path / "30"), length_weight=30.0)).log
    assert heavy[0]["loss"] > light[0]["loss"]
    [few], [many] = ([entry for entry in log if "eval_loss" in entry] for log in (light, heavy))
    assert many["eval_length_loss"] < 0.9 * few["eval_length_loss"]
    share = (few["eval_loss"] - few["eval_text_loss"]) / (few["eval_tag_loss"] - few["eval_text_loss"])
    expected = many["eval_text_loss"] + share * (many["eval_tag_loss"] - many["eval_text_loss"])
    assert many["eval_loss"] == pytest.approx(expected, rel=1e-3)


def test_a_tokenizer_may_have_a_padding_token_that_the_table_lacks(tmp_path: Path, base: str, data: str) -> None:
    """Many have added one and left the model as it was; with tags, the table grows anyway."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    tokenizer.add_special_tokens({"pad_token": "<|padding|>"})
    folder = tmp_path / "padded"
    shutil.copytree(base, folder)
    tokenizer.save_pretrained(folder)
    config = SftConfig(
        data=data, output=str(tmp_path / "out"), model=str(folder), strip_tags=True, max_steps=1, batch_size=2,
        max_length=512, packing=False,
    )  # fmt: skip
    assert tokenizer.pad_token_id >= load_model(str(folder), device="cpu").model.config.vocab_size
    assert sft.train(config).steps == 1


NESTS = 'x<promise topic="a" tokens=4/><async>b<promise topic="c" tokens=1/><async>d</async></async>'


@pytest.mark.parametrize(
    "known, answer, depth",
    [
        (None, "plain", 0),
        (None, 'x<promise topic="a" tokens=1/><async>b</async>', 1),
        (None, NESTS, 2),
        ({"positions": "predicted", "depth": 3}, NESTS, 3),  # it keeps what it was taught before
        ({"positions": "predicted", "depth": 1}, NESTS, 2),
        ({"positions": "predicted"}, NESTS, None),  # it has tags, and nobody wrote down how deep it learned them
    ],
)
def test_how_deep_blocks_lay_is_written_down(base: str, known: Any, answer: str, depth: int | None) -> None:
    loaded = load_model(base, device="cpu", tags=known is not None)
    loaded.model.config.pasta = known
    sft.give_tags(loaded, Positions())
    examples = make_examples([{"prompt": "Why?", "response": answer}], loaded.vocabulary, Positions())
    sft.note_depth(loaded, examples.depth)
    assert taught_of(loaded.model) == Taught(Positions(), depth)


def test_stripped_model_has_no_tags(tmp_path: Path, base: str, data: str) -> None:
    config = SftConfig(data=data, output=str(tmp_path / "out"), model=base, max_steps=1, strip_tags=True)
    sft.train(config)
    engine = engine_of(config.output)
    assert engine.vocabulary.tags is None
    assert len(generate(engine, "red blue?", max_tokens=5).threads) == 1


@pytest.mark.parametrize("method", ["full", "lora"])
def test_resumes_where_it_stopped(tmp_path: Path, base: str, data: str, method: str) -> None:
    def run(name: str, **more: object) -> dict[str, torch.Tensor]:
        values = {
            "data": data,
            "output": str(tmp_path / name),
            "model": base,
            "method": method,
            "learning_rate": 1e-3,
            "schedule": "constant",
            "max_length": 128,
            "batch_size": 2,
            "save_steps": 3,
            "warmup": 0.0,
            **more,
        }
        sft.train(SftConfig.from_mapping(values))
        return load_model(str(tmp_path / name), device="cpu").model.state_dict()

    straight = run("straight", max_steps=6)
    run("parts", max_steps=3)
    parts = run("parts", max_steps=6, resume=True)
    for name, weight in straight.items():
        torch.testing.assert_close(parts[name], weight, rtol=1e-4, atol=1e-5)


def test_gradient_accumulation_changes_nothing(tmp_path: Path, base: str, data: str) -> None:
    weights = []
    for batch, steps in ((4, 1), (1, 4)):
        output = str(tmp_path / f"{batch}")
        config = SftConfig(
            data=data, output=output, model=base, batch_size=batch, gradient_accumulation=steps, max_steps=2,
            packing=False, learning_rate=1e-3, warmup=0.0,
        )  # fmt: skip
        sft.train(config)
        weights.append(load_model(output, device="cpu").model.state_dict())
    for name, weight in weights[0].items():
        torch.testing.assert_close(weights[1][name], weight, rtol=1e-4, atol=1e-5)


def test_lora_moves_the_tags_rows_alone(tmp_path: Path, base: str, data: str) -> None:
    output = str(tmp_path / "out")
    sft.train(SftConfig(data=data, output=output, model=base, method="lora", max_steps=3, weight_decay=0.5))
    before = load_model(base, device="cpu").model
    loaded = load_model(output, device="cpu")
    after, tags = loaded.model, loaded.vocabulary.tags
    assert tags is not None
    for old, new in (
        (before.get_input_embeddings().weight, after.get_input_embeddings().weight),
        (before.get_output_embeddings().weight, after.get_output_embeddings().weight),
    ):
        torch.testing.assert_close(new[: len(old)], old, rtol=0, atol=0)
    assert not torch.equal(before.model.layers[0].mlp.up_proj.weight, after.model.layers[0].mlp.up_proj.weight)


def test_stops_in_time(tmp_path: Path, base: str, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(0, 100_000, 2))
    monkeypatch.setattr("pasta.clock.time", SimpleNamespace(monotonic=lambda: next(ticks)))
    config = SftConfig(data=data, output=str(tmp_path / "out"), model=base, max_steps=500, minutes=1.0, logging_steps=1)
    summary = sft.train(config)
    assert summary.steps < 20
    rates = [entry["learning_rate"] for entry in summary.log if "learning_rate" in entry]
    assert rates[-1] < 0.3 * max(rates)
    assert engine_of(config.output).vocabulary.tags is not None


def test_the_clock_takes_start_up_from_the_limit_and_not_from_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr("pasta.clock.time", SimpleNamespace(monotonic=lambda: now.seconds))
    clock = Clock(1.0)
    now.seconds += 20  # the model is read
    clock.start()
    assert clock.used == 0
    now.seconds += 20
    assert clock.used == pytest.approx(0.5)
    now.seconds += 20  # a minute after the start
    assert clock.used == pytest.approx(1)
    late = Clock(1.0)
    now.seconds += 61
    late.start()
    assert late.used == 1


def test_clock_without_a_limit_never_moves() -> None:
    clock = Clock(0)
    clock.start()
    assert clock.used == 0


def test_held_out_loss_is_reported(tmp_path: Path, base: str, data: str) -> None:
    config = SftConfig(data=data, output=str(tmp_path / "out"), model=base, max_steps=1, eval_data=data)
    last = sft.train(config).log[-1]
    assert last["eval_loss"] > 0
    assert {"eval_tag_loss", "eval_text_loss"} <= set(last)


def test_other_rows_get_no_gradient() -> None:
    model = tiny_model()
    model.requires_grad_(False)
    train_rows(model, [5, 7])
    model(input_ids=torch.arange(40)[None], use_cache=False).logits.sum().backward()
    for table in (model.get_input_embeddings(), model.get_output_embeddings()):
        moved = table.weight.grad.abs().sum(1).nonzero().flatten().tolist()
        assert set(moved) <= {5, 7}
        assert moved


def test_layout_without_a_response_still_ends() -> None:
    layout = lay_out([1, 2], (), None, Positions(), 9)
    assert layout.targets[-1] == 9


def test_prompt_of_training_is_the_prompt_of_decoding(rows) -> None:
    engine = tiny_engine()
    [layout] = make_examples(rows[:1], engine.vocabulary, Positions()).layouts
    prompt = encode_prompt(engine, rows[0]["prompt"])
    assert layout.ids[: len(prompt)] == prompt
