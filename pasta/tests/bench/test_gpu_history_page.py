"""What was tried, in docs/performance-history.md, and what drafts cost: the numbers are those of the reports."""

from __future__ import annotations

import re
import statistics

import pytest
from performance_pages import DRAFTS, HISTORY, PAGE, SHAPES, TRIED, captured, column, report, words


@pytest.mark.parametrize(
    ("label", "patch"),
    [
        ("a step fetches its plan", "mail"),
        ("attention of many rows", "wide"),
        ("16-bit weights times 3 to 32 rows in parts, once more", "parts"),
    ],
)
def test_candidates(label: str, patch: str) -> None:
    found = report("candidates-h200-2.json")["patches"][patch]
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {label}"))
    told = re.findall(r"(8B|135M) (\d+x\d+) ([\d.]+) → ([\d.]+)", row.split("|")[3])
    times = {(shape, case["case"].partition("@")[0]): case for shape, cases in found["cases"].items() for case in cases}
    assert len(told) > 1 and ("refused" in row) is not found["taken"]
    for shape, case, current, candidate in told:
        measured = times[shape, case]
        assert (current, candidate) == (f"{measured['current_ms']:.2f}", f"{measured['candidate_ms']:.2f}")


@pytest.mark.parametrize(
    ("label", "before", "after"),
    [
        ("lookup of the next block", "before", "page"),
        ("head of one or two rows", "page", "head"),
        ("small models: launches", "page", "beside"),
        ("small models: norms", "beside", "norms"),
        ("small models: weights", "norms", "fetch"),
    ],
)
def test_what_was_put_in(label: str, before: str, after: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {label}"))
    rows = [each for each in report("candidates-h200-3.json")["rows"] if not each["case"].endswith("choice")]
    times = {(each["shape"], each["case"].partition("@")[0]): each["ms"] for each in rows}
    told = re.findall(r"(8B|135M) (\d+x\d+) ([\d.]+) → ([\d.]+)", row.split("|")[3])
    assert len(told) > 1 and ("refused" in row) is (after == "norms")
    for shape, case, first, then in told:
        assert (first, then) == tuple(f"{times[shape, case][variant]:.2f}" for variant in (before, after))


@pytest.mark.parametrize(
    ("label", "variant"),
    [
        ("as it is", "main"),
        ("`qkv` and `out` of 3 to 8 rows", "gemv8"),
        ("**a**", "a"),
        ("**b**", "b"),
        ("**c**", "c"),
        ("**d**", "d"),
        ("**e**", "e"),
    ],
)
def test_few_rows(label: str, variant: str) -> None:
    found = report("few-rows-h200-2.json")
    predicted = found["predicted"]["1.5B ms"]
    times = [(each["case"].partition("@")[0], each["ms"]) for each in found["rows"] if each["shape"] == "1.5B"]
    for index, (case, ms) in enumerate(times):
        assert column(label, 2 + index) == [f"{ms[variant]:.2f}", f"{predicted[case][variant]:.2f}"]
    assert found["choice"] == "none" and "**None is taken.**" in PAGE


def test_launches_beside_each_other_in_a_large_model() -> None:
    line = next(line for line in PAGE.splitlines() if line.startswith("With e also for larger models"))
    for each in report("few-rows-h200-2.json")["rows"]:
        if each["shape"] == "8B":
            case, ms = each["case"].partition("@")[0], each["ms"]
            assert f"8B {case} {ms['main']:.2f} → {ms['e8']:.2f}" in line


@pytest.mark.parametrize(
    ("label", "variant"),
    [
        ("step of 8B, 4 / 32 rows, ms: equal shares", "shares"),
        ("equal shares, launched early", "shares, early, ahead 1"),
        ("the best known way", "best"),
        ("and `out` prefetched by spare programs", "best, out"),
        ("and `out` prefetched by a branch", "best, branch out"),
    ],
)
def test_equal_shares(label: str, variant: str) -> None:
    found = [each for each in report("shares-h200.json")["steps"] if each["shape"] == "llama-3-8b"]
    steps = {(each["rows"], each["variant"]): each["ms"] for each in found}
    for index, name in ((3, variant), (4, "now")):
        assert column(label, index) == [f"{steps[rows, name]:.3f}" for rows in (4, 32)]


@pytest.mark.parametrize(("size", "shape"), [("8B", "llama-3-8b"), ("1.5B", "qwen2.5-1.5b")])
def test_products_in_equal_shares(size: str, shape: str) -> None:
    """Beside what the engine does with 4 or 32 rows: gate and up are streamed, the rest is cuBLAS's."""
    ways = {"gate_up": "'streamed'", "down": "None", "qkv": "None", "out": "None"}
    found = [each for each in report("shares-h200.json")["matrices"] if each["shape"] == shape]

    def least(rows: int, matrix: str, way: str) -> float:
        own = [each for each in found if (each["rows"], each["matrix"]) == (rows, matrix)]
        return min(float(each["us"]) for each in own if each["way"].startswith(way))

    for index, shares in ((3, True), (4, False)):
        sums = [sum(least(rows, name, "Share" if shares else way) for name, way in ways.items()) for rows in (4, 32)]
        assert column(f"a layer's products, {size}", index) == [f"{own:.1f}" for own in sums]


def test_candidates_after_the_table() -> None:
    """Early reads and longer splits, cell by cell; a dash where a run had no time."""
    first, second = captured(0), captured(1)
    for shape, name in SHAPES.items():
        for step in ("1x1", "1x2", "1x4", "1x5", "1x16", "1x32", "32x2"):
            ways, later = first[name, step], second.get((name, step), {})
            figures = [
                ways["before"],
                ways["early"],
                *(later.get(way) for way in ("before", "splits", "splits, early")),
            ]
            shown = " | ".join("–" if ms is None else f"{ms:.3f}" for ms in figures)
            assert f"| {shape} {step} | {shown} |" in TRIED.splitlines()
    assert "**Both refused**" in TRIED
    predicted, told = report("captured-h200.json")["predicted"], words(TRIED)
    assert predicted["early"] == "135M: one thread 0.04 ms less; 32 threads 336 to 260 us of attention"
    assert "one thread 0.04 ms less; attention of 32 threads 260 µs in place of 336." in told
    assert predicted["splits"].startswith("135M: one thread 0.05 ms less, 32 threads 0.05 less, ")
    assert "0.05 ms less with one thread and with 32." in told


def test_what_the_candidates_cost() -> None:
    first, second, told = captured(0), captured(1), words(TRIED)

    def costs(run: dict[tuple[str, str], dict[str, float]], way: str) -> list[float]:
        return sorted(100 * (ms[way] / ms["before"] - 1) for ms in run.values())

    early = costs(first, "early")
    slower, faster = ([x for x in early if x > 1], [-x for x in early if x < -1])
    assert f"{min(slower):.0f} to {max(slower):.0f}% in {len(slower)} of {len(early)} cells" in told
    assert max(slower) == 100 * (first[SHAPES["135M"], "1x32"]["early"] / first[SHAPES["135M"], "1x32"]["before"] - 1)
    assert len(faster) == 2 and f"gains {min(faster):.0f} to {max(faster):.0f}% in two cells" in told
    one = first[SHAPES["135M"], "1x1"]
    assert f"one thread of the 135M shape loses {one['early'] - one['before']:.2f} ms" in told

    splits = costs(second, "splits")
    assert f"{sum(abs(x) <= 2 for x in splits)} of {len(splits)} cells are within 2% both ways" in told
    lost = {key: ms["splits"] / ms["before"] - 1 for key, ms in second.items() if ms["splits"] / ms["before"] > 1.02}
    assert set(lost) == {(SHAPES["135M"], "32x2"), (SHAPES["8B"], "1x4")}
    assert f"the 135M shape lose {lost[SHAPES['135M'], '32x2']:.0%}, and 4 threads" in told
    assert f"of the 8B shape {lost[SHAPES['8B'], '1x4']:.0%}." in told

    worst_of = max(second, key=lambda key: second[key]["splits, early"] / second[key]["before"])
    assert worst_of == (SHAPES["8B"], "1x5") and "in one (8B 1x5)" in told
    *most, worst = [x for x in costs(second, "splits, early") if x > 1]
    assert f"{most[0]:.0f} to {most[-1]:.0f}% in {len(most)} of {len(second)} cells and {worst:.0f}% in one" in told
    assert sum(abs(x) <= 1 for x in costs(second, "splits, early")) == 2 and "two are within 1%" in told

    spread: dict[bool, list[float]] = {True: [], False: []}
    for run in report("captured-h200.json")["runs"]:
        for row in run["rows"]:
            spread[row["shape"] == SHAPES["8B"]] += [100 * (max(ms) / min(ms) - 1) for ms in row["all"].values()]
    assert sum(x > 5 for x in spread[True]) > len(spread[True]) / 2 and max(spread[False]) < 1
    assert f"more than 5%, in one by {max(spread[True]):.0f}% (the other shapes: below 1%)" in told


def test_attention_alone() -> None:
    rows = [
        row for row in report("attention-cuts-h200.json")["rows"] if (row["shape"], row["step"]) == ("135m", "1x32")
    ]
    now, best = rows[0], min(rows, key=lambda row: row["us"])
    assert f"with {best['splits']} splits, 32 threads" in words(TRIED)
    assert f"took {best['us']:.1f} µs a layer in place of {now['us']:.1f}." in words(TRIED)


@pytest.mark.parametrize(
    ("name", "page", "same"),
    [
        ("drafts-h200.json", HISTORY.partition("\n## Drafts")[2], "in bfloat16 {} of these 14 answers"),
        ("drafts-h200-5.json", DRAFTS.partition("| 135M |")[2], "(1.5B; {} of 135M)"),
        ("drafts-h200-6.json", DRAFTS.partition("| 1.5B |")[2], "in bfloat16 {} of these 14 answers"),
    ],
    ids=["first", "135M", "1.5B"],
)
def test_drafts(name: str, page: str, same: str) -> None:
    kinds = report(name)["kinds"]
    for kind in ("code", "lists", "prose"):
        row = next(line for line in page.splitlines() if line.startswith(f"| {kind}"))
        figures = [kinds[kind][figure] for figure in ("tokens", "speed", "least_speed")]
        assert row.endswith(f"| {' | '.join(f'{figure:.2f}' for figure in figures)} |")
    assert same.format(sum(kind["same"] for kind in kinds.values())).lower() in words(page).lower()


def test_what_drafts_cost() -> None:
    """At the most, now and with the odds before; what these gained; and where most is copied."""
    page = words(DRAFTS)
    now, before = ([report(f"drafts-h200-{number}.json")["kinds"] for number in pair] for pair in ((5, 6), (3, 4)))
    least, less = (min(kind["least_speed"] for kinds in each for kind in kinds.values()) for each in (now, before))
    assert f"({least:.3f} at the least; {less:.2f} with the odds before)" in page
    small, large = before
    assert "code had {tokens:.2f} tokens and {speed:.2f} times the speed".format(**large["code"]) in page
    assert "or {tokens:.2f} and {speed:.2f} ([135M]".format(**small["code"]) in page
    assert "lists of 1.5B {tokens:.2f} and {speed:.2f}.".format(**large["lists"]) in page
    [hints] = [row for row in now[1]["code"]["rows"] if "type hints" in row["prompt"]]
    assert f"Type hints on given code are {hints['speed']:.2f} times as fast (1.5B)" in page


def test_what_drafts_are_worth_by_reckoning() -> None:
    before, now = (report(name)["rows"] for name in ("drafts-recorded-before.json", "drafts-recorded.json"))
    speeds = [[row[3] for row in rows if row[0] == "alpaca"] for rows in (before, now)]
    mean, least = ([f"{of(each):.3f}" for each in speeds] for of in (statistics.geometric_mean, min))
    lost = [f"{100 * sum(speed < 0.98 for speed in each) / len(each):.1f} %" for each in speeds]
    page = words(DRAFTS)
    assert f"chats come {mean[1]} times as fast in place of {mean[0]}, {least[1]} at the least in place of" in page
    assert f"{least[0]}, and {lost[1]} of them lose more than 2 % in place of {lost[0]}" in page
    for name, told in (("several4-gsm8k_dev", "four sums come {} times as fast, as before,"),
                       ("several4-mbpp_dev", "four functions {} times.")):  # fmt: skip
        assert told.format(f"{statistics.geometric_mean(row[3] for row in now if row[0] == name):.2f}") in page
    assert len(now) == len(before) and f"over {len(now)} recorded answers" in page


def test_what_drafts_cost_before() -> None:
    """A step of an answer in one thread, where hardly a guess came true, and where many did."""
    page, kinds = words(HISTORY.partition("\n## Drafts")[2]), report("drafts-h200-2.json")["kinds"]
    rows = [row for kind in kinds.values() for row in kind["rows"]]
    assert f"Of these {len(rows)} answers {sum(row['speed'] < 1 for row in rows)} lost" in page
    alone = [row for row in rows if row["tokens"] < 1.05 and row["without_s"] > 0.5e-3]
    drafted = sorted(1e3 * row["drafted_s"] * row["tokens"] for row in alone)
    without = sorted(1e3 * row["without_s"] for row in alone)
    assert len(alone) == 4 and "(four answers of one thread)" in page
    ends = (drafted[0], drafted[-1], without[0], without[-1])
    assert "{:.2f} to {:.2f} ms in place of {:.2f} to {:.2f}".format(*ends) in page
    [table] = [row for row in rows if "HTML" in row["prompt"]]
    step = 1e3 * table["drafted_s"] * table["tokens"]
    assert f"HTML table, of {table['tokens']:.2f} tokens, took {step:.2f} ms" in page
    assert f"{kinds['code']['speed']:.2f} on code, as predicted" in page
    assert f"and {min(kind['least_speed'] for kind in kinds.values()):.2f} at the least" in page
    tokens, speeds = ([f"{kinds[kind][key]:.2f}" for kind in ("code", "lists", "prose")] for key in ("tokens", "speed"))
    assert f"({tokens[0]}, {tokens[1]} and {tokens[2]} tokens a step and thread; {speeds[1]} times as fast" in page
    assert f"on lists and {speeds[2]} on prose)" in page
    lists = report("drafts-h200.json")["kinds"]["lists"]["tokens"]
    assert f"({kinds['lists']['tokens']:.2f} tokens a step and thread on lists for {lists:.2f})" in page
    assert f"so much shorter ({statistics.median(without):.2f} ms)" in page
