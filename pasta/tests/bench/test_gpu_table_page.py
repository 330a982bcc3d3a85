"""The table of the CUDA engine in docs/performance.md and those before it are those of the reports that they name."""

from __future__ import annotations

import re
import statistics

import pytest
from performance_pages import (
    AFTER,
    AGAIN,
    BESIDE,
    DRAFTS,
    EXPECTED,
    LEFT,
    NEWEST,
    NOW,
    PAGE,
    PARTS,
    PROSE,
    SHAPES,
    TOGETHER,
    TWO,
    WIDTHS,
    captured,
    column,
    of_one,
    report,
    words,
)  # fmt: skip


def test_vllm_beside_the_table_again() -> None:
    """Behind in every cell: of the table that was made on the same machine, and of those after it."""
    stock = report("vllm-h200-2.json")["step_ms"]
    tables = [report(f"table-h200-{run}.json")["rows"] for run in (4, 5, 6, 7, 8, 9)]
    for shape, name in (("8B", "llama3-8b"), ("135M", "smollm2-135m")):
        shown = [f"{stock[name][width]:.2f}" for width in WIDTHS]
        assert column(f"vLLM, {shape}", 4, AGAIN) == column(f"vLLM, {shape}", 2, TOGETHER) == shown
        assert all(rows[f"{shape} answer"][width] < stock[name][width] for width in WIDTHS for rows in tables)
    [sixteen] = [
        row["ms_step_min"]
        for each in report("vllm-h200-2.json")["shapes"]
        for row in each["rows"]
        if (each["shape"], row["batch"]) == ("llama3-8b", 16)
    ]
    assert f"16 requests of the 8B shape take {sixteen:.2f} ms" in words(AGAIN)
    older, inside = report("vllm-h200.json"), report("inside-vllm-h200-4.json")["the default model"]
    before = {"8B": older["step_ms"], "135M": inside["vLLM by itself"]["step_ms"]}
    for shape, steps in before.items():
        assert column(f"vLLM, {shape}", 2, AGAIN) == [f"{steps[width]:.2f}" for width in WIDTHS]
    assert column("8B, a prompt of 8,000", 3, NOW) == [f"{older['prompt_ms']['8000']:.1f}"]


def test_a_step_of_few_threads_of_the_middle_shape() -> None:
    """Predicted and came, beside what it had been in another run."""
    ms = {step: row["before"] for (shape, step), row in captured(1).items() if shape == SHAPES["1.5B"]}
    few = ("1x1", "1x2", "1x4", "1x5")
    assert f"1.5B {' / '.join(f'{ms[step]:.2f}' for step in few)}; 8B" in AFTER
    cases = [each["case"].partition("@") for each in report("few-rows-h200-2.json")["rows"] if each["shape"] == "1.5B"]
    slots = [int(slots) for step, _, slots in cases if step in few]
    assert f"over {min(slots):,} to {max(slots):,} slots in place of 1,000" in words(AFTER)
    four, five = (ms[step] / ms["1x1"] for step in ("1x4", "1x5"))
    assert f"4 threads take {four:.2f} of one, and 5 take {five:.2f}." in words(AFTER)
    rows = {each["case"].partition("@")[0]: each["ms"]["main"] for each in report("few-rows-h200-2.json")["rows"]
            if each["shape"] == "1.5B"}  # fmt: skip
    assert f"It was {' / '.join(f'{rows[step]:.2f}' for step in few)} in" in words(AFTER)
    old = sorted(rows[step] / rows["1x1"] for step in ("1x4", "1x5"))
    assert "takes {:.2f} to {:.2f} of one row".format(*old) in words(PAGE)


