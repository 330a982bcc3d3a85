"""What a small model learns from a larger one, and what from itself."""

from __future__ import annotations

import importlib.util
import json
import lzma
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

OWN = Path(__file__).parents[2] / "recipes" / "answers" / "own.py"


@pytest.fixture(scope="module")
def own() -> ModuleType:
    spec = importlib.util.spec_from_file_location("own", OWN)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def marked(prompt: str, response: str, blocks: int) -> dict[str, Any]:
    return {"prompt": prompt, "response": response, "pasta": {"blocks": blocks}}


def test_what_forks_is_the_larger_models_and_all_else_its_own(own: ModuleType, tmp_path: Path) -> None:
    forks, again = marked("Tips?", "large, forking", 3), marked("Tips?", "large, forking otherwise", 2)
    large = write(tmp_path / "large" / "structure-0.jsonl", forks, marked("Why?", "large", 0)).parent
    write(large / "structure-1.jsonl", again, marked("Tips?", "large, in one thread", 0))
    write(large / "structure-0.source.jsonl", {"prompt": "Tips?", "response": "what was to be marked"})
    prompts = write(tmp_path / "prompts.jsonl", {"prompt": "Tips?"}, {"prompt": "Why?"}, {"prompt": "Who?"})
    own.prompts(large, prompts, tmp_path / "own.jsonl")
    assert read(tmp_path / "own.jsonl") == [{"prompt": "Why?"}, {"prompt": "Who?"}]

    answer = marked("Why?", "small", 0)
    forking = marked("Who?", "small, forking", 2)
    small = write(tmp_path / "small" / "structure-0.jsonl", answer, forking, marked("Tips?", "small", 0)).parent
    own.both(large, small, tmp_path / "both.jsonl")
    assert read(tmp_path / "both.jsonl") == [forks, again, answer]


@pytest.mark.parametrize("packed", [False, True])
def test_prompts_are_read_as_the_stage_that_answers_them_reads_them(
    own: ModuleType, tmp_path: Path, packed: bool
) -> None:
    large = write(tmp_path / "large" / "structure-0.jsonl", marked("Tips?", "large, forking", 3)).parent
    rows = [{"instruction": "Tips?"}, {"messages": [{"role": "user", "content": "Tips?"}]}, {"instruction": "Who?"}]
    prompts = write(tmp_path / "prompts.jsonl", *rows)
    if packed:
        packed_to = tmp_path / "prompts.jsonl.xz"
        packed_to.write_bytes(lzma.compress(prompts.read_bytes()))
        prompts = packed_to
    own.prompts(large, prompts, tmp_path / "own.jsonl")
    assert read(tmp_path / "own.jsonl") == [{"instruction": "Who?"}]


def test_what_is_not_there_is_no_empty_file(
    own: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    large = write(tmp_path / "large" / "structure-0.jsonl", marked("Tips?", "large, forking", 3)).parent
    out = str(tmp_path / "out.jsonl")
    for given, told in (
        (["prompts", str(large), str(tmp_path / "none.jsonl"), out], "there is no file"),
        (["prompts", str(tmp_path / "none"), str(tmp_path / "none.jsonl"), out], "holds no answers that were marked"),
        (["both", str(large), str(tmp_path), out], "holds no answers that were marked"),
        (["neither"], "expected prompts or both"),
    ):
        assert own.main(given) == 2
        assert told in capsys.readouterr().err
    assert not Path(out).exists()
