"""Several processes train, sample and score as one does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pasta.data.rows import read_rows
from pasta.models import load_model
from pasta.train import sft
from pasta.train.config import SftConfig
from support import toy_rows

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


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
