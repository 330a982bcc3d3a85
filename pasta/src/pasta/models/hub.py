"""Models of the Hugging Face hub, kept in the cache that all of its tools share."""

import contextlib
import re
import time
from pathlib import Path
from typing import Any

from pasta.errors import CorruptModel, ModelError, Offline, PastaError, UnknownModel, UnsupportedModel
from pasta.models import store
from pasta.models.checkpoint import check_files, said
from pasta.models.progress import transferring

REPOSITORY = re.compile(r"[\w][\w.-]*/[\w][\w.-]*|[\w][\w-]*")
# A model, its tokenizer and its template; not the copies for other frameworks that many repositories hold.
PATTERNS = ["*.json", "*.jinja", "*.model", "*.txt", "*.safetensors"]
UNWANTED = ["*/*", "consolidated*", "*.index.fp32.json"]
SILENT_S = 600  # for which a hub that did not answer is not asked again
HINT_OFFLINE = "connect once, or give --model a model folder or a GGUF file that is on this machine"

_silent_until = 0.0  # by the monotonic clock


def is_id(name: str) -> bool:
    return REPOSITORY.fullmatch(name) is not None


def reachable() -> bool:
    """Whether the hub answers. If not, it is left alone for a while: the libraries above its client would go on."""
    global _silent_until
    if time.monotonic() < _silent_until:
        return False
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except Exception:  # of whatever HTTP library it has; also: it was told to stay offline
        _silent_until = time.monotonic() + SILENT_S
        return False
    return True


def folder(name: str) -> Path:
    """The snapshot of the repository `name`; if it is complete in the cache, the network is not asked."""
    if complete := cached(name):
        return complete
    try:
        return fetch(name)
    except Offline:
        if enough := loadable(name):
            return enough
        raise


def tokenizer_folder(name: str) -> Path:
    """A snapshot without its weights, which may be large and of no use here."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    light = [pattern for pattern in PATTERNS if pattern != "*.safetensors"]
    try:
        return Path(
            snapshot_download(name, allow_patterns=light, ignore_patterns=UNWANTED, local_files_only=not reachable())
        )
    except Exception as error:
        raise fetch_error(name, error) from error


def cached(name: str) -> Path | None:
    """The snapshot in the cache, if every wanted file is there."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    with contextlib.suppress(LocalEntryNotFoundError, CorruptModel):
        path = Path(snapshot_download(name, allow_patterns=PATTERNS, ignore_patterns=UNWANTED, local_files_only=True))
        check_files(path)
        return path
    return None


def loadable(name: str) -> Path | None:
    """The snapshot in the cache, if its weights are there: another program may have fetched fewer files."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(name, "config.json")
    if isinstance(config, str):
        with contextlib.suppress(CorruptModel):
            check_files(Path(config).parent)
            return Path(config).parent
    return None


def fetch(name: str) -> Path:
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.utils import disable_progress_bars

    if not reachable():
        raise offline(name)
    disable_progress_bars()
    try:
        files = wanted(HfApi().model_info(name, files_metadata=True).siblings or [])
        total = sum(file.size or 0 for file in files)
        kept = Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}" / "blobs"
        before = store.folder_bytes(kept)
        with (
            store.storage_errors(Path(constants.HF_HUB_CACHE)),
            transferring(f"Fetching {name} ({total / 1e6:,.0f} MB)", total, lambda: store.folder_bytes(kept) - before),
        ):
            path = Path(snapshot_download(name, allow_patterns=PATTERNS, ignore_patterns=UNWANTED))
    except PastaError:
        raise
    except Exception as error:  # the hub's client lets its HTTP library's exceptions through
        raise fetch_error(name, error) from error
    return path


def wanted(files: list[Any]) -> list[Any]:
    from huggingface_hub.utils import filter_repo_objects

    kept = list(
        filter_repo_objects(files, allow_patterns=PATTERNS, ignore_patterns=UNWANTED, key=lambda f: f.rfilename)
    )
    if not any(file.rfilename.endswith(".safetensors") for file in kept):
        raise UnsupportedModel("the repository holds no safetensors weights", "only safetensors weights are read")
    return kept


def fetch_error(name: str, error: Exception) -> ModelError:
    """What the hub's answer comes down to."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        RepositoryNotFoundError,
    )

    match error:
        case GatedRepoError():
            return ModelError(
                f"the model {name!r} asks for its terms to be accepted", "accept them on its page, log in"
            )
        case RepositoryNotFoundError() | HFValidationError():
            return UnknownModel(
                f"unknown model {name!r}: no such file or folder, and no such model on the Hugging Face hub",
                "see: pasta models",
            )
        case HfHubHTTPError() if error.response is not None and error.response.status_code < 500:
            return ModelError(f"the Hugging Face hub refused {name!r}: {said(error)}")
    return offline(name)


def offline(name: str) -> Offline:
    return Offline(
        f"{name!r} is no file or folder here, and the Hugging Face hub, where it may be, is not reachable",
        HINT_OFFLINE,
    )


def snapshots() -> list[tuple[str, Path, int]]:
    """Name, folder and size of each model in the hub's cache."""
    try:
        from huggingface_hub import scan_cache_dir
        from huggingface_hub.errors import CacheNotFound
    except ModuleNotFoundError:
        return []
    try:
        repositories = [repository for repository in scan_cache_dir().repos if repository.repo_type == "model"]
    except CacheNotFound:
        return []
    found = []
    for repository in repositories:
        newest = max(repository.revisions, key=lambda revision: revision.last_modified, default=None)
        if newest is not None:
            found.append((repository.repo_id, Path(newest.snapshot_path), repository.size_on_disk))
    return sorted(found)
