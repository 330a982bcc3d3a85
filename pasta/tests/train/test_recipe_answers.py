"""The recipe `answers`: its stages one by one, and all of them end to end on a tiny model."""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
from collections.abc import Callable, Iterator
from importlib import import_module
from io import BytesIO
from pathlib import Path

import pytest

from pasta.errors import PastaError, UsageError
from pasta.lang import parse, plain
from pasta.settings import read_part, read_yaml
from pasta.tasks.marking import mark
from pasta.train.preference_config import PreferenceConfig

PLACE = Path(__file__).parents[2] / "recipes" / "answers"
MODULES = ("run", "options", "sample", "right", "form", "bundles", "package", "pack", "prepare", "training",
           "measuring", "processes")  # fmt: skip
Run = Callable[..., str]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
sys.path.append(str(Path(__file__).parents[1] / "tasks"))
from tasks_texts import FUNCTIONS, SUMS, write_problems  # noqa: E402


@pytest.fixture
def run(
    tmp_path: Path, base: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Run]:
    """Runs a stage as the command line does; returns what it printed."""
    monkeypatch.syspath_prepend(PLACE)
    for name in MODULES:  # another recipe may have a file of the same name
        monkeypatch.delitem(sys.modules, name, raising=False)
    main = import_module("run").main
    sums, functions = (write_problems(tmp_path, rows, f"{name}.jsonl") for name, rows in
                       (("sums", SUMS), ("functions", FUNCTIONS)))  # fmt: skip
    files = [f"--{name}={file}" for name in ("problems", "tests") for file in (sums, functions)]

    def stage(names: str, *more: str) -> str:
        out = str(tmp_path / "out")
        main([*names.split(), "--model", base, "--out", out, "--device", "cpu", "--run-code", *files, *more])
        return capsys.readouterr().out

    yield stage
    for name in MODULES:
        sys.modules.pop(name, None)


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_the_plan_fits_a_gpus_half_hour(run: Run) -> None:
    recipe = import_module("run")
    assert "in all" in run("plan")
    assert sum(stage.seconds for stage in recipe.STAGES) <= recipe.LIMIT_S
    assert all(stage.seconds <= 600 for stage in recipe.STAGES)


def test_four_in_one_has_twice_the_parts_unless_problems_would_come_again_and_again(run: Run) -> None:
    parts_of = import_module("measuring").parts_of
    assert parts_of("several", 4, 900, 1000) == 1800 and parts_of("several", 4, 5000, 1000) == 2000
    assert parts_of("several", 4, 300, 1000) == parts_of("gather", 0, 900, 1000) == 1000


def test_sampling_writes_as_it_goes_and_goes_on(tmp_path: Path, run: Run, prompts_file: str) -> None:
    run("sample", "--max-tokens", "6", "--limit", "2", "--code-samples", "1", "--chat-prompts", prompts_file)
    path, chats = tmp_path / "out" / "answers.jsonl", tmp_path / "out" / "chats" / "samples.jsonl"
    first, rows = path.read_text(), lines(path)
    assert len(rows) == 2 * 2 + 2 * 2  # two sums in two styles; two functions, named and free
    assert {(row["code"], row["style"], row["free"]) for row in rows} == {
        (False, "steps", False), (False, "brief", False), (True, "steps", False), (True, "steps", True),
    }  # fmt: skip
    assert [row["sample"] for row in lines(chats)] == [0, 0]
    run("sample", "--max-tokens", "6", "--limit", "3", "--code-samples", "1", "--chat-prompts", prompts_file)
    assert path.read_text().startswith(first) and len(lines(path)) == 12
    assert len({row["prompt"] for row in lines(chats)}) >= 3


def test_processes_draw_parts_that_make_up_the_whole(tmp_path: Path, run: Run) -> None:
    counts = []
    for part in ("0/2", "1/2"):
        run("sample", "--max-tokens", "4", "--limit", "2", "--code-samples", "1", "--part", part)
        rows = lines(tmp_path / "out" / "answers.jsonl")
        counts.append(len({tuple(row[name] for name in ("code", "id", "style", "free")) for row in rows}))
    assert counts == [4, 8] and len(rows) == 8


