"""`pasta generate`, as a user runs it."""

import json
import os
import pty
import shutil
import signal
import subprocess
import time

import pytest
from cli_support import OPTIONS, PASTA, refused

from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import generate
from pasta.engine.load import load_engine
from pasta.lang import parse, plain
from support import CHATML, byte_tokenizer, tiny_model


def test_piped_it_prints_the_answer_alone(pasta, tiny):
    code, out, _ = pasta("generate", "Why?", "--model", tiny, "--json", *OPTIONS)
    assert code == 0
    value = json.loads(out)
    assert out.endswith(b"}\n")
    assert len(value["threads"]) > 1
    assert value["model"] == "tiny"
    assert value["text"] == plain(parse(value["annotated"]))
    assert value["finish_reason"] == "length"
    code, out, _ = pasta("generate", "Why?", "--model", tiny, *OPTIONS)
    assert (code, out.decode()) == (0, value["text"] + "\n")
    for given in (b"Why?\n", b"\xef\xbb\xbfWhy?\r\n"):
        code, out, _ = pasta("generate", "-", "--model", tiny, *OPTIONS, stdin=given)
        assert out.decode() == value["text"] + "\n"


def test_options_reach_the_engine(pasta, tiny, tmp_path):
    trace = tmp_path / "trace.json"
    code, out, _ = pasta(
        "generate", "Why?", "--model", tiny, "--sequential", "--max-tokens", "9", "--temperature", "0.9", "--top-k",
        "50", "--top-p", "0.9", "--min-p", "0.01", "--repetition-penalty", "1.2", "--seed", "7", "--max-threads", "2",
        "--positions", "fixed:20", "--system", "Be brief.", "--device", "cpu", "--dtype", "float32", "--context", "500",
        "--trace", str(trace), "--json",
    )  # fmt: skip
    value = json.loads(out)
    assert (code, value["tokens_total"], len(value["threads"])) == (0, 9, 1)
    assert Vocabulary(byte_tokenizer()).decode(value["prompt_ids"]).startswith("<|im_start|>system\nBe brief.")
    assert json.loads(trace.read_bytes())["otherData"]["requests"][0]["tokens_total"] == 9


def test_variables_of_the_chat_template(pasta, tiny, tmp_path):
    folder = shutil.copytree(tiny, tmp_path / "thinking")
    shown = "assistant\n{{ [enable_thinking, mood, size] }}{% endif %}"
    (folder / "chat_template.jinja").write_text(CHATML.replace("assistant\n{% endif %}", shown))
    ask = ("--model", str(folder), "--max-tokens", "1", "--json")
    for given, told in (
        (("enable_thinking=false", "mood=in = out", "size=3"), "[False, 'in = out', 3]"),
        (("enable_thinking=True", 'mood="3"', "size=None"), "[True, '3', None]"),
    ):
        arguments = [argument for each in given for argument in ("--template", each)]
        code, out, _ = pasta("generate", "Why?", *ask, *arguments)
        assert code == 0
        assert Vocabulary(byte_tokenizer()).decode(json.loads(out)["prompt_ids"]).endswith(f"assistant\n{told}")


def test_an_answer_that_a_limit_cut_says_so_beside_it(pasta, tiny):
    _, out, err = pasta("generate", "Why?", "--model", tiny, "--max-tokens", "9")
    assert err.splitlines()[-1] == "note: a limit cut the answer (--max-tokens, or the context)"
    stopped = pasta("generate", "Why?", "--model", tiny, "--max-tokens", "9", "--stop", out.decode()[2:4])
    assert (stopped[0], "limit" in stopped[2]) == (0, False)


def test_the_repetition_penalty(pasta, tiny):
    def answer(*more):
        return pasta("generate", "Why?", "--model", tiny, *OPTIONS, *more)[1].decode()

    way = {"max_tokens": 120, "parallelism": 5.0, "temperature": 1.0, "seed": 2, "repetition_penalty": 1.5}
    expected = generate(load_engine(tiny, device="cpu"), "Why?", **way).text
    assert answer("--repetition-penalty", "1.5") == f"{expected}\n" != answer()


def test_stop_may_be_repeated(pasta, tiny):
    _, out, _ = pasta("generate", "Why?", "--model", tiny, "--sequential", "--max-tokens", "30", "--json")
    text = json.loads(out)["text"]
    stops = [text[12:14], text[8:10]]
    cut = min((text.find(stop) + len(stop), text.find(stop)) for stop in stops)[1]
    arguments = [argument for stop in stops for argument in ("--stop", stop)]
    _, out, _ = pasta("generate", "Why?", "--model", tiny, "--sequential", "--max-tokens", "30", "--json", *arguments)
    assert json.loads(out)["text"] == text[:cut]
    assert json.loads(out)["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([""], "the prompt is empty"),
        (["  \n"], "the prompt is empty"),
        (["x", "--temperature", "-1"], "temperature is -1.0"),
        (["x", "--template", "thinking"], "--template thinking: expected NAME=VALUE, as in enable_thinking=false"),
        (["x", "--template", "tools=5"], "--template: tools cannot be set"),
        (["x", "--template", "a=[1]"], "--template: expected a text, a number, true, false or null for a"),
        (["x", "--temperature", "nan"], "temperature is nan"),
        (["x", "--top-p", "2"], "top_p is 2.0"),
        (["x", "--min-p", "-0.1"], "min_p is -0.1"),
        (["x", "--top-k", "-3"], "top_k is -3"),
        (["x", "--repetition-penalty", "0"], "repetition_penalty is 0.0"),
        (["x", "--max-tokens", "0"], "max_tokens is 0"),
        (["x", "--max-threads", "0"], "max_threads is 0"),
        (["x", "--context", "-5"], "context is -5"),
        (["x", "--positions", "odd"], "unknown position scheme 'odd'"),
        (["x", "--trace", "/no/such/folder/t.json"], "/no/such/folder"),
        (["x", "--trace", "/"], "is a folder"),
        (["x", "--dtype", "int3"], "unknown dtype 'int3'"),
        (["x", "--device", "foo"], "cannot use the device 'foo'"),
        (["caf\udce9"], "not UTF-8"),
        (["x", "--system", "caf\udce9", "--model", "/nowhere"], "the system message is not UTF-8"),
        (["x", "--stop", "caf\udce9", "--model", "/nowhere"], "the stop string is not UTF-8"),
        (["x", "--stop", "END", "--stop", "", "--model", "/nowhere"], "--stop is empty"),
    ],
)
def test_bad_options_are_refused_in_one_line(pasta, tiny, arguments, words):
    refused(pasta("generate", "--model", tiny, *arguments), 2, words)


