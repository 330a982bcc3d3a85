"""Makes a checkout ready for the package index, in place: what `release.yml` runs before it builds.

    python .github/scripts/for_the_index.py https://github.com/OWNER/NAME v0.2.0

The index shows a project's README outside of its repository, so links and pictures get the whole address, at the tag
that is released; and the project names its home, its documentation and its changelog. The tag must be the version that
the projects have.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = ("pasta", "siren")


def main(root: Path, repository: str, tag: str) -> None:
    for project in PROJECTS:
        folder = root / project
        if not folder.is_dir():
            continue
        version = read_version(folder)
        if tag != f"v{version}":
            sys.exit(f"the tag is {tag}, and {project} has version {version}: tag v{version}, or change the version")
        readme = folder / "README.md"
        readme.write_text(with_whole_links(readme.read_text("utf-8"), repository, tag, project), "utf-8")
        with (folder / "pyproject.toml").open("a", encoding="utf-8") as file:
            file.write(urls(repository, tag, project))


def read_version(folder: Path) -> str:
    sources = [folder / "pyproject.toml", *folder.glob("src/*/_version.py")]
    found = [match for source in sources for match in re.findall(r'(?m)^(?:__)?version(?:__)? = "(.+)"$', source.read_text())]
    if len(found) != 1:
        sys.exit(f"{folder.name} names {len(found)} versions, expected one")
    return found[0]


def with_whole_links(text: str, repository: str, tag: str, project: str) -> str:
    """Relative targets of links and pictures, made absolute; addresses and places in the page stay."""
    raw = repository.replace("https://github.com/", "https://raw.githubusercontent.com/")

    def whole(match: re.Match[str]) -> str:
        mark, label, target = match.groups()
        base = f"{raw}/{tag}" if mark else f"{repository}/blob/{tag}"
        return f"{mark}[{label}]({base}/{project}/{target})"

    return re.sub(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)]+)\)", whole, text)


def urls(repository: str, tag: str, project: str) -> str:
    return f"""
[project.urls]
Homepage = "{repository}"
Documentation = "{repository}/tree/{tag}/{project}/docs"
Changelog = "{repository}/blob/{tag}/CHANGELOG.md"
Issues = "{repository}/issues"
"""


if __name__ == "__main__":
    if len(sys.argv) != 3 or not sys.argv[1].startswith("https://"):
        sys.exit(__doc__)
    main(ROOT, sys.argv[1].removesuffix("/"), sys.argv[2])
