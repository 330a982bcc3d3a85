"""The report: figures checked by hand, plots that are well-formed, a page that needs nothing from elsewhere."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest

from pasta.data.lines import append_line, write_json
from pasta.errors import UsageError
from pasta.eval.figures import pareto
from pasta.eval.folder import RunFolder
from pasta.eval.paper import POINTS
from pasta.eval.plot import Axis, Panel, Point, draw
from pasta.eval.report import table_rows
from pasta.eval.summary import summarise

Stage = Callable[..., str]
SLY = "</script><script>alert(1)</script> & <b>bold</b>"


def answer(id: str, text: str, tokens: int, path: int, blocks: int = 0, **more: object) -> dict:
    thread = {"parent": None, "topic": "", "promised": 0, "tokens": path, "runs": [[1, path]]}
    child = {"parent": 0, "topic": "part", "promised": 2, "tokens": 12, "runs": [[3, path]]}
    return {
        "id": id, "prompt": f"Prompt {id}?", "text": text, "annotated": text, "tokens": tokens,
        "content_tokens": tokens, "critical_path": path, "threads": [thread, *[child] * blocks],
        "parts": [[0, text]], "finish_reason": "stop", "syncs": 0, "errors": [], "length_errors": [0] * blocks,
        "repeated": 0.0, "loops": False, "shared": 0.5, "overlap": 0.8, "topics_repeat": blocks > 1, "kind": "plain",
        **more,
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve prompts: the fast model needs half the steps on every second one, and the clock agrees but for 10 %."""
    prompts = tmp_path / "prompts.json"
    write_json(prompts, [{"prompt": f"Prompt {n}?"} for n in range(12)])
    for n in range(12):
        id, fast = str(n), 50 if n % 2 else 100
        append_line(tmp_path / "answers/mine/baseline.jsonl", answer(id, "Plain.", 100, 100))
        append_line(tmp_path / "answers/mine/fast.jsonl", answer(id, f"Quick. {SLY}", 100, fast, 2 * (n % 2)))
        timing = {"prompts": "mine", "machine": "m", "id": id, "tokens": 100, "content_tokens": 100}
        append_line(tmp_path / "timing.jsonl", {**timing, "model": "baseline", "seconds": 1.0, "critical_path": 100})
        append_line(
            tmp_path / "timing.jsonl", {**timing, "model": "fast", "seconds": fast * 0.011, "critical_path": fast}
        )
    for n, text in enumerate(["- one\n- two\n- three", "- one"]):  # the first two of `constraints` want 3 and 4 bullets
        append_line(tmp_path / "answers/constraints/baseline.jsonl", answer(str(n), "no list", 9, 9))
        append_line(tmp_path / "answers/constraints/fast.jsonl", answer(str(n), text, 9, 9))
    write_json(
        tmp_path / "run.json",
        {
            "models": {"baseline": "baseline=b", "fast": "fast=f"},
            "prompts": {"mine": str(prompts), "constraints": "constraints"},
            "settings": {"max_tokens": 128},
            "machines": {"a machine": {}},
        },
    )
    return tmp_path


def test_figures_by_hand(folder: Path) -> None:
    summary = summarise(RunFolder(folder))
    fast = summary["models"]["fast"]
    assert fast["theoretical_speedup"]["value"] == pytest.approx(2**0.5, abs=1e-4)
    assert fast["theoretical_speedup_arithmetic"]["value"] == pytest.approx(1.5)
    assert fast["theoretical_parallelism"]["value"] == pytest.approx(2**0.5, abs=1e-4)
    assert fast["realised_speedup"]["value"] == pytest.approx(2**0.5 / 1.1, abs=1e-4)
    low, high = (fast["realised_speedup"][end] for end in ("low", "high"))
    assert low < fast["realised_speedup"]["value"] < high
    assert fast["forking"]["value"] == 0.5 and fast["threads_of_forking"]["value"] == 3
    assert fast["redundancy"]["blocks_repeat"]["value"] == 1 and fast["redundancy"]["topics_repeat"]["value"] == 1
    assert fast["length_within_one"] == 1
    task = fast["tasks"]["constraints"]
    assert task["score"]["value"] == 0.5 and task["over_reference"]["value"] == 0.5
    assert summary["models"]["baseline"]["realised_speedup"]["value"] == 1


