"""The example programs against a running server, and the container's files against what they name."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pasta.decoding.api import generate

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def run(*arguments):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=500, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_openai_package(tiny):
    out = run(EXAMPLES / "openai_client.py", f"{tiny.url}/v1")
    assert generate(tiny.engine, "Name three fruits and describe each.", max_tokens=120).text in out
    assert len(re.findall(r"tokens, critical path \d+, \d+ threads, \d+ of \d+ prompt tokens", out)) == 2


def test_objects_and_tools(tiny):
    out = run(EXAMPLES / "openai_objects.py", f"{tiny.url}/v1")
    assert re.search(r"customer=.* chairs=-?\d+ payment='\w+'", out)
    assert re.search(r"\d+ tokens in \d+ steps\nship\(\{'city': .*\}\)\n.", out, re.DOTALL)


@pytest.mark.parametrize("plain", [False, True])
def test_alpaca_eval(tiny, tmp_path, plain):
    questions = [{"instruction": text, "dataset": "ours", "output": "theirs"} for text in ("Why?", "How so?", "No.")]
    (tmp_path / "questions.json").write_text(json.dumps(questions))
    arguments = ["--url", f"{tiny.url}/v1", "--max-tokens", "20", "--limit", "2"] + ["--plain"] * plain
    run(EXAMPLES / "alpaca_eval.py", tmp_path / "questions.json", tmp_path / "outputs.json", *arguments)
    outputs = json.loads((tmp_path / "outputs.json").read_text())
    assert [row["instruction"] for row in outputs] == ["Why?", "How so?"]
    for row in outputs:
        answer = generate(tiny.engine, row["instruction"], max_tokens=20, plain=plain)
        assert row["output"] == answer.text and row["dataset"] == "ours"
        assert row["generator"] == "tiny-llama" + "-plain" * plain


def test_lm_evals_task_has_its_data():
    task = yaml.safe_load((EXAMPLES / "lm_eval" / "pasta_facts.yaml").read_text())
    data = (ROOT / task["dataset_kwargs"]["data_files"]["test"]).read_text()
    rows = [json.loads(line) for line in data.splitlines()]
    assert rows and all(row.keys() == {"question", "answer"} for row in rows)
