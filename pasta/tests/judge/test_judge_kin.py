"""Judges that are kin to the one that scored stage two are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pasta.judge.config import JudgeConfig
from pasta.judge.kin import Lineage, identity, in_common, judge_of
from pasta.judge.preferences import Answer, Contest, part_of


def judge(folder: Path, base: str, prompts: list[str]) -> Lineage:
    folder.mkdir()
    (folder / "judge.json").write_text(json.dumps({"base": base, "prompts": dict.fromkeys(prompts, 0)}))
    return Lineage.of(f"reward:{folder}")


def test_what_judges_have_in_common(tmp_path: Path) -> None:
    one = judge(tmp_path / "one", "small", ["a", "b"])
    assert in_common(one, one) == in_common(one, Lineage.of(f"reward-raw:{tmp_path / 'one'}")) == "it is the same judge"
    assert in_common(one, judge(tmp_path / "two", "small", ["c"])) == "both judges were made from small"
    assert "1 prompts in common" in str(in_common(one, judge(tmp_path / "three", "large", ["b", "c"])))
    assert in_common(one, judge(tmp_path / "four", "large", ["c"])) is None
    assert in_common(one, Lineage.of("llm:gpt@http://there")) is None
    assert in_common(Lineage.of("length"), Lineage.of("length")) == "it is the same judge"


def test_who_scored_stage_two_is_read_from_a_models_record(tmp_path: Path) -> None:
    assert judge_of(str(tmp_path)) is None
    (tmp_path / "training.json").write_text(json.dumps({"config": {"judge": "reward:there"}}))
    assert judge_of(str(tmp_path)) == "reward:there"


def test_who_scored_stage_two_is_read_from_its_scores_where_the_steps_were_run_one_by_one(tmp_path: Path) -> None:
    model = tmp_path / "round-1" / "lambda-4"
    model.mkdir(parents=True)
    record: dict[str, object] = {"config": {"judge": ""}}
    (model / "training.json").write_text(json.dumps(record))
    assert judge_of(str(model)) is None
    (tmp_path / "round-1" / "scoring.json").write_text(json.dumps({"judge": "length"}))
    assert judge_of(str(model)) == "length"
    record |= {"config": {"judge": "length"}, "judge": "reward:there"}  # the last command named another
    (model / "training.json").write_text(json.dumps(record))
    assert judge_of(str(model)) == "reward:there"
    for broken in ("[]", '{"config": []}', "no JSON"):
        (model / "training.json").write_text(broken)
        assert judge_of(str(model)) in (None, "length")


def test_a_judge_is_known_again_where_it_was_moved_to_and_told_from_others(tmp_path: Path) -> None:
    for place, weight in (("a", 1), ("b", 2), ("c", 1)):
        (tmp_path / place / "judge").mkdir(parents=True)
        (tmp_path / place / "judge" / "judge.json").write_text(json.dumps({"weight": weight}))
    a, b, c = (str(tmp_path / place / "judge") for place in "abc")
    assert identity(f"reward:{a}") == identity(f"reward:{a}/") == identity(f"reward:{c}")
    different = [f"reward:{a}", f"reward-raw:{a}", f"reward:{b}", f"features:{a}/judge.json", "reward:owner/judge",
                 "llm:large@https://api.openai.com/v1", "llm:tiny@http://localhost:8000/v1", "length",
                 f"right:{a}/judge.json", f"right:{a}/judge.json+length", f"right:{b}/judge.json+length"]  # fmt: skip
    assert len({identity(spec) for spec in different}) == len(different)
    assert identity("llm:tiny@http://localhost:8000/v1") == "llm:tiny@http://localhost:8000/v1"
    assert identity(f"right:{a}/judge.json+reward:{a}") == identity(f"right:{c}/judge.json+reward:{c}")


def test_two_parts_of_the_prompts_are_disjoint_and_whole() -> None:
    answers = [Answer(f"prompt {n}", "m", "x", 0.5) for n in range(40)]
    contests = [Contest(answer.prompt, answer, (answer,)) for answer in answers]
    first, second = (part_of(contests, part) for part in ("0/2", "1/2"))
    assert sorted(c.prompt for c in (*first, *second)) == sorted(c.prompt for c in contests)
    assert 10 < len(first) < 30 and part_of(contests, "0/1") == contests
    with pytest.raises(Exception, match="part is '2/2'"):
        JudgeConfig(data="d", out="o", part="2/2")
