"""A training that does not come to its end: interrupted, killed, or on a full disk. What there is, is kept."""

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

from pasta.decoding.runner import runner_of
from pasta.engine.native import IMPLEMENTATION
from pasta.errors import StorageError
from pasta.models import load_model
from pasta.train import sft
from pasta.train.answers import WatchfulEngine
from pasta.train.config import SftConfig
from pasta.train.trainer import SegmentTrainer
from support import until

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
PASTA = [sys.executable, "-c", "from pasta.cli import main; main()"]
IDS = torch.arange(40)[None]


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
    folders = (config.output, usual.output + "-whole")
    with torch.inference_mode():
        one, other = (load_model(each, device="cpu").model.eval()(input_ids=IDS).logits for each in folders)
    torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


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
    for step, name in enumerate(("optimizer.pt", "rng_state.pth", "adapter_model.safetensors"), start=4):
        cut_short = shutil.copytree(whole, whole.with_name(f"checkpoint-{step}")) / name
        cut_short.write_bytes(cut_short.read_bytes()[:-100])  # as a power cut may leave it
    assert sft.train(replace(usual, save_steps=1, resume=True)).steps == 2
    assert f"going on from {whole}\n" in capsys.readouterr().err


def test_a_disk_without_room_is_refused_first(usual: SftConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    from collections import namedtuple

    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("pasta.train.model.shutil.disk_usage", lambda path: usage(10, 10, 1000))
    with pytest.raises(StorageError, match=r"no room for the model in .*0 MB free"):
        sft.train(usual)
    assert not Path(usual.output).exists()
