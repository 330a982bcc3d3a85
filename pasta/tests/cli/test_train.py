"""`pasta train`, as a user runs it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pasta.errors import UsageError
from pasta.train.config import SftConfig
from pasta.train.preference_config import PreferenceConfig
from support import byte_tokenizer, tiny_model

Pasta = Callable[..., tuple[int, bytes, str]]
PASTA = [sys.executable, "-c", "from pasta.cli import main; main()"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PASTA, "train", *arguments], capture_output=True, text=True, timeout=500)


@pytest.fixture
def model(tmp_path: Path) -> str:
    tiny_model().save_pretrained(tmp_path / "tiny")
    byte_tokenizer().save_pretrained(tmp_path / "tiny")
    return str(tmp_path / "tiny")


def test_every_field_is_a_flag() -> None:
    done = run("sft", "--help")
    assert done.returncode == 0
    for name in SftConfig.__dataclass_fields__:
        assert f"--{name.replace('_', '-')}" in done.stdout
    assert "--config" in done.stdout


@pytest.fixture
def preference(tmp_path: Path, model: str, pasta: Pasta) -> Pasta:
    """`pasta train preference` on two prompts, with these flags besides."""
    (tmp_path / "p.jsonl").write_text('{"prompt": "Hi?"}\n{"prompt": "Ho?"}\n')
    (tmp_path / "f.yaml").write_text(f"model: {model}\nbaseline: {model}\njudge: length\nsamples: 3\ndevice: cpu\n")
    flags = ("--config", str(tmp_path / "f.yaml"), "--prompts", str(tmp_path / "p.jsonl"))

    def run(*more: str) -> tuple[int, bytes, str]:
        return pasta("train", "preference", *flags, "--output", str(tmp_path / "out"), *more)

    return run


def test_every_field_of_preference_is_a_flag(pasta: Pasta) -> None:
    code, out, _ = pasta("train", "preference", "--help")
    assert code == 0
    assert all(f"--{name.replace('_', '-')}" in out.decode() for name in PreferenceConfig.__dataclass_fields__)


@pytest.mark.parametrize("stage", ["sft", "preference", "judge"])
def test_options_have_one_spelling(pasta: Pasta, stage: str) -> None:
    code, out, _ = pasta("train", stage, "--help")
    assert code == 0
    assert all(f"  {option}" in out.decode() for option in ("--model", "--output", "--json"))


def test_samples_that_are_all_cut_off(tmp_path: Path, preference: Pasta) -> None:
    code, out, err = preference("--max-tokens", "4")
    assert (code, out) == (1, b"")
    assert "6/6 scored" in err
    why = r"[56] were cut off after 4 tokens: pass a higher --max-tokens, and a new --output"
    assert re.fullmatch(rf"error: no pairs come of 6 samples \({why}\)", err.splitlines()[-1])
    assert len((tmp_path / "out" / "round-1" / "scores.jsonl").read_text().splitlines()) == 6


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--judge", "foo"), "error: 'foo' names no judge"),
        (("--report-to", "clearest"), "error: report_to is 'clearest', which is no tracker"),
        (("--steps", "cook"), "error: unknown step 'cook' (steps are sample, score, pairs, train)"),
    ],
)
def test_mistakes_show_before_anything_is_sampled(
    tmp_path: Path, preference: Pasta, flags: tuple[str, ...], message: str
) -> None:
    code, out, err = preference(*flags)
    assert (code, out) == (2, b"")
    assert err.startswith(message) and err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_help_needs_no_torch() -> None:
    code = (
        "import sys; from pasta.cli.main import load_command; load_command('train'); "
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=500).returncode == 0


def test_a_file_and_flags(tmp_path: Path, model: str) -> None:
    row = {"prompt": "Hi?", "response": 'A <promise topic="b" tokens=1/><async>b b b b b</async><sync/> c.'}
    (tmp_path / "data.jsonl").write_text(f"{json.dumps(row)}\n" * 4 + '{"prompt": "no answer"}\n')
    (tmp_path / "sft.yaml").write_text(
        f"model: {model}\ndata: {tmp_path / 'data.jsonl'}\nlearning-rate: 1e-4\nmax_steps: 9\nbatch_size: 2\n"
    )
    out = tmp_path / "out"
    flags = ("--output", str(out), "--max-steps", "2", "--no-packing", "--cpu", "--report-to", "none")
    done = run("sft", "--config", str(tmp_path / "sft.yaml"), *flags)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{out}\n"
    assert "left out 1 row: no messages" in done.stderr
    record = json.loads((out / "training.json").read_text())
    assert record["config"]["learning_rate"] == 1e-4
    assert record["config"]["max_steps"] == record["steps"] == 2
    assert record["config"]["packing"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "data is missing"),
        (("--data", "x", "--output", "y", "--positions", "left"), "unknown position scheme"),
        (("--data", "x", "--output", "y", "--batch-size", "0"), "batch_size is 0"),
        (("--config", "nowhere.yaml"), "cannot read nowhere.yaml"),
    ],
)
def test_mistakes_are_one_line(arguments: tuple[str, ...], message: str) -> None:
    done = run("sft", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not done.stdout


@pytest.mark.parametrize("epochs", [0.0, -1.0, float("nan")])
def test_passes_over_the_data_are_more_than_none(epochs: float) -> None:
    with pytest.raises(UsageError, match=f"epochs is {epochs:g}, expected more than 0"):
        SftConfig(data="x", output="y", epochs=epochs)


def test_settings_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "sft.yaml").write_bytes(b"\x99\x00\xff")
    with pytest.raises(UsageError, match=r"sft\.yaml is not YAML: 'utf-8' codec can't decode byte 0x99"):
        SftConfig.from_flags({}, str(tmp_path / "sft.yaml"))


def test_unknown_settings_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean learning_rate"):
        SftConfig.from_mapping({"data": "x", "output": "y", "learning_rat": 1})


@pytest.mark.parametrize(
    ("name", "given", "meant"),
    [("learning_rate", "5e-5", 5e-5), ("epochs", 2, 2.0), ("eval_data", None, None), ("max_steps", 3.0, 3)],
)
def test_values_of_a_file_take_the_fields_type(name: str, given: object, meant: object) -> None:
    config = SftConfig.from_mapping({"data": "x", "output": "y", name: given})
    assert getattr(config, name) == meant
    assert type(getattr(config, name)) is type(meant)


@pytest.mark.parametrize(
    ("name", "given"), [("epochs", "many"), ("packing", 1), ("max_steps", 1.5), ("model", 3), ("method", "most")]
)
def test_wrong_values_are_refused(name: str, given: object) -> None:
    with pytest.raises(UsageError, match=f"{name} is"):
        SftConfig.from_mapping({"data": "x", "output": "y", name: given})


@pytest.mark.parametrize(
    ("text", "meant"),
    [("4", "4"), ("[1, 4]", "1,4"), ("0.05", "0.05"), ("[0.5, inf, .inf]", "0.5,inf,inf"), ("1,inf", "1,inf")],
)
def test_numbers_of_a_file_may_be_written_as_yaml_has_them(text: str, meant: str, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(f"prompts: p\noutput: o\njudge: length\nbaseline: b\nlambdas: {text}\n")
    config = PreferenceConfig.from_flags({}, str(tmp_path / "p.yaml"))
    assert config.lambdas == meant and config.weights == tuple(map(float, meant.split(",")))


@pytest.mark.parametrize("text", ["[]", "[1, [4]]", "yes", "{a: 1}"])
def test_numbers_that_cannot_be_meant(text: str, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(f"prompts: p\noutput: o\nparallelism: {text}\n")
    with pytest.raises(UsageError, match=r"^parallelism is .*, expected str"):
        PreferenceConfig.from_flags({}, str(tmp_path / "p.yaml"))
    with pytest.raises(UsageError, match=r"^prompts is 4, expected str"):
        PreferenceConfig.from_mapping({"prompts": 4})


@pytest.mark.parametrize("number", [".inf", "-.inf", ".nan", "1" + 400 * "0"])
def test_a_whole_number_that_is_none(number: str, tmp_path: Path) -> None:
    (tmp_path / "sft.yaml").write_text(f"max_steps: {number}\nlearning_rate: 1.0\n")
    with pytest.raises(UsageError, match=r"max_steps is .*, expected int"):
        SftConfig.from_flags({}, str(tmp_path / "sft.yaml"))