def test_threads_over_as_many_slots() -> None:
    """Device time of 32 threads, of one, and beside the clock's."""
    ms = captured(1)
    large, small = (
        ms[SHAPES[shape], "1x32"]["before"] / ms[SHAPES[shape], "1x1"]["before"] for shape in ("8B", "135M")
    )
    assert f"32 threads take {large:.2f} (8B) and {small:.2f} (135M) of one" in words(AGAIN)
    rows = report("table-h200-9.json")["rows"]
    answers, device = ([rows[f"{shape} {kind}"] for shape in ("8B", "135M")] for kind in ("answer", "device"))
    eight, little = (each["of one"]["32"] for each in device)
    assert f"32 threads take {eight:.3f} (8B) and {little:.2f} (135M) of one" in words(NOW)
    assert f"it is {eight:.3f} and {little:.2f}." in words(LEFT)
    less = [clock["32"] - own["32"] for clock, own in zip(answers, device, strict=True)]
    wrote = captured(1, "captured-h200-4.json")
    more = [
        wrote[SHAPES[shape], "1x32+100"][way] - wrote[SHAPES[shape], "1x32"][way]
        for shape, way in (("8B", "now"), ("135M", "m64"))
    ]
    told = "{:.2f} and {:.2f} ms less than by the clock; 3,200 slots more cost {:.2f} and {:.2f} ms there"
    assert told.format(*less, *more) in words(NOW)
    assert "cost {:.2f} ms of 8B (`as it was`) and {:.2f} of 135M (`in one piece`)".format(*more) in words(TWO)
    then = report("table-h200-8.json")["rows"]
    less = [then[f"{shape} answer"]["32"] - then[f"{shape} device"]["32"] for shape in ("8B", "135M")]
    assert "takes {:.2f} and {:.2f} ms longer by the clock".format(*less) in words(TWO)
    assert f"a captured step takes {device[1]['32']:.2f} ms on the device" in words(LEFT)
    assert f"a step of an answer {answers[1]['32']:.2f} by the clock" in words(LEFT)


def test_predictions_of_the_table() -> None:
    found = report("table-h200-4.json")
    predicted, rows = found["predicted"], found["rows"]
    assert " / ".join(column("8B, ms a step", 3, AGAIN)).replace("–", "-") == predicted["8B answer"]
    assert f"8B with 1 / 4 / 32 threads {predicted['8B answer'].replace(' - /', '')} |" in AFTER
    assert f"All {found['code'].partition('all ')[2].partition(' tests')[0]} tests of `engine/cuda` passed" in AFTER
    assert f"had time for {rows['8B replays']['count']} of 50" in AGAIN
    assert f"{' / '.join(column('135M, sampled', 3, AGAIN))} of greedy" == predicted["135M sampled answer"]
    for label in ("8B, sampled", "8B, fp8", "8B, 32 answers", "8B, replays", "135M, ms a step", "135M, 32 answers",
                  "135M, replays"):  # fmt: skip
        row = next(line for line in AGAIN.splitlines() if line.startswith(f"| {label}"))
        name = label.replace(",", "").replace("ms a step", "answer").replace("sampled", "sampled answer")
        assert row.split("|")[3].strip() == predicted[name] == "as before"
    steps, sampled = rows["8B answer"], rows["135M sampled answer"]["of greedy"]["32"]
    assert f"8B {' / '.join(f'{steps[width]:.2f}' for width in ('1', '4', '32'))} |" in AFTER
    assert f"1.10 of greedy (1.14) | {sampled:.2f} |" in AFTER


def test_what_is_said_of_the_table() -> None:
    now, then = (report(f"table-h200-{run}.json")["rows"] for run in (4, 3))
    many, before = (each["135M 32 answers"] for each in (now, then))
    runs, earlier = ([f"{one:,}" for one in each["all"]] for each in (many, before))
    told = words(AGAIN)
    assert "{}, {} and {}, where {}, {} and {} had come".format(*runs, *earlier) in told
    assert f"waited for the device {many['waited']:.0%} of the time, and {before['waited']:.0%} before" in told
    here = report("vllm-h200-2.json")["step_ms"]["smollm2-135m"]["1"]
    there = report("inside-vllm-h200-4.json")["the default model"]["vLLM by itself"]["step_ms"]["1"]
    assert f"took {here:.2f} ms for {there:.2f}" in told
    assert "{:.1f} ms for {:.1f}".format(*(each["135M prompt"]["8000"] for each in (now, then))) in told
    costs = [
        each["8B sampled answer"][width] - each["8B answer"][width] for each in (now, then) for width in ("1", "32")
    ]
    assert "{:.2f} ms of one thread and {:.2f} of 32, where it cost {:.2f} and {:.2f}".format(*costs) in told
    assert f"({now['8B sampled answer']['of greedy']['32']:.3f} for 1.05)" in told
    eight = [each["8B fp8"][width] for width in ("1", "32") for each in (now, then)]
    assert f"gained {1 - eight[0] / eight[1]:.0%} with one thread" in told
    assert f"takes {eight[2]:.2f} ms with 32 ({eight[3]:.2f} before)" in told
    gains = [1 - now["8B answer"][width] / then["8B answer"][width] for width in WIDTHS]
    assert f"it gains {100 * min(gains):.0f} to {max(gains):.0%} since" in words(PROSE)


