"""`pasta export`: a model as one folder that servers load: its adapter merged, its tags in the tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pasta.cli.options import Base, Model
from pasta.cli.running import patiently
from pasta.errors import PastaError, StorageError, UsageError
from pasta.outputs import check_folder


def command(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", hidden=True, help="Written; it must be new or empty.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(show_default=False, help="The folder to write; it must be new or empty.")
    ] = None,
    model: Model = None,
    base: Base = None,
    lora: Annotated[
        bool, typer.Option("--lora", help="Two folders, base and lora, for vLLM's --enable-lora; not merged.")
    ] = False,
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
) -> None:
    """Write a model as one folder that vLLM, SGLang and transformers load: pasta export --output FOLDER.

    An adapter is merged into its base, and the tags are in the tokenizer. Prints the folder.
    """
    target = output or folder
    if target is None:
        raise UsageError("output is missing", "pass --output FOLDER")
    check_folder(target)
    if target.is_dir() and any(target.iterdir()):
        raise UsageError(f"{target} is there already", "name a new folder")
    if dtype not in ("float32", "bfloat16", "float16"):
        raise UsageError(f"unknown dtype {dtype!r}", "use one of float32, bfloat16, float16")
    with patiently(f"writing {model or 'the default model'} to {target}"):
        from pasta.data.storing import storing
        from pasta.models import load_model
        from pasta.models.export import write_model, write_parts

        try:
            with storing(target, "make room, delete what was written, and export again"):
                if lora:
                    write_parts(model, base, target, dtype)
                else:
                    loaded = load_model(model, device="cpu", dtype=dtype, base=base)
                    if loaded.vocabulary.tags is None:
                        reason = f"{loaded.name} knows no tags: it would answer sequentially"
                        raise PastaError(reason, "finetune it: pasta train sft")
                    write_model(loaded, target)
        except OSError as error:
            raise StorageError(f"cannot write {target}: {error.strerror or error}") from None
    print(target)
