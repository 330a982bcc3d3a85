"""A training that goes on from a checkpoint: with the same model, updates and positions, or not at all."""

from __future__ import annotations

from pathlib import Path

from pasta.core.positions import Positions
from pasta.core.taught import Taught
from pasta.data.lines import write_json
from pasta.errors import UsageError
from pasta.models.adapter import CONFIG, Base, base_of, is_adapter, read_json, read_record, weights_checksum
from pasta.models.catalogue import resolve
from pasta.train.config import SftConfig
from pasta.train.model import newest_checkpoint

BASE = "base.json"  # beside the checkpoints of a whole model: what it was trained from, which an adapter says itself


def remember_base(config: SftConfig, base: Base) -> None:
    """For `check_resumed`, before the first step."""
    if not config.lora and newest_checkpoint(Path(config.output)) is None:
        write_json(Path(config.output) / BASE, {"name": base.name, "checksum": base.checksum})


def check_resumed(config: SftConfig) -> None:
    """Refuses a checkpoint of other settings: its weights would mean something else in this training."""
    checkpoint = newest_checkpoint(Path(config.output)) if config.resume else None
    if checkpoint is None:
        return
    whole = checkpoint / "config.json"  # which parts of one that several processes wrote lack
    record = read_json(whole).get("pasta") or {} if whole.is_file() else {}
    base = _base(checkpoint)
    if base.checksum not in (None, weights_checksum(resolve(config.model, config.base).path)):
        raise _other(checkpoint, "model", base.name, config.model)
    if is_adapter(checkpoint):
        record = read_record(checkpoint)
        updates = read_json(checkpoint / CONFIG)
        for name, known in (("lora_rank", updates.get("r")), ("lora_alpha", updates.get("lora_alpha"))):
            if known not in (None, getattr(config, name)):
                raise _other(checkpoint, name, known, getattr(config, name))
    positions = Taught.read(record).positions
    if record and not config.strip_tags and positions != Positions.parse(config.positions):
        raise _other(checkpoint, "positions", positions, config.positions)


def _base(checkpoint: Path) -> Base:
    """What a checkpoint was trained from, if anybody wrote it down."""
    if is_adapter(checkpoint):
        return base_of(checkpoint)
    path = checkpoint.parent / BASE
    known = read_json(path) if path.is_file() else {}
    return Base(str(known.get("name")), known.get("checksum"))


def _other(checkpoint: Path, name: str, known: object, wanted: object) -> UsageError:
    return UsageError(
        f"{name} is {wanted}, but {checkpoint} was trained with {known}",
        "go on with what it was trained with, or name a new folder for the output",
    )
