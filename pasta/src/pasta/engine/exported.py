"""A folder that `pasta export` wrote: what an engine must know of a model that another program runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pasta.core.taught import Taught
from pasta.core.vocabulary import Vocabulary
from pasta.errors import PastaError
from pasta.models.checkpoint import end_tokens, quiet, read_tokenizer

HINT_MODEL = "pass --model FOLDER: what the server loaded, written by pasta export"


def read_vocabulary(folder: Path, *, tagged: bool = True) -> Vocabulary:
    """`tagged`: the model must know the tags; else any will do."""
    with quiet():
        tokenizer = read_tokenizer(folder)
    files = (read_json(folder / name) for name in ("generation_config.json", "config.json"))
    vocabulary = Vocabulary(tokenizer, end_tokens(*(file.get("eos_token_id") for file in files)))
    if tagged and vocabulary.tags is None:
        raise PastaError(f"the tokenizer in {folder} has no PASTA tags", HINT_MODEL)
    return vocabulary


def read_taught(folder: Path) -> Taught:
    """How the model was trained."""
    return Taught.read(read_json(folder / "config.json").get("pasta"))


def read_json(path: Path) -> dict[str, Any]:
    """Nothing where there is no such file."""
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return {}
