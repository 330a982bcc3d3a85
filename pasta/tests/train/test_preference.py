"""Preference optimisation on a tiny model: log probabilities, learning, resuming, and the whole way."""

from __future__ import annotations

import dataclasses
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from pasta.core.layout import IGNORE, Layout
from pasta.core.positions import Positions
from pasta.core.tree import spell
from pasta.data.lines import read_lines
from pasta.engine.load import load_engine
from pasta.errors import UsageError
from pasta.lang import parse
from pasta.models import load_model
from pasta.models.adapter import Base
from pasta.models.lora import attach, updates
from pasta.models.positions import mark
from pasta.models.save import save_lora
from pasta.train.preference import Learner, training_batches
from pasta.train.preference_batch import LayOut, Pair, Response, layouts_of
from pasta.train.preference_config import PreferenceConfig
from pasta.train.preference_report import summary
from pasta.train.preference_run import run
from pasta.train.samples import draw, nest, unnest

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory, base: str) -> str:
    """A tiny adapter that does something."""
    torch.manual_seed(3)
    loaded = load_model(base, device="cpu", tags=True)
    model, vocabulary = loaded.model, loaded.vocabulary
    mark(model, Positions())
    attach(model, 4, 8.0)
    for layer in updates(model).values():
        torch.nn.init.normal_(layer.lora_B, std=0.05)
    folder = tmp_path_factory.mktemp("adapter")
    save_lora(folder, model, vocabulary, Base.of(loaded.folder), 8.0)
    return str(folder)


def settings(output: Path, adapter: str, **changes: Any) -> PreferenceConfig:
    usual: dict[str, Any] = {
        "prompts": "p.jsonl", "output": str(output), "model": adapter, "baseline": adapter, "judge": "length",
        "device": "cpu", "max_length": 512, "batch_size": 1, "held_out": 0.0, "save_steps": 0, "logging_steps": 1,
    }  # fmt: skip
    return PreferenceConfig(**{**usual, **changes})


RESPONSES = (
    'Two: <promise topic="red" tokens=9/><async>red is red.</async> <promise topic="sea" tokens=1/><async>blue, '
    "yes.</async><sync/> Done.",
    'Say <promise topic="a" tokens=1/><async>a: <promise topic="in" tokens=1/><async>so b</async> and<sync/> a</async>',
    "Only green and white.",
)