def test_differences_to_stage_one_are_taken_prompt_by_prompt(folder: Path, stage: Stage) -> None:
    stage("judge", folder, "--judge", "length")
    over = summarise(RunFolder(folder), beside="baseline")["models"]["fast"]["over_stage_one"]
    assert over["speedup"]["value"] == pytest.approx(2**0.5, abs=1e-4)
    assert over["repeated"] == {"value": 0, "low": 0, "high": 0, "prompts": 12}
    assert over["win_rate"] == {"length": None}  # the reference itself is not judged
    assert summarise(RunFolder(folder))["models"]["fast"]["over_stage_one"] is None  # no `sft` took part


def test_one_speed_for_all_where_a_model_was_not_timed(folder: Path, stage: Stage) -> None:
    timings = [row for row in RunFolder(folder).timings() if row["model"] != "fast"]
    (folder / "timing.jsonl").write_text("\n".join(map(json.dumps, timings)), "utf-8")
    stage("judge", folder, "--judge", "length")
    found = summarise(RunFolder(folder))["models"]["baseline"]["dominated_by"]["length"]
    assert found == {"speed": "theoretical_speedup", "models": ["fast"]}


def test_a_task_that_was_timed_and_not_marked(folder: Path) -> None:
    """Only where no answer says more: what is marked has its clock there."""
    for model, seconds in (("baseline", 3.0), ("fast", 1.0)):
        for task in ("timed", "constraints"):
            row = {"prompts": task, "machine": "m", "id": "0", "model": model, "seconds": seconds}
            append_line(folder / "timing.jsonl", {**row, "tokens": 9, "content_tokens": 9, "critical_path": 9})
    summary = summarise(RunFolder(folder))
    assert list(summary["timed_alone"]) == ["timed"] and list(summary["timed_alone"]["timed"]) == ["fast"]
    assert summary["timed_alone"]["timed"]["fast"]["realised_speedup"]["value"] == pytest.approx(3)
    assert summary["tasks"]["constraints"]["fast"]["realised_speedup"]["value"] == pytest.approx(3)


def test_a_judge_is_held_to_the_model_that_it_was_asked_against(folder: Path, stage: Stage) -> None:
    """Whatever the report's reference is: its wins, and the lengths that they are controlled for."""
    stage("judge", folder, "--judge", "length")
    found = [summarise(RunFolder(folder), against) for against in ("baseline", "fast")]
    own, other = (summary["models"] for summary in found)
    assert own["fast"]["judged"]["length"] == other["fast"]["judged"]["length"] is not None
    assert own["baseline"]["judged"] == other["baseline"]["judged"] == {}
    assert own["baseline"]["dominated_by"] == other["baseline"]["dominated_by"]
    tables = [{row["model"]: row["win rate"] for row in table_rows(summary, "length")} for summary in found]
    assert tables[0] == tables[1] and tables[0]["baseline"] == "50" != tables[0]["fast"]
    drawn = [pareto(summary, "length") for summary in found]
    rates = [{row["model"]: row["win_rate"] for row in each[0]["ours"]} for each in drawn if each]
    assert rates[0] == rates[1] and len(rates[0]) == 2


