"""The small form of a finetuned model, as a folder: low-rank updates and the tags' embeddings, over a base model.

The files are PEFT's (`adapter_model.safetensors`, `adapter_config.json`), with the tokenizer that has the tags, so
that the peft library reads them; reading them here needs no peft. `pasta.json` beside them says what PASTA must know:
how the model was taught, which model is the base, and the base's checksum.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pasta.core.taught import Taught
from pasta.errors import CorruptModel
from pasta.models.checkpoint import weight_files
from pasta.models.checksum import checksum
from pasta.models.folder import ModelFolder

WEIGHTS, CONFIG, RECORD = "adapter_model.safetensors", "adapter_config.json", "pasta.json"
PREFIX = "base_model.model."
A, B, ROWS = ".lora_A.weight", ".lora_B.weight", ".token_adapter.trainable_tokens_delta"


@dataclass(frozen=True, slots=True)
class Base:
    """The model that an adapter belongs to, as the adapter's record names it."""

    name: str  # an id on the hub, an absolute path, or a name that PASTA knows
    checksum: str | None = None  # of its weights; None: nobody wrote it down
    place: str | None = None  # where other libraries find it, if `name` tells them nothing

    @classmethod
    def of(cls, folder: ModelFolder) -> Base:
        known = folder.source in ("huggingface", "folder")
        return cls(folder.reference, weights_checksum(folder.path), None if known else str(folder.path))

    def check(self, found: ModelFolder, adapter: str | os.PathLike[str]) -> None:
        """Refuses another model than the one that the adapter was trained on."""
        if self.checksum is not None and (other := weights_checksum(found.path)) != self.checksum:
            raise CorruptModel(
                f"the adapter in {adapter} was trained on {self.name}, whose weights have the checksum "
                f"{self.checksum[:12]}…; those in {found.path} have {other[:12]}…",
                hint=f'say with --base where its own base lies, or take "checksum" out of its {RECORD}',
            )


def is_adapter(folder: str | os.PathLike[str]) -> bool:
    return (Path(folder) / CONFIG).is_file() and (Path(folder) / WEIGHTS).is_file()


def base_of(folder: str | os.PathLike[str]) -> Base:
    """The model that an adapter belongs to."""
    record = read_record(folder)
    place = read_json(Path(folder) / CONFIG).get("base_model_name_or_path")
    name = record.get("base") or place
    if not name:
        raise CorruptModel(f"{folder} does not say which model it adapts", hint=f'add "base" to its {RECORD}')
    return Base(str(name), record.get("checksum"), None if place == name else place)


def write_record(folder: str | os.PathLike[str], base: Base, taught: Taught) -> None:
    record = {"base": base.name, "checksum": base.checksum, **taught.record()}
    known = {key: value for key, value in record.items() if value is not None}
    (Path(folder) / RECORD).write_text(json.dumps(known, indent=2) + "\n", "utf-8")


def read_record(folder: str | os.PathLike[str]) -> dict[str, Any]:
    path = Path(folder) / RECORD
    return read_json(path) if path.is_file() else {}


def read_json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise CorruptModel(f"{path} does not read: {error}") from error


def weights_checksum(folder: Path) -> str:
    """Of a model's weights, or of an adapter's."""
    return checksum([folder / name for name in ([WEIGHTS] if is_adapter(folder) else weight_files(folder))])
