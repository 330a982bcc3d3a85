"""What happens around a training: what it says first and refuses, which weights it takes, what it measures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import generate
from pasta.engine.load import load_engine
from pasta.errors import PastaError, UsageError
from pasta.models import load_model
from pasta.models.tags import add_tags
from pasta.train import sft
from pasta.train.config import SftConfig
from pasta.train.model import load_trainable
from support import byte_tokenizer, toy_rows

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
IDS = torch.arange(40)[None]


def logits(model: Any) -> torch.Tensor:
    with torch.inference_mode():
        return model.eval()(input_ids=IDS, use_cache=False).logits


# -- what is said first -----------------------------------------------------------------------------------


def test_it_says_what_it_will_do(usual: SftConfig, capsys: pytest.CaptureFixture[str]) -> None:
    with open(usual.data, "a") as file:
        file.write('{"prompt": "no answer"}\n')
    sft.train(usual)
    loading, *said = capsys.readouterr().err.splitlines()
    assert loading == f"loading {usual.model} …"
    assert said[0] == f"{usual.data}: 10 examples, 7 with tags (14 threads), 733 tokens, 434 of them learned"
    assert said[1] == "left out 1 row: no messages, no conversations, and no prompt and response, but prompt"
    assert said[2] == "2 rows of up to 480 tokens, 2 steps of 2 rows; cpu"
    assert said[3].startswith("about ") and said[3].endswith(" s, by one batch of the longest rows")


def test_reading_and_the_last_evaluation_say_that_they_go_on(
    usual: SftConfig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pasta.clock.Pace.is_due", lambda _: True)
    sft.train(replace(usual, eval_data=usual.data, eval_answers=0))
    said = capsys.readouterr().err
    assert f"{usual.data}: 1 row read\n{usual.data}: 2 rows read\n" in said
    assert said.index("evaluating on the held-out rows") < said.index("eval_loss")


def test_every_row_that_is_left_out_is_counted_held_out_or_not(
    usual: SftConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = tmp_path / "held-out.jsonl"
    held.write_text(json.dumps({"prompt": "Which?", "response": "That."}) + "\n{}\n")
    with open(usual.data, "a") as file:
        file.writelines(json.dumps({f"other{number}": "no answer"}) + "\n" for number in range(8))
    sft.train(replace(usual, eval_data=str(held), eval_answers=0))
    said = capsys.readouterr().err
    assert said.count("left out 1 row: no messages") == 5 + 1 and "left out 3 rows: other reasons" in said
    assert f"{held}: 1 example, 0 with tags (0 threads)" in said and " of them held out\n" in said


def test_held_out_prompts_that_are_trained_on_are_warned_of(
    usual: SftConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [*toy_rows(2), {"prompt": "what?", "response": "Nothing."}]
    rows[0]["response"] = "Another answer."  # the prompt is what it will be asked
    held_out = tmp_path / "held-out.jsonl"
    held_out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sft.train(replace(usual, eval_data=str(held_out), eval_answers=0))
    assert f"warning: of the 3 held-out prompts in {held_out} 2 are trained on too" in capsys.readouterr().err
    held_out.write_text(json.dumps(rows[2]) + "\n")
    sft.train(replace(usual, eval_data=str(held_out), eval_answers=0, output=str(tmp_path / "other")))
    assert "trained on too" not in capsys.readouterr().err


def test_data_without_tags_is_warned_of(usual: SftConfig, capsys: pytest.CaptureFixture[str]) -> None:
    Path(usual.data).write_text('{"prompt": "a?", "response": "Just b."}\n' * 3)
    sft.train(usual)
    assert "warning: none of the 3 answers in" in capsys.readouterr().err
    sft.train(replace(usual, strip_tags=True, output=usual.output + "2"))
    assert "warning" not in capsys.readouterr().err, "there it is meant"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"report_to": "clearest"}, "report_to is 'clearest', which is no tracker.*tensorboard"),
        (
            {"report_to": "comet_ml"},
            "report_to is 'comet_ml', which is not installed.*pip install comet_ml",
        ),
        ({"method": "full", "weights": "4bit"}, "method full trains them"),
        ({"model": "default", "weights": "4bit"}, "pasta export"),
        ({"output": __file__}, "is a file"),
        ({"schedule": "downhill"}, "schedule is 'downhill'.*use one of linear, cosine"),
    ],
)
def test_what_cannot_be_is_refused_before_work_starts(usual: SftConfig, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sft.train(replace(usual, **changes))


# -- families and weights ---------------------------------------------------------------------------------


@pytest.fixture
def gpt2(tmp_path: Path) -> str:
    """Learned positions, and layers that lie the other way round."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=258, n_positions=128, pad_token_id=0)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt2")
    byte_tokenizer().save_pretrained(tmp_path / "gpt2")
    return str(tmp_path / "gpt2")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_lora_on_gpt2(usual: SftConfig, gpt2: str) -> None:
    peft = pytest.importorskip("peft")
    sft.train(replace(usual, model=gpt2, learning_rate=1e-2, max_steps=4))
    before, after = load_model(gpt2, device="cpu").model, load_model(usual.output, device="cpu").model
    for name in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"):
        old, new = (model.transformer.h[1].get_submodule(name).weight for model in (before, after))
        assert not torch.equal(old, new), f"{name} did not move"
    by_peft = peft.AutoPeftModelForCausalLM.from_pretrained(usual.output)
    torch.testing.assert_close(logits(after), logits(by_peft), rtol=0, atol=1e-4)


