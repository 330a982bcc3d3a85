"""What the tests of training share: a training of a tiny model, and the recipe `answers`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest
import torch
from tasks_texts import FUNCTIONS, SUMS, write_problems

from adapters import make_adapter
from pasta.core.taught import Taught
from pasta.models import load_model
from pasta.models.taught import mark
from pasta.train.config import SftConfig

PLACE = Path(__file__).parents[2] / "recipes" / "answers"
MODULES = ("run", "options", "sample", "right", "form", "bundles", "package", "pack", "prepare", "training",
           "measuring")  # fmt: skip
Run = Callable[..., str]


@pytest.fixture
def usual(tmp_path: Path, base: str, data: str) -> SftConfig:
    return SftConfig(
        data=data, output=str(tmp_path / "out"), model=base, method="lora", lora_rank=4, max_steps=2, cpu=True,
        batch_size=2, max_length=512,
    )  # fmt: skip


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory, base: str) -> str:
    """A tiny adapter that does something, the same whatever ran before."""
    torch.manual_seed(0)
    loaded = load_model(base, device="cpu", tags=True)
    mark(loaded.model, Taught(depth=3))
    folder = tmp_path_factory.mktemp("adapter")
    make_adapter(loaded, folder)
    return str(folder)


@pytest.fixture
def run_answers(
    tmp_path: Path, base: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Run]:
    """Runs a stage as the command line does; returns what it printed."""
    monkeypatch.syspath_prepend(PLACE)
    for name in MODULES:  # another recipe may have a file of the same name
        monkeypatch.delitem(sys.modules, name, raising=False)
    main = import_module("run").main
    sums, functions = (write_problems(tmp_path, rows, f"{name}.jsonl") for name, rows in
                       (("sums", SUMS), ("functions", FUNCTIONS)))  # fmt: skip
    files = [f"--{name}={file}" for name in ("problems", "tests") for file in (sums, functions)]

    def stage(names: str, *more: str) -> str:
        out = str(tmp_path / "out")
        main([*names.split(), "--model", base, "--out", out, "--device", "cpu", "--run-code", *files, *more])
        return capsys.readouterr().out

    yield stage
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def prompts_file(tmp_path: Path) -> str:
    path = tmp_path / "chats-to-measure.json"
    path.write_text(json.dumps([{"instruction": text} for text in ("Name a river.", "Why?", "List seas.", "Hm.")]))
    return str(path)
