"""Preference optimisation on a tiny model: log probabilities, learning, resuming, and the whole way."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from preferring import settings

from adapters import make_adapter
from pasta.core.layout import IGNORE, Layout
from pasta.core.positions import Positions
from pasta.core.taught import Taught
from pasta.core.tree import spell
from pasta.core.vocabulary import Vocabulary
from pasta.data.lines import read_lines
from pasta.decoding.bulk import as_completed
from pasta.decoding.prompts import make_request
from pasta.engine.load import load_engine
from pasta.errors import UsageError
from pasta.lang import parse
from pasta.models import load_model
from pasta.models.taught import mark
from pasta.train import preference_run
from pasta.train.preference import Learner, PairTrainer, log_probs
from pasta.train.preference_batch import LayOut, Pair, Response, layouts_of, make_pair_batch, make_response_batch
from pasta.train.preference_report import summary
from pasta.train.preference_round import read_parts
from pasta.train.preference_run import run
from pasta.train.samples import describe, draw, nest, unnest
from toy_tokenizers import toy_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


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


def test_an_adapter_without_tags_goes_on_without_them(tmp_path: Path, base: str) -> None:
    """As the baseline that gets stage two, so that both had it."""
    torch.manual_seed(0)
    make_adapter(load_model(base, device="cpu"), tmp_path / "untagged")
    learner = Learner(str(tmp_path / "untagged"), settings(tmp_path, str(tmp_path / "untagged")))
    assert learner.vocabulary.tags is None
    lay = LayOut(learner.vocabulary, learner.positions)
    responses = {(n, 0): lay(f"{n}?", list(range(65, 70 + n)), ended=True) for n in range(4)}
    known = {key: value for some in learner.score(responses) for key, value in some.items()}
    made = [Response(key, layout, known[key]) for key, layout in responses.items()]
    learner.learn([Pair(made[0], made[1], 6.0), Pair(made[2], made[3], 6.0)], [], tmp_path / "better")
    engine = load_engine(str(tmp_path / "better"), device="cpu", slots=256)
    assert engine.vocabulary.tags is None


# -- log probabilities ------------------------------------------------------------------------------------


def test_an_attached_adapter_is_the_merged_one(tmp_path: Path, adapter: str, base: str) -> None:
    learner = Learner(adapter, settings(tmp_path, adapter))
    merged = load_model(adapter, device="cpu").model
    ids = torch.arange(1, 40)[None]
    with torch.no_grad():
        torch.testing.assert_close(learner.model(ids).logits, merged(ids).logits, rtol=1e-4, atol=1e-4)
    assert sum(name.endswith("lora_A.default") for name, _ in learner.model.named_modules()) == 14


def probabilities(learner: Learner, rows: list[list[Layout]]) -> torch.Tensor:
    batch = make_response_batch(rows, learner.shape)
    return log_probs(learner.model.eval(), batch, sum(map(len, rows)), flex=False)


def margins(learner: Learner, pairs: list[Pair], folder: Path) -> dict[str, float]:
    """The figures on pairs that are not trained on."""
    found = learner.trainer([], pairs, folder, 0.0).evaluate()
    return {name.removeprefix("eval_"): value for name, value in found.items()}


@pytest.mark.parametrize(
    ("response", "given", "left"),
    [
        (RESPONSES[0], 0, ""),
        (RESPONSES[0], 3, "Two"),
        (RESPONSES[0], 99, "Two: "),  # no further than the first tag
        (RESPONSES[2], 4, "Only"),
    ],
)
def test_what_is_given_is_not_learned(tmp_path: Path, adapter: str, response: str, given: int, left: str) -> None:
    learner = Learner(adapter, settings(tmp_path, adapter))
    lay = LayOut(learner.vocabulary, learner.positions)
    tree = nest(spell(parse(response), learner.vocabulary))
    whole, some = lay("Q?", tree, True), lay("Q?", tree, True, given)
    out = [was for was, now in zip(whole.targets, some.targets, strict=True) if was != now]
    assert learner.vocabulary.decode(out) == left
    assert some.ids == whole.ids and some.targets.count(IGNORE) == whole.targets.count(IGNORE) + len(out)


@pytest.mark.parametrize("kind", ["prepend", "gemma", "byte-level"])
def test_what_is_given_is_counted_in_the_text_whatever_its_tokens_begin_with(kind: str) -> None:
    """After some templates the first token of an answer brings a space that the text does not have."""
    vocabulary = Vocabulary(toy_tokenizer(kind, "llama2"))
    lead = vocabulary.lead(vocabulary.encode_chat([{"role": "user", "content": "Q?"}]))
    text = "日 é 🙂:\n\n1.  Salt\n2.  Oil\n3.  Rice"
    for given in range(len(text)):
        count = LayOut(vocabulary, Positions()).within("Q?", tokens := vocabulary.encode(lead + text), given)
        before, behind = (vocabulary.decode(tokens[:end]) for end in (count, count + 1))
        assert len(before) <= len(lead) + given < len(behind)


@torch.no_grad()
def test_packed_is_unpacked_is_the_dense_mask(tmp_path: Path, adapter: str) -> None:
    learner = Learner(adapter, settings(tmp_path, adapter))
    layouts = toy_layouts(learner)
    packed = probabilities(learner, [layouts[:2], layouts[2:]])
    alone = torch.cat([probabilities(learner, [[layout]]) for layout in layouts])
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
    trainer = learner.trainer(pairs, [], tmp_path, 0.0)
    expected = trainer.losses(learner.model, make_pair_batch([pairs])).loss
    learner.flex = True
    learner.plan({}, pairs)
    assert learner.shape is not None
    batches = [make_pair_batch([row], learner.shape) for row in (pairs, pairs[:1])]
    assert [batch["input_ids"].shape for batch in batches] == [(3, 512)] * 2
    assert len({tuple(batch["sees"].shape) for batch in batches}) == 1
    torch.testing.assert_close(trainer.losses(learner.model, batches[0]).loss, expected, rtol=1e-3, atol=1e-2)


@torch.no_grad()
def test_nothing_was_learned_yet(tmp_path: Path, adapter: str) -> None:
    learner = Learner(adapter, settings(tmp_path, adapter))
    pairs = toy_pairs(learner)
    trainer = learner.trainer(pairs, [], tmp_path, 0.0)
    learner.model.train()  # without dropout: the reference is the same model
    assert trainer.losses(learner.model, make_pair_batch([pairs])).margin.abs().max() < 1e-3
    assert sorted(pair.best.key[0] for row in trainer.train_dataset.rows for pair in row) == [0, 1, 2]
    assert [len(layouts_of(row)) for row in trainer.train_dataset.rows] == [6], "both of a pair are in one row"


# -- learning ---------------------------------------------------------------------------------------------


def test_it_learns_to_prefer_the_best(tmp_path: Path, adapter: str) -> None:
    config = settings(tmp_path, adapter, epochs=30, learning_rate=5e-3)
    torch.manual_seed(0)
    learner = Learner(adapter, config)
    pairs = toy_pairs(learner)
    record = learner.learn(pairs, pairs, tmp_path / "out")
    assert record["log"][0]["margin"] == pytest.approx(0, abs=1e-2)
    assert record["held_out"]["right"] == 1.0
    assert record["held_out"]["margin"] == pytest.approx(6.0, abs=1.0)
    again = Learner(str(tmp_path / "out"), config)
    assert margins(again, pairs, tmp_path)["margin"] == pytest.approx(record["held_out"]["margin"], abs=0.2)
    record = json.loads((tmp_path / "out" / "pasta.json").read_text())
    assert Taught.read(record) == Taught(depth=3)


def test_full_weights(tmp_path: Path, adapter: str) -> None:
    config = settings(tmp_path, adapter, method="full", epochs=10, learning_rate=1e-3)
    learner = Learner(adapter, config)
    pairs = toy_pairs(learner)
    record = learner.learn(pairs, pairs, tmp_path / "out")
    assert record["held_out"]["margin"] > 1
    again = margins(Learner(str(tmp_path / "out"), config), pairs, tmp_path)
    assert again["margin"] == pytest.approx(record["held_out"]["margin"], abs=1e-2)


def test_a_run_that_was_interrupted_goes_on(tmp_path: Path, adapter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a real signal, which comes in the middle of a step."""
    config = settings(tmp_path, adapter, epochs=6, learning_rate=1e-3)
    pairs = toy_pairs(Learner(adapter, config))
    whole = Learner(adapter, config).learn(pairs, pairs, tmp_path / "whole")
    real, steps = PairTrainer.losses, iter(range(100))

    def interrupted(self: PairTrainer, model: Any, inputs: Any) -> Any:
        if next(steps) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return real(self, model, inputs)

    monkeypatch.setattr(PairTrainer, "losses", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Learner(adapter, config).learn(pairs, pairs, tmp_path / "parts")
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["checkpoint-3"]
    monkeypatch.setattr(PairTrainer, "losses", real)
    parts = Learner(adapter, config).learn(pairs, pairs, tmp_path / "parts")
    assert parts["log"][-1]["step"] == 6
    assert parts["held_out"]["margin"] == pytest.approx(whole["held_out"]["margin"], abs=1e-3)
    assert not list((tmp_path / "parts").glob("checkpoint-*"))


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


def test_a_sample_has_the_log_probability_of_what_the_model_chose(tmp_path: Path, adapter: str) -> None:
    """Most here are cut off, some inside a block: the tag that then closes it was nobody's choice."""
    engine, learner = load_engine(adapter, device="cpu"), Learner(adapter, settings(tmp_path, adapter))
    lay = LayOut(learner.vocabulary, learner.positions)
    options: Any = {"max_tokens": 40, "temperature": 1.0, "parallelism": 5.0, "logprobs": 0}
    requests = ((n, make_request(engine, f"{n}?", seed=n, **options)) for n in range(6))
    sums, layouts = {}, {}
    for n, state in as_completed(engine, requests, 6):
        found = [one.logprob for thread in state.result().threads for one in thread.logprobs or () if one is not None]
        row = describe(state)
        sums[n, 0], layouts[n, 0] = sum(found), lay(f"{n}?", row["tokens"], row["finish_reason"] == "stop")
        assert len(found) == sum(target != IGNORE for target in layouts[n, 0].targets)
    known: dict[tuple[int, int], float] = {}
    for some in learner.score(layouts):
        known |= some
    assert known == pytest.approx(sums, abs=1e-3)
    assert any(len(layout.sees) > 1 for layout in layouts.values())


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
        tmp_path / "out", adapter, prompts=str(prompts), samples=4, max_tokens=200, lambdas="1,4", batch=12
    )
    records = run(first)
    second = dataclasses.replace(first, lambdas="4", rounds=2)
    records += run(second)
    assert [(record["round"], record["lambda"]) for record in records] == [(1, "1"), (1, "4"), (2, "4")]
    out = tmp_path / "out"
    files = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file() and "pairs" not in path.name}
    assert out / "round-2-lambda-4" / "lambda-4" / "adapter_model.safetensors" in files
    assert run(second) == []
    assert {path: path.stat().st_mtime_ns for path in files} == files, "each step found its work done"
    record = json.loads((out / "round-2-lambda-4" / "lambda-4" / "training.json").read_text())
    assert record["model"].endswith("round-1/lambda-4") and record["judge"] == "length"
    assert "round-2-lambda-4: 24 samples of 6 prompts" in "\n".join(summary(second))


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
    for part in ("0/2", "1/2"):  # two processes score beside each other, too
        main(["score", *shared, "--part", part])
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


