"""What happens around a training: what it says first, refuses, measures, saves when it is interrupted."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from pasta.core.vocabulary import Vocabulary
from pasta.data.rows import read_rows
from pasta.decoding.api import generate
from pasta.decoding.runner import runner_of
from pasta.engine.load import load_engine
from pasta.engine.native import IMPLEMENTATION
from pasta.errors import PastaError, StorageError, UsageError
from pasta.models import load_model
from pasta.models.tags import add_tags
from pasta.train import sft
from pasta.train.answers import WatchfulEngine
from pasta.train.config import SftConfig
from pasta.train.model import load_trainable
from pasta.train.trainer import SegmentTrainer
from support import byte_tokenizer, toy_rows, until

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
PASTA = [sys.executable, "-c", "from pasta.cli import main; main()"]
IDS = torch.arange(40)[None]


def logits(model: Any) -> torch.Tensor:
    with torch.inference_mode():
        return model.eval()(input_ids=IDS, use_cache=False).logits


@pytest.fixture
def usual(tmp_path: Path, base: str, data: str) -> SftConfig:
    return SftConfig(
        data=data, output=str(tmp_path / "out"), model=base, method="lora", lora_rank=4, max_steps=2, cpu=True,
        batch_size=2, max_length=512,
    )  # fmt: skip


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


# -- evaluation, interruption, full disks ------------------------------------------------------------------


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_and_resume_goes_on(
    usual: SftConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    """A real signal, in the middle of a step; what comes of it is what an undisturbed run gives."""
    config = replace(usual, max_steps=4, learning_rate=1e-3, schedule="constant", warmup=0.0)
    sft.train(replace(config, output=usual.output + "-whole"))
    real, calls = SegmentTrainer.compute_loss, iter(range(100))

    def interrupted(self: SegmentTrainer, *args: Any, **kwargs: Any) -> Any:
        if next(calls) == 2:  # the trial, the first step, the second
            os.kill(os.getpid(), number)
        return real(self, *args, **kwargs)

    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    monkeypatch.setattr(SegmentTrainer, "compute_loss", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sft.train(config)
    saved = Path(config.output) / "checkpoint-2"
    assert f"interrupted at step 2 of 4: {saved} is saved" in capsys.readouterr().err
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert load_model(str(saved), device="cpu").vocabulary.tags is not None
    monkeypatch.setattr(SegmentTrainer, "compute_loss", real)
    assert sft.train(replace(config, resume=True)).steps == 4
    one, other = (load_model(folder, device="cpu").model for folder in (config.output, usual.output + "-whole"))
    torch.testing.assert_close(logits(one), logits(other), rtol=1e-3, atol=1e-3)


def test_ctrl_c_in_the_last_evaluation_costs_only_that(usual: SftConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real signal, while held-out prompts are answered; no step runs after the model is the training's again."""
    real, calls, attention = WatchfulEngine._choose, iter(range(100)), []

    def interrupted(self: WatchfulEngine, *args: Any) -> Any:
        if next(calls) == 1:
            os.kill(os.getpid(), signal.SIGINT)
            until(lambda: runner_of(self)._stopped)  # by the main thread
        attention.append(self.model.config._attn_implementation)
        return real(self, *args)

    monkeypatch.setattr(WatchfulEngine, "_choose", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sft.train(replace(usual, eval_data=usual.data))
    assert attention == [IMPLEMENTATION] * 2
    assert load_model(usual.output, device="cpu").vocabulary.tags is not None
    assert json.loads((Path(usual.output) / "training.json").read_text())["steps"] == 2


@pytest.mark.slow
def test_ctrl_c_in_a_terminal(usual: SftConfig) -> None:
    flags = ["--data", usual.data, "--output", usual.output, "--model", usual.model, "--method", "lora", "--cpu"]
    command = [*PASTA, "train", "sft", *flags, "--max-steps", "100000", "--logging-steps", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("step 3/"):
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == "" and "Traceback" not in err
    assert "is saved, and loads as a model; --resume goes on from it" in err
    (checkpoint,) = Path(usual.output).glob("checkpoint-*")
    assert load_model(str(checkpoint), device="cpu").vocabulary.tags is not None


@pytest.mark.parametrize("save_steps", [0, 1])
def test_a_full_disk_is_one_line(usual: SftConfig, save_steps: int) -> None:
    """No file may grow beyond 20 kB: to safetensors and torch that is a disk without room."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(StorageError, match=rf"cannot write {usual.output}: .*--resume"):
            sft.train(replace(usual, save_steps=save_steps, method="full"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    if save_steps:  # there is room now: what was cut short is no checkpoint
        assert sft.train(replace(usual, save_steps=save_steps, method="full", resume=True)).steps == 2


def test_it_goes_on_from_the_newest_checkpoint_that_is_whole(
    usual: SftConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that was killed while it wrote a checkpoint, and one that was killed while it wrote the last file of it."""
    sft.train(replace(usual, save_steps=1))
    torn, whole = (Path(usual.output) / f"checkpoint-{step}" for step in (2, 1))
    (torn / "trainer_state.json").unlink()
    unfinished = shutil.copytree(whole, whole.with_name("checkpoint-3"))
    (unfinished / "trainer_state.json").write_text('{"epoch": ')
    assert sft.train(replace(usual, save_steps=1, resume=True)).steps == 2
    assert f"going on from {whole}\n" in capsys.readouterr().err


def test_a_disk_without_room_is_refused_first(usual: SftConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    from collections import namedtuple

    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("pasta.train.model.shutil.disk_usage", lambda path: usage(10, 10, 1000))
    with pytest.raises(StorageError, match=r"no room for the model in .*0 MB free"):
        sft.train(usual)
    assert not Path(usual.output).exists()


# -- several processes ------------------------------------------------------------------------------------


def launched(processes: int, *arguments: str) -> str:
    """What the command printed, under torchrun and gloo."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    program = ["--no-python", sys.executable, "-c", "from pasta.cli import main; main()", "train", *arguments]
    done = subprocess.run(
        [*launch, *program], capture_output=True, text=True, timeout=400,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert arguments[0] != "sft" or f"{processes} processes, cpu" in done.stderr
    return done.stdout


TWO_STEPS = "--max-steps 2 --no-packing --cpu --learning-rate 1e-3 --warmup 0 --logging-steps 1 --json".split()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lora", "full"])
def test_two_processes_train_as_one(usual: SftConfig, method: str) -> None:
    """Losses and weights are those of one process with batches of twice the size."""
    one = replace(
        usual, method=method, batch_size=4, packing=False, learning_rate=1e-3, warmup=0.0, logging_steps=1,  # type: ignore[arg-type]
        output=usual.output + "-one",
    )  # fmt: skip
    expected = sft.train(one)
    flags = ["--model", usual.model, "--data", usual.data, "--output", usual.output, "--method", method]
    held = ["--eval-data", usual.data, "--eval-answers", "2", "--max-tokens", "8"]
    printed = launched(2, "sft", *flags, *held, "--lora-rank", "4", "--batch-size", "2", *TWO_STEPS)
    log = json.loads(printed)["log"]  # one speaks for all
    losses = [entry["loss"] for entry in expected.log if "loss" in entry]
    assert [entry["loss"] for entry in log if "loss" in entry] == pytest.approx(losses, rel=1e-4)
    (evaluated,) = [entry for entry in log if "eval_loss" in entry]
    assert {"eval_forks", "eval_speedup"} <= set(evaluated)
    found, wanted = (load_model(folder, device="cpu").model for folder in (usual.output, one.output))
    for name, weight in wanted.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], weight, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_sharded_weights_have_the_losses_and_gradients_of_whole_ones(base: str) -> None:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    script = Path(__file__).with_name("sharded.py")
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [*launch, str(script), base], capture_output=True, text=True, timeout=400,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["losses"][1] == pytest.approx(found["losses"][0], rel=1e-6)
    assert found["compared"] == found["trained"] == 30
    assert found["gradient"] < 1e-6 and found["adapter"] == 0.0


@pytest.mark.slow
def test_two_processes_share_the_second_stage(tmp_path: Path, usual: SftConfig) -> None:
    """Both sample and train, one scores; nothing is drawn twice, and one speaks for all."""
    sft.train(replace(usual, max_steps=120, learning_rate=1e-2, method="full", packing=False))
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": row["prompt"]}) + "\n" for row in toy_rows(4)))
    flags = ["--model", usual.output, "--baseline", usual.output, "--prompts", str(prompts), "--judge", "length"]
    more = "--device cpu --samples 4 --temperature 1.5 --lambdas 1 --max-tokens 120 --batch-size 1 --held-out 0"
    output = tmp_path / "preference"
    printed = launched(2, "preference", *flags, *more.split(), "--output", str(output), "--method", "lora", "--json")
    (record,) = json.loads(printed)
    assert record["steps"] > 0 and record["output"] == str(output / "round-1" / "lambda-1")
    rows = [row for number in (0, 1) for row in read_rows(str(output / "round-1" / f"samples-{number}-of-2.jsonl"))]
    assert sorted((row["index"], row["sample"]) for row in rows) == [(i, n) for i in range(4) for n in range(4)]
    assert load_model(record["output"], device="cpu").vocabulary.tags is not None
