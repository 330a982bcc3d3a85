from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from pasta.errors import PastaError, UsageError
from pasta.eval.contestants import Contestant
from pasta.eval.questions import QuestionSet, read_questions
from pasta.eval.timing import drawn


def write(path: Path, rows: list, lines: bool = True) -> str:
    path.write_text("\n".join(map(json.dumps, rows)) if lines else json.dumps(rows), "utf-8")
    return str(path)


def test_the_forms_that_benchmarks_come_in(tmp_path: Path) -> None:
    alpaca = write(tmp_path / "a.json", [{"instruction": "Say hi.", "output": "Hi"}, {"instruction": "x"}], lines=False)
    assert [(q.id, q.prompt) for q in read_questions(alpaca)] == [("0", "Say hi."), ("1", "x")]
    bench = write(tmp_path / "mt.jsonl", [{"question_id": 81, "turns": ["First?", "Then?"]}])
    assert [(q.id, q.prompt) for q in read_questions(bench)] == [("81", "First?")]
    vicuna = write(tmp_path / "v.jsonl", [{"question_id": 1, "text": "Hm?", "category": "generic"}])
    assert read_questions(vicuna)[0].prompt == "Hm?"
    chat = {"messages": [{"role": "user", "content": "Hey"}]}
    old = write(tmp_path / "o.jsonl", [{"instruction": "Sort.", "input": "b a"}, chat])
    assert [q.prompt for q in read_questions(old)] == ["Sort.\n\nb a", "Hey"]
    packed = tmp_path / "p.jsonl.xz"
    packed.write_bytes(lzma.compress(b'{"prompt": "Packed?"}\n'))
    assert QuestionSet.parse(str(packed)) == QuestionSet("p", str(packed))
    assert QuestionSet.parse(f"mine={packed}").name == "mine"
    assert QuestionSet.parse(str(packed)).read()[0].prompt == "Packed?"


def test_ids_that_tell_nothing_apart_are_not_used(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [{"id": 1, "prompt": "a"}, {"id": 1, "prompt": "b"}])
    assert [q.id for q in read_questions(path)] == ["0", "1"]


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="row 0 has no prompt"):
        read_questions(write(tmp_path / "n.jsonl", [{"story": "x"}]))
    with pytest.raises(PastaError, match="no file"):
        read_questions(str(tmp_path / "none.jsonl"))


def test_what_cannot_be_asked_is_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", [{"prompt": prompt} for prompt in ("a?", " ", "half \ud800")])
    said: list[str] = []
    assert [question.prompt for question in QuestionSet("p", path).read(say=said.append)] == ["a?"]
    assert said == [f"{path}: prompts left out, as they are empty or not valid Unicode: 2"]


def test_a_draw_is_the_same_every_time_and_its_beginning_a_smaller_draw(tmp_path: Path) -> None:
    questions = read_questions(write(tmp_path / "d.jsonl", [{"prompt": f"p{n}"} for n in range(30)]))
    few, many = drawn(questions, 5), drawn(questions, 20)
    assert many[:5] == few and len({q.id for q in many}) == 20
    assert [q.id for q in few] != [q.id for q in questions[:5]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sft=out/pasta", Contestant("sft", "out/pasta")),
        ("sot=a@b/c@skeleton", Contestant("sot", "a@b/c", "skeleton")),
        ("more=m@parallelism:1.5", Contestant("more", "m", "parallel", 1.5)),
        ("seq=m@sequential", Contestant("seq", "m", "sequential")),
    ],
)
def test_contestants(text: str, expected: Contestant) -> None:
    assert Contestant.parse(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize("text", ["sft", "=x", "a/b=m", "x=m@fast", "x=m@parallelism:much", "x=m@parallelism:nan"])
def test_contestants_that_cannot_be_meant(text: str) -> None:
    with pytest.raises(UsageError, match="--model"):
        Contestant.parse(text)