def test_what_was_drawn_or_scored_otherwise_is_not_mixed(tmp_path: Path, adapter: str) -> None:
    prompts = tmp_path / "p.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": f"{n}?"}) + "\n" for n in range(2)))
    usual: dict[str, Any] = {"prompts": str(prompts), "samples": 2, "max_tokens": 8, "steps": "sample,score"}
    run(settings(tmp_path / "out", adapter, **usual))
    with pytest.raises(UsageError, match=r"holds scores of {'shortest': 0\.0}, now they are {'shortest': 0\.8}"):
        run(settings(tmp_path / "out", adapter, **usual, shortest=0.8))
    with pytest.raises(UsageError, match=r"holds samples of {'temperature': 1\.0}, now they are {'temperature'"):
        run(settings(tmp_path / "out", adapter, **usual | {"samples": 3}, temperature=0.5))
    with pytest.raises(UsageError, match=r"round 2 cannot begin: .*lambda-1 is not trained yet"):
        run(settings(tmp_path / "out", adapter, **usual, lambdas="1", rounds=2, round=2))
    run(settings(tmp_path / "out", adapter, **usual, lambdas="1", rounds=2))
    assert not (tmp_path / "out" / "round-2-lambda-1").exists(), "it waits for the first to be trained"
    for name in ("scores.jsonl", "scoring.json"):
        (tmp_path / "out" / "round-1" / name).unlink()
    run(settings(tmp_path / "out", adapter, **usual, shortest=0.8))
    prompts.write_text(json.dumps({"prompt": "Another?"}) + "\n")
    with pytest.raises(UsageError, match="holds answers to other prompts: there, prompt 0 is '0\\?'"):
        run(settings(tmp_path / "out", adapter, **usual, shortest=0.8))


