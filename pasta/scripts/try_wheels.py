"""What someone gets from `pip install`: each wheel, in a new environment outside the repository, put to use.

    python pasta/scripts/try_wheels.py

Builds the wheels and source archives of the projects that are here, installs each wheel with nothing of this
checkout on its path, and checks that PASTA's answers with several threads and that Siren's filters.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ADAPTER = "pasta/models/default_adapter/adapter_model.safetensors"
QUESTION = "Give me five tips for better sleep."
PROGRAM = """val step = fun (y, x) ->
  let symbolic next <- gaussian(x, 1.) in
  let () = observe(gaussian(next, 1.), y) in
  next in
fold(step, [0.3, 1.0, 1.6], 0.)
"""
MEAN = 161 / 130  # by Kalman's equations
# Nothing of the one who runs this reaches the new environments but where models are kept.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="wheels-") as name:
        folder = Path(name)
        pasta = build(ROOT / "pasta", folder / "dist")
        check_contents(pasta)
        say("installing pasta with its engine")
        use_pasta(Installed(folder / "pasta", f"{pasta}[torch]"))
        if (ROOT / "siren").is_dir():
            siren = build(ROOT / "siren", folder / "dist")
            say("installing siren")
            use_siren(Installed(folder / "siren", str(siren)))
    print("the wheels work")
    return 0


class Installed:
    """A new environment with one wheel in it; its commands run in its own folder."""

    def __init__(self, folder: Path, requirement: str) -> None:
        self.folder = folder
        run([sys.executable, "-m", "venv", str(folder)])
        run([str(folder / "bin" / "pip"), "install", "-q", "--prefer-binary", requirement])

    def __call__(self, command: str, *arguments: str, given: str | None = None) -> str:
        return run([str(self.folder / "bin" / command), *arguments], cwd=self.folder, given=given)


def build(project: Path, into: Path) -> Path:
    """The wheel, made from the source archive as an index would have it."""
    say(f"building {project.name}")
    before = set(into.glob("*.whl"))
    run([sys.executable, "-m", "build", "--outdir", str(into), str(project)])
    (wheel,) = set(into.glob("*.whl")) - before
    return wheel


def check_contents(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert ADAPTER in archive.namelist(), f"{wheel.name} lacks {ADAPTER}"
    (source,) = wheel.parent.glob("pasta_decoding-*.tar.gz")
    with tarfile.open(source) as archive:
        assert any(name.endswith(ADAPTER) for name in archive.getnames()), f"{source.name} lacks {ADAPTER}"


def use_pasta(pasta: Installed) -> None:
    found = json.loads(pasta("pasta", "generate", QUESTION, "--max-tokens", "160", "--json"))
    threads, steps, tokens = len(found["threads"]), found["steps"], found["tokens_total"]
    assert threads > 3 and steps < tokens, f"one answer of {tokens} tokens took {steps} steps by {threads} threads"
    pasta("pasta", "check", "-", given=found["annotated"])
    print(f"pasta: {tokens} tokens in {steps} steps by {threads} threads")


def use_siren(siren: Installed) -> None:
    (siren.folder / "walk.si").write_text(PROGRAM)
    (found,) = json.loads(siren("siren", "run", "walk.si", "--json"))["outputs"].values()
    assert abs(found["mean"] - MEAN) < 1e-9, f"the filtered mean is {found['mean']}, expected {MEAN}"
    print(f"siren: the filtered mean is {found['mean']:.6f}")


def run(command: list[str], cwd: Path | None = None, given: str | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=CLEAN, input=given, capture_output=True, text=True, timeout=1200)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def say(what: str) -> None:
    print(f"{what} …", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
