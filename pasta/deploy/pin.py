"""Adds to every image that the Dockerfile and compose.yaml name the digest that its registry has for it now:

    python deploy/pin.py            asks the registries, through docker, and rewrites both files
    python deploy/pin.py --check    only says whether each image has a digest

The tag stays beside the digest, for people; docker goes by the digest.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = (ROOT / "Dockerfile", ROOT / "compose.yaml")
IMAGE = re.compile(
    r"^(?P<before>ARG PYTHON=|\s+image: )(?P<name>[\w./-]+:[\w.-]+)(?P<digest>@sha256:[0-9a-f]{64})?$", re.M
)


def digest_of(name: str) -> str:
    command = ["docker", "buildx", "imagetools", "inspect", name, "--format", "{{.Manifest.Digest}}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        sys.exit("error: docker is not here, and it asks the registry (install docker, or write the digests by hand)")
    except subprocess.CalledProcessError as error:
        sys.exit(f"error: the registry has no digest for {name}: {error.stderr.strip()}")
    found = done.stdout.strip()
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", found):
        sys.exit(f"error: docker gave {found!r} for {name}, expected sha256: and 64 digits")
    return found


def pin(text: str) -> str:
    return IMAGE.sub(lambda image: f"{image['before']}{image['name']}@{digest_of(image['name'])}", text)


def unpinned(text: str) -> list[str]:
    return [image["name"] for image in IMAGE.finditer(text) if image["digest"] is None]


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(f"error: unknown arguments {' '.join(arguments)} (expected none, or --check)", file=sys.stderr)
        return 2
    left = 0
    for path in FILES:
        text = path.read_text("utf-8")
        if arguments:
            names = unpinned(text)
            left += len(names)
            for name in names:
                print(f"{path.name}: {name} has no digest (python deploy/pin.py adds it)")
        else:
            path.write_text(pin(text), "utf-8")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
