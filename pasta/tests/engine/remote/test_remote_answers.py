"""The remote engine against a real server on a real socket: the same answers as the native engine, stitched."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch
from completions_server import CompletionsServer
from remote_support import ROWS, native_of, served
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from pasta.core.grammar import Expect
from pasta.core.params import SamplingParams
from pasta.core.taught import Taught
from pasta.core.tree import depth_of
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import generate, generate_all, stream
from pasta.decoding.prompts import encode_prompt, make_request
from pasta.engine.connect import connect_engine as connect
from pasta.engine.native import NativeEngine
from pasta.engine.remote import RemoteEngine
from pasta.errors import UsageError
from pasta.lang import parse, plain
from pasta.models.tags import add_tags
from pasta.models.taught import mark
from support import SIZES, Stepper, byte_tokenizer, tiny_model


def test_training_in_this_layout_is_decoding_in_it(native: NativeEngine) -> None:
    assert native.positions.stitched
    forks = syncs = 0
    for row in ROWS:
        result = generate(native, row["prompt"], max_tokens=200)
        assert result.text == plain(parse(row["response"]))
        forks += len(result.threads) - 1
        syncs += result.annotated.count("<sync/>")
    assert (forks, syncs) == (8, 4)


@pytest.mark.parametrize("max_threads", [1, 2, 16])
def test_the_answers_are_the_native_engines(remote: RemoteEngine, native: NativeEngine, max_threads: int) -> None:
    for row in ROWS:
        options = {"max_tokens": 200, "max_threads": max_threads}
        steps = stream(remote, row["prompt"], **options)
        answer, expected = steps.result, generate(native, row["prompt"], **options)
        assert answer.tree == expected.tree
        assert answer.text == expected.text
        by_place = {thread.position_ids: thread.token_ids for thread in answer.threads}
        assert by_place == {thread.position_ids: thread.token_ids for thread in expected.threads}
        assert "".join(output.text for output in answer.outputs) == answer.text


def test_many_answers_at_once(remote: RemoteEngine, native: NativeEngine) -> None:
    prompts = [row["prompt"] for row in ROWS]
    answers = generate_all(remote, prompts)
    assert [answer.tree for answer in answers] == [generate(native, prompt).tree for prompt in prompts]


@pytest.mark.parametrize("quirks", ["quiet-stop", "matched-stop", "pairs", "no-tokenize"])
def test_servers_differ_and_answers_do_not(native: NativeEngine, folder: str, quirks: str) -> None:
    with served(native, folder, quirks) as server:
        engine = connect(server.url)
        for row in ROWS[:2]:
            assert generate(engine, row["prompt"]).tree == generate(native, row["prompt"]).tree


@pytest.mark.parametrize("dial, depth", [(0.0, None), (4.0, None), (4.0, 1)])
def test_the_grammar_holds_though_the_server_does_not_know_it(tmp_path: Path, dial: float, depth: int | None) -> None:
    """Random weights put tags anywhere."""
    model, vocabulary = tiny_model(seed=3), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    mark(model, Taught(depth=depth))
    model.save_pretrained(tmp_path)
    vocabulary.tokenizer.save_pretrained(tmp_path)
    native = native_of(str(tmp_path))
    with served(native, str(tmp_path)) as server:
        engine = connect(server.url, str(tmp_path))
        options = {"max_threads": 1, "max_tokens": 90, "max_thread_tokens": 40, "parallelism": dial}
        answer = generate(engine, "Why?", **options)
        assert answer.tree == generate(native, "Why?", **options, positions="stitched").tree
        corrections = [seen for seen in server.seen if seen.body["max_tokens"] == 1 and "logit_bias" in seen.body]
        assert (len(corrections) > 5) == (dial > 0)
        if dial:
            assert depth_of(answer.tree) == 1 if depth else depth_of(answer.tree) > 1


def test_no_bias_is_longer_than_vllm_bears(tmp_path: Path) -> None:
    """Topics of a large vocabulary: neither what may come nor what may not fits into a bias."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [f"{a}{b}{c}" for a in "abcdefghijkl" for b in "abcdefghijkl" for c in "abcdefghij"]  # may stand in a topic
    others = [f'"{word}' for word in words]  # may not
    known = {piece: index for index, piece in enumerate([*letters, *others, *words])}
    tokenizer = Tokenizer(models.BPE(known, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>")
    vocabulary = Vocabulary(fast)
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**{**SIZES, "vocab_size": len(fast)}))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.25)
    add_tags(model, vocabulary)
    model.save_pretrained(tmp_path)
    fast.save_pretrained(tmp_path)
    native = native_of(str(tmp_path))
    prompt = [5, 6, 7]
    with served(native, str(tmp_path)) as server:
        engine = connect(server.url, str(tmp_path))
        for expect in (Expect.TOPIC_START, Expect.TOPIC, Expect.LENGTH, Expect.TEXT_PROMISE):
            assert engine.grammar is not None
            allowed = torch.from_numpy(engine.grammar.allowed[expect])
            thread = engine.open(prompt, expect, SamplingParams())
            while not (step := engine.step()):
                pass
            engine.close(thread)
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([prompt])).logits[0, -1]
            assert step[0].token == int(logits.masked_fill(~allowed, -torch.inf).argmax())
        assert engine.client.usage.corrections > 0
        assert 900 < max(len(seen.body.get("logit_bias", ())) for seen in server.seen) <= 1024


