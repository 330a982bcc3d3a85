"""What docs/performance-history.md says of small products in two parts, of qkv in parts, and of choices cut finer."""

from __future__ import annotations

import pytest
from performance_pages import CHOICE, LEFT, NEWEST, NOW, PROSE, SHAPES, TWO, captured, report, words

FILE = "captured-h200-4.json"
FIRST, SECOND = captured(0, FILE), captured(1, FILE)
SMALL, MIDDLE, LARGE = SHAPES.values()
TABLE = report("table-h200-8.json")
#: Ways in the order of their rows.
ORDERS = [
    (FIRST, SMALL, "now p1row pp pq pr ps pt pu pp,l128 s32 s16 two g128"),
    (FIRST, MIDDLE, "now qp s32 p1 p2 p3 p4 p5 p6 qkv c32 wave3 l32"),
    (FIRST, LARGE, "now qp l128 p78 p9"),
    (SECOND, SMALL, "now new m64 s16 s32 c4 c2 px d w5"),
    (SECOND, MIDDLE, "now new m64 m16 s32"),
    (SECOND, LARGE, "now new s16 s8"),
]


def figures(lines: list[str]) -> list[str]:
    """Of each row, without its label."""
    return [line.partition(" | ")[2] for line in lines]


@pytest.mark.parametrize(("run", "shape", "order"), ORDERS)
def test_cell_by_cell(run: dict[tuple[str, str], dict[str, float]], shape: str, order: str) -> None:
    """A dash where a way was not run."""
    ways = [way.replace(",", ", ") for way in order.split()]
    steps = {step: ms for (own, step), ms in run.items() if own == shape}
    assert set(ways) == {way for ms in steps.values() for way in ms}
    name = next(label for label, own in SHAPES.items() if own == shape)
    lines, head = TWO.splitlines(), f"| {name}, ms a step | {' | '.join(steps)} |"
    begin = lines.index(head) + 2
    shown = figures(lines[begin : begin + len(ways)])
    cells = [[f"{ms[way]:.3f}" if way in ms else "–" for ms in steps.values()] for way in ways]
    assert shown == [f"{' | '.join(row)} |" for row in cells]
    assert not lines[begin + len(ways)]


def less(run: dict[tuple[str, str], dict[str, float]], shape: str, step: str, way: str) -> float:
    """Of `now`, in per cent."""
    return 100 * (1 - run[shape, step][way] / run[shape, step]["now"])


def test_what_came() -> None:
    told = words(TWO)
    gains = [ms["now"] - ms["pu"] for (shape, step), ms in FIRST.items() if shape == SMALL and step != "1x1"]
    assert f"| 0.06 ms less | {min(gains):.2f} to {max(gains):.2f} less | taken |" in TWO
    device = TABLE["rows"]["135M device"]
    most = FIRST[SMALL, "1x32"]["pu"], SECOND[SMALL, "1x32"]["m64"], device["32"]
    shown = "{:.2f} in the first run, {:.2f} in the second (`in one piece`), {:.2f} in the table's".format(*most)
    assert f"| {shown} | taken |" in TWO
    one = FIRST[SMALL, "1x1"]["pt"], SECOND[SMALL, "1x1"]["m64"], SECOND[SMALL, "1x1"]["new"]
    [both] = {f"{ms:.2f}" for ms in one}
    assert f"| {both} in both runs, {device['1']:.2f} in the table's | taken |" in TWO
    queries = [less(FIRST, MIDDLE, step, "qp") for step in ("1x5", "1x8", "1x32")]
    assert "| 5% less | {:.0f}% / {:.0f}% / {:.0f}% less; 4 rows as before | taken |".format(*queries) in TWO
    assert abs(less(FIRST, MIDDLE, "1x4", "qp")) < 0.1
    large = [less(FIRST, LARGE, step, "qp") for step in ("1x32", "1x4")]
    assert "| {:.1f}% less; 4 rows, of which nothing was predicted, {:.1f}% | taken |".format(*large) in TWO
    loop = [-less(SECOND, MIDDLE, step, "new") for step in ("1x4", "1x5", "1x2")]
    assert "| 2% less | {:.0f}% / {:.0f}% more | refused |".format(*loop) in TWO
    assert f"costs 1.5B with 2 rows {loop[2]:.0f}% as well" in told
    assert f"gains {min(*queries, *large):.0f} to {max(*queries, *large):.0f}% more" in words(PROSE)
    least, most_ms = FIRST[SMALL, "1x1"]["now"], FIRST[SMALL, "1x32"]["now"]
    assert f"in two parts {min(gains):.2f} ms of {least:.2f} to {most_ms:.2f}" in words(PROSE)


