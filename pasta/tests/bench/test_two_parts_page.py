"""What docs/performance-history.md says of small products, qkv in parts, finer choices, and vLLM beside them."""

from __future__ import annotations

from typing import Any

import pytest
from performance_pages import (
    CHOICE,
    LEFT,
    NEWEST,
    NOW,
    PROSE,
    SHAPES,
    TOGETHER,
    TWO,
    WIDTHS,
    captured,
    column,
    report,
    words,
)  # fmt: skip

FILE = "captured-h200-4.json"
FIRST, SECOND = captured(0, FILE), captured(1, FILE)
SMALL, MIDDLE, LARGE = SHAPES.values()
TABLE, NEXT = report("table-h200-8.json"), report("table-h200-9.json")
STOCK, OLDER = report("vllm-h200-3.json"), report("vllm-h200-2.json")
VLLMS = {"8B": "llama3-8b", "135M": "smollm2-135m"}
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
    assert f"With 135M it was {then['of one']['32']:.2f} before [small products came in parts]" in words(NOW)
    assert f": {told}" in words(NOW)


def times_as_long(table: dict[str, Any], vllm: dict[str, Any], shape: str) -> list[float]:
    """vLLM's steps, of an answer's with as many threads."""
    return [vllm["step_ms"][VLLMS[shape]][width] / table["rows"][f"{shape} answer"][width] for width in WIDTHS]


def test_vllm_in_the_same_run() -> None:
    """Behind in every cell, by the least of its runs as well; and its report says what its runs say."""
    assert list(NEXT["vllm"].values()) == ["vllm-h200-3.json", "vllm-h200.json"]
    for shape, name in VLLMS.items():
        steps, own = STOCK["step_ms"][name], NEXT["rows"][f"{shape} answer"]
        [runs] = [each["rows"] for each in STOCK["shapes"] if each["shape"] == name]
        assert {str(run["batch"]): run["ms_step"] for run in runs} == steps
        shown = [f"{steps[width]:.2f}" for width in WIDTHS]
        assert column(f"{shape}, ms a step of an answer", 3, NOW) == column(f"vLLM, {shape}", 4, TOGETHER) == shown
        assert all(own[str(run["batch"])] < min(run["ms_step"], run["ms_step_min"]) for run in runs)
        for run in runs:
            longer, shorter = (sorted(run[key])[1] for key in ("long_ms", "short_ms"))
            assert run["ms_step"] == pytest.approx((longer - shorter) / 120, abs=1e-3)


def test_how_far_vllm_is_behind() -> None:
    now, then = ({shape: times_as_long(*pair, shape) for shape in VLLMS} for pair in ((NEXT, STOCK), (TABLE, OLDER)))
    large, small = (
        f"{min(now['8B']):.2f} to {max(now['8B']):.2f}",
        f"{min(now['135M']):.1f} to {max(now['135M']):.1f}",
    )
    old = f"{min(then['135M']):.1f} to {max(then['135M']):.1f}"
    assert f"{large} times as long as ours with 8B, {small} times with 135M." in words(NOW)
    assert f"had told of {old} times with 135M." in words(NOW)
    assert f"{large} times as long as ours with 8B ({min(then['8B']):.2f} to {max(then['8B']):.2f} with" in words(
        TOGETHER
    )
    assert f"and {small} times with 135M ({old})." in words(TOGETHER)
    more = [before / after for before, after in zip(then["135M"], now["135M"], strict=True)]
    assert f"gave was {min(more):.1f} to {max(more):.1f} times what it is here." in words(TOGETHER)
    steps, older = (each["step_ms"][VLLMS["135M"]] for each in (STOCK, OLDER))
    shares = sorted(steps[width] / older[width] for width in WIDTHS)
    told = f"take {shares[0]:.2f} to {shares[-1]:.2f} of what they took"
    assert told in words(NOW) and told in words(TOGETHER)


def test_predictions_of_vllm() -> None:
    predicted = NEXT["predicted"]
    assert " / ".join(column("vLLM, 8B", 3, TOGETHER)) == predicted["vLLM 8B"]
    assert " to ".join(column("vLLM, 135M", 3, TOGETHER)) == predicted["vLLM 135M"]
    steps = STOCK["step_ms"]
    off = [
        abs(steps["llama3-8b"][width] / float(ms) - 1)
        for width, ms in zip(WIDTHS, predicted["vLLM 8B"].split(" / "), strict=True)
    ]
    assert 0.03 < max(off) < 0.04 and "With 8B vLLM is within 4% of its prediction." in words(TOGETHER)
    small = steps["smollm2-135m"]
    assert sum(ms < 2 for ms in small.values()) == 3 and "three of four cells are below 2 ms" in words(TOGETHER)
    assert small["16"] < small["1"] and "16 requests take less time than one" in words(TOGETHER)


def test_what_came_as_before() -> None:
    """Predicted was less than 2% of a difference: the steps hold it, and what is named does not."""
    then, now, told = TABLE["rows"], NEXT["rows"], words(TOGETHER)
    assert NEXT["predicted"]["pasta"] == "as in table-h200-8.json within 2 %" and "`as before` means within 2%." in told
    changes = {
        (row, key): now[row][key] / then[row][key] - 1
        for row, cells in now.items()
        for key in (*WIDTHS, "8000", "tokens_per_s", "share")
        if key in cells
    }
    for kind, digits in (("answer", 0), ("device", 1)):
        most = max(abs(change) for (row, _), change in changes.items() if row.split()[1:] == [kind])
        where = {"answer": "all steps of answers, within {}", "device": "all steps on the device, within {}."}[kind]
        assert where.format(f"{most:.{digits}%}") in told
    missed = {row: change for (row, _), change in changes.items() if abs(change) > 0.02}
    assert set(missed) == {"135M 32 answers", "135M prompt", "8B prompt", "135M sampled answer"}
    prompts = [f"{each['135M prompt']['8000']:.2f}" for each in (now, then)]
    assert "{} ms for {};".format(*prompts) in told
    assert f"that of 8B, {-missed['8B prompt']:.1%} less;" in told
    one = changes["135M sampled answer", "1"]
    assert f"a sampled step of one thread of 135M, {-one:.1%} less." in told


def test_the_finer_choice_in_a_step() -> None:
    costs = [
        each["rows"][f"{shape} sampled answer"]["1"] - each["rows"][f"{shape} answer"]["1"]
        for shape in ("135M", "8B")
        for each in (NEXT, TABLE)
    ]
    told = "{:.2f} ms of 135M, where it cost {:.2f}, and {:.2f} of 8B for {:.2f}.".format(*costs)
    assert f"sampling costs one thread {told}" in words(TOGETHER)
    [us] = [
        row["us"]
        for row in report("choices-h200.json")["rows"]
        if (row["params"], row["rows"], row["tokens"]) == ("top_p", 1, 49_280)
    ]
    assert f"of 49,280 took {(us['4096,512,8'] - us['1024,512,4']) / 1e3:.3f} ms less." in words(TOGETHER)
    many = [each["rows"]["135M sampled answer"]["32"] - each["rows"]["135M answer"]["32"] for each in (TABLE, NEXT)]
    assert f"With 32 threads it gains {1e3 * (many[0] - many[1]):.0f} µs of 135M" in words(TOGETHER)
