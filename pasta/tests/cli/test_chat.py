"""`pasta chat`: a conversation with a model here or on a server; Ctrl-C ends an answer, Ctrl-D the conversation."""

import io
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_support import OPTIONS, PASTA, refused
from rich.console import Console

sys.path.append(str(Path(__file__).parents[1] / "serve"))
from serve_support import serving

from pasta.cli.chat import Chat, Local
from pasta.decoding.api import generate
from pasta.engine.load import load_engine
from support import CHATML, Slow, tiny_engine, until

ANSWER = {"max_tokens": 120, "parallelism": 5.0, "temperature": 1.0, "seed": 2}


@pytest.fixture(scope="module")
def engine():
    return tiny_engine(slots=8192)


@pytest.fixture(scope="module")
def expected(engine):
    """A conversation of two turns."""
    first = generate(engine, "Why?", **ANSWER)
    turns = [("user", "Why?"), ("assistant", first.text), ("user", "How so?")]
    second = generate(engine, [{"role": role, "content": text} for role, text in turns], **ANSWER)
    assert len(first.threads) > 1
    return first.text, second.text


@pytest.fixture(scope="module")
def server(engine):
    with serving(engine) as running:
        yield running
        until(running.is_idle)


def said(*texts):
    return "".join(f"{text}\n" for text in texts).encode("utf-8", "replace")


def test_variables_of_the_chat_template_go_along(pasta, tiny, tmp_path):
    folder = shutil.copytree(tiny, tmp_path / "thinking")
    template = CHATML.replace(
        "assistant\n{% endif %}", "assistant\n{{ mood or raise_exception('no mood') }}{% endif %}"
    )
    (folder / "chat_template.jinja").write_text(template)
    with serving(load_engine(str(folder), device="cpu")) as running:
        for model in (str(folder), running.url):
            ask = ("chat", model, "--max-tokens", "3")
            assert pasta(*ask, "--template", "mood=gay", stdin=b"Why?\n")[0] == 0
            code, _, err = pasta(*ask, stdin=b"Why?\n")
            assert code and "no mood" in err


def test_each_answer_counts_in_the_next(pasta, server, expected):
    code, out, err = pasta("chat", server.url, *OPTIONS, stdin=b"Why?\n\nHow so?\n")
    assert (code, err) == (0, "")
    assert out == said(*expected)


def test_a_model_here_says_the_same(pasta, tiny):
    first = generate(load_engine(tiny, device="cpu"), "Why?", **ANSWER).text
    lines = b"Why?\n/new\nWhy?\n/undo\nWhy?\n/help\n/nonsense\n/quit\nHow so?\n"
    code, out, err = pasta("chat", "--model", tiny, *OPTIONS, stdin=lines)
    assert (code, out) == (0, said(first, first, first))
    assert "note: there is no command /nonsense" in err and "/help" not in err


def test_sequential_plain_and_system(pasta, server, engine):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    expected = generate(engine, messages, **ANSWER)
    plain = generate(engine, messages, plain=True, **ANSWER).text
    assert len(expected.threads) > 1 and plain != expected.text
    arguments = ["chat", f"{server.url}/v1/", "--system", "Be brief.", *OPTIONS]
    code, out, _ = pasta(*arguments, "--sequential", stdin=b"Why?\n/undo\n/sequential\nWhy?\n")
    assert (code, out) == (0, said(expected.text, expected.text))
    assert pasta(*arguments, "--plain", stdin=b"Why?\n")[:2] == (0, said(plain))


def test_the_repetition_penalty(pasta, server, engine):
    expected = generate(engine, "Why?", repetition_penalty=1.5, **ANSWER).text
    assert expected != generate(engine, "Why?", **ANSWER).text
    code, out, _ = pasta("chat", server.url, "--repetition-penalty", "1.5", *OPTIONS, stdin=b"Why?\n")
    assert (code, out) == (0, said(expected))
    refused(pasta("chat", server.url, "--repetition-penalty", "-1"), 2, "repetition_penalty is -1")