def test_one_command_makes_the_report(folder: Path, stage: Stage) -> None:
    stage("judge", folder, "--judge", "length")
    printed = stage("report", folder)
    assert "fast" in printed and "1.29" in printed
    place = folder / "report"
    models = json.loads((folder / "summary.json").read_text("utf-8"))["models"]
    assert models["fast"]["dominated_by"] == {"length": {"speed": "realised_speedup", "models": []}}
    # Always longer, so it always wins; and faster: the reference is dominated.
    assert models["baseline"]["dominated_by"] == {"length": {"speed": "realised_speedup", "models": ["fast"]}}
    for name in ("pareto", "table"):
        json.loads((place / f"{name}.json").read_text("utf-8"))
    drawing = ElementTree.fromstring((place / "pareto.svg").read_text("utf-8"))
    texts = [element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert "fast" in texts and "Quality against speed" in texts
    assert texts.count("fast") == texts.count("baseline") == 3, "every point has its name"
    circles = list(drawing.iter("{http://www.w3.org/2000/svg}circle"))
    assert len(circles) == 3 * (2 + len(POINTS))
    width, height = float(drawing.get("width")), float(drawing.get("height"))
    assert all(0 < float(c.get("cx")) < width and 0 < float(c.get("cy")) < height for c in circles)


def test_a_long_note_is_wrapped_and_all_of_it_is_seen() -> None:
    axis = Axis("times", 0, 2)
    panel = Panel("one", axis, axis, (Point("a", 1, 1),))
    note = " ".join(["words"] * 40)
    drawing = ElementTree.fromstring(draw([panel], "A title", note))
    lines = [each for each in drawing.iter("{http://www.w3.org/2000/svg}text") if "words" in (each.text or "")]
    assert " ".join(each.text or "" for each in lines) == note
    assert len(lines) > 2 and all(len(each.text or "") < 70 for each in lines)
    assert float(lines[-1].get("y")) < float(drawing.get("height"))


def test_the_page_needs_nothing_from_elsewhere_and_texts_stay_texts(folder: Path, stage: Stage) -> None:
    stage("report", folder)
    page = (folder / "report" / "index.html").read_text("utf-8")
    assert set(re.findall(r"https?://[^\"' ]+", page)) <= {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in page and "alert(1)</script>" not in page and not re.search(r"<!--\w+-->", page)
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    rows = json.loads(data.group(1))["prompts"]
    assert len(rows) == 12 and rows[0]["answers"]["fast"]["parts"] == [[0, f"Quick. {SLY}"]]


def test_a_report_of_nothing_says_so(tmp_path: Path, folder: Path, stage: Stage) -> None:
    with pytest.raises(UsageError, match="holds no evaluation"):
        stage("report", tmp_path / "none")
    with pytest.raises(UsageError, match=r"no model sequential took part .name the reference with --against: "):
        stage("report", folder, "--against", "sequential")


@pytest.mark.slow
def test_in_a_browser(folder: Path, stage: Stage) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no chromium here")
    stage("report", folder)
    with playwright.sync_playwright() as run:
        browser = run.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto((folder / "report" / "index.html").as_uri())
        assert page.locator("#list button").count() == 12
        page.check("#forking")
        assert page.locator("#list button").count() == 6
        page.fill("#filter", "prompt 11")
        assert page.locator("#list button").count() == 1
        assert page.locator("#lane0 .row").count() == 3 and page.locator("#lane1 .row").count() == 1
        assert page.locator("#lane0 .answer").inner_text() == f"Quick. {SLY}"
        page.fill("#filter", "nothing like it")
        assert page.locator("#list").inner_text() == "No prompt matches."
        assert errors == []
        browser.close()


def test_lambdas_of_one_stage_two_are_joined_in_their_order() -> None:
    from pasta.eval.figures import lambda_curves

    models = ["baseline", "bon-4", "bon-0.2", "bon-inf", "bon2-1", "fixed40", "bon-1"]
    colours = dict.fromkeys(models, "#fff") | {"bon-0.2": "#0b5"}
    assert list(lambda_curves(models, colours)) == [("#0b5", ("bon-0.2", "bon-1", "bon-4", "bon-inf"))]