def toy_layouts(learner: Learner) -> list[Layout]:
    """Each response to two prompts; every other one was cut off."""
    lay = LayOut(learner.vocabulary, learner.positions)
    trees = [nest(spell(parse(response), learner.vocabulary)) for response in RESPONSES]
    return [lay(f"{n}?", trees[(n + n // 3) % 3], ended=n % 2 == 0) for n in range(6)]


def toy_pairs(learner: Learner, target: float = 6.0) -> list[Pair]:
    responses = dict(enumerate(toy_layouts(learner)))
    keys = {(n, 0): layout for n, layout in responses.items()}
    known: dict[tuple[int, int], float] = {}
    for some in learner.score(keys):
        known |= some
    made = [Response(key, layout, known[key]) for key, layout in keys.items()]
    return [Pair(made[n], made[n + 3], target) for n in range(3)]


# -- log probabilities ------------------------------------------------------------------------------------


def test_an_attached_adapter_is_the_merged_one(tmp_path: Path, adapter: str, base: str) -> None:
    learner = Learner(adapter, settings(tmp_path, adapter))
    merged = load_model(adapter, device="cpu").model
    ids = torch.arange(1, 40)[None]
    with torch.no_grad():
        torch.testing.assert_close(learner.model(ids).logits, merged(ids).logits, rtol=1e-4, atol=1e-4)
    assert len(updates(learner.model)) == 14


@torch.no_grad()
def test_packed_is_unpacked_is_the_dense_mask(tmp_path: Path, adapter: str) -> None:
    learner = Learner(adapter, settings(tmp_path, adapter))
    layouts = toy_layouts(learner)
    packed = learner.log_probs(learner.batch([layouts[:2], layouts[2:]]))
    alone = torch.cat([learner.log_probs(learner.batch([[layout]])) for layout in layouts])
    torch.testing.assert_close(packed, alone, rtol=1e-4, atol=1e-3)
    for layout, got in zip(layouts, alone, strict=True):
        logits = learner.model(
            input_ids=torch.tensor([layout.ids]),
            position_ids=torch.tensor([layout.positions]),
            attention_mask=torch.from_numpy(layout.mask())[None, None],
        ).logits[0]
        table = logits.log_softmax(-1)
        by_hand = sum(float(table[i, t]) for i, t in enumerate(layout.targets) if t != IGNORE)
        assert float(got) == pytest.approx(by_hand, abs=1e-2)


@torch.no_grad()
def test_batches_of_one_shape_for_compiled_attention(tmp_path: Path, adapter: str) -> None:
    """Filling up to a fixed shape changes nothing (computed with the dense mask: a CPU has no other)."""
    learner = Learner(adapter, settings(tmp_path, adapter, batch_size=3))
    pairs = toy_pairs(learner)
    expected = learner.losses([pairs]).loss
    learner.flex = True
    learner.plan({}, [(pairs, pairs[:1])])
    learner.flex = False
    assert learner.shape is not None
    shapes = {tuple(t.shape for t in learner.batch([layouts_of(row)]).inputs.values()) for row in ([*pairs], pairs[:1])}
    assert len(shapes) == 1
    assert learner.batch([layouts_of(pairs)]).inputs["input_ids"].shape == (3, 512)
    torch.testing.assert_close(learner.losses([pairs]).loss, expected, rtol=1e-3, atol=1e-2)


def test_both_of_a_pair_are_in_one_batch(tmp_path: Path, adapter: str) -> None:
    config = settings(tmp_path, adapter, epochs=1.5, batch_size=2)
    learner = Learner(adapter, config)
    pairs = toy_pairs(learner)
    batches = training_batches(pairs, dataclasses.replace(config, max_length=1000, batch_size=1))
    assert sorted(pair.best.key for rows in batches[:1] for row in rows for pair in row) == [(0, 0), (1, 0), (2, 0)]
    assert len(batches) == 2, "half an epoch is rounded up to a batch"
    with torch.no_grad():
        assert learner.losses([pairs]).margin.abs().max() < 1e-3, "nothing was learned yet"


# -- learning ---------------------------------------------------------------------------------------------


def test_it_learns_to_prefer_the_best(tmp_path: Path, adapter: str) -> None:
    config = settings(tmp_path, adapter, epochs=15, learning_rate=5e-3)
    learner = Learner(adapter, config)
    pairs = toy_pairs(learner)
    record = learner.learn(pairs, pairs, tmp_path / "out")
    assert record["log"][0]["margin"] == pytest.approx(0, abs=1e-2)
    assert record["held_out"]["right"] == 1.0
    assert record["held_out"]["margin"] == pytest.approx(6.0, abs=1.0)
    again = Learner(str(tmp_path / "out"), config)
    assert again.measure(pairs)["margin"] == pytest.approx(record["held_out"]["margin"], abs=0.2)
    learner.learn(pairs[:1], [], tmp_path / "other")  # another lambda: from the beginning again
    first = json.loads((tmp_path / "out" / "pasta.json").read_text())
    assert first["positions"] == "predicted"


def test_full_weights(tmp_path: Path, adapter: str) -> None:
    config = settings(tmp_path, adapter, method="full", epochs=10, learning_rate=1e-3)
    learner = Learner(adapter, config)
    pairs = toy_pairs(learner)
    record = learner.learn(pairs, pairs, tmp_path / "out")
    assert record["held_out"]["margin"] > 1
    assert Learner(str(tmp_path / "out"), config).measure(pairs)["margin"] == pytest.approx(
        record["held_out"]["margin"], abs=1e-2
    )


def test_a_run_that_was_killed_goes_on(tmp_path: Path, adapter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = settings(tmp_path, adapter, epochs=6, learning_rate=1e-3, save_steps=2)
    learner = Learner(adapter, config)
    pairs = toy_pairs(learner)
    whole = learner.learn(pairs, pairs, tmp_path / "whole")
    real, steps = learner.losses, iter(range(100))

    def killed(rows: Any) -> Any:
        if next(steps) == 5:
            raise KeyboardInterrupt
        return real(rows)

    monkeypatch.setattr(learner, "losses", killed)
    with pytest.raises(KeyboardInterrupt):
        learner.learn(pairs, pairs, tmp_path / "parts")
    monkeypatch.setattr(learner, "losses", real)
    parts = learner.learn(pairs, pairs, tmp_path / "parts")
    assert parts["log"][0]["step"] == 5
    assert parts["held_out"]["margin"] == pytest.approx(whole["held_out"]["margin"], abs=1e-3)
    assert not (tmp_path / "parts" / "checkpoint.pt").exists()


# -- samples ----------------------------------------------------------------------------------------------


def test_samples_go_on_and_are_the_same_again(tmp_path: Path, adapter: str) -> None:
    engine = load_engine(adapter, device="cpu", slots=8192)
    options: dict[str, Any] = {"samples": 3, "batch": 4, "max_tokens": 32}
    draw(engine, ["red?", "blue?", " "], tmp_path / "a.jsonl", **options)
    rows = {(row["index"], row["sample"]): row for row in read_lines(tmp_path / "a.jsonl")}
    assert sorted(rows) == [(i, n) for i in range(2) for n in range(3)]
    assert len({row["annotated"] for row in rows.values()}) > 3, "samples differ"
    some = list(rows.values())[:2]
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some) + '{"index": 7, "cut')
    draw(engine, ["red?", "blue?", " "], tmp_path / "b.jsonl", **options)
    assert {(row["index"], row["sample"]): row for row in read_lines(tmp_path / "b.jsonl")} == rows
    assert engine.pool.free_slots == engine.pool.slots
    for row in rows.values():
        assert nest(unnest(row["tokens"])) == row["tokens"]
        assert row["finish_reason"] == "stop" or len(row["tokens"]) > 0


def test_samples_take_turns_with_the_biases(tmp_path: Path, adapter: str) -> None:
    engine = load_engine(adapter, device="cpu", slots=8192)
    draw(engine, ["red?", "blue?"], tmp_path / "a.jsonl", samples=4, max_tokens=24, parallelism=(-99.0, 99.0))
    forked = {(row["index"], row["sample"]): row["threads"] > 1 for row in read_lines(tmp_path / "a.jsonl")}
    assert forked == {(index, sample): sample % 2 == 1 for index in range(2) for sample in range(4)}


# -- the whole way ------------------------------------------------------------------------------------------


def test_two_rounds_and_nothing_twice(tmp_path: Path, adapter: str) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"instruction": f"{n}?", "output": "so"}) + "\n" for n in range(6)))
    first = settings(
        tmp_path / "out", adapter, prompts=str(prompts), samples=4, max_tokens=200, lambdas="1,inf", batch=12
    )
    records = run(first)
    second = dataclasses.replace(first, lambdas="inf", rounds=2)
    records += run(second)
    assert [(record["round"], record["lambda"]) for record in records] == [(1, "1"), (1, "inf"), (2, "inf")]
    out = tmp_path / "out"
    files = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file() and "pairs" not in path.name}
    assert out / "round-2-lambda-inf" / "lambda-inf" / "adapter_model.safetensors" in files
    assert run(second) == []
    assert {path: path.stat().st_mtime_ns for path in files} == files, "each step found its work done"
    record = json.loads((out / "round-2-lambda-inf" / "lambda-inf" / "training.json").read_text())
    assert record["model"].endswith("round-1/lambda-inf")
    assert "round-2-lambda-inf: 24 samples of 6 prompts" in "\n".join(summary(second))