def test_a_correction_in_text_is_one_request(tmp_path: Path) -> None:
    """The grammar of text stays as it is up to the next promise, so the stream goes on with it."""
    model, vocabulary = tiny_model(seed=3), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    model.save_pretrained(tmp_path)
    vocabulary.tokenizer.save_pretrained(tmp_path)
    with served(native_of(str(tmp_path)), str(tmp_path)) as server:
        engine = connect(server.url)
        before = engine.client.usage.snapshot()
        server.seen.clear()
        for seed in range(12):
            generate(engine, "Why?", temperature=3.0, seed=seed, max_tokens=12, plain=True)
        corrections = engine.client.usage.corrections - before["corrections"]
        assert corrections > 0
        assert len(server.seen) == 12 + corrections


def test_sequential(remote: RemoteEngine, native: NativeEngine) -> None:
    prompt = ROWS[0]["prompt"]
    answer = generate(remote, prompt, sequential=True)
    assert answer.tree == generate(native, prompt).tree == generate(remote, prompt).tree
    assert len(answer.threads) == 3


def test_plain(remote: RemoteEngine, native: NativeEngine, server: CompletionsServer) -> None:
    prompt = ROWS[0]["prompt"]
    answer = generate(remote, prompt, plain=True, max_tokens=60)
    assert answer.tree == generate(native, prompt, plain=True, max_tokens=60).tree
    assert len(answer.threads) == 1 and len(server.seen) == 1


def test_the_repetition_penalty_is_the_servers(remote: RemoteEngine, server: CompletionsServer) -> None:
    """It penalises every token, tags and ends too, as transformers does."""
    assert remote.penalises
    options = {"plain": True, "max_tokens": 30}
    tags = remote.vocabulary.tags
    assert tags is not None
    for row in ROWS[:2]:
        result = generate(remote, row["prompt"], repetition_penalty=1.3, **options)
        with torch.inference_mode():
            expected = server.model.generate(
                torch.tensor([result.prompt_ids]), attention_mask=torch.ones(1, len(result.prompt_ids)),
                do_sample=False, repetition_penalty=1.3, max_new_tokens=30, suppress_tokens=sorted(tags.all),
                eos_token_id=sorted(remote.vocabulary.eos), pad_token_id=0,
            )[0, len(result.prompt_ids) :].tolist()  # fmt: skip
        ended = expected[-1] in remote.vocabulary.eos
        assert list(result.threads[0].token_ids) == expected[: len(expected) - ended]
        assert result.text != generate(remote, row["prompt"], **options).text
    assert {seen.body.get("repetition_penalty") for seen in server.seen} == {1.3, None}


def test_logprobs_are_the_servers(remote: RemoteEngine, native: NativeEngine) -> None:
    """Those of the native engine, corrections included, and as many as are asked for."""
    prompt = encode_prompt(remote, ROWS[0]["prompt"])
    for count, expect in ((0, Expect.TEXT), (3, Expect.TEXT_PROMISE), (3, Expect.LENGTH)):
        params = SamplingParams(logprobs=count)
        found = []
        for engine in (remote, native):
            thread = engine.open(prompt, expect, params)
            while not (step := engine.step()):
                pass
            engine.close(thread)
            found.append(step[0])
        there, here = found
        assert there.token == here.token
        assert there.logprobs is not None and here.logprobs is not None
        assert there.logprobs.logprob == pytest.approx(here.logprobs.logprob, abs=1e-4)
        assert [token for token, _ in there.logprobs.top] == [token for token, _ in here.logprobs.top]
        assert len(there.logprobs.top) == count


def test_a_server_without_logprobs(native: NativeEngine, folder: str) -> None:
    with served(native, folder, "no-logprobs") as server:
        engine = connect(server.url)
        with pytest.raises(UsageError, match="returns no logprobs"):
            engine.open([65], Expect.TEXT, SamplingParams(logprobs=0))
        assert not engine._waiting


def test_a_seed_draws_the_same_answer(remote: RemoteEngine) -> None:
    def draw(seed: int) -> str:
        return generate(remote, "red?", temperature=1.5, seed=seed, max_tokens=80, max_threads=1).annotated

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
            thread = engine.open(prompt, Expect.TEXT_PROMISE, SamplingParams(temperature=1.5, seed=seed))
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
    cut = generate(remote, prompt, max_tokens=20, max_threads=1)
    assert cut.finish_reason == "length"
    assert cut.tree == generate(native, prompt, max_tokens=20, max_threads=1).tree


def test_only_this_layout(remote: RemoteEngine) -> None:
    """Another is refused at its first join, which leaves the requests beside it alone."""
    prompt, decoder = ROWS[0]["prompt"], Stepper(remote)
    refused = decoder.submit(make_request(remote, prompt, positions="predicted"))
    other = decoder.submit(make_request(remote, prompt))
    while decoder.busy:
        decoder.step()
    with pytest.raises(UsageError, match="stitched"):
        refused.result()
    assert other.result().tree == generate(remote, prompt).tree
