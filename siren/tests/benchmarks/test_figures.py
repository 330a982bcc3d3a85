"""The figures in the documents are those of the JSON beside them."""

from pathlib import Path

import pytest

from benchmarks import figures

BLOCKS = figures.blocks()


@pytest.mark.parametrize(("path", "marker"), BLOCKS, ids=lambda part: getattr(part, "stem", part))
def test_figures_in_the_documents_are_those_of_the_json(path: Path, marker: str) -> None:
    assert figures.shown(path, marker) == BLOCKS[path, marker]


def test_a_wrong_figure_would_be_seen() -> None:
    other = {**figures.read("analysis"), "exact": 27}
    assert figures.analysis_table(other) != figures.analysis_table(figures.read("analysis"))


def test_the_analysis_is_exact_on_all_pairs() -> None:
    found = figures.read("analysis")
    assert (found["pairs"], found["exact"], found["false_accepts"]) == (33, 33, 0)
    assert found["accepted"] == found["held"] == 138 and found["longest_seconds"] < 1


def test_every_pair_has_gains_and_regrets() -> None:
    """But slam under SSI, whose default takes for ever, has no gain; and what takes longest is not tuned."""
    gains = {(gain["benchmark"], gain["method"]) for gain in figures.read("plans")["gains"]}
    assert len(gains) == 32 and ("slam", "ssi") not in gains
    for gain in figures.read("plans")["gains"]:
        for kind in ("accuracy", "time"):
            value, low, high = gain[kind]["ratio"]
            assert 0 < low <= value <= high
    tuned = {(regret["benchmark"], regret["method"]) for regret in figures.read("tune")["regrets"]}
    assert tuned == {pair for pair in gains if pair[0] not in ("slds", "slam")}