def test_what_was_drawn_is_marked_once_and_its_name_may_be_its_own(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
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


def test_right_answers_are_learned_from_where_they_are_written_as_asked(run: Run) -> None:
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


def test_bundles_are_right_marked_and_partly_without_tags(tmp_path: Path, run: Run) -> None:
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
    run("bundle", "--scale", "0.05", "--chats", str(tmp_path / "chats.jsonl"))
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


def test_functions_that_share_a_name_do_not_come_together(run: Run) -> None:
    bundles = import_module("bundles")
    one, other = (
        "```python\ndef helper():\n    pass\n\ndef NAME():\n    pass\n```".replace("NAME", name) for name in "ab"
    )
    assert bundles.have_own_names([one, other])
    assert not bundles.have_own_names([one, one])
    assert not bundles.have_own_names([one, other.replace("def b", "def main")])
    assert not bundles.have_own_names([one, "no code"])


def test_packing_cuts_one_archive_and_leaves_out_what_is_least(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import random

    out = tmp_path / "out"
    sizes = {"eval/summary.json": 10, "pasta/adapter_model.safetensors": 3000, "pasta/tokenizer.json": 99,
             "pasta/adapter_config.json": 5, "apar/adapter_model.safetensors": 4000}  # fmt: skip
    for name, size in sizes.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(random.Random(name).randbytes(size))
    pack = import_module("pack")
    monkeypatch.setattr(pack, "PART", 1000)
    monkeypatch.setattr(pack, "MOST", 8)
    parts = pack.pack(out, tmp_path / "packed")
    assert 4 <= len(parts) <= 8 and all(part.stat().st_size <= 1000 for part in parts)
    whole = BytesIO(b"".join(part.read_bytes() for part in parts))
    with tarfile.open(fileobj=whole) as tar:
        names = tar.getnames()
    assert names == ["eval/summary.json", "pasta/adapter_model.safetensors", "pasta/adapter_config.json",
                     "apar/adapter_model.safetensors"]  # fmt: skip
    monkeypatch.setattr(pack, "MOST", 4)
    pack.pack(out, tmp_path / "less")
    assert "left out: apar/adapter_model.safetensors" in capsys.readouterr().out


def test_a_packaged_adapter_is_a_model_by_its_name(
    tmp_path: Path, run: Run, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pip would install it, over a base that is somewhere else than on the hub."""
    import tomllib

    import pasta
    from adapters import make_adapter
    from pasta.models import load_model

    out = tmp_path / "out"
    make_adapter(load_model(base, device="cpu", tags=True), out / "pasta")
    config = {"model": "/somewhere/tiny-q4_k_m.gguf", "learning_rate": 3e-4}
    training = {"config": config, "examples": 10, "tagged": 6, "steps": 2, "tokens": 1000, "seconds": 1.5}
    (out / "pasta" / "training.json").write_text(json.dumps(training))
    share = {"value": 0.5, "low": 0.4, "high": 0.6, "prompts": 9}
    names = ("score", "over_reference", "forking", "syncing", "theoretical_speedup", "length_factor")
    told = {"blocks": 9, "correlation": 0.75, "within_one": 0.6, "within_one_constant": 0.3}
    found = {**dict.fromkeys(names, share), "parts": 1000, "end": None, "realised_speedup": None, "promises": told}
    (out / "eval").mkdir()
    (out / "eval" / "summary.json").write_text(json.dumps({"tasks": {"several4-sums": {"pasta": found}}}))
    assert "no package is made" in run("package")
    run("package", "--name", "tiny-1.5b-pasta", "--base", "Somebody/Tiny-1.5B", "--version", "1.2")
    project = tomllib.loads((out / "package" / "pyproject.toml").read_text())["project"]
    assert project["version"] == "1.2"
    assert project["entry-points"]["pasta.adapters"] == {"tiny-1.5b-pasta": "tiny_1_5b_pasta"}
    card = (out / "package" / "src" / "tiny_1_5b_pasta" / "README.md").read_text()
    for words in (
        "| several4-sums | 1,000 | 50.0 [40.0, 60.0] |",
        "| several4-sums | 9 | 0.75 | 60% | 30% |",
        "not been evaluated on the 16-bit weights",
        "rank 4",
    ):
        assert words in card
    about = out / "package" / "src" / "tiny-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[pasta.adapters]\ntiny-1.5b-pasta = tiny_1_5b_pasta\n")
    monkeypatch.syspath_prepend(out / "package" / "src")
    model = pasta.load("tiny-1.5b-pasta", base=base, device="cpu")
    assert pasta.generate(model, "Hm?", max_tokens=4).model == "tiny-1.5b-pasta"


def test_the_adapter_of_a_model_of_one_and_a_half_billion_weights_is_small() -> None:
    """Counted on a model of that shape without any weights; saved in 16 bits."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from pasta.models.lora import new_adapter
    from pasta.settings import read_yaml

    shape = Qwen2Config(
        vocab_size=151936, hidden_size=1536, intermediate_size=8960, num_hidden_layers=28, num_attention_heads=12,
        num_key_value_heads=2, tie_word_embeddings=False,
    )  # fmt: skip
    recipe = read_yaml(str(PLACE / "sft.yaml"))
    with torch.device("meta"):
        model = new_adapter(Qwen2ForCausalLM(shape), range(151665, 151769), recipe["lora_rank"], recipe["lora_alpha"])
    numbers = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    assert 2 * numbers < 25e6


def test_a_part_is_one_of_so_many() -> None:
    assert read_part("1/4") == (1, 4)
    for wrong in ("4/4", "-1/4", "1", "a/b"):
        with pytest.raises(UsageError, match=f"part is '{wrong}'"):
            read_part(wrong)


def options_of(out: Path, *more: str) -> argparse.Namespace:
    recipe = import_module("run")
    return (
        import_module("options")
        .parser("", [stage.name for stage in recipe.STAGES])
        .parse_args(["evaluate", "--out", str(out), *more])
    )


def test_models_of_stage_two_are_measured_by_name_and_others_may_be_added(tmp_path: Path, run: Run) -> None:
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


def test_chats_can_be_measured_without_problems(tmp_path: Path, run: Run, prompts_file: str) -> None:
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


def test_who_judges_stage_two(tmp_path: Path, run: Run) -> None:
    judge_of, tasks = import_module("training").judge_of, tmp_path / "tasks.jsonl"
    assert judge_of(options_of(tmp_path, "--judge", "length")) == "length", "nothing has a right answer"
    tasks.touch()
    assert judge_of(options_of(tmp_path, "--judge", "length")) == f"right:{tasks}+length"
    assert judge_of(options_of(tmp_path, "--run-code")) == f"right-code:{tasks}"


@pytest.mark.slow
def test_end_to_end(tmp_path: Path, run: Run, prompts_file: str) -> None:
    small = ("--scale", "0.02", "--max-steps", "2", "--batch-size", "2", "--max-length", "4096", "--parts", "6",
             "--eval-tokens", "24", "--batch", "4", "--limit", "3",
             "--eval-prompts", f"chats={prompts_file}")  # fmt: skip
    run("sample", "--max-tokens", "6", "--limit", "1", "--code-samples", "1", "--chat-prompts", prompts_file)
    run("chats")
    assert (tmp_path / "out" / "chats" / "annotated.jsonl").exists(), "though random weights say nothing worth keeping"
    run("bundle", "--solutions", *small)
    run("train baseline apar", *small, "--processes", "3")
    out = tmp_path / "out"
    assert json.loads((out / "pasta" / "training.json").read_text())["steps"] == 2
    assert "is trained already" in run("train", *small)
    for stage in ("preference", "preference-baseline"):
        run(stage, *small, "--max-tokens", "400")
    chats = (*small, "--settings", str(PLACE / "chats.yaml"), "--preference-prompts", prompts_file, "--judge", "length",
             "--lambdas", "0.2,1", "--max-tokens", "400", "--shortest", "0")  # fmt: skip
    for stage in ("preference", "preference-baseline"):
        for steps in ("sample", "score"):
            run(stage, *chats, "--steps", steps, "--processes", "2")
        run(stage, *chats, "--steps", "pairs,train", "--same-prompts")
    run("evaluate", *small, "--processes", "2")
    assert len(lines(out / "eval" / "answers" / "several4-sums" / "pasta.jsonl")) == 3  # twice as many parts
    assert len(lines(out / "eval" / "answers" / "chain4-sums" / "pasta.jsonl")) == 2
    run("timing", *small)
    printed = run("report")
    for name in ("several4-sums", "gather-functions", "chain-sums", "bon-pasta", "separate", "untagged"):
        assert name in printed
    assert (out / "chats-pasta" / "round-1" / "pairs-0.2.jsonl").stat().st_size
    told = run("report", "--eval-judge", "length", "--against", "chats-baseline-0.2")
    assert json.loads((out / "eval" / "summary.json").read_text())["against"] == "chats-baseline-0.2"
    assert "chats-pasta-1" in told
    run("report")
    assert "answers.tar.gz.0" in run("pack")
    figures = json.loads((out / "eval" / "summary.json").read_text())["models"]
    assert figures["pasta"]["realised_speedup"]["prompts"] == 3
    assert figures["untagged"]["forking"]["value"] == 0


@pytest.fixture
def prompts_file(tmp_path: Path) -> str:
    path = tmp_path / "chats-to-measure.json"
    path.write_text(json.dumps([{"instruction": text} for text in ("Name a river.", "Why?", "List seas.", "Hm.")]))
    return str(path)
