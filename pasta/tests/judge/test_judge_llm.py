"""The judge `llm` against a real server on this machine that answers as OpenAI's does."""

import asyncio
import json
import math
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from chat_server import ChatServer
from pasta.data.endpoint import Endpoint
from pasta.errors import PastaError, UsageError
from pasta.judge.base import Comparison, NotJudged
from pasta.judge.llm import LlmJudge, read_verdict
from pasta.judge.open import open_judge


class Server(ChatServer):
    """`verdict(first, second)` gives the status and the choice for a question that shows these two answers."""

    def __init__(self):
        super().__init__()
        self.bodies = []
        self.verdict = longer

    def reply(self, path, headers, body):
        self.bodies.append(body)
        question = body["messages"][-1]["content"]
        first = question.split("## Answer m\n\n")[1].split("\n\n## Answer M")[0]
        second = question.split("## Answer M\n\n")[1].split("\n\n## Verdict")[0]
        return self.verdict(body, first, second)


def choice(content, **chances):
    top = [{"token": token, "logprob": math.log(chance)} for token, chance in chances.items()]
    return {
        "index": 0,
        "message": {"role": "assistant", "content": content},
        "logprobs": {"content": [{"token": content, "logprob": -0.1, "top_logprobs": top}]} if chances else None,
    }


def longer(body, first, second):
    """Likes the longer answer, and the first place."""
    return 200, choice("m", m=0.3, M=0.6, x=0.1) if len(second) > len(first) else choice("m", m=0.8, M=0.1, x=0.1)


@pytest.fixture
def server():
    with Server().running() as server:
        yield server


ASKED = [Comparison("Why?", "Short.", "A longer answer."), Comparison("How?", "A longer answer.", "Short.")]


def judge_of(server, tmp_path, **options):
    return LlmJudge("m", server.url, cache=tmp_path, backoff=0.01, **options)


def test_both_orders_are_asked_and_confidence_counts(server, tmp_path):
    won = judge_of(server, tmp_path, key="secret").compare(ASKED)
    second_place, first_place = 0.6 / 0.9, 0.8 / 0.9  # of the longer one, when it stands there
    expected = (second_place + first_place) / 2
    assert won == pytest.approx([expected, 1 - expected])
    assert len(server.bodies) == 4
    body = server.bodies[0]
    assert (body["max_tokens"], body["logprobs"], body["top_logprobs"], body["temperature"]) == (1, True, 5, 0)


@pytest.mark.parametrize("key", ["secret\n", "sécret", " secret"])
def test_a_key_that_no_header_holds_is_refused_and_not_repeated(tmp_path: Path, key: str) -> None:
    with pytest.raises(UsageError, match="the key holds what no header may") as refused:
        Endpoint("m", "http://localhost:1/v1", cache=tmp_path, key=key)
    assert "cret" not in str(refused.value)


def test_verdicts_are_kept(server, tmp_path, capsys):
    first = judge_of(server, tmp_path).compare(ASKED)
    assert "4 calls" in capsys.readouterr().err
    again = judge_of(server, tmp_path)
    assert again.compare([*ASKED, *ASKED]) == [*first, *first]
    assert len(server.bodies) == 4
    assert capsys.readouterr().err == "", "what costs nothing needs no warning"


def test_the_cost_is_said_before(server, tmp_path, capsys):
    judge = judge_of(server, tmp_path, price=10.0)
    estimate = judge.estimate(ASKED)
    assert (estimate.calls, len(server.bodies)) == (4, 0)
    assert 4 * 100 < estimate.tokens < 4 * 400
    assert estimate.dollars == pytest.approx(estimate.tokens * 1e-5)
    judge.compare(ASKED)
    assert "$0.0" in capsys.readouterr().err


def test_a_server_without_log_probabilities_is_read_by_its_words(server, tmp_path):
    def wordy(body, first, second):
        if "logprobs" in body:
            return 422, "logprobs is not supported"
        return 200, choice("I'm sure that M is better." if len(second) > len(first) else "**m**")

    server.verdict = wordy
    judge = judge_of(server, tmp_path, concurrency=1)
    assert judge.compare(ASKED) == [1.0, 0.0]
    assert sum("logprobs" in body for body in server.bodies) == 1, "it is asked for once"


