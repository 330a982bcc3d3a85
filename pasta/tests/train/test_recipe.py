"""The recipe, stage by stage, on a tiny model."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from pasta.data.quality import flaw, sound
from pasta.data.worth import refusal
from pasta.lang import Response, parse, print_response

RECIPE = Path(__file__).parents[2] / "recipes" / "default"
Run = Callable[..., str]

TOPICS = {
    "Rivers": "Water runs down from the hills to the sea and shapes the land it crosses.",
    "Deserts": "Dry sand and rock stretch far under a burning sun with hardly any rain.",
    "Forests": "Trees grow close together, and many animals live in their shade all year.",
    "Cities": "People built houses, streets and markets where trade routes once met.",
}
LIST = "Here are some places:\n\n" + "\n".join(f"{n}. **{t}**: {text}" for n, (t, text) in enumerate(TOPICS.items(), 1))
PLAIN = "The weather today is mild and a little cloudy, so a light coat will be enough for a walk."


@pytest.fixture
def run(tmp_path: Path, base: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a stage as the command line does; returns what it printed."""
    monkeypatch.syspath_prepend(RECIPE)
    main = import_module("run").main

    def stage(name: str, *more: str) -> str:
        main([name, "--model", base, "--out", str(tmp_path), "--device", "cpu", *more])
        return capsys.readouterr().out

    return stage


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def test_the_options_of_sampling_reach_the_engine(tmp_path: Path, run: Run, data: str) -> None:
    def responses(*more: str) -> list[str]:
        (tmp_path / "samples.jsonl").unlink(missing_ok=True)
        run("sample", "--prompts", data, "--batch", "2", "--max-tokens", "24", "--limit", "2", *more)
        return [row["response"] for row in sorted(lines(tmp_path / "samples.jsonl"), key=lambda row: row["index"])]

    usual = responses()
    assert usual == responses("--repetition-penalty", "1.1", "--min-p", "0.05", "--top-p", "1", "--temperature", "0.8")
    assert usual != responses("--repetition-penalty", "3")
    greedy = responses("--temperature", "0")
    assert greedy == responses("--min-p", "1") != usual, "only the likeliest token is left"
    assert greedy != responses("--min-p", "1", "--repetition-penalty", "1")


def test_sample_goes_on_where_it_stopped(tmp_path: Path, run: Run, data: str) -> None:
    options = ("--prompts", data, "--batch", "4", "--max-tokens", "8", "--limit", "6")
    for part in ("0/2", "1/2"):  # two processes would do this beside each other
        run("sample", *options, "--part", part)
    first = lines(tmp_path / "samples.jsonl")
    assert sorted(row["index"] for row in first) == list(range(6))
    with (tmp_path / "samples.jsonl").open("a") as file:
        file.write('{"index": 99, "cut')  # a run that was killed
    with (tmp_path / "samples.jsonl").open("a") as file:
        file.write("\n" + json.dumps({**first[0], "index": 6, "response": LIST}) + "\n")
    run("sample", *options[:-1], "8", "--samples", "2")
    rows = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines() if line.endswith("}")]
    # The seventh prompt's answer has a list, so it is answered again; the eighth had none.
    assert sorted((row["index"], row["sample"]) for row in rows) == [(i, 0) for i in range(7)] + [(6, 1), (7, 0)]


def test_what_is_worth_another_answer_gets_it_in_the_same_run(
    tmp_path: Path, run: Run, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("sample"), "is_worth_another", lambda row: row["index"] != 1)
    said = run("sample", "--prompts", data, "--max-tokens", "4", "--limit", "3", "--samples", "3")
    found = sorted((row["index"], row["sample"]) for row in lines(tmp_path / "samples.jsonl"))
    assert found == [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1), (2, 2)]
    assert "time is up" not in said