def test_what_goes_wrong_is_one_line(pasta, server):
    refused(pasta("chat", "http://127.0.0.1:1"), 1, "cannot reach http://127.0.0.1:1", "pasta serve")
    refused(pasta("chat", "http://[::1"), 2, "not a server's address")
    for address in ("http://", "https://", "http:///v1", "http://:8000", "http://?a"):
        refused(pasta("chat", address), 2, f"{address!r} is not a server's address", "expected http://HOST:PORT")
    for address in ("localhost:8000", "127.0.0.1:8000/v1"):
        refused(pasta("chat", address), 2, "a server's address without its beginning", f"http://{address}")
    refused(pasta("generate", "Why?", "--engine", f"{server.url}/v1"), 2, "the server is PASTA's own", "pasta chat")
    refused(pasta("chat", f"{server.url}/nowhere"), 1, "there is no such path")
    refused(pasta("chat", server.url, "--dtype", "int8"), 2, "--dtype")
    refused(pasta("chat", "one", "--model", "other"), 2, "two models are named, one and other", "--model")
    refused(pasta("chat", server.url, "--temperature", "-1"), 2, "temperature is -1")
    refused(pasta("chat", server.url, "--max-tokens", "999999", stdin=b"Why?\n"), 1, "too large: 999999")


@pytest.mark.parametrize("stop, cut", [((), True), (("u",), False)])
def test_an_answer_that_a_limit_cut_says_so(engine, monkeypatch, stop, cut):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    chat = Chat(Local(engine), {"max_tokens": 40, "stop": stop}, [], Console(file=terminal, force_terminal=True))
    chat._ask("Why?")
    assert " tokens" in terminal.getvalue()
    assert ("cut by a limit (--max-tokens is 40)" in terminal.getvalue()) == cut


def test_a_server_that_ends_in_the_middle():
    engine = tiny_engine()
    slow = Slow(engine)
    with serving(engine, grace_s=0.0) as running:
        process = subprocess.Popen([*PASTA, "chat", running.url], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdin.write(b"Why?\n")
        process.stdin.close()
        until(lambda: running.server.dispatcher.running == 1)
        running.server.should_exit = True
        assert process.wait(300) == 1  # the step in flight goes on
        assert process.stderr.read() == b"error: the server is shutting down\n"
        process.stderr.close()
        slow.set()
        until(lambda: running.server.dispatcher.runner.unfinished == 0)


def test_ctrl_c_ends_all_questions_of_a_pipe():
    engine = tiny_engine()
    slow = Slow(engine)
    with serving(engine, grace_s=0.0) as running:
        with subprocess.Popen(
            [*PASTA, "chat", running.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            process.stdin.write(b"Why?\nHow so?\n")
            process.stdin.close()
            try:
                until(lambda: running.server.dispatcher.running == 1)
                process.send_signal(signal.SIGINT)
                assert process.wait(60) == 130
                assert (process.stdout.read(), process.stderr.read()) == (b"", b"")
            finally:
                process.kill()
                slow.set()
        until(running.is_idle)


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])  # in the second Python decodes strictly
def test_keys_in_a_terminal(server, locale):
    """Ctrl-C ends the answer alone and frees the server, Ctrl-C at the prompt clears the line, Ctrl-D leaves."""
    ours, theirs = pty.openpty()
    python, option, code = PASTA
    first = "import os; os.close(os.open(os.ttyname(0), os.O_RDWR)); "  # so that Ctrl-C reaches it
    process = subprocess.Popen(
        [python, option, first + code, "chat", server.url, *OPTIONS, "--max-tokens", "2000"],
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30", "LC_ALL": locale},
    )  # fmt: skip
    os.close(theirs)
    seen = ""

    def wait_for(what, press=b""):
        """What is pressed comes again after a while: Ctrl-C in the instant before a program waits is not noticed."""
        nonlocal seen
        end = time.monotonic() + 300
        while not (found := re.search(what, seen)):
            assert time.monotonic() < end, seen
            if select.select([ours], [], [], 10)[0]:
                seen += os.read(ours, 4096).decode("utf-8", "replace")
            elif press:
                os.write(ours, press)
        seen = seen[found.end() :]

    scheduler = server.server.dispatcher
    try:
        wait_for("tiny-llama at .*Ctrl-D leaves")
        wait_for("> ")
        os.write(ours, b"Why?\n")
        until(lambda: scheduler.running == 1)
        wait_for("live")
        os.write(ours, b"\x03")
        wait_for(r"\(ended\)")
        until(server.is_idle)
        wait_for("> ")
        os.write(ours, b"half a line")
        wait_for("half a line")  # it says what it reads
        os.write(ours, b"\x03")
        wait_for("> ", press=b"\x03")
        os.write(ours, b"/help\n")
        wait_for("/undo")
        wait_for("> ")
        os.write(ours, b"no character: \xff.\n")
        wait_for("error: the question is not UTF-8")
        wait_for("> ")
        os.write(ours, b"\x04")
        assert process.wait(300) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