def test_the_recipes_script(
    tmp_path: Path, adapter: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two processes share the prompts; the adapter's base is found elsewhere; a mistake is one line."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "recipes" / "default")
    main = import_module("preference").main
    (tmp_path / "p.jsonl").write_text("".join(json.dumps({"prompt": f"{n}?"}) + "\n" for n in range(3)))
    shared = ["--model", adapter, "--baseline", adapter, "--prompts", str(tmp_path / "p.jsonl"), "--device", "cpu"]
    shared += ["--output", str(tmp_path / "out"), "--max-tokens", "12", "--samples", "2", "--judge", "length"]
    for part in ("0/2", "1/2"):
        main(["sample", *shared, "--part", part])
    main(["score", *shared])
    assert "6 scored" in capsys.readouterr().out
    files = sorted(path.name for path in (tmp_path / "out").rglob("*.jsonl"))
    assert files == [
        "baseline-0-of-2.jsonl", "baseline-1-of-2.jsonl", "samples-0-of-2.jsonl", "samples-1-of-2.jsonl",
        "scores.jsonl",
    ]  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        main(["sample", *shared, "--part", "2/2"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "error: part is '2/2' (write 0/6 for the first of six parts)\n"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lambdas": "1,x"}, "lambdas is '1,x'"),
        ({"samples": 1}, "expected 2 or more"),
        ({"steps": "sample,cook"}, "unknown step 'cook'"),
        ({"judge": ""}, "judge is missing"),
        ({"prompts": ""}, "prompts is missing"),
        ({"alpha": 1.0}, "alpha is 1.0"),
        ({"parallelism": "0,much"}, "parallelism is '0,much'"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        settings(tmp_path, "x", **changes)
