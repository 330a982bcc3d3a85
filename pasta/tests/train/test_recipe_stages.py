"""Both recipes, stage by stage: what a stage needs was made before it, and where it was not, the error says by whom."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from pasta.core.vocabulary import Vocabulary

RECIPES = Path(__file__).parents[2] / "recipes"
Run = Callable[..., str]


def stages_of(recipe: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Run, list[str]]]:
    """Runs a stage as the command line does, and returns what it printed; the stages of `all` in their order."""
    monkeypatch.syspath_prepend(RECIPES / recipe)
    names = {file.stem for folder in ("answers", "default") for file in (RECIPES / folder).glob("*.py")}
    for name in names:  # the recipes have files of the same name
        sys.modules.pop(name, None)
    module = import_module("run")
    yield module.main, [getattr(stage, "name", stage) for stage in module.STAGES]
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Run, list[str]]]:
    yield from stages_of("answers", monkeypatch)


@pytest.fixture
def default(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Run, list[str]]]:
    yield from stages_of("default", monkeypatch)


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in ("Hello!", "Why?", "Name a fruit.")))
    return str(path)


def refusal(run: Run, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        run([*arguments, "--device", "cpu"])
    assert ended.value.code == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1, "one line"
    return error


def check_maker(error: str, missing: str, stage: str, order: list[str]) -> None:
    """The error names what is missing and who makes it, who stands before the stage that wants it."""
    assert missing in error
    maker = re.search(r"run the stages? ([\w-]+)", error)
    assert maker and order.index(maker[1]) < order.index(stage)


@pytest.mark.parametrize(
    ("stage", "made", "missing"),
    [
        ("bundle", (), "answers.jsonl is missing (run the stage sample first)"),
        ("train", (), "annotated.jsonl is missing (run the stage bundle first)"),
        ("baseline", (), "annotated.jsonl is missing (run the stage bundle first)"),
        ("apar", (), "apar.jsonl is missing (run the stage bundle first)"),
        ("preference", (), "pasta is missing (run the stage train first)"),
        ("preference", ("pasta",), "baseline is missing (run the stage baseline first)"),
        ("preference", ("pasta", "baseline"), "tasks.jsonl is missing (run the stage bundle first)"),
        ("preference-baseline", (), "baseline is missing (run the stage baseline first)"),
        (
            "preference-baseline",
            ("baseline", "tasks.jsonl"),
            "preference-pasta is missing (run the stage preference first)",
        ),
        ("evaluate", (), "holds no model to measure (run the stages train and baseline first)"),
        ("timing", (), "holds no model to measure (run the stages train and baseline first)"),
        ("report", (), "answers is missing (run the stage evaluate first)"),
        ("package", (), "pasta is missing (run the stage train first)"),
        ("package", ("pasta",), "summary.json is missing (run the stage report first)"),
        ("pack", (), "holds nothing to pack (run the stages before)"),
    ],
)
def test_a_stage_of_answers_says_who_makes_what_it_lacks(
    tmp_path: Path,
    base: str,
    answers: tuple[Run, list[str]],
    capsys: pytest.CaptureFixture[str],
    stage: str,
    made: tuple[str, ...],
    missing: str,
) -> None:
    run, order = answers
    for name in made:
        (tmp_path / name).mkdir()
    files = ("--problems", str(tmp_path / "p.jsonl"), "--eval-prompts", str(tmp_path / "e.jsonl"))
    more = ("--model", base, "--out", str(tmp_path), "--same-prompts", "--name", "own", "--base", "some/base")
    error = refusal(run, capsys, stage, *files, *more)
    if stage == "pack":
        assert missing in error
    else:
        check_maker(error, missing, stage, order)


@pytest.mark.parametrize(
    ("stage", "made", "missing"),
    [
        ("annotate", (), "samples.jsonl is missing (run the stage sample first)"),
        ("train", (), "annotated.jsonl is missing (run the stage annotate first)"),
        ("baseline", (), "annotated.jsonl is missing (run the stage annotate first)"),
        ("preference", (), "pasta is missing (run the stage train first)"),
        ("preference", ("pasta",), "baseline is missing (run the stage baseline first)"),
        ("evaluate", (), "pasta is missing (run the stage train first)"),
        ("export", (), "pasta is missing (run the stage train first)"),
    ],
)
def test_a_stage_of_default_says_who_makes_what_it_lacks(
    tmp_path: Path,
    base: str,
    default: tuple[Run, list[str]],
    capsys: pytest.CaptureFixture[str],
    stage: str,
    made: tuple[str, ...],
    missing: str,
) -> None:
    run, order = default
    for name in made:
        (tmp_path / name).mkdir()
    more = ("--model", base, "--out", str(tmp_path), "--prompts", str(tmp_path / "p.jsonl"), "--judge", "length")
    check_maker(refusal(run, capsys, stage, *more), missing, stage, order)


def test_stage_two_by_itself_takes_what_is_on_or_off_as_the_command_line_does(default: tuple[Run, list[str]]) -> None:
    parse = import_module("preference").parser().parse_args
    assert parse(["pairs", "--clean", "--no-any-topic"]).clean is True
    assert parse(["pairs", "--clean", "--no-any-topic"]).any_topic is False
    assert parse(["pairs"]).clean is None, "as the file says"


@pytest.mark.parametrize("lacks", ["--model", "--problems", "--tests"])
def test_all_begins_only_with_what_its_last_stages_need(
    tmp_path: Path, answers: tuple[Run, list[str]], capsys: pytest.CaptureFixture[str], lacks: str
) -> None:
    given = {"--model": "somewhere", "--problems": "p.jsonl", "--tests": "t.jsonl"}
    rest = [part for flag, value in given.items() if flag != lacks for part in (flag, value)]
    assert f"needs {lacks}" in refusal(answers[0], capsys, "all", "--out", str(tmp_path / "out"), *rest)
    assert not (tmp_path / "out").exists()


def test_all_measures_what_stage_two_made(answers: tuple[Run, list[str]], default: tuple[Run, list[str]]) -> None:
    order = answers[1]
    two = ["train", "baseline", "apar", "preference", "preference-baseline"]
    assert order == ["sample", "chats", "bundle", *two, "evaluate", "timing", "report", "package", "pack"]
    assert default[1] == ["sample", "annotate", "train", "baseline", "preference", "evaluate", "export"]


def test_the_baseline_may_learn_from_the_very_prompts_of_the_model(
    tmp_path: Path, answers: tuple[Run, list[str]]
) -> None:
    own, other = (tmp_path / "out" / f"preference-{name}" / "round-1" for name in ("baseline", "pasta"))
    own.mkdir(parents=True)
    drawn = [{"index": n // 2, "sample": n % 2, "prompt": f"{n // 2}?"} for n in range(6)]
    told = {"annotated": "So.", "text": "So.", "tokens": [1], "finish_reason": "stop"}
    figures = {"quality": 1.0, "redundancy": 0.0, "faults": [], "chances": {"baseline": 0.5}}
    for name, rows in (("samples", [{**row, **told} for row in drawn]),
                       ("scores", [{**row, **figures, "speedup": 1.0 + row["sample"]} for row in drawn])):  # fmt: skip
        (own / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    usual = (
        "--model",
        "base",
        "--out",
        str(tmp_path / "out"),
        "--steps",
        "pairs",
        "--lambdas",
        "1",
        "--judge",
        "length",
    )
    answers[0](["preference-baseline", *usual])
    assert [row["index"] for row in read(own / "pairs-1.jsonl")] == [0, 1, 2]
    other.mkdir(parents=True)
    (other / "pairs-1.jsonl").write_text(json.dumps({"prompt": "1?"}) + "\n")
    answers[0](["preference-baseline", *usual, "--same-prompts"])
    assert [row["index"] for row in read(own / "pairs-1.jsonl")] == [1]


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_chat_is_answered_as_it_stands_and_then_in_a_manner_that_is_not_learned(
    tmp_path: Path, base: str, prompts: str, answers: tuple[Run, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "manner.txt").write_text("Be thorough.\n")
    asked: list[list[dict[str, str]]] = []
    encode = Vocabulary.encode_chat
    monkeypatch.setattr(Vocabulary, "encode_chat", lambda self, said, **more: asked.append(said) or encode(self, said))
    chats = ["--chat-prompts", prompts, "--limit", "2", "--chat-tokens", "4", "--chat-samples", "3"]
    where = ["--model", base, "--out", str(tmp_path), "--device", "cpu", "--chat-manner", str(tmp_path / "manner.txt")]
    answers[0](["sample", *chats, *where])
    assert len(asked) == 2 and all(len(said) == 1 for said in asked), "what was answered without points is left so"
    path = tmp_path / "chats" / "samples.jsonl"
    rows = read(path)
    rows[0]["response"] = "Three:\n1. One point.\n2. Another point.\n3. A third."
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    answers[0](["sample", *chats, *where])
    assert [said[0]["content"] for said in asked[2:]] == ["Be thorough."] * 2
    assert [said[1]["content"] for said in asked[2:]] == [rows[0]["prompt"]] * 2
    rows = read(path)
    assert sorted((row["index"] == rows[0]["index"], row["sample"]) for row in rows) == [
        (False, 0),
        *((True, n) for n in range(3)),
    ]
    assert not any("thorough" in row["prompt"] for row in rows)


def test_points_are_asked_for_in_a_manner_as_soon_as_they_come(
    tmp_path: Path, base: str, prompts: str, answers: tuple[Run, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    sampling = import_module("sample")
    first = sampling.Try("Which?", sampling.CHATS, {"index": 7, "sample": 0, "prompt": "Which?"}, 40)
    more = sampling.in_manner(first, "Some:\n- one thing\n- another thing\n- a third", 3, "Briefly.")
    assert [(one.row["sample"], one.manner, one.prompt) for one in more] == [(n, "Briefly.", "Which?") for n in (1, 2)]
    story = "Once upon a time there was one."
    assert sampling.in_manner(first, story, 3, "Briefly.") == []
    assert sampling.in_manner(first, "\n\n".join([story] * 4), 3, "Briefly.") == [], "paragraphs are no points"
    assert sampling.in_manner(more[0], "- one\n- two\n- three", 3, "Briefly.") == [], "only once"
    monkeypatch.setattr(sampling, "kind", lambda answer: "list")
    (tmp_path / "manner.txt").write_text("Briefly.")
    chats = ["--chat-prompts", prompts, "--limit", "2", "--chat-tokens", "4", "--chat-samples", "3"]
    where = ["--model", base, "--out", str(tmp_path), "--device", "cpu", "--chat-manner", str(tmp_path / "manner.txt")]
    answers[0](["sample", *chats, *where])
    assert sorted(row["sample"] for row in read(tmp_path / "chats" / "samples.jsonl")) == [0, 0, 1, 1, 2, 2]


def test_processes_share_a_stage_out_or_train_beside_each_other(
    tmp_path: Path, answers: tuple[Run, list[str]], capsys: pytest.CaptureFixture[str], base: str, prompts: str
) -> None:
    run, _ = answers
    asked = ["--model", base, "--chat-prompts", prompts, "--chat-tokens", "4", "--out", str(tmp_path)]
    run(["sample", *asked, "--device", "cpu", "--processes", "2"])
    assert sorted(row["index"] for row in read(tmp_path / "chats" / "samples.jsonl")) == [0, 1, 2]
    for wrong in (("--processes", "0"), ("--processes", "2", "--part", "0/2")):
        assert "--processes" in refusal(run, capsys, "sample", *asked, *wrong)
    assert "run the stage bundle first" in refusal(run, capsys, "train", "baseline", *asked, "--processes", "2")
    recipe = import_module("run")

    def names(processes: int) -> list[list[str]]:
        return [[stage.name for stage in group] for group in recipe.groups(recipe.STAGES[2:8], processes)]

    assert names(1) == [["bundle"], ["train"], ["baseline"], ["apar"], ["preference"], ["preference-baseline"]]
    assert names(2)[1:3] == [["train", "baseline"], ["apar"]] and names(4)[1] == ["train", "baseline", "apar"]


@pytest.mark.parametrize(
    ("samples", "refused"),
    [
        ("2", "none.txt cannot be read: No such file or directory (name a file with what the model is told"),
        ("0", "--chat-samples is 0, expected 1 or more"),
    ],
)
def test_a_manner_that_cannot_be_meant_is_refused(
    tmp_path: Path,
    base: str,
    prompts: str,
    answers: tuple[Run, list[str]],
    capsys: pytest.CaptureFixture[str],
    samples: str,
    refused: str,
) -> None:
    chats = ("--chat-prompts", prompts, "--chat-samples", samples, "--chat-manner", str(tmp_path / "none.txt"))
    assert refused in refusal(answers[0], capsys, "sample", "--model", base, "--out", str(tmp_path), *chats)


def marked(*turns: dict[str, str]) -> str:
    mark = {"form": "list", "blocks": 2, "tokens": 60, "critical_path": 30}
    return json.dumps({"messages": turns, "pasta": mark}) + "\n"


ASKED = {"role": "user", "content": "Tips?"}
TOLD = {
    "role": "assistant",
    "content": '1.<promise topic="a" tokens=1/><async> One.</async>\n'
    '2.<promise topic="b" tokens=1/><async> Two.</async>',
}


def test_answers_that_pasta_annotate_marked_in_another_form(
    default: tuple[Run, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, _ = default
    given, out = tmp_path / "given.jsonl", tmp_path / "out"
    stage = ["annotate", "--model", "default", "--out", str(out), "--annotated", str(given), "--device", "cpu"]
    given.write_text(marked(ASKED, TOLD))
    run(stage)
    assert json.loads((out / "apar.jsonl").read_text())["prompt"] == "Tips?"
    capsys.readouterr()
    for row, told in (
        (marked({"role": "system", "content": "Be kind."}, ASKED, TOLD), "row 1: it holds more than one question"),
        (json.dumps({"prompt": "Tips?", "response": "None."}), "row 1 does not say how it was annotated"),
    ):
        given.write_text(row)
        with pytest.raises(SystemExit):
            run(stage)
        error = capsys.readouterr().err
        assert told in error and error.startswith("error: ") and error.count("\n") == 1