def test_what_lost() -> None:
    told = words(TWO)
    for (shape, _), ms in FIRST.items():
        assert shape != SMALL or min(ms["pq"], ms["pr"]) > ms["pu"]
    row = FIRST[SMALL, "1x1"]
    more = f"{row['pq'] - row['pu']:.2f} and {row['pr'] - row['pu']:.2f} ms."
    assert f"that of one row by {more}" in told and f"({row['pt']:.3f} ms for {row['pu']:.3f})" in told
    looped = TABLE["merges_looped"]["rows"]
    steps = " / ".join(f"{looped['135M answer'][width]:.2f}" for width in ("4", "16", "32"))
    assert f"135M took {steps} ms with 4 / 16 / 32 threads" in told
    assert f"kept {looped['135M replays']['share']:.3f} of theory" in told
    assert not any("rows" in found for found in looped.values())
    many = SECOND[MIDDLE, "1x32"]
    assert f"takes {100 * (many['m64'] / many['now'] - 1):.0f}% more than `as it was` with 32 rows" in told
    assert f"({many['m64']:.3f} for {many['now']:.3f})" in told
    tiles = [
        less(FIRST, shape, step, way)
        for (shape, step), ms in FIRST.items()
        for way in ("p1", "p2", "p3", "p4", "p5", "p6", "p78", "p9", "qkv")
        if way in ms
    ]
    assert f"gain {max(tiles):.0f}% at the most, or lose up to {-min(tiles):.0f}%." in told
    lanes = [-less(FIRST, LARGE, step, "l128") for step in ("1x32", "1x32+100")]
    assert f"Tiles of 128 lanes lose up to {max(lanes):.0f}% with 32 threads" in told
    waves = [-less(FIRST, MIDDLE, step, "wave3") for step in ("1x4", "1x5", "1x32")]
    assert f"three programs a processor {min(waves):.0f} to {max(waves):.0f}%." in told
    splits = {f"{less(FIRST, MIDDLE, step, 's32'):.0f}" for step in ("1x4", "1x5")}
    one = SECOND[LARGE, "1x1"]
    splits.add(f"{100 * (1 - one['s16'] / one['new']):.0f}")
    assert splits == {"2"} and f"(at most 16, {one['s16']:.3f} for {one['new']:.3f})" in told
    assert "at most 32 gained 2% with 4 and 5 threads of the 1.5B shape, at most 16 gained 2% with one of 8B" in words(
        LEFT
    )


def test_few_threads_of_the_middle_shape_now() -> None:
    one, four, five = (FIRST[MIDDLE, step]["qp"] for step in ("1x1", "1x4", "1x5"))
    assert f"takes {four / one:.2f} of a step on the device for 4 threads and {five / one:.2f} for 5" in words(NOW)


def test_predictions() -> None:
    told, of_ways, of_table = words(TWO), report(FILE)["predicted"], TABLE["predicted"]
    assert of_ways["135M in parts"].startswith("0.06 ms less of every step of two rows and more, 1x32 at 0.65")
    assert "0.06 ms less of every step of two rows and more, 0.65 ms with 32 rows, 0.53 to 0.54 with one." in told
    assert of_ways["qkv in parts"] == "1.5B with 5 to 32 rows 5 % less, 8B with 32 rows 2 % less"
    assert "5% less of 1.5B with 5 to 32 rows, 2% less of 8B with 32." in told
    assert of_ways["only splits that have worked are merged"] == "2 % less of 1.5B with 4 and 5 rows"
    assert "2% of 1.5B with 4 and 5 rows." in told
    assert of_table["135M 32 answers"] == "40,000 by 15 to 20 % less host work"
    assert "predicted were 40,000 tokens a second by 15 to 20% less" in words(NEWEST)


def test_choices() -> None:
    found = report("choices-h200.json")
    sizes = dict.fromkeys(row["tokens"] for row in found["rows"])
    cases = [(size, rows) for size in sizes for rows in (1, 8, 32)]
    assert f"| top-p, µs | {' | '.join(f'{rows} of {size:,}' for size, rows in cases)} |" in CHOICE
    us = {(row["tokens"], row["rows"]): row["us"] for row in found["rows"] if row["params"] == "top_p"}
    for way in found["ways"]:
        block, chunk, warps = map(int, way.split(","))
        cells = " | ".join(f"{us[case][way]:.1f}" for case in cases)
        assert f"| {block:,} tokens, {chunk:,} at once, {warps} warps | {cells} |" in CHOICE
    draws = [x for row in found["rows"] if row["params"] == "draw" for x in row["us"].values()]
    assert f"takes {min(draws):.0f} to {max(draws):.0f} µs however it is cut" in words(CHOICE)
    fine, finer = "1024,512,4", "512,512,4"
    assert f"gain {us[cases[0]][fine] - us[cases[0]][finer]:.0f} µs with one row of the smaller" in words(CHOICE)
    gains = [100 * (1 - us[case][finer] / us[case][fine]) for case in cases if case[1] > 1]
    assert f"gain {max(gains):.0f}% at the most, and lose up to {-min(gains):.0f}%." in words(CHOICE)


def test_the_hosts_work() -> None:
    host, told = TABLE["host"], words(NEWEST)
    before, now = host["instructions"]
    assert f"from {before} to {now} Python instructions a row where answers fork, {1 - now / before:.0%}," in told
    assert f"fell by {1 - now / before:.0%} ({now} Python instructions a row in place of {before})" in words(NOW)
    assert "from {} to {} calls".format(*host["calls"]) in told
    assert "medians of {} and {} µs a row, minima of {:.2f} and {:.2f};".format(
        *host["row_us_medians"], *host["row_us_minima"]
    ) in told  # fmt: skip


def test_one_thread_gained_more_than_many() -> None:
    then, now = (report(f"table-h200-{run}.json")["rows"]["135M answer"] for run in (7, 8))
    gained, many = (then[width] - now[width] for width in ("1", "32"))
    shares = f"one thread takes {gained:.3f} ms less, 32 take {many:.3f} less."
    assert f"went from {then['of one']['32']:.2f} to {now['of one']['32']:.2f}: {shares}" in words(NEWEST)
    told = f"one thread gained {gained / then['1']:.0%} and 32 gained {many / then['32']:.0%}."
    assert f"than in the run before ({then['of one']['32']:.2f}), since {told}" in words(NOW)
