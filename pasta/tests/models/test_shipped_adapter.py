"""The adapters that ship as packages of their own: whole, small, and described by what was measured."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from safetensors import safe_open

from pasta.core.vocabulary import Vocabulary
from pasta.models.adapter import CONFIG, RECORD, WEIGHTS, base_of, is_adapter
from support import byte_tokenizer

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "adapters" / "qwen2.5-coder-1.5b-pasta"
FOLDER = PROJECT / "src" / "qwen2_5_coder_1_5b_pasta"
WIDTH, LAYERS, WORDS = 1536, 28, 151936  # of Qwen2.5-Coder-1.5B


def test_the_package_names_its_adapter() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pasta.adapters"] == {"qwen2.5-coder-1.5b-pasta": FOLDER.name}
    assert project["license"] == "Apache-2.0" and (PROJECT / project["readme"]).is_file()
    assert is_adapter(FOLDER) and sorted(path.name for path in FOLDER.iterdir() if path.is_file()) == sorted(
        ["README.md", "__init__.py", CONFIG, WEIGHTS, RECORD]
    )


def test_it_is_small_and_belongs_to_a_base_from_anywhere() -> None:
    assert (FOLDER / WEIGHTS).stat().st_size < 25_000_000
    base = base_of(FOLDER)
    assert base.name == "Qwen/Qwen2.5-Coder-1.5B-Instruct" and base.checksum is None
    for name in (CONFIG, RECORD, "README.md"):
        assert not re.search(r"(?<![\w./<:])/[a-z]", (FOLDER / name).read_text("utf-8"))  # no path of a machine


def test_its_weights_are_those_of_its_config() -> None:
    config = json.loads((FOLDER / CONFIG).read_text("utf-8"))
    vocabulary = Vocabulary(byte_tokenizer())
    before = len(vocabulary.tokenizer)
    vocabulary.add_tags()
    rows = range(WORDS, WORDS + len(vocabulary.tokenizer) - before)
    assert config["trainable_token_indices"] == {"embed_tokens": [*rows], "lm_head": [*rows]}
    with safe_open(FOLDER / WEIGHTS, framework="np") as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    low = {name: shape for name, shape in shapes.items() if ".lora_" in name}
    assert len(low) == 2 * LAYERS * len(config["target_modules"])
    assert all(config["r"] in shape for shape in low.values())
    rest = [shape for name, shape in shapes.items() if name not in low]
    assert rest == [(len(rows), WIDTH)] * 2


def test_its_card_says_what_was_measured() -> None:
    spec = spec_from_file_location("package", ROOT / "recipes" / "answers" / "package.py")
    assert spec is not None and spec.loader is not None
    package = module_from_spec(spec)
    spec.loader.exec_module(package)
    summary = json.loads((ROOT / "benchmarks" / "results" / "eval-qwen15-chains.json").read_text("utf-8"))
    card = (FOLDER / "README.md").read_text("utf-8")
    assert package.table(summary, "pasta") in card
    assert package.promises(summary, "pasta") in card
    assert package.chats(summary, "pasta") in card
    for said in ("dequantised weights", "Apache-2.0", "## Limitations", "--base"):
        assert said in card
