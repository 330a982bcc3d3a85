"""Annotated answers to learn from, to replay and to test with: files of PASTA-LANG beside this one. And a schema."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Example:
    """A question, and an answer to it in the merged form."""

    name: str
    question: str

    @property
    def path(self) -> Path:
        return Path(__file__).with_name(f"{self.name}.pasta")

    @property
    def text(self) -> str:
        return self.path.read_text("utf-8")


EXAMPLES = {
    example.name: example
    for example in (
        Example("cities", "Compare Lisbon, Oslo, Cairo and Kyoto for a week's holiday, and recommend one."),
        Example("breakfast", "How do I make a full breakfast for two?"),
        Example("sorting", "Explain bubble sort, merge sort and quicksort, and say when to use which."),
    )
}
DEFAULT = "cities"
ORDER = Path(__file__).with_name("order.json")  # a schema, beside it a text that has all of its fields