@pytest.mark.parametrize(("said", "meant"), [
    ("m", 0.0), ("M", 1.0), (" M.\n", 1.0), ("Answer m", 0.0), ("m is good, but M is better: M", 1.0),
    ("I'm not sure", None), ("Mmm", None), ("", None), ("Both are fine.", None),
])  # fmt: skip
def test_words(said, meant):
    assert read_verdict({"message": {"content": said}}) == meant


def test_odd_log_probabilities_are_passed_over():
    for content in ([], [{}], [{"top_logprobs": None}], [{"top_logprobs": ["m"]}], None):
        assert read_verdict({"message": {"content": "M"}, "logprobs": {"content": content}}) == 1.0
    spaced = choice("x", **{" m": 0.2, "M": 0.2, "m": 0.2})
    assert read_verdict(spaced) == pytest.approx(1 / 3)


@pytest.mark.parametrize(("odd", "meant"), [
    (1e3, 0.5), (math.inf, 0.5), (10**400, 0.5), (math.nan, 1.0), (-(10**400), 1.0),
])  # fmt: skip
def test_a_log_probability_above_all_is_that_of_what_is_certain(odd, meant):
    top = [{"token": "m", "logprob": odd}, {"token": "M", "logprob": 0.0}]
    assert read_verdict({"message": {"content": "M"}, "logprobs": {"content": [{"top_logprobs": top}]}}) == meant


def test_what_cannot_be_read_counts_as_a_half(server, tmp_path, capsys):
    def shy(body, first, second):
        return (200, choice("Well…")) if "Why?" in body["messages"][-1]["content"] else longer(body, first, second)

    server.verdict = shy
    judge = judge_of(server, tmp_path)
    won = judge.compare(ASKED)
    assert won[0] == 0.5 and won[1] < 0.5 and judge.undecided == 2
    assert "2 of 4 verdicts cannot be read, and count as ties" in capsys.readouterr().err
    assert judge.compare(ASKED[:1]) == [0.5], "as the last few of many may be"
    with pytest.raises(PastaError, match="no verdict that can be read"):
        judge_of(server, tmp_path).compare(ASKED[:1])


@pytest.mark.parametrize("status", [503, 400])
def test_a_request_that_fails_is_no_tie_and_is_made_again(server, tmp_path, capsys, status):
    def fails(body, first, second):
        return (status, "not this one") if "Why?" in body["messages"][-1]["content"] else longer(body, first, second)

    server.verdict = fails
    with pytest.raises(NotJudged) as lacking:
        judge_of(server, tmp_path, retries=0).compare([*ASKED, ASKED[1]])
    told = f"1 of 3 comparisons are not judged: the server answered {status}, not this one (run the same command again"
    assert told in str(lacking.value) and lacking.value.exit_code == 1
    assert len(capsys.readouterr().err.splitlines()) == 1, "the cost alone: who asked says what is lacking"
    first, *others = lacking.value.verdicts
    assert first is None and others[0] == others[1] < 0.5
    server.verdict = longer
    before = len(server.bodies)
    assert judge_of(server, tmp_path).compare(ASKED) == [pytest.approx(1 - others[0]), others[0]]
    assert len(server.bodies) - before == 2, "what had a verdict is kept"


def test_one_order_that_fails_leaves_no_verdict_and_the_other_order_is_kept(server, tmp_path):
    server.verdict = lambda body, first, second: (
        (503, "busy") if first == ASKED[0].answer else longer(body, first, second)
    )
    with pytest.raises(PastaError, match="gave no verdict: the server answered 503"):
        judge_of(server, tmp_path, retries=0).compare(ASKED[:1])
    server.verdict = longer
    judge = judge_of(server, tmp_path)
    assert judge.estimate(ASKED[:1]).calls == 1 and judge.compare(ASKED[:1])[0] > 0.5


