"""What finetuning refuses, and when: before it takes long, and before it touches what is there."""

from __future__ import annotations

import math
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pasta.errors import PastaError, UsageError
from pasta.train import sft
from pasta.train.config import Method, SftConfig
from pasta.train.interrupt import SIGNALS

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def test_data_that_is_not_there_is_missed_before_the_model_is_read(tmp_path: Path, data: str) -> None:
    missing = tmp_path / "missing.jsonl"
    config = SftConfig(data=data, output=str(tmp_path / "out"), model="no/such-model")
    for wrong in (replace(config, data=str(missing)), replace(config, eval_data=str(missing))):
        with pytest.raises(UsageError, match=f"there is no file {missing}"):
            sft.train(wrong)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epochs": math.inf}, "epochs is inf, expected more than 0"),
        ({"learning_rate": -1.0}, "learning_rate is -1.0, expected 0 or more"),
        ({"minutes": -1.0}, "minutes is -1.0"),
        ({"max_steps": -5}, "max_steps is -5"),
        ({"limit": -3}, "limit is -3"),
        ({"save_steps": -1}, "save_steps is -1"),
        ({"lora_dropout": 2.0}, "lora_dropout is 2.0, expected 0 or more, below 1"),
        ({"warmup": 1.0}, "warmup is 1.0, expected 0 or more, below 1"),
        ({"seed": -1}, "seed is -1, expected 0 or more, below 4294967296"),
    ],
)
def test_numbers_that_cannot_be_meant(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        SftConfig(data="x.jsonl", output="out", **change)


def test_nothing_to_train_on(tmp_path: Path, base: str) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text('{"prompt": "x", "response": "<sync"}\n{"prompt": "x"}\n')
    with pytest.raises(PastaError, match="no example to train on"):
        sft.train(SftConfig(data=str(empty), output=str(tmp_path / "out"), model=base))


def test_without_peft_it_says_what_to_do(tmp_path: Path, base: str, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(UsageError, match=r"pasta-decoding\[train\]"):
        sft.train(SftConfig(data=data, output=str(tmp_path / "out"), model=base, method="lora"))


@pytest.mark.parametrize(
    ("first", "second", "resume", "hint"),
    [
        ("lora", "full", True, "name a new folder"),
        ("full", "lora", True, "name a new folder"),
        ("full", "full", False, "there is no checkpoint to go on from: name a new folder"),
        ("lora", "lora", True, "there is no checkpoint to go on from: name a new folder"),
    ],
)
def test_an_output_that_holds_a_model_is_refused(
    tmp_path: Path, base: str, data: str, first: Method, second: Method, resume: bool, hint: str
) -> None:
    output = tmp_path / "out"
    usual = SftConfig(data=data, output=str(output), model=base, method=first, max_steps=1, cpu=True)
    sft.train(usual)
    before = {path: path.read_bytes() for path in output.iterdir() if path.is_file()}
    with pytest.raises(UsageError, match=rf"{output} holds a.* already \({hint}\)"):
        sft.train(replace(usual, method=second, resume=resume))
    assert {path: path.read_bytes() for path in output.iterdir() if path.is_file()} == before


def test_an_output_that_holds_a_checkpoint_is_gone_on_from_or_left_alone(tmp_path: Path, base: str, data: str) -> None:
    output = tmp_path / "out"
    config = SftConfig(
        data=data, output=str(output), model=base, method="lora", max_steps=2, save_steps=1, cpu=True, batch_size=2
    )
    sft.train(config)
    again = rf"{output} holds an adapter already \(pass --resume to go on from checkpoint-2, or name a new folder\)"
    with pytest.raises(UsageError, match=again):
        sft.train(config)
    for file in output.iterdir():  # as if it had been killed after its second step
        if file.is_file():
            file.unlink()
    before = {path: path.stat().st_mtime_ns for path in output.rglob("*")}
    with pytest.raises(UsageError, match=rf"{output} holds a checkpoint of an adapter already \(pass --resume"):
        sft.train(config)
    with pytest.raises(UsageError, match=r"a checkpoint of an adapter already \(name a new folder\)"):
        sft.train(replace(config, method="full", resume=True))
    assert {path: path.stat().st_mtime_ns for path in output.rglob("*")} == before
    assert sft.train(replace(config, max_steps=3, resume=True)).steps == 3


@pytest.mark.parametrize("method", ["full", "lora"])
@pytest.mark.parametrize(("logging_steps", "said"), [(1, "the loss is nan at step"), (100, "what was trained holds")])
def test_a_training_that_diverged_writes_no_model(
    tmp_path: Path, base: str, data: str, method: Method, logging_steps: int, said: str
) -> None:
    output = tmp_path / "out"
    config = SftConfig(
        data=data, output=str(output), model=base, method=method, max_steps=4, cpu=True, batch_size=2, max_length=512,
        learning_rate=1e30, logging_steps=logging_steps,
    )  # fmt: skip
    handlers = [signal.getsignal(each) for each in SIGNALS]
    with pytest.raises(PastaError, match=f"{said}.*train again, more slowly"):
        sft.train(config)
    assert [signal.getsignal(each) for each in SIGNALS] == handlers, "Ctrl-C means what it meant before"
    assert not list(output.glob("**/*.safetensors"))