def test_what_is_said_of_many_small_answers() -> None:
    newest, now, then, older, parts, again = (
        report(f"table-h200-{run}.json")["rows"]["135M 32 answers"] for run in (9, 8, 7, 6, 5, 4)
    )
    told = words(NOW)
    assert f"gave {newest['tokens_per_s']:,} tokens a second on this machine" in told
    assert f"({min(newest['all']):,} to {max(newest['all']):,}), which misses the target" in told
    assert newest["tokens_per_s"] < 40_000 < now["tokens_per_s"]
    assert told.count(f"{now['tokens_per_s']:,} in the run before") == 2
    assert f"and {then['tokens_per_s']:,} in the one before that" in told
    assert f"waited for the device {newest['waited']:.0%} of the time, {now['waited']:.0%} in the run before" in told
    assert f"gave {newest['tokens_per_s']:,} tokens a second, on a slow host; the target was 40,000." in words(LEFT)
    runs = [f"{each:,}" for each in (*newest["all"], *now["all"])]
    assert "{}, {} and {}, where {}, {} and {} had come.".format(*runs) in words(TOGETHER)
    shares = f"{newest['waited']:.0%} of the time ({now['waited']:.0%} before), and its part"
    assert f"waited for the device {shares} of the code is the same" in words(TOGETHER)
    runs = [f"{each:,}" for each in (*now["all"], *then["all"], older["tokens_per_s"])]
    assert "{}, {} and {}, where {}, {} and {} had come, and {} in".format(*runs) in words(NEWEST)
    assert f"the device {now['waited']:.0%} of the time ({then['waited']:.0%} before)" in words(NEWEST)
    assert "{:,}, {:,} and {:,}.".format(*parts["all"]) in words(PARTS)
    assert f"{parts['waited']:.0%} of the time ({again['waited']:.0%} before)" in words(PARTS)


def test_what_is_said_of_replays() -> None:
    last, newest, now, then = (report(f"table-h200-{run}.json")["rows"] for run in (9, 8, 7, 6))
    shares = [each[f"{shape} replays"]["share"] for each in (last, newest) for shape in ("8B", "135M")]
    assert "keep {:.3f} (8B) and {:.3f} (135M) of theory, {:.3f} and {:.3f} in the".format(*shares) in words(NOW)
    for rows, page in ((newest, NEWEST), (last, TOGETHER)):
        count = rows["8B replays"]["count"]
        assert f"had time for {count} of 50, so its share is that of the first {count}." in words(page)
    assert f"The 8B shape had time for {last['8B replays']['count']} of 50." in words(NOW)
    for shape in ("8B", "135M"):
        row = next(line for line in EXPECTED.splitlines() if line.startswith(f"| {shape}"))
        for cell, rows in ((2, then), (4, now)):
            found = rows[f"{shape} replays"]
            assert f"{found['share']:.3f} ({found['count']}" in row.split("|")[cell]
    greedy = now["135M sampled answer"]["of greedy"]
    assert f"Outcome: {greedy['1']:.2f} and {greedy['32']:.2f} ({greedy['32']:.3f};" in words(EXPECTED)
    trace = report("replay-trace-h200.json")["tot"]
    assert f"{statistics.geometric_mean(row[-1] for row in trace):.3f} (1.5B)" in words(EXPECTED)


def test_what_attention_might_do_beside() -> None:
    found = report("captured-h200-3.json")
    order = ("now", "a8", "a16", "a24", "a16e", "m4", "l128", "two16", "two2")
    assert sorted(order) == sorted(way.partition("=")[0] for way in found["ways"])
    for row in found["rows"]:
        label = row["step"].replace("+100", ", 100 tokens each")
        cells = " | ".join(f"{row['ms'][way]:.3f}" for way in order)
        assert f"| {label} | {cells} |" in BESIDE


def test_the_hosts_work_did_not_grow_with_the_code() -> None:
    case = report("host-2.json")["cases"]["32 answers that fork, replayed"]
    before, now = case["row_us_before"], case["row_us"]
    told = words(AGAIN)
    assert f"{statistics.median(before):.1f} µs a row with the code before" in told
    assert f"and {statistics.median(now):.1f} with this one" in told
    assert f"single runs of {min(before + now):.0f} to {max(before + now):.0f})" in told