def test_annotate_train_evaluate_export(tmp_path: Path, run: Run) -> None:
    samples = [{"index": i, "sample": 0, "prompt": f"List {i}?", "response": LIST, "finished": True} for i in range(6)]
    samples += [{**samples[0], "prompt": f"Plain {i}?", "response": PLAIN} for i in range(9)]
    samples += [{**samples[-1], "finished": False}, {**samples[0], "response": "Again and again. " * 40}]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in samples))
    table = run("annotate", "--sequential", "0.33", "--annotator", "structure")
    assert "left out: loops" in table
    assert "left out: not ended" in table
    rows = lines(tmp_path / "annotated.jsonl") + lines(tmp_path / "held-out.jsonl")
    forking = [row for row in rows if "<promise" in row["response"]]
    assert len(forking) == 6
    assert len(rows) == 9  # a third without a fork

    run("train", "--max-steps", "2", "--max-length", "1024", "--method", "full")
    assert json.loads((tmp_path / "pasta" / "training.json").read_text())["steps"] == 2
    assert "pasta is trained already" in run("train", "--method", "full")
    prompts = ("--eval-prompts", str(tmp_path / "annotated.jsonl"), "--eval-tokens", "12", "--eval-limit", "3")
    assert re.search(r"^pasta +3 ", run("evaluate", *prompts), re.MULTILINE)
    with pytest.raises(SystemExit):
        run("speed", *prompts)  # there is no baseline yet
    run("baseline", "--max-steps", "2", "--method", "full")
    assert re.search(r"^baseline +3 ", run("evaluate", *prompts), re.MULTILINE)
    assert "realised_speedup" in run("speed", *prompts)
    figures = json.loads((tmp_path / "eval" / "summary.json").read_text())["models"]["pasta"]
    assert figures["answers"] == 3
    assert figures["well_formed"]["value"] == 1.0
    assert figures["theoretical_speedup"]["value"] > 0  # against the baseline
    for steps in ("sample", "score,pairs,train"):
        run(
            "preference", "--prompts", str(tmp_path / "annotated.jsonl"), "--judge", "length", "--lambdas", "1",
            "--limit", "6", "--max-tokens", "120", "--steps", steps,
        )  # fmt: skip
    assert re.search(r"^bon-1 +3 ", run("evaluate", *prompts), re.MULTILINE)
    run("export", "--megabytes", "0.2")
    assert (tmp_path / "pasta-adapter" / "adapter_model.safetensors").stat().st_size < 220_000
    run("evaluate", "--trained", str(tmp_path / "pasta-adapter"), "--name", "adapter", *prompts)
    assert json.loads((tmp_path / "eval" / "summary.json").read_text())["models"]["adapter"]["answers"] == 3


def test_annotate_by_independence_stops_in_time_and_goes_on(tmp_path: Path, run: Run) -> None:
    row = {"index": 0, "sample": 0, "prompt": "List?", "response": LIST, "finished": True}
    (tmp_path / "samples.jsonl").write_text(f"{json.dumps(row)}\n" * 20)
    options = ("--annotator", "independence")
    assert "time is up" in run("annotate", *options, "--minutes", "1e-9")
    assert "time is up" not in run("annotate", *options)
    assert len(lines(tmp_path / "marked" / "independence-0.jsonl")) == 20


def test_a_second_annotator_gets_the_prose_that_the_first_left(tmp_path: Path, run: Run) -> None:
    prose = " ".join(TOPICS.values()) + " The end of it all is near, say those who know, and few disagree."
    row = {"index": 0, "sample": 0, "finished": True}
    samples = [{**row, "prompt": "List?", "response": LIST}, {**row, "prompt": "Short?", "response": PLAIN}]
    samples += [{**row, "prompt": "Prose?", "response": text} for text in (prose, f"{prose} {prose}", prose)]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in samples))
    run("annotate", "--annotator", "structure,independence", "--sequential", "0.67")
    (tried,) = lines(tmp_path / "marked" / "independence-0.jsonl")
    assert tried["plain"] == prose
    rows = lines(tmp_path / "annotated.jsonl") + lines(tmp_path / "held-out.jsonl")
    assert {"List?", "Short?"} <= {row["prompt"] for row in rows}  # how the prose fares is up to the model