def test_a_server_that_fails_midway_is_said_and_one_that_refuses_a_question_is_not(server, tmp_path):
    judge = judge_of(server, tmp_path, retries=0)
    server.verdict = lambda *_: (400, "this is no fit question")
    with pytest.raises(NotJudged, match="1 of 1 comparisons are not judged: the server answered 400"):
        judge.compare(ASKED[1:])
    server.verdict = lambda *_: (503, "busy")
    with pytest.raises(PastaError, match=r"gave no verdict: the server answered 503.*run the same command") as failed:
        judge.compare(ASKED[1:])
    assert not isinstance(failed.value, NotJudged), "a caller that goes on without the unjudged would ask it for ever"


def test_a_server_that_refuses_all_is_not_called_too_small(server, tmp_path):
    server.verdict = lambda *_: (429, "slow down")
    with pytest.raises(PastaError, match=r"gave no verdict: the server answered 429.*see to the server"):
        judge_of(server, tmp_path, retries=0).compare(ASKED)


def test_what_passes_is_tried_again_and_what_does_not_is_said(server, tmp_path):
    answers = iter([503, 429])

    def busy(body, first, second):
        status = next(answers, 200)
        return (status, "busy") if status != 200 else longer(body, first, second)

    server.verdict = busy
    assert judge_of(server, tmp_path).compare(ASKED[:1])[0] > 0.5
    server.verdict = lambda *_: (401, "no")
    with pytest.raises(PastaError, match="OPENAI_API_KEY"):
        judge_of(server, tmp_path / "other").compare(ASKED)


def test_by_name(server, tmp_path, monkeypatch):
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path))
    judge = open_judge(f"llm:some/model@{server.url}", price=1.0)
    assert judge.compare(ASKED)[0] > 0.5
    assert server.bodies[0]["model"] == "some/model"
    assert list((tmp_path / "judge").glob("*.json"))
    with pytest.raises(UsageError, match="http"):
        open_judge("llm:m@localhost")


NESTED = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize("status", [200, 400, 404])
def test_a_reply_nested_without_end_is_no_verdict(server, tmp_path, monkeypatch, status):
    monkeypatch.setattr("chat_server.json", SimpleNamespace(loads=json.loads, dumps=lambda _: NESTED))
    server.verdict = lambda *_: (status, choice("m"))
    with pytest.raises(PastaError, match=f"not a chat completion|answered {status}|there is no"):
        judge_of(server, tmp_path, retries=0).compare(ASKED)


def test_half_a_character_neither_ends_a_run_nor_is_sent(server, tmp_path):
    server.verdict = lambda *_: (200, choice("\ud800 M"))
    assert judge_of(server, tmp_path).compare([Comparison("Why \ud800?", "a", "b\udc00")]) == [0.5]
    assert "Why ??" in server.bodies[0]["messages"][-1]["content"]


def test_within_a_running_loop_as_in_a_notebook(server, tmp_path):
    async def cell():
        return judge_of(server, tmp_path).compare(ASKED)

    assert asyncio.run(cell()) == judge_of(server, tmp_path).compare(ASKED)
    assert len(server.bodies) == 4


def test_what_is_under_way_ends_with_the_one_who_waits_for_it(server, tmp_path):
    """As after Ctrl-C: neither requests nor a thread go on."""
    began = threading.active_count()
    come = Endpoint("m", server.url, cache=tmp_path).each([0.0, 3600.0], lambda _, seconds: asyncio.sleep(seconds, "x"))
    assert next(come) == "x" and threading.active_count() == began + 1
    come.close()
    assert threading.active_count() == began


@pytest.mark.slow
def test_our_own_server_with_real_weights(default_folder, tmp_path):
    """A model of 135M parameters is no judge: what it says is read, or counted as undecided; nothing breaks."""
    command = [sys.executable, "-c", "from pasta.cli import main; main()", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = (re.search(r"serving (\S+) at (http\S+/v1)", line) for line in process.stderr)
            name, address = next(filter(None, said)).groups()
            judge = LlmJudge(name, address, cache=tmp_path, concurrency=2)
            try:
                won = judge.compare(ASKED)
            except PastaError as error:
                assert "no verdict" in str(error)
            else:
                assert all(0 <= chance <= 1 for chance in won)
            assert judge.log_probabilities, "pasta serve gives them"
            assert judge.endpoint.requests >= 4
        finally:
            process.kill()
