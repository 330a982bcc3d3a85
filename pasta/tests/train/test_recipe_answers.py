"""The recipe `answers`: its stages one by one, and all of them end to end on a tiny model."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from tasks_texts import FUNCTIONS, SUMS

from pasta.errors import UsageError
from pasta.lang import parse, plain
from pasta.settings import read_part
from pasta.tasks.marking import mark

PLACE = Path(__file__).parents[2] / "recipes" / "answers"
Run = Callable[..., str]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_the_plan_fits_a_gpus_half_hour(run_answers: Run) -> None:
    recipe = import_module("run")
    assert "in all" in run_answers("plan")
    assert sum(stage.seconds for stage in recipe.STAGES) <= recipe.LIMIT_S
    assert all(stage.seconds <= 600 for stage in recipe.STAGES)


def test_sampling_writes_as_it_goes_and_goes_on(tmp_path: Path, run_answers: Run, prompts_file: str) -> None:
    run_answers("sample", "--max-tokens", "6", "--limit", "2", "--code-samples", "1", "--chat-prompts", prompts_file)
    path, chats = tmp_path / "out" / "answers.jsonl", tmp_path / "out" / "chats" / "samples.jsonl"
    first, rows = path.read_text(), lines(path)
    assert len(rows) == 2 * 2 + 2 * 2  # two sums in two styles; two functions, named and free
    assert {(row["code"], row["style"], row["free"]) for row in rows} == {
        (False, "steps", False), (False, "brief", False), (True, "steps", False), (True, "steps", True),
    }  # fmt: skip
    assert [row["sample"] for row in lines(chats)] == [0, 0]
    run_answers("sample", "--max-tokens", "6", "--limit", "3", "--code-samples", "1", "--chat-prompts", prompts_file)
    assert path.read_text().startswith(first) and len(lines(path)) == 12
    assert len({row["prompt"] for row in lines(chats)}) >= 3


def test_processes_draw_parts_that_make_up_the_whole(tmp_path: Path, run_answers: Run) -> None:
    counts = []
    for part in ("0/2", "1/2"):
        run_answers("sample", "--max-tokens", "4", "--limit", "2", "--code-samples", "1", "--part", part)
        rows = lines(tmp_path / "out" / "answers.jsonl")
        counts.append(len({tuple(row[name] for name in ("code", "id", "style", "free")) for row in rows}))
    assert counts == [4, 8] and len(rows) == 8


def test_what_was_drawn_is_marked_once_and_its_name_may_be_its_own(
    tmp_path: Path, run_answers: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = import_module("right")
    problems = import_module("pasta.tasks.problem")
    given = [problems.read_problem(n, row) for n, row in enumerate(FUNCTIONS[:1])]
    texts = {"its own name": "def my_own(a, b):\n    return a + b", "wrong": "def my_own(a, b):\n    return a"}
    rows = [
        {"code": True, "id": "0", "style": "steps", "free": free, "sample": n, "ended": ended, "tokens": 9,
         "text": f"```python\n{text}\n```"}
        for free in (False, True)
        for ended in (False, True)
        for n, text in enumerate(texts.values(), start=2 * ended)
    ]  # fmt: skip
    (tmp_path / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UsageError, match="--run-code"):
        right.right_answers(tmp_path, given, run_code=False)
    [only] = right.right_answers(tmp_path, given, run_code=True)
    assert only["free"] and only["ended"] and "return a + b" in only["text"]
    monkeypatch.setattr(right, "mark_all", lambda *_: pytest.fail("marked twice"))
    assert right.right_answers(tmp_path, given, run_code=False) == [only]


def test_right_answers_are_learned_from_where_they_are_written_as_asked(run_answers: Run) -> None:
    misses = import_module("form").misses

    def of(text: str, style: str = "steps", code: bool = False) -> str | None:
        return misses({"code": code, "style": style, "text": text})

    assert of("There are 2 + 3 = 5 hats.\nSo \\(\\boxed{5}\\).") is None
    assert of("Let's use Python.\n```python\nprint(5)\n```\n```output\n5\n```") == "a program for a sum"
    for brief in ("2 + 3 = 5\nAnswer: 5", "2 hats + 3 hats = 5 hats\n\nAnswer: $5.00", "2 + 3 = 5"):
        assert of(brief, "brief") is None
    for wordy in ("To find the sum, add.\n2 + 3 = 5", "2\n3\nAnswer: 5", "So \\(2 + 3 = 5\\).", "Answer: 5"):
        assert of(wordy, "brief") == "not brief"
    assert of("Here:\n```python\nimport re\nN = 2\ndef f():\n    return N\n```\nIt works.", code=True) is None
    for more in ("assert f() == 1", "print(f())", "def ("):
        assert of(f"```python\ndef f():\n    return 1\n{more}\n```", code=True) == "code that runs by itself"


def test_bundles_are_right_marked_and_partly_without_tags(tmp_path: Path, run_answers: Run) -> None:
    out = tmp_path / "out"
    problems = [(False, row["id"], row["answer"]) for row in SUMS] + [
        (True, r["task_id"], r["code"]) for r in FUNCTIONS
    ]
    out.mkdir()
    answers = [
        {
            "code": code,
            "id": str(id),
            "style": style,
            "free": free,
            "sample": 0,
            "tokens": 20,
            "text": text if not code else f"```python\n{text}\n```",
            "ended": True,
        }
        for code, id, text in problems
        for style in ("steps", "brief")
        for free in (False, True)
    ]
    answers.append({**answers[0], "sample": 1, "tokens": 900})  # too long for a block
    answers.append({**answers[0], "sample": 2, "text": "Answer: 99"})
    answers.append({**answers[0], "sample": 3, "ended": False})
    (out / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers))
    chat = {"prompt": "Hi?", "response": "Hello."}
    other = {"conversations": [{"from": "human", "value": "Who?"}, {"from": "gpt", "value": "Nobody."}]}
    (tmp_path / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (chat, other)))
    run_answers("bundle", "--scale", "0.05", "--chats", str(tmp_path / "chats.jsonl"))
    rows = lines(out / "annotated.jsonl")
    kinds = {row["kind"].removesuffix(", without tags") for row in rows}
    of_numbers = {f"{task} of numbers" for task in ("several", "gather", "plain", "chain")}
    assert kinds == {"chat"} | of_numbers | {
        f"{task} of functions" for task in ("several", "gather", "plain", "freely")
    }
    assert {row["prompt"]: row["response"] for row in rows if row["kind"] == "chat"} == {
        "Hi?": "Hello.",
        "Who?": "Nobody.",
    }
    tasks = lines(out / "tasks.jsonl")
    assert tasks and not {row["prompt"] for row in tasks} & {row["prompt"] for row in rows}, "kept for stage two"
    assert all(mark(row, "nothing").share == 0 for row in tasks if row["noun"] == "Problem")
    assert not any("Answer: 99" in row["response"] for row in rows)
    for row in rows:
        response = parse(row["response"])
        assert row["forks"] == any(response.promises())
        if row["kind"].startswith("gather") and row["forks"]:
            assert row["response"].count("<sync/>") == 1
        is_pair = row["prompt"].startswith("Solve these 2 problems.") and "(X is the answer" in row["prompt"]
        if row["kind"].startswith("plain") or is_pair:
            assert not row["forks"]
        elif row["kind"] == "chain of numbers":
            assert row["forks"] and row["response"].count("<sync/>") == 1
    untagged = [row for row in rows if row["kind"].endswith("without tags")]
    assert len(untagged) >= 0.1 * sum(row["forks"] for row in rows)
    for own, apar in zip(lines(out / "annotated.jsonl"), lines(out / "apar.jsonl"), strict=True):
        assert "<sync/>" not in apar["response"]
        assert plain(parse(own["response"])) == plain(parse(apar["response"]))


def test_functions_that_share_a_name_do_not_come_together(run_answers: Run) -> None:
    bundles = import_module("bundles")
    one, other = (
        "```python\ndef helper():\n    pass\n\ndef NAME():\n    pass\n```".replace("NAME", name) for name in "ab"
    )
    assert bundles.have_own_names([one, other])
    assert not bundles.have_own_names([one, one])
    assert not bundles.have_own_names([one, other.replace("def b", "def main")])
    assert not bundles.have_own_names([one, "no code"])


def test_a_part_is_one_of_so_many() -> None:
    assert read_part("1/4") == (1, 4)
    for wrong in ("4/4", "-1/4", "1", "a/b"):
        with pytest.raises(UsageError, match=f"part is '{wrong}'"):
            read_part(wrong)


@pytest.mark.slow
def test_end_to_end(tmp_path: Path, run_answers: Run, prompts_file: str) -> None:
    small = ("--scale", "0.02", "--max-steps", "2", "--batch-size", "2", "--max-length", "4096", "--parts", "6",
             "--eval-tokens", "24", "--batch", "4", "--limit", "3",
             "--eval-prompts", f"chats={prompts_file}")  # fmt: skip
    run_answers("sample", "--max-tokens", "6", "--limit", "1", "--code-samples", "1", "--chat-prompts", prompts_file)
    run_answers("chats")
    assert (tmp_path / "out" / "chats" / "annotated.jsonl").exists(), "though random weights say nothing worth keeping"
    run_answers("bundle", "--solutions", *small)
    run_answers("train baseline apar", *small, "--processes", "3")
    out = tmp_path / "out"
    assert json.loads((out / "pasta" / "training.json").read_text())["steps"] == 2
    assert "is trained already" in run_answers("train", *small)
    for stage in ("preference", "preference-baseline"):
        run_answers(stage, *small, "--max-tokens", "400")
    chats = (*small, "--settings", str(PLACE / "chats.yaml"), "--preference-prompts", prompts_file, "--judge", "length",
             "--lambdas", "0.2,1", "--max-tokens", "400", "--shortest", "0")  # fmt: skip
    for stage in ("preference", "preference-baseline"):
        for steps in ("sample", "score"):
            run_answers(stage, *chats, "--steps", steps, "--processes", "2")
        run_answers(stage, *chats, "--steps", "pairs,train", "--same-prompts")
    run_answers("evaluate", *small, "--processes", "2")
    assert len(lines(out / "eval" / "answers" / "several4-sums" / "pasta.jsonl")) == 3  # twice as many parts
    assert len(lines(out / "eval" / "answers" / "chain4-sums" / "pasta.jsonl")) == 2
    run_answers("timing", *small)
    printed = run_answers("report")
    for name in ("several4-sums", "gather-functions", "chain-sums", "bon-pasta", "separate", "untagged"):
        assert name in printed
    assert (out / "chats-pasta" / "round-1" / "pairs-0.2.jsonl").stat().st_size
    told = run_answers("report", "--eval-judge", "length", "--against", "chats-baseline-0.2")
    assert json.loads((out / "eval" / "summary.json").read_text())["against"] == "chats-baseline-0.2"
    assert "chats-pasta-1" in told
    run_answers("report")
    assert "answers.tar.gz.0" in run_answers("pack")
    figures = json.loads((out / "eval" / "summary.json").read_text())["models"]
    assert figures["pasta"]["realised_speedup"]["prompts"] == 3
    assert figures["untagged"]["forking"]["value"] == 0
