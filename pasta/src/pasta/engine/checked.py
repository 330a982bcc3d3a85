"""Which models have passed the self-check, kept in the user's cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

import torch
import transformers

from pasta._version import __version__
from pasta.engine.native import NativeEngine
from pasta.engine.selfcheck import NEEDS_POSITIONS, NEEDS_SLOTS, Agreement, self_check
from pasta.engine.survey import Unfit
from pasta.errors import StorageError, UnsupportedModel
from pasta.models.folder import ModelFolder
from pasta.models.progress import working
from pasta.models.store import cache_root, make_folder, storage_errors

LARGE = 500_000_000  # parameters, from which on the check takes a while


def ensure_checked(engine: NativeEngine, folder: ModelFolder) -> Agreement:
    """Runs the self-check, unless this model has passed it with this software. `UnsupportedModel` where it fails."""
    place = record_of(engine, folder)
    with contextlib.suppress(OSError, ValueError, TypeError):
        if place is not None:
            return Agreement(**json.loads(place.read_text("utf-8")))
    agreement = check(engine)
    if place is not None:
        with contextlib.suppress(StorageError), storage_errors(place.parent):  # without a cache it runs every time
            make_folder(place.parent)
            scratch = place.with_suffix(f".{id(engine)}")
            scratch.write_text(json.dumps(agreement.to_dict()), "utf-8")
            scratch.replace(place)
    return agreement


def check(engine: NativeEngine) -> Agreement:
    """The self-check. `UnsupportedModel` where it fails, with the difference that was found."""
    model = engine.model
    subject = engine
    if engine.context < NEEDS_POSITIONS or engine.pool.slots < NEEDS_SLOTS:
        # A script needs room: the same model, through transformers' forward pass.
        subject = NativeEngine(model, engine.vocabulary, name=engine.name, slots=NEEDS_SLOTS, calls=engine.calls)
    try:
        large = sum(weight.numel() for weight in model.parameters()) > LARGE
        with working(f"checking {engine.name}, once") if large else contextlib.nullcontext():
            agreement = self_check(subject)
        if not agreement.good:
            raise Unfit(str(agreement))
    except Unfit as reason:
        raise UnsupportedModel(
            f"{engine.name or 'this model'} ({model.config.model_type}) cannot be run: {reason}",
            hint="`pasta models --check` says more, docs/families.md which families run",
        ) from None
    return agreement


def record_of(engine: NativeEngine, folder: ModelFolder) -> Path | None:
    """Where the outcome is kept: a name for the weights, their configuration, this software and how it runs them."""
    try:
        root = cache_root()
    except ImportError:  # a machine with torch and transformers alone has no cache
        return None
    model = engine.model
    key: list[Any] = [
        [__version__, torch.__version__, transformers.__version__, source_digest()],
        [type(engine).__name__, str(model.dtype), model.device.type, engine.reach],
        model.config.to_json_string(use_diff=False),
        [[str(file), *stamp] for file, stamp in weight_files(folder)],
    ]
    return root / "checks" / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]}.json"


def source_digest() -> str:
    """Of the engine's own code: a change of it is checked anew."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def weight_files(folder: ModelFolder) -> list[tuple[Path, tuple[int, int]]]:
    """The files that weights come from, with their sizes and times."""
    files = [file for file in sorted(folder.path.glob("*.safetensors")) if file.is_file()]
    own = [(file.resolve(), (file.stat().st_size, file.stat().st_mtime_ns)) for file in files]
    return own + (weight_files(folder.base) if folder.base is not None else [])
