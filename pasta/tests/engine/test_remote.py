"""The remote engine against a real server on a real socket: the same answers as the native engine, stitched."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from completions_server import CompletionsServer

from pasta.decode import Decoder, encode_prompt, generate, generate_all, make_request, stream
from pasta.engine.base import Sampling
from pasta.engine.connect import connect
from pasta.engine.native import NativeEngine
from pasta.engine.remote import RemoteEngine
from pasta.engine.remote_client import Client, ServerError
from pasta.engine.tags import add_tags
from pasta.errors import PastaError, UnknownModel, UsageError
from pasta.grammar import Expect
from pasta.lang import parse, plain
from pasta.train import sft
from pasta.train.config import SftConfig
from pasta.train.model import read_model, vocabulary_of
from pasta.vocab import Vocabulary
from support import byte_tokenizer, tiny_model

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

ANSWERS = [
    'Two: <promise topic="{a}" tokens=9/><async>{a} is {a}.</async> '
    '<promise topic="{b}" tokens=1/><async>{b}, yes.</async><sync/> Done {a}.',
    'Say <promise topic="{a}" tokens=1/><async>{a}: <promise topic="in" tokens=1/><async>so {b}</async> and'
    "<sync/> {a}.</async> {b}.",
    "Only {a} and {b}.",
]
ROWS = [
    {"prompt": f"{a} {b}?", "response": ANSWERS[i % 3].format(a=a, b=b)}
    for i, (a, b) in enumerate(pairwise(["red", "blue", "green", "white", "black", "pink"]))
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny model, finetuned in this layout until it knows its examples."""
    base, data, out = (tmp_path_factory.mktemp(name) for name in ("base", "data", "out"))
    tiny_model().save_pretrained(base)
    byte_tokenizer().save_pretrained(base)
    (data / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    sft.train(
        SftConfig(
            data=str(data / "rows.jsonl"), output=str(out), model=str(base), positions="stitched", epochs=90,
            learning_rate=1e-2, batch_size=2, max_length=512, schedule="cosine",
        )
    )  # fmt: skip
    return str(out)


def native_of(folder: str) -> NativeEngine:
    model, tokenizer = read_model(folder)
    return NativeEngine(model.eval(), vocabulary_of(model, tokenizer), name=folder)


@contextlib.contextmanager
def served(native: NativeEngine, root: str, quirks: str = "", key: str = "") -> Iterator[CompletionsServer]:
    model, _ = read_model(root)
    server = CompletionsServer(model, native.vocabulary, root, quirks=quirks, key=key)
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
    assert not server.errors


@pytest.fixture(scope="module")
def native(folder: str) -> NativeEngine:
    return native_of(folder)


@pytest.fixture(scope="module")
def server(native: NativeEngine, folder: str) -> Iterator[CompletionsServer]:
    with served(native, folder) as running:
        yield running


@pytest.fixture(scope="module")
def remote(server: CompletionsServer) -> Iterator[RemoteEngine]:
    engine = connect(server.url)
    yield engine
    engine.client.shut_down()


@pytest.fixture(autouse=True)
def fresh(server: CompletionsServer) -> None:
    server.seen.clear()
    server.pause = 0.0


def until(true: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


# -- the same answers ------------------------------------------------------------------------------------


def test_training_in_this_layout_is_decoding_in_it(native: NativeEngine) -> None:
    assert native.positions.stitched
    forks = syncs = 0
    for row in ROWS:
        result = generate(native, row["prompt"], max_new_tokens=200, max_depth=2)
        assert result.text == plain(parse(row["response"]))
        forks += len(result.threads) - 1
        syncs += result.annotated.count("<sync/>")
    assert (forks, syncs) == (8, 4)


@pytest.mark.parametrize("max_threads", [1, 2, 16])
def test_the_answers_are_the_native_engines(remote: RemoteEngine, native: NativeEngine, max_threads: int) -> None:
    for row in ROWS:
        options = {"max_new_tokens": 200, "max_threads": max_threads, "max_depth": 2}
        answer, expected = generate(remote, row["prompt"], **options), generate(native, row["prompt"], **options)
        assert answer.tree == expected.tree
        assert answer.text == expected.text
        by_place = {thread.position_ids: thread.token_ids for thread in answer.threads}
        assert by_place == {thread.position_ids: thread.token_ids for thread in expected.threads}
        assert "".join(moment.text for moment in answer.moments) == answer.text


def test_many_answers_at_once(remote: RemoteEngine, native: NativeEngine) -> None:
    prompts = [row["prompt"] for row in ROWS]
    answers = generate_all(remote, prompts, max_depth=2)
    assert [answer.tree for answer in answers] == [generate(native, prompt, max_depth=2).tree for prompt in prompts]


@pytest.mark.parametrize("quirks", ["quiet-stop", "matched-stop", "pairs", "no-tokenize"])
def test_servers_differ_and_answers_do_not(native: NativeEngine, folder: str, quirks: str) -> None:
    with served(native, folder, quirks) as server:
        engine = connect(server.url)
        for row in ROWS[:2]:
            assert (
                generate(engine, row["prompt"], max_depth=2).tree == generate(native, row["prompt"], max_depth=2).tree
            )


@pytest.mark.parametrize("dial", [0.0, 4.0])
def test_the_grammar_holds_though_the_server_does_not_know_it(tmp_path: Path, dial: float) -> None:
    """Random weights put tags anywhere. One thread at a time: then a token limit cuts at the same place."""
    model, vocabulary = tiny_model(seed=3), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    model.save_pretrained(tmp_path)
    vocabulary.tokenizer.save_pretrained(tmp_path)
    native = native_of(str(tmp_path))
    with served(native, str(tmp_path)) as server:
        engine = connect(server.url, str(tmp_path))
        options = {"max_threads": 1, "max_new_tokens": 90, "max_thread_tokens": 40, "parallelism": dial}
        answer = generate(engine, "Why?", **options)
        assert answer.tree == generate(native, "Why?", **options, positions="stitched").tree
        corrections = [seen for seen in server.seen if seen.body["max_tokens"] == 1 and "logit_bias" in seen.body]
        assert (len(corrections) > 5) == (dial > 0)


def test_sequential(remote: RemoteEngine, native: NativeEngine, server: CompletionsServer) -> None:
    prompt = ROWS[0]["prompt"]
    answer = generate(remote, prompt, sequential=True, max_new_tokens=60)
    assert answer.tree == generate(native, prompt, sequential=True, max_new_tokens=60).tree
    assert len(answer.threads) == 1 and len(server.seen) == 1


def test_a_seed_draws_the_same_answer(remote: RemoteEngine) -> None:
    def draw(seed: int) -> str:
        return generate(remote, "red?", temperature=1.5, seed=seed, max_new_tokens=80, max_threads=1).annotated

    assert draw(1) == draw(1)
    assert len({draw(seed) for seed in range(4)}) > 1


def test_corrections_keep_the_distribution(tmp_path: Path) -> None:
    """A third of the mass is on tags that may not come first: what is drawn is what the grammar leaves, rescaled."""
    model, vocabulary = tiny_model(seed=3), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    model.save_pretrained(tmp_path)
    vocabulary.tokenizer.save_pretrained(tmp_path)
    native = native_of(str(tmp_path))
    draws = 150
    with served(native, str(tmp_path)) as server:
        engine = connect(server.url)
        prompt = encode_prompt(engine, "Why?")
        drawn: Counter[int] = Counter()
        for seed in range(draws):
            thread = engine.open(prompt, Expect.TEXT_PROMISE, Sampling(temperature=1.5, seed=seed))
            while not (step := engine.step()):
                pass
            engine.close(thread)
            drawn[step[0][1]] += 1
        assert engine.client.usage.corrections > draws / 10
    assert engine.grammar is not None
    logits = model(input_ids=torch.tensor([prompt])).logits[0, -1].detach()
    allowed = torch.from_numpy(engine.grammar.allowed[Expect.TEXT_PROMISE])
    expected = (logits.masked_fill(~allowed, -torch.inf) / 1.5).softmax(-1)
    likely = expected.topk(12).indices.tolist()
    assert set(drawn) <= set(allowed.nonzero()[:, 0].tolist())
    for token in likely:
        share = float(expected[token])
        assert abs(drawn[token] / draws - share) < 4 * (share * (1 - share) / draws) ** 0.5
    gap = sum(drawn[token] for token in likely) / draws - float(expected[likely].sum())
    assert abs(gap) < 0.1


def test_stop_strings_and_limits(remote: RemoteEngine, native: NativeEngine) -> None:
    prompt = ROWS[0]["prompt"]
    assert generate(remote, prompt, stop="yes").text == generate(native, prompt, stop="yes").text
    cut = generate(remote, prompt, max_new_tokens=20, max_threads=1)
    assert cut.finish_reason == "length"
    assert cut.tree == generate(native, prompt, max_new_tokens=20, max_threads=1).tree


# -- what the server is asked ----------------------------------------------------------------------------


def test_requests_share_what_they_begin_with(remote: RemoteEngine, server: CompletionsServer) -> None:
    """A fork finds its parent's tokens, and the sync at least what its first chunk began with, and the chunk."""
    answer = generate(remote, ROWS[0]["prompt"])
    assert len(answer.threads) == 3 and remote.vocabulary.tags is not None
    tags = remote.vocabulary.tags
    children = [seen for seen in server.seen if seen.body["prompt"][-1] == tags.open]
    joins = [seen for seen in server.seen if seen.body["prompt"][-1] == tags.sync]
    assert (len(children), len(joins)) == (2, 1)
    for child in children:
        assert child.cached >= len(child.body["prompt"]) - 2  # but for the token that is just decoded, and <async>
    assert joins[0].cached >= joins[0].body["prompt"].index(tags.close)
    until(lambda: all(seen.ended for seen in server.seen))
    until(lambda: remote.client.usage.cached_tokens > 0)


def test_a_finished_chunk_is_read_ahead(remote: RemoteEngine, server: CompletionsServer) -> None:
    server.pause = 0.02
    tags = remote.vocabulary.tags
    assert tags is not None
    for _ in range(5):  # on a busy machine the first chunk may be the last to end: then there is nothing to read ahead
        server.seen.clear()
        answer = generate(remote, ROWS[0]["prompt"])
        ahead = [seen.body["prompt"] for seen in server.seen if "logit_bias" not in seen.body]
        if ahead:
            break
    joined = next(seen.body["prompt"] for seen in server.seen if seen.body["prompt"][-1] == tags.sync)
    assert ahead and all(seen.body["max_tokens"] == 1 for seen in server.seen if "logit_bias" not in seen.body)
    assert all(joined[: len(prompt)] == prompt for prompt in ahead)
    assert all(prompt.count(tags.close) == 1 for prompt in ahead)  # the sync comes with the second
    assert len(answer.threads) == 3


def test_one_answer_is_one_session(remote: RemoteEngine, server: CompletionsServer) -> None:
    generate_all(remote, [ROWS[0]["prompt"], ROWS[3]["prompt"]])
    sessions: dict[str, set[str]] = {}
    for seen in server.seen:
        sessions.setdefault(seen.headers["X-Session-ID"], set()).add(seen.body["cache_salt"])
        assert seen.headers["X-SMG-Routing-Key"] == seen.headers["X-Session-ID"]
    assert [len(salts) for salts in sessions.values()] == [1, 1]
    assert len(set().union(*sessions.values())) == 2  # nobody finds another's prefixes …
    server.seen.clear()
    generate_all(remote, [ROWS[0]["prompt"], ROWS[3]["prompt"]], scope="one reader")
    assert {seen.body["cache_salt"] for seen in server.seen} == {"one reader"}  # … unless they are of one scope


def test_leaving_an_answer_closes_its_connections(remote: RemoteEngine, server: CompletionsServer) -> None:
    server.pause = 0.02
    moments = stream(remote, ROWS[0]["prompt"])
    for moment in moments:
        if any(type(event).__name__ == "Fork" for event in moment.events):
            break
    moments.close()
    until(lambda: all(seen.ended for seen in server.seen))
    assert "aborted" in {seen.ended for seen in server.seen}
    assert not remote._waiting


# -- what goes wrong -------------------------------------------------------------------------------------


def test_nobody_is_there() -> None:
    with pytest.raises(ServerError, match=r"does not answer.*is it running") as caught:
        connect("http://127.0.0.1:9/v1")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x/v1", ""])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(UsageError, match="not the address"):
        connect(url)


def test_a_server_without_token_ids(native: NativeEngine, folder: str) -> None:
    with served(native, folder, "no-ids") as server, pytest.raises(ServerError, match="returns no token ids"):
        connect(server.url)


def test_a_server_that_does_not_say_why_it_stopped(native: NativeEngine, folder: str) -> None:
    with served(native, folder) as server:
        engine = connect(server.url)
        server.quirks = ["mute-stop"]
        with pytest.raises(ServerError, match="which token stopped it"):
            generate(engine, ROWS[0]["prompt"])


def test_another_model(native: NativeEngine, folder: str, tmp_path: Path) -> None:
    """Neither one whose tags are other tokens, nor one that has none, nor one that is not here."""
    other = Vocabulary(byte_tokenizer())
    other.tokenizer.add_tokens(["<x>"])
    other.add_tags()
    other.tokenizer.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    plainly = tmp_path / "plain"
    byte_tokenizer().save_pretrained(plainly)
    (plainly / "config.json").write_text("{}")
    with served(native, folder) as server:
        with pytest.raises(ServerError, match="does not know the tags"):
            connect(server.url, str(tmp_path))
        with pytest.raises(PastaError, match="has no PASTA tags"):
            connect(server.url, str(plainly))
        server.root = "/somewhere/else"
        with pytest.raises(UnknownModel, match="tokenizer of /somewhere/else is not here"):
            connect(server.url)
        assert connect(server.url, folder).name == Path(folder).name
    with served(native, folder, "no-tokenize") as server:
        server.model = tiny_model()  # without tags: too few tokens
        with pytest.raises(ServerError, match=r"400: Token id .* out of vocabulary"):
            connect(server.url)


def test_a_key(native: NativeEngine, folder: str) -> None:
    with served(native, folder, key="secret") as server:
        with pytest.raises(ServerError, match="401"):
            connect(server.url)
        assert connect(server.url, key="secret").context == 2048


def test_a_server_that_ignores_the_bias(tmp_path: Path) -> None:
    model, vocabulary = tiny_model(seed=3), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    model.save_pretrained(tmp_path)
    vocabulary.tokenizer.save_pretrained(tmp_path)
    with served(native_of(str(tmp_path)), str(tmp_path), "no-bias") as server:
        engine = connect(server.url)
        with pytest.raises(ServerError, match="ignores logit_bias"):
            for seed in range(50):
                generate(engine, "Why?", temperature=3.0, seed=seed, max_new_tokens=100)


def test_what_breaks_off_is_taken_up_again(native: NativeEngine, folder: str) -> None:
    """A request carries all that came before it, so that any replica can go on."""
    with served(native, folder) as server:
        engine = connect(server.url)
        server.quirks = ["drop"]
        for row in ROWS[:2]:
            assert generate(engine, row["prompt"]).tree == generate(native, row["prompt"]).tree
        assert "dropped" in {seen.ended for seen in server.seen}


def test_a_server_that_stays_away_ends_its_own_answers_alone(native: NativeEngine, folder: str) -> None:
    with served(native, folder) as server:
        engine = connect(server.url)
        engine.retries_s = (0.0, 0.01)  # type: ignore[assignment]
        decoder = Decoder(engine)
        jobs = [decoder.submit(make_request(engine, row["prompt"])) for row in ROWS[:2]]
        decoder.step()
        server.quirks = ["refuse"]
        late = decoder.submit(make_request(engine, ROWS[2]["prompt"]))
        while not late.finished:
            decoder.step()
        with pytest.raises(ServerError, match="503: not now"):
            late.result()
        server.quirks = []
        while decoder.busy:
            decoder.step()
        assert all(job.error is None or "503" in str(job.error) for job in jobs)
        assert generate(engine, ROWS[0]["prompt"]).tree == generate(native, ROWS[0]["prompt"]).tree
    with pytest.raises(ServerError, match="does not answer"):
        generate(engine, ROWS[0]["prompt"])


def test_only_this_layout(remote: RemoteEngine) -> None:
    with pytest.raises(UsageError, match="stitched"):
        generate(remote, ROWS[0]["prompt"], positions="predicted")


def test_a_step_does_not_wait_for_ever(remote: RemoteEngine, server: CompletionsServer) -> None:
    server.pause = 0.5
    decoder = Decoder(remote)
    job = decoder.submit(make_request(remote, ROWS[0]["prompt"]))
    begun = time.monotonic()
    assert decoder.step() == []
    assert time.monotonic() - begun < 0.4
    decoder.cancel(job)
    assert threading.active_count() < 20


def test_a_client_that_is_dropped_leaves_nothing() -> None:
    """Wherever the collector runs, even in the client's own thread."""
    for own_thread in (False, True):
        client = Client("http://127.0.0.1:9/v1")
        loop, shut_down = client._loop, client.shut_down
        if own_thread:
            loop.call_soon_threadsafe(shut_down)
        else:
            del client
        until(loop.is_closed)
        assert not shut_down.alive


# -- the commands ----------------------------------------------------------------------------------------


@pytest.fixture
def gateway(remote: RemoteEngine) -> Iterator[str]:
    """`pasta serve` in front of the server."""
    from pasta.serve.run import Server, bind
    from pasta.serve.settings import Settings

    bound = bind("127.0.0.1", 0)
    started = threading.Event()
    front = Server(remote, Settings(grace_s=2.0), started.set)
    thread = threading.Thread(target=front.run_on, args=(bound,), daemon=True)
    thread.start()
    assert started.wait(20)
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    front.should_exit = True
    thread.join(20)
    bound.close()
    assert not thread.is_alive() and not remote._waiting


def test_pasta_serve_in_front_of_it(gateway: str, remote: RemoteEngine, server: CompletionsServer) -> None:
    import httpx

    def ask(row: dict[str, str], **fields: object) -> httpx.Response:
        messages = [{"role": "user", "content": row["prompt"]}]
        return httpx.post(f"{gateway}/v1/chat/completions", json={"messages": messages, **fields}, timeout=60)

    for row in (ROWS[0], ROWS[2], ROWS[3]):  # not nested
        value = ask(row, max_tokens=200).json()
        assert value["choices"][0]["message"]["content"] == plain(parse(row["response"]))
    streamed = ask(ROWS[0], stream=True).text
    chunks = [json.loads(line[6:]) for line in streamed.split("\n\n") if line.startswith("data: {")]
    text = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
    assert text == plain(parse(ROWS[0]["response"]))
    assert ask({"prompt": "x" * 3000}).json()["error"]["code"] == "context_length_exceeded"
    server.quirks, remote.retries_s = ["refuse"], (0.0,)  # type: ignore[assignment]
    try:
        failed = ask(ROWS[0])
    finally:
        server.quirks, remote.retries_s = [], RemoteEngine.retries_s
    assert failed.status_code >= 500 and "not now" in failed.text
    assert ask(ROWS[0]).status_code == 200


def test_pasta_generate(server: CompletionsServer, folder: str, capfd: pytest.CaptureFixture[str]) -> None:
    from pasta.cli.main import app

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            code = app([*arguments], standalone_mode=False, prog_name="pasta")
        except SystemExit as end:
            code = end.code
        out, err = capfd.readouterr()
        return code or 0, out, err

    row = ROWS[0]
    expected = f"{plain(parse(row['response']))}\n"
    assert run("generate", row["prompt"], "--engine", server.url) == (0, expected, "")
    code, out, _ = run("generate", row["prompt"], "--engine", server.url, "--model", folder, "--json")
    assert code == 0 and len(json.loads(out)["threads"]) == 3
    for extra, status, words in (
        (["--engine", "http://127.0.0.1:9/v1"], 1, "does not answer"),
        (["--engine", "nowhere"], 2, "not the address of a server"),
        (["--engine", server.url, "--positions", "predicted"], 2, "--positions"),
        (["--engine", server.url, "--device", "cpu"], 2, "--device"),
    ):
        code, out, err = run("generate", row["prompt"], *extra)
        assert (code, out) == (status, "")
        assert words in err and len(err.splitlines()) == 1
