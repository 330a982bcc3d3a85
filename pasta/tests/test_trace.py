"""Timelines: well formed by the rules that Perfetto reads them with."""

import gzip
import json
from collections import Counter, defaultdict

import pytest

from pasta.core.tags import ONES
from pasta.core.tree import spell
from pasta.decoding.api import replay
from pasta.errors import PastaError
from pasta.examples import EXAMPLES
from pasta.lang import parse
from pasta.trace import FIRST_TRACK, STEPS_TRACK, timeline, write_trace
from support import tiny_engine

NO_SYNC = 'A<promise topic="x" tokens=3/><async> long enough to wait for.</async>b'
TEXTS = {name: example.text for name, example in EXAMPLES.items()} | {"no sync": NO_SYNC, "plain": "Just text."}


@pytest.fixture(scope="module")
def engine():
    return tiny_engine()


@pytest.fixture(scope="module", params=[(name, threads) for name in TEXTS for threads in (1, 16)], ids=str)
def traced(request, engine):
    name, max_threads = request.param
    result = replay(engine, "Why?", spell(parse(TEXTS[name]), engine.vocabulary), max_threads=max_threads)
    return result, timeline([result, result], engine.vocabulary)["traceEvents"]


def slices(events, pid=1):
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X" and event["pid"] == pid:
            tracks[event["tid"]].append((event["ts"], event["ts"] + event["dur"], event))
    return tracks


def test_slices_nest(traced):
    """As Perfetto reads them: by start, ties in file order, each inside the one before it or after its end."""
    _, events = traced
    for track in slices(events).values():
        stack = []
        for start, end, event in sorted(track, key=lambda item: item[0]):
            assert end > start
            assert isinstance(start, int)
            while stack and stack[-1][1] <= start:
                stack.pop()
            assert not stack or end <= stack[-1][1], event
            stack.append((start, end))


def test_flows_bind_to_slices(traced):
    result, events = traced
    tracks = slices(events)
    flows = defaultdict(dict)
    for event in events:
        if event["ph"] in "sf" and event["pid"] == 1:
            flows[event["id"]][event["ph"]] = event
            around = [end for start, end, _ in tracks[event["tid"]] if start <= event["ts"] < end]
            assert around, event
    children = len(result.threads) - 1
    assert Counter(flow["s"]["name"] for flow in flows.values()) == Counter(
        {"fork": children, "join": children} if children else {}
    )
    for flow in flows.values():
        assert flow["s"]["ts"] <= flow["f"]["ts"]
        assert flow["s"]["tid"] != flow["f"]["tid"]
    assert len({event["id"] for event in events if event["ph"] == "s"}) == 4 * children  # over both requests


def test_counts_match(traced):
    result, events = traced
    tracks = slices(events)
    assert set(tracks) == {STEPS_TRACK, *(FIRST_TRACK + thread.id for thread in result.threads)}
    assert len(tracks[STEPS_TRACK]) == result.steps
    kv = [event["args"]["slots"] for event in events if event["name"] == "KV slots in use" and event["pid"] == 1]
    assert kv == sorted(kv)
    assert kv[0] == len(result.prompt_ids)
    assert kv[-1] == len(result.prompt_ids) + result.tokens_total
    live = [event["args"]["threads"] for event in events if event["name"] == "live threads" and event["pid"] == 1]
    assert live[0] == 1
    assert live[-1] == 0
    assert all(count >= 1 for count in live[:-1])
    # Every decoded token has its slice; <async>, and a sync that was waited for, take no step.
    tokens = sum(event["cat"] == "token" for track in tracks.values() for *_, event in track)
    inserted = len(result.threads) - 1
    waited = result.annotated.count("<sync/>")
    assert result.tokens_total - inserted - waited <= tokens <= result.tokens_total - inserted
    assert sum(live[:-1]) >= tokens


def test_lives_are_the_threads(traced):
    result, events = traced
    tracks = slices(events)
    for thread in result.threads:
        start, end, life = tracks[FIRST_TRACK + thread.id][0]
        assert life["name"] == (thread.topic or "main")
        assert life["args"]["tokens"] == len(thread.token_ids)
        assert life["args"]["promised tokens"] == 10 * thread.tokens
        assert all(
            start <= inner_start and inner_end <= end for inner_start, inner_end, _ in tracks[FIRST_TRACK + thread.id]
        )
    names = {
        event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name" and event["pid"] == 1
    }
    assert set(names) == set(tracks)


def test_queued_and_waiting_show(engine):
    result = replay(engine, "Why?", spell(parse(TEXTS["cities"]), engine.vocabulary), max_threads=3)
    events = timeline([result], engine.vocabulary)["traceEvents"]
    kinds = Counter(event["cat"] for event in events if event["ph"] == "X")
    assert kinds["queued"] >= 1
    assert kinds["waiting"] == 1
    assert kinds["promise"] == 4


@pytest.mark.parametrize("max_threads", [1, 2, 16])
@pytest.mark.parametrize("name", ["breakfast", "no sync"])
def test_live_threads_are_those_that_the_engine_decodes(engine, name, max_threads, monkeypatch):
    decoded = []

    def step(one_step=engine.step):
        tokens = list(one_step())
        decoded.append(len(tokens))
        return tokens

    monkeypatch.setattr(engine, "step", step)
    result = replay(engine, "Why?", spell(parse(TEXTS[name]), engine.vocabulary), max_threads=max_threads)
    events = timeline([result], engine.vocabulary)["traceEvents"]
    live = [event["args"]["threads"] for event in events if event["name"] == "live threads"]
    assert live == [*decoded, 0]


def test_promised_tokens_are_tokens_whatever_the_model_counts():
    engine = tiny_engine(unit=ONES)
    result = replay(engine, "Why?", spell(parse(NO_SYNC), engine.vocabulary), positions="ones")
    events = timeline([result], engine.vocabulary)["traceEvents"]
    (life,) = (e for e in events if e["ph"] == "X" and e["name"] == "x" and e["cat"] == "thread")
    assert life["args"]["promised tokens"] == 30


def test_files(engine, tmp_path):
    result = replay(engine, "Why?", spell(parse(TEXTS["cities"]), engine.vocabulary))
    write_trace(str(tmp_path / "t.json"), [result], engine.vocabulary)
    write_trace(str(tmp_path / "t.json.gz"), [result], engine.vocabulary)
    trace = json.loads((tmp_path / "t.json").read_bytes())
    assert trace == json.loads(gzip.decompress((tmp_path / "t.json.gz").read_bytes()))
    assert trace["otherData"]["requests"][0]["tokens_total"] == result.tokens_total
    with pytest.raises(PastaError, match="cannot write the trace"):
        write_trace(str(tmp_path), [result], engine.vocabulary)
