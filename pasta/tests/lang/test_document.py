"""`docs/language.md` is a specification that is run: see the convention in its introduction."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pasta.lang import RULES, check, fix, main_thread, parse, plain, print_response, statistics
from pasta.lang.tags import OPENER

DOCUMENT = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")


def words(text: str) -> int:
    return len(text.split())


@dataclass
class Example:
    """A block of PASTA-LANG, and the blocks about it that follow."""

    source: str
    line: int
    with_count: bool
    shown: dict[str, str] = field(default_factory=dict)


def read_examples() -> list[Example]:
    examples: list[Example] = []
    for block in re.finditer(r"^```(\w+)( count)?\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL):
        kind, with_count, body = block.groups()
        if kind == "pasta":
            line = DOCUMENT.count("\n", 0, block.start()) + 2
            examples.append(Example(body.removesuffix("\n"), line, bool(with_count)))
        elif kind not in ("ebnf", "regex", "python"):
            examples[-1].shown[kind] = body
    return examples


def show_figures(source: str) -> str:
    figures = statistics(parse(source), words)
    names = ("total_tokens", "content_tokens", "critical_path", "threads", "depth", "syncs")
    lines = [f"{name.replace('_', ' ')}: {getattr(figures, name)}\n" for name in names]
    return "".join(lines) + f"parallelism: {figures.parallelism:.2f}\n"


SHOW = {
    "plain": lambda source, count: plain(parse(source)) + "\n",
    "main": lambda source, count: main_thread(parse(source)) + "\n",
    "merged": lambda source, count: print_response(parse(source)) + "\n",
    "fixed": lambda source, count: fix(source, count)[0] + "\n",
    "statistics": lambda source, count: show_figures(source),
    "check": lambda source, count: "".join(
        f"{d.line}:{d.column}: {d.code} {d.message}\n" for d in check(source, count)
    ),
}

EXAMPLES = read_examples()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"line-{example.line}")
def test_example(example):
    count = words if example.with_count else None
    for kind, shown in {"check": "", **example.shown}.items():
        assert SHOW[kind](example.source, count) == shown


def test_every_rule_has_its_section_with_an_example():
    headings = re.findall(r"^### ([EW]\d+) (.*)$", DOCUMENT, re.MULTILINE)
    assert {code: title.replace("`", "") for code, title in headings} == RULES
    shown = set(re.findall(r"\b[EW]\d{3}\b", "".join(example.shown.get("check", "") for example in EXAMPLES)))
    # Bytes that are not UTF-8, and a hundred nested blocks, cannot be shown on a page.
    assert shown == RULES.keys() - {"E100", "E115"}


def test_the_expression_for_openers_is_the_one_in_use():
    (shown,) = re.findall(r"^```regex\n(.*)\n```$", DOCUMENT, re.MULTILINE)
    for name in ("promise", "async", "sync", "/promise", "/async", "/sync", "Sync", "p", "//async"):
        for after in ("", " ", ">", "/", "<", "s", "_", "-", ":", ".", "9", "é", "\\"):
            text = f"<{name}{after}"
            assert bool(re.match(shown, text)) == bool(OPENER.match(text)), text


def test_the_python_example_runs():
    (example,) = re.findall(r"^```python\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
    exec(example, {})
