"""From a name to a model on this machine, and the list of those that are here."""

from dataclasses import dataclass
from pathlib import Path

from pasta.errors import CorruptModel, UnknownModel, UsageError
from pasta.models import bundled, hub, store
from pasta.models.folder import ModelFolder, Source
from pasta.models.gguf import converted
from pasta.models.loading import check_files

DEFAULT = "default"


def resolve(name: str | None = None) -> ModelFolder:
    """The model `name`, fetched or converted first where that is needed.

    None or "default": the bundled default's base. A folder: that folder. A `.gguf` file: its converted form.
    Anything else is the id of a repository on the Hugging Face hub.
    """
    if name is None or name in (DEFAULT, bundled.NAME, bundled.FINETUNED):
        return ModelFolder(bundled.NAME, bundled.folder(), "bundled")
    if not name.strip():
        raise UsageError("the model's name is empty", "see: pasta models")
    path = Path(name).expanduser()
    if path.is_dir():
        check_files(path)
        return ModelFolder(path.resolve().name, path.resolve(), "folder")
    if path.is_file():
        if path.suffix.lower() != ".gguf":
            raise CorruptModel(f"{name} is neither a model folder nor a .gguf file")
        return ModelFolder(path.stem, converted(path.resolve()), "gguf")
    kept = store.models_root() / name
    if name.startswith("gguf-") and kept.is_dir():
        return ModelFolder(name, kept, "gguf")
    if not hub.is_id(name) or path.suffix.lower() == ".gguf":
        raise UnknownModel(f"unknown model {name!r}: no such file or folder", "see: pasta models")
    return ModelFolder(name, hub.folder(name), "huggingface")


@dataclass(frozen=True, slots=True)
class Listing:
    """A line of `pasta models`."""

    name: str
    source: Source
    origin: str
    path: Path
    bytes: int  # on disk now, or to be fetched
    ready: bool


def available() -> list[Listing]:
    """The default model, the GGUF files converted so far, and the Hugging Face cache. Fetches nothing."""
    default = store.models_root() / bundled.NAME
    ready = default.is_dir()
    size = store.folder_bytes(default) if ready else bundled.WHEEL_BYTES
    adapter = bundled.ADAPTER
    listed = [
        Listing(bundled.FINETUNED, "bundled", "the default: an adapter", adapter, store.folder_bytes(adapter), ready),
        Listing(bundled.NAME, "bundled", f"{bundled.REQUIREMENT}, its base", default, size, ready),
    ]
    for folder in sorted(store.models_root().glob("gguf-*")):
        listed.append(Listing(folder.name, "gguf", "a GGUF file", folder, store.folder_bytes(folder), True))
    for name, folder, size in hub.snapshots():
        listed.append(Listing(name, "huggingface", "Hugging Face hub", folder, size, is_complete(folder)))
    return listed


def is_complete(folder: Path) -> bool:
    try:
        check_files(folder)
    except CorruptModel:
        return False
    return True