def test_answers_of_another_baseline_are_not_mixed(tmp_path: Path, adapter: str, base: str) -> None:
    usual: dict[str, Any] = {"prompts": str(tmp_path / "p.jsonl"), "samples": 2, "max_tokens": 8, "steps": "sample"}
    (tmp_path / "p.jsonl").write_text(json.dumps({"prompt": "0?"}) + "\n")
    run(settings(tmp_path / "out", adapter, **usual))
    run(settings(tmp_path / "out", adapter, **usual))
    with pytest.raises(UsageError, match=rf"out holds answers of another baseline than {base} is now"):
        run(settings(tmp_path / "out", adapter, **usual, baseline=base))


def test_a_model_that_is_its_own_baseline_is_loaded_once(
    tmp_path: Path, adapter: str, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    load = preference_run.engine_of
    monkeypatch.setattr(
        preference_run, "engine_of", lambda _, name, team: (loaded.append(name), load(_, name, team))[1]
    )
    usual: dict[str, Any] = {"prompts": str(tmp_path / "p.jsonl"), "samples": 2, "max_tokens": 8, "steps": "sample"}
    (tmp_path / "p.jsonl").write_text(json.dumps({"prompt": "0?"}) + "\n")
    for name, wanted in ((adapter, [adapter]), (base, [adapter, base])):
        loaded.clear()
        run(settings(tmp_path / name.replace("/", "-"), adapter, **usual, baseline=name))
        assert loaded == wanted
        assert len(list(read_parts(tmp_path / name.replace("/", "-"), "baseline"))) == 1


def test_samples_of_another_model_are_not_learned_from(tmp_path: Path, adapter: str, base: str) -> None:
    """Retrained into the same folder, say: its name is what it was."""
    model = tmp_path / "tuned"
    shutil.copytree(adapter, model)
    (tmp_path / "p.jsonl").write_text(json.dumps({"prompt": "0?"}) + "\n")
    usual: dict[str, Any] = {"prompts": str(tmp_path / "p.jsonl"), "samples": 2, "max_tokens": 8, "model": str(model)}
    run(settings(tmp_path / "out", adapter, **usual, steps="sample"))
    policy = tmp_path / "out" / "round-1" / "policy.json"
    torch.manual_seed(1)
    loaded = load_model(base, device="cpu", tags=True)
    mark(loaded.model, Taught(depth=3))
    make_adapter(loaded, model)
    for step in ("sample", "train"):
        with pytest.raises(UsageError, match=r"round-1 holds samples of another model than .*tuned is now"):
            run(settings(tmp_path / "out", adapter, **usual, steps=step))
    known = json.loads(policy.read_text())
    policy.write_text(json.dumps({name: known[name] for name in ("temperature", "parallelism")}))  # as it once was
    run(settings(tmp_path / "out", adapter, **usual, steps="sample"))