@pytest.mark.parametrize(
    ("text", "finished", "reason"),
    [
        (LIST, True, None),
        (PLAIN, True, None),
        (LIST, False, "not ended"),
        ("Yes.", True, "too short"),
        (f"{PLAIN}\n" * 3, True, "loops"),
        ("\n".join(f"{n}. item number {n} is here." for n in range(1, 12)), True, "more than 5 items"),
        ("\n".join(f"- the same start {n} of words." for n in "abcd"), True, "items with the same beginning"),
        (f"```\n{PLAIN}\n```", True, None),
        (f"```\n{PLAIN}", True, "not ended"),
        (f"{PLAIN} And then it", True, "without an end"),
        (f"{PLAIN} Enjoy! 🎉", True, "emoji or hashtags"),
        (f"{PLAIN} #weather #walk.", True, "emoji or hashtags"),
        (f"{PLAIN} As I said, the weather today is mild and a little cloudy.", True, "repeats itself"),
    ],
)
def test_filters(text: str, finished: bool, reason: str | None) -> None:
    assert refusal(text, finished) == reason


def test_each_core_marks_a_share_of_the_rows(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"index": 0, "sample": 0, "response": LIST, "finished": True}
    samples = [json.dumps({**row, "prompt": f"List {i}?"}) for i in range(600)]
    (tmp_path / "samples.jsonl").write_text("\n".join(samples) + "\n")
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    run("annotate", "--untagged", "0")
    assert [len(lines(tmp_path / "marked" / f"structure-{share}.jsonl")) for share in (0, 1)] == [300, 300]
    rows = lines(tmp_path / "annotated.jsonl") + lines(tmp_path / "held-out.jsonl")
    assert len({row["prompt"] for row in rows}) == len(rows) == 600
    assert all("<promise" in row["response"] for row in rows)


def test_as_many_items_as_were_asked_for_are_not_too_many() -> None:
    names = "Oslo Rome Paris Lima Cairo Tokyo Delhi Quito Accra Dakar".split()
    ten = "\n".join(f"{n}. {name} is one." for n, name in enumerate(names, 1))
    assert refusal(ten, True, "Name ten large cities.") is None
    assert refusal(ten, True, "Name some cities.") == "more than 5 items"


def test_a_list_is_kept_up_to_its_first_flaw() -> None:
    topics = {**TOPICS, "Forests again": "Trees grow close together, and many animals live in their shade all year."}
    items = [f'{n}.<promise topic="{t}" tokens=2/><async> {x}</async>' for n, (t, x) in enumerate(topics.items(), 1)]
    response = parse("Some:\n\n" + "\n".join(items) + "<sync/>\n\nThese are five places.")
    kept = sound("Which?", response)
    assert isinstance(kept, Response) and [promise.topic for promise, _ in kept.promises()] == list(TOPICS)
    assert print_response(kept).endswith("</async>")
    assert sound("Name five places", response) == flaw("Name five places", response)


def test_the_mix_has_all_that_fork_and_draws_the_rest_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(RECIPE)
    annotate = import_module("annotate")
    block = '<promise topic="{0}" tokens=1/><async> {0}.</async>'
    tagged = f"Two:\n\n1.{block.format('Salt')}\n2.{block.format('Oil')}"
    forking = [{"prompt": f"{n}", "response": tagged, "form": "list", "parallelism": 2.0} for n in range(60)]
    plain = [{"prompt": f"s{n}", "response": PLAIN, "form": "short"} for n in range(100)]
    plain += [{"prompt": f"t{n}", "response": PLAIN, "form": "story or letter"} for n in range(10)]
    best = annotate.best_of_prompt(forking, [*plain, {**plain[0], "prompt": "1"}])
    rows = annotate.mix(best, 0.25, 0.5, random.Random(0))
    forms = Counter(row["form"] for row in rows)
    assert forms["short"] == forms["story or letter"] == 10  # a quarter of 80
    assert forms["list"] + forms["list without tags"] == 60
    assert 15 < forms["list without tags"] < 45
    assert all(("<promise" in row["response"]) == (row["form"] == "list") for row in rows)
    whole = [{"prompt": f"w{n}", "response": PLAIN, "form": "whole paragraphs"} for n in range(100)]
    forms = Counter(row["form"] for row in annotate.mix([*best, *whole], 0.25, 0.0, random.Random(0)))
    assert forms["whole paragraphs"] == 2  # a tenth of 20
    assert "<sync/>" not in annotate.as_apar({"response": tagged + "<sync/>\n\nBoth.", "form": "list"})["response"]
