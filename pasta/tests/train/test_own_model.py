"""docs/your-own-model.md, command by command: a tiny model with the default's tokenizer, trained and used elsewhere.

And the examples of docs/annotate.md, which annotate the same chats.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from pasta.cli import main
from pasta.core.vocabulary import Vocabulary
from pasta.models import load_model

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "your-own-model.md").read_text("utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if not line.startswith("pip install")
]
BIRDS = (
    "Three birds come to this garden in winter:\n\n"
    "- Robins: they hop on the ground below the hedge and pick up what the others drop.\n"
    "- Great tits: they hang from the feeder upside down and carry one seed at a time to a branch.\n"
    "- Woodpeckers: they come rarely, hammer at the old apple tree, and leave when a window opens."
)


def make_workshop(folder: Path, tokenizer_of: Path) -> None:
    """A model of random weights, and chats in the three forms of the page."""
    torch.manual_seed(0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer_of)
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=len(tokenizer), max_position_embeddings=2048, tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder / "my-model")
    tokenizer.save_pretrained(folder / "my-model")
    asked = "Which birds come in winter?"
    rows: list[dict[str, Any]] = [
        {"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": BIRDS}]},
        {"conversations": [{"from": "human", "value": asked}, {"from": "gpt", "value": BIRDS}]},
        {"prompt": asked, "response": BIRDS},
        {"prompt": "Sure?", "response": "Yes."},
    ]
    (folder / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows * 3))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[[str], tuple[str, str]]:
    """One line of the page: `pasta` in this process, all else by the shell."""

    def line(text: str) -> tuple[str, str]:
        words = shlex.split(text)
        if words[0] == "cd":
            monkeypatch.chdir(words[1])
        elif words[0] != "pasta":
            subprocess.run(text, shell=True, check=True)
        else:
            monkeypatch.setattr(sys, "argv", words)
            with pytest.raises(SystemExit) as ended:
                main()
            out, err = capfd.readouterr()
            assert not ended.value.code, f"{text}: {err}"
            return out, err
        return "", ""

    return line


@pytest.mark.filterwarnings("ignore")
def test_the_page_from_a_folder_to_a_model_that_servers_load(
    tmp_path: Path, default_folder: Any, monkeypatch: pytest.MonkeyPatch, run: Callable[[str], tuple[str, str]]
) -> None:
    pytest.importorskip("peft")
    make_workshop(tmp_path, default_folder.path)
    monkeypatch.chdir(tmp_path)
    said = {text: run(text) for text in COMMANDS if not text.startswith("pasta serve")}
    assert Path.cwd() == tmp_path / "elsewhere", "another folder than it was trained in"
    (trained,) = [err for text, (_, err) in said.items() if text.startswith("pasta train")]
    assert "train.jsonl: 8 examples, 6 with tags (18 threads)" in trained
    assert "eval_forks" in trained and "eval_well_formed" in trained and "eval_speedup" in trained
    answers = [out for text, (out, _) in said.items() if text.startswith("pasta generate")]
    assert len(answers) == 2 and answers[0] == answers[1] != "", "merged or not, it is the same model"

    found: dict[str, Any] = {}
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(example, found)
    ours = load_model("../tuned", device="cpu")
    assert Vocabulary(found["tokenizer"]).tags == ours.vocabulary.tags
    ids = torch.tensor([found["tokenizer"](BIRDS)["input_ids"]])
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    apart = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained("parts/base"), "parts/lora")
    with torch.inference_mode():
        expected = ours.model(ids).logits
        for other in (found["model"], apart, AutoModelForCausalLM.from_pretrained("merged")):
            torch.testing.assert_close(other.eval()(ids).logits, expected, rtol=0, atol=1e-4)

    base = (tmp_path / "my-model").rename(tmp_path / "moved")
    out, _ = run(f"pasta generate --model ../tuned --base {base} --max-tokens 40 'Which birds come in winter?'")
    assert out == answers[0]


def test_every_form_of_a_row_on_the_page_is_read() -> None:
    from pasta.data.example import Example
    from pasta.data.fields import read_example

    (block,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    rows = [json.loads(line) for line in block.splitlines()]
    assert len(rows) == 3 and all(isinstance(read_example(0, row), Example) for row in rows)


@pytest.mark.filterwarnings("ignore")
def test_the_page_about_annotating_has_examples_that_run(
    tmp_path: Path, default_folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_workshop(tmp_path, default_folder.path)
    monkeypatch.chdir(tmp_path)
    ours, own = re.findall(r"```python\n(.*?)```", (DOCS / "annotate.md").read_text("utf-8"), re.DOTALL)
    found: dict[str, Any] = {}
    exec(ours, found)
    assert found["report"].rows == 12
    exec(own, found)
    report = found["report"]
    assert (report.annotated, report.sequential) == (9, 3) and len(report.lengths) == 9 * 3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_page_serves(
    tmp_path: Path, default_folder: Any, monkeypatch: pytest.MonkeyPatch, run: Callable[[str], tuple[str, str]]
) -> None:
    import httpx

    make_workshop(tmp_path, default_folder.path)
    monkeypatch.chdir(tmp_path)
    (serve,) = [text for text in COMMANDS if text.startswith("pasta serve")]
    for text in COMMANDS[: COMMANDS.index(serve)]:
        run(text)
    words = [sys.executable, "-c", "from pasta.cli import main; main()", *shlex.split(serve)[1:-1], "0"]
    with subprocess.Popen(
        words, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    ) as server:
        try:
            assert server.stderr is not None
            address = next(
                found[1] for line in server.stderr if (found := re.search(r"serving tuned at (\S+)/v1", line))
            )
            asked = {"messages": [{"role": "user", "content": "Which birds come in winter?"}], "max_tokens": 20}
            answer = httpx.post(f"{address}/v1/chat/completions", json=asked, timeout=120).json()
            assert answer["model"] == "tuned" and answer["usage"]["completion_tokens"] > 0
        finally:
            server.send_signal(signal.SIGINT)