def test_what_is_left_to_do() -> None:
    rows = report("table-h200-9.json")["rows"]
    large, small, told = rows["8B answer"], rows["135M answer"], words(LEFT)
    assert f"{of_one(large):.2f} (8B) and {of_one(small):.2f} (135M) of one" in told
    lists = next(row for row in DRAFTS.splitlines() if row.startswith("| lists"))  # of 1.5B, the first table
    assert f"drafts give {lists.split('|')[2].strip()} tokens a step and thread on lists" in told
    assert f"{large['1']:.2f} for 4.2 ms" in told and large["1"] <= 4.2
    assert f"{rows['8B fp8']['1']:.2f} for 2.8" in told and rows["8B fp8"]["1"] <= 2.8
    assert f"and {small['1']:.2f} for 0.6 (135M" in told and small["1"] <= 0.6


@pytest.mark.parametrize(
    ("name", "index", "page"),
    [
        ("table-h200-2.json", 2, PAGE),
        ("table-h200-3.json", 4, PAGE),
        ("table-h200-3.json", 2, AGAIN),
        ("table-h200-4.json", 4, AGAIN),
        ("table-h200-4.json", 2, PARTS),
        ("table-h200-5.json", 4, PARTS),
        ("table-h200-7.json", 2, NEWEST),
        ("table-h200-8.json", 4, NEWEST),
        ("table-h200-8.json", 2, TOGETHER),
        ("table-h200-9.json", 4, TOGETHER),
        ("table-h200-9.json", 2, NOW),
    ],
    ids="before,then,before again,again,before parts,with parts,before two,two,before vLLM,with vLLM,now".split(","),
)
def test_the_table(name: str, index: int, page: str) -> None:
    rows = report(name)["rows"]

    def told(label: str) -> list[str]:
        return column(label, index, page)

    for shape in ("8B", "135M"):
        answer, sampled = rows[f"{shape} answer"], rows[f"{shape} sampled answer"]["of greedy"]
        assert told(f"{shape}, ms a step of an answer") == [f"{answer[width]:.2f}" for width in WIDTHS]
        assert told(f"{shape}, 32 threads, of one") == [f"{of_one(answer):.2f}"]
        digits = 3 if page in (NOW, TOGETHER) or (shape == "135M" and page is NEWEST) else 2
        assert told(f"{shape}, sampled") == [f"{sampled[width]:.{digits}f}" for width in ("1", "32")]
        assert told(f"{shape}, 32 answers") == [f"{rows[f'{shape} 32 answers']['tokens_per_s']:,}"]
        replays = rows[f"{shape} replays"]
        shown = ["–"] if replays == "no time left" else [f"{replays['share']:.3f}", str(replays["count"])]
        assert told(f"{shape}, replays") == shown
        if (device := rows.get(f"{shape} device")) is not None:
            steps = [f"{device[width]:.{3 if shape == '135M' else 2}f}" for width in WIDTHS]
            assert told(f"{shape}, on the device") == [*steps, f"{device['of one']['32']:.3f}"]
    assert told("8B, fp8") == [f"{rows['8B fp8']['1']:.2f}"]


def test_vllm_is_behind_in_every_cell() -> None:
    """That of the run before, beside which the table before was made."""
    stock = report("vllm-h200.json")["step_ms"]
    assert column("vLLM, as many requests", 2) == [f"{stock[width]:.2f}" for width in WIDTHS]
    for name in ("table-h200-2.json", "table-h200-3.json"):
        own = report(name)["rows"]["8B answer"]
        assert all(own[width] < stock[width] for width in stock)


def test_a_prompt_of_the_table() -> None:
    before, vllm = report("long-h200-2.json")["shapes"]["llama-3-8b"]["prompts"], report("vllm-h200.json")["prompt_ms"]
    then, again, parts, last, newest, now = (
        report(f"table-h200-{run}.json")["rows"]["8B prompt"]["8000"] for run in (3, 4, 5, 7, 8, 9)
    )
    earlier = next(each["seconds"] for each in before if each["tokens"] == 8_000)
    assert column("8B, a prompt of 8,000", 2) == [f"{1e3 * earlier:.1f}"]
    assert column("8B, a prompt of 8,000", 4) == column("8B, a prompt of 8,000", 2, AGAIN) == [f"{then:.1f}"]
    assert column("8B, a prompt of 8,000", 4, AGAIN) == column("8B, a prompt of 8,000", 2, PARTS) == [f"{again:.1f}"]
    assert column("8B, a prompt of 8,000", 4, PARTS) == [f"{parts:.1f}"]
    assert column("8B, a prompt of 8,000", 2, NEWEST) == [f"{last:.1f}"]
    assert column("8B, a prompt of 8,000", 4, NEWEST) == [f"{newest:.1f}"]
    assert column("8B, a prompt of 8,000", 2, TOGETHER) == [f"{newest:.1f}"]
    assert column("8B, a prompt of 8,000", 4, TOGETHER) == column("8B, a prompt of 8,000", 2, NOW) == [f"{now:.1f}"]
    asked = f"{1.3 * vllm['8000']:.1f}"
    for page, index in ((PAGE, 5), (AGAIN, 5), (PARTS, 5), (NEWEST, 5), (TOGETHER, 5), (NOW, 4)):
        assert column("8B, a prompt of 8,000", index, page)[0] == asked
    assert max(then, again, parts, last, newest, now) < 1.3 * vllm["8000"]