def test_bad_input_on_stdin(pasta, tiny):
    refused(pasta("generate", "-", "--model", tiny, stdin=b""), 2, "the prompt is empty")
    refused(pasta("generate", "-", "--model", tiny, stdin=b"caf\xe9"), 2, "not UTF-8", "byte 3 is 0xe9")


def test_too_long_a_prompt(pasta, tiny):
    refused(pasta("generate", "x" * 300, "--model", tiny, "--context", "256"), 2, "tokens long", "256")


def test_models_that_cannot_be_run(pasta, tiny, tmp_path):
    refused(pasta("generate", "x", "--model", "/no/such/model"), 1, "/no/such/model")
    config = tmp_path / "odd"
    config.mkdir()
    (config / "config.json").write_text('{"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]}')
    (config / "model.safetensors").write_bytes(b"")
    refused(pasta("generate", "x", "--model", str(config)), 1, "T5ForConditionalGeneration")


def test_a_model_without_tags_says_that_it_answers_in_one_thread(pasta, tmp_path, capfdbinary):
    folder = str(tmp_path / "untagged")
    tiny_model().save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    capfdbinary.readouterr()
    code, out, err = pasta("generate", "x", "--model", folder, "--max-tokens", "4")
    said, cut = err.splitlines()
    assert code == 0 and "knows no tags" in said and "pasta train sft" in said
    assert pasta("generate", "x", "--model", folder, "--max-tokens", "4", "--plain") == (0, out, f"{cut}\n")


def test_check_and_render_read_what_it_writes(pasta, tiny, tmp_path):
    code, out, _ = pasta("generate", "x", "--model", tiny, "--json", *OPTIONS)
    assert code == 0
    (tmp_path / "answer.json").write_bytes(out)
    assert pasta("check", str(tmp_path / "answer.json"))[0] == 0
    code, text, _ = pasta("render", str(tmp_path / "answer.json"))
    assert code == 0 and text.decode().startswith(json.loads(out)["text"])


def test_out_of_slots(pasta, tiny, monkeypatch):
    """The answer is cut where the pool is full; a prompt that fills it is refused."""
    from pasta.engine import load as loading

    question = ("generate", "Why?", "--model", tiny, "--json", "--max-tokens")
    long = json.loads(pasta(*question, "200")[1])["text"]
    original = loading.load_engine
    monkeypatch.setattr(loading, "load_engine", lambda name, **options: original(name, **options, slots=64))
    code, out, _ = pasta(*question, "500")
    cut = json.loads(out)
    assert (code, cut["finish_reason"]) == (0, "length")
    assert cut["text"] and long.startswith(cut["text"])
    refused(pasta("generate", "Why? " * 20, "--model", tiny), 1, "64 slots")


def test_ctrl_c_keeps_the_text_so_far(tiny):
    process = subprocess.Popen(
        [*PASTA, "generate", "Why?", "--model", tiny, "--sequential", "--max-tokens", "4000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert out.endswith(b"\n")
    assert b"Traceback" not in err


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_in_a_terminal(tiny, term):
    """The real thing on a pseudo terminal; its figures come last, and a dumb terminal gets no escape sequence."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*PASTA, "generate", "Why?", "--model", tiny, *OPTIONS],
        stdin=follower,
        stdout=follower,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"TERM": term, "COLUMNS": "80", "LINES": "24", "OMP_NUM_THREADS": "1"},
    )
    os.close(follower)
    output, deadline = b"", time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            data = os.read(leader, 1 << 16)
        except OSError:  # Linux says so when the other end is closed
            break
        if not data:
            break
        output += data
    os.close(leader)
    assert process.wait(timeout=300) == 0
    assert b"critical path" in output.splitlines()[-1]
    assert b"length" in output.splitlines()[-1]
    assert (b"\x1b" in output) == (term != "dumb")


def test_real_weights(pasta, default_folder):
    code, out, _ = pasta("generate", "What is the capital of France? Answer briefly.", "--max-tokens", "12", "--json")
    value = json.loads(out)
    assert code == 0
    assert "Paris" in value["text"]
    assert value["model"] == "smollm2-135m-pasta"
