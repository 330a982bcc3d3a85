"""Locks what the image installs, with hashes: `pip install uv && python deploy/lock.py`.

deploy/requirements-cuda.txt   all of it, for CUDA (torch as the package index has it for Linux on x86_64)
deploy/requirements-cpu.txt    the same without torch and what comes with it: a CPU's torch has an index of its own

torch and transformers stay at the versions that the GPU figures of docs/performance.md were measured with.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DEPLOY = Path(__file__).parent
EXTRAS = ("torch", "serve", "otel")
MEASURED = ("torch==2.11.*", "transformers==5.17.*")
PLATFORM = ("--python-platform", "x86_64-manylinux_2_28", "--python-version", "3.12")
WITH_TORCH = re.compile(r"(torch|triton|nvidia-.*|cuda-.*)==")


def compile_lock() -> str:
    command = ["uv", "pip", "compile", "--quiet", "--no-config", *PLATFORM, "--constraint", "-"]
    command += [argument for extra in EXTRAS for argument in ("--extra", extra)]
    command += ["--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url", "pyproject.toml"]
    done = subprocess.run(command, input="\n".join(MEASURED), stdout=subprocess.PIPE, text=True, cwd=DEPLOY.parent)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def without_torch(lock: str) -> str:
    packages = re.split(r"^(?=\S)", lock, flags=re.MULTILINE)
    return "".join(package for package in packages if not WITH_TORCH.match(package))


if __name__ == "__main__":
    lock = compile_lock()
    (DEPLOY / "requirements-cuda.txt").write_text(lock, "utf-8")
    (DEPLOY / "requirements-cpu.txt").write_text(without_torch(lock), "utf-8")