def test_max_length_counts_positions(usual: SftConfig, gpt2: str) -> None:
    """A promise reserves more places than its block fills: past the table there is no position to train."""
    answer = "".join(f'<promise topic="{c}" tokens=1/><async>{c}</async>' for c in "abcdefghij") + " so"
    row = {"prompt": "a?", "response": answer}
    Path(usual.data).write_text(f"{json.dumps(row)}\n" + '{"prompt": "b?", "response": "c"}\n')
    summary = sft.train(replace(usual, model=gpt2, max_steps=1))
    assert summary.examples == 1
    assert summary.refused == {"longer than 128 positions": 1}
    Path(usual.data).write_text(f"{json.dumps(row)}\n")
    with pytest.raises(PastaError, match=r"holds no example to train on \(1 longer than 128 positions"):
        sft.train(replace(usual, model=gpt2, output=usual.output + "2"))


@pytest.mark.filterwarnings("ignore")
def test_frozen_weights_in_4_bits(usual: SftConfig) -> None:
    """On a CPU; on a GPU the same call puts them there."""
    bitsandbytes = pytest.importorskip("bitsandbytes")
    loaded = load_trainable(usual.model, 512, weights="4bit")
    assert isinstance(loaded.model.model.layers[0].mlp.up_proj, bitsandbytes.nn.Linear4bit)
    summary = sft.train(replace(usual, weights="4bit", limit=3, max_steps=12, learning_rate=1e-2, logging_steps=4))
    losses = [entry["loss"] for entry in summary.log if "loss" in entry]
    assert losses[-1] < losses[0]
    assert generate(load_engine(usual.output, device="cpu"), "red blue?", max_tokens=8).tokens_total > 0


def test_gradient_checkpointing_changes_nothing(usual: SftConfig) -> None:
    losses = []
    for trade in (False, True):
        config = replace(usual, gradient_checkpointing=trade, output=f"{usual.output}-{trade}", logging_steps=1)
        losses.append([entry["loss"] for entry in sft.train(config).log if "loss" in entry])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of a CPU that does this slowly
def test_frozen_weights_in_bfloat16(usual: SftConfig) -> None:
    summary = sft.train(replace(usual, weights="bfloat16", limit=1, max_steps=6, learning_rate=1e-2, logging_steps=1))
    losses = [entry["loss"] for entry in summary.log if "loss" in entry]
    assert losses[-1] < losses[0]


@pytest.mark.filterwarnings("ignore")  # of a CPU that does this slowly
def test_lora_under_autocast_over_frozen_weights_in_bfloat16(usual: SftConfig) -> None:
    """As on a GPU: the batch that is tried first, too, is computed as those that are learned from."""
    summary = sft.train(replace(usual, method="lora", weights="bfloat16", bf16=True, limit=1, max_steps=1))
    assert summary.steps == 1 and summary.loss > 0


def test_a_name_that_only_pasta_knows_is_a_path_to_peft(tmp_path: Path, default_folder: Any) -> None:
    from pasta.models.adapter import Base

    base = Base.of(default_folder)
    assert (base.name, base.place) == ("smollm2-135m-instruct", str(default_folder.path))


# -- evaluation -------------------------------------------------------------------------------------------


def test_evaluation_while_it_trains(usual: SftConfig) -> None:
    held = replace(usual, eval_data=usual.data, eval_steps=2, eval_answers=3, max_steps=4, max_tokens=8)
    log = sft.train(held).log
    found = [entry for entry in log if "eval_loss" in entry]
    assert [entry["step"] for entry in found] == [2, 4], "and not once more at the end"
    assert {"eval_forks", "eval_well_formed", "eval_speedup", "eval_tag_loss", "eval_text_loss"} <= set(found[-1])
    quiet = sft.train(replace(held, eval_answers=0, output=usual.output + "2")).log
    first = next(entry for entry in quiet if "eval_loss" in entry)
    assert "eval_forks" not in first
    assert first["eval_loss"] == pytest.approx(found[0]["eval_loss"], abs=1e-6), "decoding changes nothing"


def test_what_the_grammar_must_correct_is_counted(base: str) -> None:
    """An untrained model whose likeliest token is always `</async>`, which may stand nowhere."""
    from pasta.core.positions import Positions
    from pasta.train.answers import measure_answers
    from pasta.train.examples import make_examples

    loaded = load_model(base, device="cpu")
    model, vocabulary = loaded.model, Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    layouts = make_examples(toy_rows(3), vocabulary, Positions()).layouts
    before = measure_answers(model, vocabulary, layouts, 8)
    assert before["well_formed"] == 1.0
    with torch.no_grad():
        head = model.get_output_embeddings()
        head.weight *= 0
        head.weight[vocabulary.tags.close] = 1.0  # type: ignore[union-attr]
        model.model.norm.weight.copy_(torch.ones(32))
        model.get_input_embeddings().weight.copy_(model.get_input_embeddings().weight.abs() + 5)
    assert measure_answers(model, vocabulary, layouts, 8)["well_formed"] < 1.0
