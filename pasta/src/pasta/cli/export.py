"""`pasta export FOLDER`: a model as one folder that servers load: its adapter merged, its tags in the tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pasta.cli.options import Base, Model
from pasta.cli.running import patiently
from pasta.errors import PastaError, StorageError, UsageError


def command(
    folder: Annotated[Path, typer.Argument(help="Written; it must be new or empty.")],
    model: Model = None,
    base: Base = None,
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
) -> None:
    """Write a model as one folder that vLLM, SGLang and transformers load.

    An adapter is merged into its base, and the tags are in the tokenizer. Prints the folder.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is there already", "name a new folder")
    if dtype not in ("float32", "bfloat16", "float16"):
        raise UsageError(f"unknown dtype {dtype!r}", "use one of float32, bfloat16, float16")
    with patiently(f"writing {model or 'the default model'} to {folder}"):
        from pasta.models import load_model
        from pasta.models.checkpoint import quiet

        loaded = load_model(model, device="cpu", dtype=dtype, base=base)
        if loaded.vocabulary.tags is None:
            raise PastaError(
                f"{loaded.name} knows no tags: it would answer sequentially", "finetune it: pasta train sft"
            )
        try:
            with quiet():
                loaded.model.save_pretrained(folder)
                loaded.tokenizer.save_pretrained(folder)
            for file in folder.glob("*.safetensors"):  # written for this user alone; a server may be another
                file.chmod((folder / "config.json").stat().st_mode)
        except OSError as error:
            raise StorageError(f"cannot write {folder}: {error.strerror or error}") from None
    print(folder)