@pytest.mark.parametrize(
    ("run", "page"),
    [(3, PAGE), (4, AGAIN), (5, PARTS), (8, NEWEST), (9, TOGETHER), (9, NOW)],
    ids=["then", "again", "parts", "two", "together", "now"],
)
def test_what_is_met(run: int, page: str) -> None:
    """The last column says of each line whether it holds what was asked, which is the same on all pages."""
    rows = report(f"table-h200-{run}.json")["rows"]
    asked = {
        "8B, ms a step of an answer": rows["8B answer"]["1"] <= 4.6,
        "8B, 32 threads, of one": rows["8B answer"]["of one"]["32"] <= 1.10,
        "8B, sampled": rows["8B sampled answer"]["of greedy"]["1"] <= 1.03
        and rows["8B sampled answer"]["of greedy"]["32"] <= 1.05,
        "8B, fp8": rows["8B fp8"]["1"] <= 3.2,
        "8B, 32 answers": rows["8B 32 answers"]["tokens_per_s"] >= 7_500,
        "8B, replays": rows["8B replays"]["share"] >= 0.97,
        "135M, ms a step of an answer": rows["135M answer"]["1"] <= 0.75,
        "135M, 32 threads, of one": rows["135M answer"]["of one"]["32"] <= 1.15,
        "135M, sampled": max(rows["135M sampled answer"]["of greedy"].values()) <= 1.10,
        "135M, 32 answers": rows["135M 32 answers"]["tokens_per_s"] >= 40_000,
        "135M, replays": rows["135M replays"]["share"] >= 0.97,
    }
    for label, met in asked.items():
        then, now = (
            next(x for x in each.splitlines() if x.startswith(f"| {label}")).split("|") for each in (page, NOW)
        )
        if page is NOW:
            assert ("**no**" in now[5]) is not met
            continue
        assert ("missed" in then[6]) is not met
        assert re.findall(r"[\d.,]*\d", then[5]) == re.findall(r"[\d.,]*\d", now[4])


def test_long_answers_and_prompts() -> None:
    lines = PROSE.partition("### Long answers")[2].partition("### Many users")[0].splitlines()
    found, vllm = report("long-h200-2.json")["shapes"]["llama-3-8b"], report("vllm-h200.json")["prompt_ms"]
    for threads in (1, 16, 64):
        steps = [f"{each['step_s'] * 1e3:.2f}" for each in found["steps"] if each["threads"] == threads]
        assert any(line.startswith(f"| {threads} | {' | '.join(steps)} |") for line in lines)
    own = {str(each["tokens"]): each["seconds"] * 1e3 for each in found["prompts"]}
    assert f"| pasta | {own['1000']:.1f} | {own['8000']:.1f} |" in lines
    assert any(line.endswith(f"| {vllm['1000']:.1f} | {vllm['8000']:.1f} |") for line in lines)
    assert own["8000"] < 1.3 * vllm["8000"]


def test_the_table_once_more() -> None:
    rows = report("table-h200-6.json")["rows"]
    told = words(PARTS).partition("it came out alike:")[2]
    large, small = told.split("; 135M ")
    for shape, page in (("8B", large), ("135M", small)):
        step, sampled = rows[f"{shape} answer"], rows[f"{shape} sampled answer"]["of greedy"]
        assert " / ".join(f"{step[width]:.2f}" for width in WIDTHS) in page
        assert f"{rows[f'{shape} 32 answers']['tokens_per_s']:,} tokens a second" in page
        assert f"replays {rows[f'{shape} replays']['share']:.3f}" in page
        assert f"sampled {sampled['1']:.2f} / {sampled['32']:.2f}" in page
    assert f"32 threads {rows['8B answer']['of one']['32']:.2f} of one" in large
    assert f"fp8 {rows['8B fp8']['1']:.2f} ms" in large
