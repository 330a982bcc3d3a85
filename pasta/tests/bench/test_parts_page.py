"""What docs/performance-history.md says of products in parts is what captured steps took."""

from __future__ import annotations

from performance_pages import NOW, PARTS, PROSE, SHAPES, captured, report, words

FILE = "captured-h200-2.json"
FIRST, SECOND = captured(0, FILE), captured(1, FILE)
WAYS = [
    (FIRST, ("before", "both", "c16", "c64", "wave1", "wave4", "s3", "qkv", "later")),
    (SECOND, ("later", "alone", "wave1", "c64", "qkv", "head")),
]
#: The way that was taken, and the code before: by shape and step.
TAKEN = {key: ms["c64"] for key, ms in SECOND.items()}
BEFORE = {key: ms["before"] for key, ms in FIRST.items()}


def test_cell_by_cell() -> None:
    """A dash where a way was not run."""
    names = {name: shape for shape, name in SHAPES.items()}
    for cells, ways in WAYS:
        for (shape, step), ms in cells.items():
            shown = " | ".join(f"{ms[way]:.3f}" if way in ms else "–" for way in ways)
            assert f"| {names[shape]} {step} | {shown} |" in PARTS.splitlines()


def test_what_was_predicted() -> None:
    predicted = report(FILE)["predicted"]
    small = [each.split(" to ")[1] for each in predicted["1.5B"].split(", ")]
    large = [each.split(" to ")[1] for each in predicted["8B"].split(", ")]
    assert f"the 1.5B shape with 4 / 5 / 16 / 32 threads {' / '.join(small)} ms" in words(PARTS)
    assert f"the 8B shape with 4 / 16 / 32 threads {' / '.join(large)}, one thread" in words(PARTS)


def test_what_came() -> None:
    middle, large, told = SHAPES["1.5B"], SHAPES["8B"], words(PARTS)
    four, five, sixteen, most = (TAKEN[middle, step] for step in ("1x4", "1x5", "1x16", "1x32"))
    assert f"with 4 threads ({four:.2f}), less with 5 and 16 ({five:.2f} and {sixteen:.2f})" in told
    assert f"as much with 32 ({most:.2f})" in told
    assert f"({TAKEN[large, '1x4']:.2f} and {TAKEN[large, '1x32']:.2f})" in told
    lost = FIRST[middle, "1x5"]["before"], SECOND[middle, "1x5"]["alone"]
    assert f"5 threads of the 1.5B shape lose {lost[1] / lost[0] - 1:.0%}" in told
    gains = [1 - TAKEN[key] / BEFORE[key] for key in TAKEN]
    assert f"{100 * min(gains):.0f} to {max(gains):.0%} of a step" in words(PROSE)
    costs = max(ms["both"] / ms["before"] - 1 for ms in FIRST.values())
    assert f"they lose up to {costs:.0%}" in words(PROSE)
    assert all(ms["later"] < ms["before"] for (_, step), ms in FIRST.items() if "later" in ms and step != "1x1")
    small = [ms["later"] / ms[way] - 1 for ms in SECOND.values() for way in ("qkv", "head") if way in ms]
    assert max(map(abs, small)) < 0.006
    one = BEFORE[middle, "1x1"]
    assert f"Four threads of the 1.5B shape now take {four / one:.2f} of one." in told
    then = (BEFORE[middle, step] / one for step in ("1x4", "1x5"))
    assert "where it once took {:.2f} and {:.2f}".format(*then) in words(NOW)


def test_the_table_beside_the_one_before() -> None:
    then, now = (report(f"table-h200-{run}.json")["rows"] for run in (4, 5))
    gains = [1 - now["8B answer"][width] / then["8B answer"][width] for width in ("4", "16", "32")]
    assert f"4 to 32 threads take {100 * min(gains):.0f} to {max(gains):.0%} less" in words(PARTS)
    predicted = report("table-h200-5.json")["predicted"]
    assert predicted["8B answer"] == "32 threads 1.19 of one" and predicted["8B replays"] == "0.95"
    assert f"had time for {now['8B replays']['count']} of 50" in PARTS
