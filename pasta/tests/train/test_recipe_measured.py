"""Stage two of the recipe `answers`: who judges it, and which models are measured on what."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from pasta.errors import PastaError
from pasta.settings import read_yaml
from pasta.train.preference_config import PreferenceConfig

PLACE = Path(__file__).parents[2] / "recipes" / "answers"
Run = Callable[..., str]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def options_of(out: Path, *more: str) -> argparse.Namespace:
    recipe = import_module("run")
    return (
        import_module("options")
        .parser("", [stage.name for stage in recipe.STAGES])
        .parse_args(["evaluate", "--out", str(out), *more])
    )


def test_models_of_stage_two_are_measured_by_name_and_others_may_be_added(tmp_path: Path, run_answers: Run) -> None:
    measuring, out = import_module("measuring"), tmp_path / "out"
    for place in ("pasta", "baseline", "preference-pasta/round-1/lambda-1", "chats-pasta/round-1/lambda-0.2",
                  "chats-baseline/round-1/lambda-0.2"):  # fmt: skip
        (out / place).mkdir(parents=True)
        (out / place / "training.json").write_text("{}")
    (out / "chats-pasta" / "round-1" / "lambda-1").mkdir()  # not trained to its end
    names = [each.name for each in measuring.asked(options_of(out))]
    assert names == ["baseline", "pasta", "chats-baseline-0.2", "chats-pasta-0.2", "bon-pasta-1", "separate",
                     "skeleton", "untagged"]  # fmt: skip
    pushed = f"pushed={out}/pasta@parallelism:1.5"
    chosen = measuring.asked(options_of(out, "--models", f"chats-baseline-0.2,{pushed}"))
    assert [each.name for each in chosen] == ["chats-baseline-0.2", "pushed"] and chosen[1].parallelism == 1.5
    with pytest.raises(PastaError, match=r"--models bon-pasta: there is no such model \(there are baseline, pasta, "):
        measuring.asked(options_of(out, "--models", "bon-pasta"))


def test_chats_can_be_measured_without_problems(tmp_path: Path, run_answers: Run, prompts_file: str) -> None:
    measuring = import_module("measuring")
    assert [each.name for each in measuring.sets(options_of(tmp_path, "--eval-prompts", f"talk={prompts_file}"))] == [
        "talk"
    ]
    with pytest.raises(PastaError, match="--tests"):
        measuring.sets(options_of(tmp_path))


def test_stage_two_of_chats_bounds_both_models_alike() -> None:
    config = PreferenceConfig.from_mapping({"prompts": "p", "output": "o", "baseline": "b", "judge": "length",
                                            **read_yaml(str(PLACE / "chats.yaml"))})  # fmt: skip
    assert config.clean and config.any_topic and config.pairs == 2 and config.turns == 1
    assert 0 < config.shortest < config.short == 1 < config.longest, "who is brief gains no speed by it"


def test_a_model_that_forks_learns_once_more_how_to_and_not_when() -> None:
    once_more = read_yaml(str(PLACE.parent / "default" / "once-more.yaml"))
    config = PreferenceConfig.from_mapping(
        {"prompts": "p", "output": "o", "baseline": "b", "judge": "length", **once_more}
    )
    assert config.alike and config.clean and config.biases == (0.0,), "and its samples are pushed nowhere"


def test_who_judges_stage_two(tmp_path: Path, run_answers: Run) -> None:
    judge_of, tasks = import_module("training").judge_of, tmp_path / "tasks.jsonl"
    assert judge_of(options_of(tmp_path, "--judge", "length")) == "length", "nothing has a right answer"
    tasks.touch()
    assert judge_of(options_of(tmp_path, "--judge", "length")) == f"right:{tasks}+length"
    assert judge_of(options_of(tmp_path, "--run-code")) == f"right-code:{tasks}"


def test_four_in_one_has_twice_the_parts_unless_problems_would_come_again_and_again(run_answers: Run) -> None:
    parts_of = import_module("measuring").parts_of
    assert parts_of("several", 4, 900, 1000) == 1800 and parts_of("several", 4, 5000, 1000) == 2000
    assert parts_of("several", 4, 300, 1000) == parts_of("gather", 0, 900, 1000) == 1000
