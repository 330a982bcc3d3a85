"""`mode="auto"`: the first prompts both ways, the rest by how far the two agree."""

from __future__ import annotations

from typing import Any

import pytest

import pasta
from pasta.structured import trial
from pasta.structured.trial import TRIAL, plain
from support import tiny_engine

LETTERS = {"enum": ["A", "B", "C", "D"]}
WORDS = {"type": "string", "enum": ["yes"]}


def schema_of(kind: Any, fields: int = 4) -> dict[str, Any]:
    names = [f"q{n}" for n in range(fields)]
    return {"type": "object", "properties": dict.fromkeys(names, kind), "required": names}


@pytest.fixture(scope="module")
def engine() -> Any:
    return tiny_engine(slots=32768)


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The modes of the requests of each run."""
    seen: list[list[str]] = []

    def watched(engine: Any, requests: Any) -> Any:
        seen.append([request.program.plan.mode for request in requests])
        return run(engine, requests)

    run = trial.run
    monkeypatch.setattr(trial, "run", watched)
    return seen


PROMPTS = [f"Which letters, {n}?" for n in range(TRIAL + 3)]


def test_where_the_two_agree_the_rest_is_parallel(engine: Any, modes: list[list[str]]) -> None:
    said = pasta.extract(engine, PROMPTS, schema_of(WORDS), mode="auto")
    assert modes == [["sequential"] * TRIAL + ["parallel"] * TRIAL, ["parallel"] * 3]
    assert said == [dict.fromkeys(("q0", "q1", "q2", "q3"), "yes")] * len(PROMPTS)


def test_where_they_do_not_all_is_sequential(
    engine: Any, modes: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "ALIKE", 1.01)  # whatever they say
    said = pasta.extract(engine, PROMPTS, schema_of(LETTERS), mode="auto")
    assert modes[1] == ["sequential"] * 3
    assert said == pasta.extract(engine, PROMPTS, schema_of(LETTERS), mode="sequential")


@pytest.mark.parametrize("count", [1, TRIAL])
def test_few_prompts_are_sequential(engine: Any, modes: list[list[str]], count: int) -> None:
    said = pasta.extract(engine, PROMPTS[:count], schema_of(LETTERS), mode="auto")
    assert modes == [["sequential"] * count]
    assert said == pasta.extract(engine, PROMPTS[:count], schema_of(LETTERS), mode="sequential")


def test_one_prompt_has_one_answer(engine: Any) -> None:
    assert pasta.extract(engine, PROMPTS[0], schema_of(WORDS, 2), mode="auto") == {"q0": "yes", "q1": "yes"}


class Said:
    """As much of a result as is compared."""

    def __init__(self, fields: dict[str, Any], missing: tuple[str, ...] = ()):
        self.fields = [type("Field", (), {"pointer": name, "value": value})() for name, value in fields.items()]
        self.missing = missing


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        (Said({"/a": 1, "/b": "Yes."}), Said({"/a": 1, "/b": "yes"}), 1.0),
        (Said({"/a": 1, "/b": None}), Said({"/a": -1, "/b": None}), 0.5),
        (Said({"/a": 1, "/b": 2}), Said({"/a": 1}), 0.5),
        (Said({"/a": 1, "/b": 2}, ("/b",)), Said({"/a": 1, "/b": 3}), 1.0),
        (Said({"/a": 1}, ("/a",)), Said({"/a": 1}), 0.0),
    ],
)
def test_agreement_is_the_share_of_fields_that_say_the_same(one: Any, other: Any, share: float) -> None:
    assert trial.agreement([one], [other]) == share


def test_texts_are_compared_by_their_words() -> None:
    assert plain(" The Tower! ") == plain("the tower") != plain("a tower")
    assert plain("3.5") != plain("35") and plain(-5) != plain(5) and plain(None) != plain("none")
