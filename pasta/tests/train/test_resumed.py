"""Going on from a checkpoint: what must be as it was, and what is said where nothing is left to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pasta.errors import UsageError
from pasta.train import sft
from pasta.train.config import SftConfig
from support import byte_tokenizer, tiny_model

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture
def usual(usual: SftConfig) -> SftConfig:
    return replace(usual, save_steps=2, logging_steps=1)


def files_of(config: SftConfig) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path(config.output).rglob("*") if path.is_file()}


@pytest.fixture
def other(tmp_path: Path) -> str:
    """Of the same shape as the base: nothing but the checksum tells them apart."""
    folder = tmp_path / "another-base"
    tiny_model(seed=1).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return str(folder)


def test_a_checkpoint_of_other_settings_is_not_gone_on_from(usual: SftConfig, other: str) -> None:
    sft.train(usual)
    before = files_of(usual)
    for name, value in {"model": other, "positions": "stitched", "lora_rank": 8, "lora_alpha": 4.0}.items():
        with pytest.raises(UsageError, match=rf"{name} is {value}, but .*checkpoint-2 was trained with"):
            sft.train(replace(usual, max_steps=3, resume=True, **{name: value}))
    assert files_of(usual) == before


def test_a_whole_model_keeps_its_base_and_its_positions(usual: SftConfig, other: str) -> None:
    full = replace(usual, method="full", max_steps=1, save_steps=1)
    sft.train(full)
    told = rf"model is {other}, but .*checkpoint-1 was trained with {full.model}"
    with pytest.raises(UsageError, match=told):
        sft.train(replace(full, max_steps=2, resume=True, model=other))
    with pytest.raises(UsageError, match=r"positions is fixed:20, but .*checkpoint-1 was trained with predicted"):
        sft.train(replace(full, max_steps=2, resume=True, positions="fixed:20"))
    assert sft.train(replace(full, max_steps=2, resume=True)).steps == 2


def test_where_nothing_is_left_the_loss_is_the_one_that_is_known(
    usual: SftConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sft.train(usual)
    logged = [entry["loss"] for entry in before.log if "loss" in entry]
    capsys.readouterr()
    after = sft.train(replace(usual, resume=True))
    said = capsys.readouterr().err
    assert (after.steps, after.loss) == (2, logged[-1])
    assert "nothing is left to train: the newest checkpoint has 2 steps behind it" in said and "about" not in said


def test_the_time_is_that_of_what_is_left(
    usual: SftConfig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pasta.train.trainer.SegmentTrainer.trial", lambda *_: 10.0)
    sft.train(usual)
    assert "about 20 s" in capsys.readouterr().err
    sft.train(replace(usual, max_steps=3, resume=True))
    assert "about 10 s" in capsys.readouterr().err
