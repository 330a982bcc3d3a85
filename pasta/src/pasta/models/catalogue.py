"""From a name to a model on this machine, and the list of those that are here."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from pasta.errors import CorruptModel, ModelError, Offline, UnknownModel, UsageError
from pasta.models import bundled, hub, store
from pasta.models.adapter import CONFIG, RECORD, WEIGHTS, base_of, is_adapter
from pasta.models.checkpoint import check_files, is_model
from pasta.models.folder import ModelFolder, Source
from pasta.models.gguf import converted
from pasta.models.packaged import packaged

DEFAULT = "default"


def resolve(name: str | None = None, base: str | None = None) -> ModelFolder:
    """The model `name`, fetched or converted first where that is needed.

    None or "default": the bundled default, which is an adapter. The name of an adapter that is installed as a package
    (`pasta.models.packaged`): that adapter over its base. A folder: that folder. A `.gguf` file: its converted
    form. Anything else is the id of a repository on the Hugging Face hub. `base` is where an adapter's base model lies
    now; by default it is looked for where the adapter says.
    """
    for given in (name, base):
        if given is not None and not isinstance(given, str | Path):
            raise UsageError(
                f"the model is {given!r:.40}, expected a name, a folder or a .gguf file", "see: pasta models"
            )
    adapter = find_adapter(name)
    if adapter == bundled.ADAPTER:
        under = resolve_whole(base or bundled.NAME)
        return ModelFolder(bundled.FINETUNED, adapter, "bundled", bundled.FINETUNED, under)
    if adapter is not None:
        if is_model(adapter):
            raise CorruptModel(f"{adapter} holds both an adapter and a whole model", "move one of them elsewhere")
        if name in packaged():
            return ModelFolder(str(name), adapter, "package", str(name), resolve_base(adapter, base))
        return ModelFolder(adapter.name, adapter, "folder", str(adapter), resolve_base(adapter, base))
    if base is not None:
        raise UsageError(f"{name} is a whole model, not an adapter that has a base", "leave --base out")
    return resolve_whole(str(name))


def find_adapter(name: str | None) -> Path | None:
    """The adapter that a name stands for: the default model's, one that is installed, or a folder that holds one."""
    if name is None or name in (DEFAULT, bundled.FINETUNED):
        return bundled.ADAPTER
    if (installed := packaged().get(name)) is not None:
        return installed
    path = path_of(name)
    return path.resolve() if is_adapter(path) else None


def path_of(name: str) -> Path:
    """Where a model of this name would lie; refused is what can be no path: too long a name, a folder that is shut."""
    path = Path(os.path.expanduser(name))
    try:
        path.exists()
    except OSError as error:
        raise UnknownModel(f"unknown model {name!r}: {error.strerror}", "see: pasta models") from None
    return path


def resolve_base(adapter: Path, place: str | None) -> ModelFolder:
    """The model that an adapter belongs to, at `place` or where the adapter says."""
    wanted = base_of(adapter)
    if (last := way_back(adapter, place or wanted.name)) is not None:
        hint = f'say with --base where its base lies, or correct "base" in its {RECORD}'
        if last == adapter:
            raise CorruptModel(f"the adapter in {adapter} is named as its own base", hint)
        raise CorruptModel(f"the adapter in {adapter} has the one in {last} under it, whose base it is itself", hint)
    try:
        found = resolve(place or wanted.name)
    except (UnknownModel, CorruptModel, Offline) as error:
        message = f"the adapter in {adapter} needs its base model: {error.message}"
        raise type(error)(message, "say where that lies now with --base") from error
    wanted.check(found, adapter)
    return found


def way_back(adapter: Path, base: str) -> Path | None:
    """The adapter that has `adapter` as its base, where the bases under it lead back to it; else None."""
    last, seen = adapter, set[Path]()
    # What cannot be read, or leads back to another, is refused when that one is resolved.
    with contextlib.suppress(ModelError):
        while (found := find_adapter(base)) is not None and found not in seen:
            if found == adapter:
                return last
            seen.add(found)
            last, base = found, base_of(found).name
    return None


def resolve_whole(name: str) -> ModelFolder:
    if not name.strip():
        raise UsageError("the model's name is empty", "see: pasta models")
    path = path_of(name)
    if name == bundled.NAME:
        return ModelFolder(name, bundled.folder(), "bundled", name)
    if path.is_dir():
        if (path / CONFIG).is_file() and not (path / "config.json").exists():
            raise CorruptModel(f"{path} lacks its adapter's weights: no {WEIGHTS}", "only safetensors weights are read")
        check_files(path)
        path = path.resolve()
        return ModelFolder(path.name, path, "folder", str(path))
    if path.is_file():
        if path.suffix.lower() != ".gguf":
            raise CorruptModel(f"{name} is neither a model folder nor a .gguf file")
        return ModelFolder(path.stem, converted(path.resolve()), "gguf", str(path.resolve()))
    if name.startswith("gguf-") and (kept := store.models_root() / name).is_dir():
        return ModelFolder(name, kept, "gguf", name)
    if not hub.is_id(name) or path.suffix.lower() == ".gguf":
        hint = "see: pasta models; an adapter that comes as a package of its own is installed with pip first"
        raise UnknownModel(f"unknown model {name!r}: no such file or folder", hint)
    return ModelFolder(name, hub.folder(name), "huggingface", name)


def is_here(name: str) -> bool:
    """Whether a base model need not be fetched any more."""
    return path_of(name).exists() or any(name == known and is_model(path) for known, path, _ in hub.snapshots())


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
    for name, folder in sorted(packaged().items()):
        under = base_of(folder).name
        origin = f"an installed adapter of {under}"
        listed.append(Listing(name, "package", origin, folder, store.folder_bytes(folder), is_here(under)))
    for folder in sorted(store.models_root().glob("gguf-*")):
        listed.append(Listing(folder.name, "gguf", "a GGUF file", folder, store.folder_bytes(folder), True))
    for name, folder, size in hub.snapshots():
        listed.append(Listing(name, "huggingface", "Hugging Face hub", folder, size, is_model(folder)))
    return listed
