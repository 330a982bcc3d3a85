"""Drafts change how many steps an answer takes, and nothing else."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import pytest
import torch

from pasta.core.grammar import Expect
from pasta.core.params import SamplingParams
from pasta.core.tree import threads_of
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import generate, generate_all, replay
from pasta.decoding.drafts import Guess
from pasta.decoding.prompts import make_request
from pasta.decoding.results import Result
from pasta.engine.cpu import CpuEngine
from pasta.engine.native import NativeEngine
from pasta.models.tags import add_tags
from support import Stepper, byte_tokenizer, tiny_model

PROMPTS = ["Hello!", "Compare cats and dogs, and say which you like.", "Why?", "Name four fruits. Name four fruits."]


class Oracle:
    """A drafter that knows the answers, and errs now and then: of what it guesses much is right, and much is wrong."""

    answers: ClassVar[dict[tuple[int, ...], Result]] = {}  # by prompt

    def __init__(self, prompt: Sequence[int], ends: Collection[int]):
        answer = self.answers.get(tuple(prompt))
        self._ids = {} if answer is None else threads_of(answer.tree)
        self._ends = ends
        self._paths: dict[int, tuple[int, ...]] = {0: ()}
        self._forks: dict[int, int] = {}
        self._put: dict[int, int] = {}
        self._random = random.Random(len(prompt))

    def put(self, thread: int, token: int) -> None:
        self._put[thread] = self._put.get(thread, 0) + 1

    def fork(self, parent: int, child: int) -> None:
        number = self._forks.get(parent, 0)
        self._forks[parent] = number + 1
        self._paths[child] = (*self._paths[parent], number)

    def draft(self, thread: int, most: int, least_odds: float) -> Guess:
        put = self._put.get(thread, 0)
        guess = list(itertools.takewhile(lambda t: t not in self._ends, self._ids.get(self._paths[thread], ())[put:]))
        guess = guess[: min(most, self._random.choice([0, 1, 2, 5]))]
        if guess and self._random.random() < 0.5:
            guess[self._random.randrange(len(guess))] = 65
        return Guess(guess, [1.0] * len(guess))


@pytest.fixture
def oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pasta.decoding.request.Drafter", Oracle)
    monkeypatch.setattr(Oracle, "answers", {})


def make(kind: type[NativeEngine] = CpuEngine, family: str = "llama", **options: Any) -> NativeEngine:
    """A tiny model whose tags come often, in an engine where a guess costs nearly nothing: it drafts all the time."""
    model, vocabulary = tiny_model(family), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    tags = vocabulary.tags
    assert tags is not None
    random = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for table in (model.get_input_embeddings().weight, model.get_output_embeddings().weight):
            for token in sorted(tags.all):
                table[token].normal_(std=0.25, generator=random)
        table[[tags.close, tags.sync]] *= 3
    engine = kind(model, vocabulary, **{"slots": 8192, **options})
    engine.row_cost = 1e-6
    return engine


def both(engine: NativeEngine, prompts: list[str] = PROMPTS, **options: Any) -> tuple[list[Result], list[Result]]:
    """The answers without drafts and with."""
    without = generate_all(engine, prompts, drafts=False, **options)
    Oracle.answers.update({result.prompt_ids: result for result in without})
    drafted = generate_all(engine, prompts, drafts=True, **options)
    assert [result.tree for result in drafted] == [result.tree for result in without], options
    assert [result.text for result in drafted] == [result.text for result in without]
    assert [result.finish_reason for result in drafted] == [result.finish_reason for result in without]
    assert engine.pool.free_slots == engine.pool.slots
    return without, drafted


def steps(results: list[Result]) -> int:
    return sum(result.steps for result in results)


@pytest.mark.parametrize(
    "kind,positions",
    [(NativeEngine, "predicted"), (CpuEngine, "predicted"), (CpuEngine, "stitched"), (CpuEngine, "fixed:20")],
)
@pytest.mark.usefixtures("oracle")
def test_the_same_answers(kind: type[NativeEngine], positions: str) -> None:
    """Greedy and sampled, with forks, nested forks and syncs, several requests at once."""
    engine = make(kind)
    nested = syncs = saved = 0
    for parallelism, temperature in itertools.product((2.0, 6.0), (0.0, 0.4)):
        without, drafted = both(
            engine, parallelism=parallelism, temperature=temperature, seed=3, max_tokens=120, positions=positions
        )
        saved += steps(without) - steps(drafted)
        nested += sum(thread.parent not in (None, 0) for result in drafted for thread in result.threads)
        syncs += sum(result.annotated.count("<sync/>") for result in drafted)
    assert nested > 20 and syncs > 10 and saved > 100


def test_guesses_by_repetition() -> None:
    engine = make()
    without, drafted = both(engine, parallelism=0.0, max_tokens=150)
    assert steps(drafted) < steps(without)


@pytest.mark.parametrize("family", ["qwen3", "gemma", "mistral-window", "gemma2"])
def test_other_families(family: str) -> None:
    engine = make(NativeEngine, family)
    without, drafted = both(engine, parallelism=2.0, max_tokens=120)
    assert steps(drafted) < steps(without)


@pytest.mark.parametrize("limit", [1, 2, 7, 30, 61])
@pytest.mark.usefixtures("oracle")
def test_limits_cut_at_the_same_place(limit: int) -> None:
    engine = make()
    for options in ({"max_tokens": limit}, {"max_tokens": 150, "max_thread_tokens": limit}):
        both(engine, parallelism=2.0, **options)
        both(engine, parallelism=2.0, max_threads=2, **options)


@pytest.mark.usefixtures("oracle")
def test_turns() -> None:
    """Threads that lose their turn in the middle of a draft: one at a time, two at a time, all at once."""
    engine = make()
    trees = set()
    for options in ({"sequential": True}, {"max_threads": 2}, {"max_threads": 3}, {}):
        without, drafted = both(engine, PROMPTS[:2], parallelism=6.0, max_tokens=100, **options)
        trees.add(tuple(result.tree for result in drafted))
        assert steps(drafted) < steps(without)
    assert len(trees) == 1


@pytest.mark.usefixtures("oracle")
def test_a_context_that_is_filled() -> None:
    engine = make(context=100)
    _, drafted = both(engine, parallelism=2.0, max_tokens=400)
    assert any(max(thread.position_ids) >= 98 for result in drafted for thread in result.threads)


def test_stops() -> None:
    engine = make()
    first = generate(engine, PROMPTS[0], parallelism=2.0, max_tokens=80)
    for index in (3, 10, 20):
        stop = first.text[index : index + 2]
        texts = [
            generate(engine, PROMPTS[0], parallelism=2.0, max_tokens=80, stop=stop, drafts=drafts).text
            for drafts in (False, True)
        ]
        assert texts[0] == texts[1]
    ids = first.threads[0].token_ids
    both(engine, parallelism=2.0, max_tokens=80, stop_token_ids=[ids[len(ids) // 2]])


@pytest.mark.usefixtures("oracle")
def test_logprobs() -> None:
    engine = make()
    without, drafted = both(engine, parallelism=2.0, max_tokens=60, logprobs=3)
    assert steps(drafted) < steps(without)
    for one, other in zip(without, drafted, strict=True):
        by_tokens = [
            {thread.token_ids: thread.logprobs for thread in result.threads} for result in (one, other)
        ]  # threads are numbered as they fork, which drafts may change
        assert by_tokens[0].keys() == by_tokens[1].keys()
        for ids, logprobs in by_tokens[0].items():
            again = by_tokens[1][ids]
            assert logprobs is not None and again is not None and len(again) == len(logprobs)
            for here, there in zip(logprobs, again, strict=True):
                assert (here is None) == (there is None)
                assert here is None or abs(here.logprob - there.logprob) < 1e-4


@pytest.mark.parametrize("slots", [256, 320, 512])
@pytest.mark.usefixtures("oracle")
def test_a_pool_that_is_too_small(slots: int) -> None:
    """Requests give way and come back, and an answer alone is cut where the pool ends: at the same token."""
    engine = make(slots=slots)
    both(engine, parallelism=1.0, max_tokens=70)
    both(engine, PROMPTS[:1], parallelism=2.0, max_tokens=1000)


def test_requests_that_come_and_go() -> None:
    """Cancelled while drafts are under way, beside others that go on."""
    engine = make()
    options: dict[str, Any] = {"parallelism": 2.0, "max_tokens": 90, "drafts": True}
    alone = [generate(engine, prompt, **options).annotated for prompt in PROMPTS]
    for moment in (3, 9, 20):
        stepper = Stepper(engine)
        jobs = [stepper.submit(make_request(engine, prompt, **options)) for prompt in PROMPTS]
        for _ in range(moment):
            stepper.step()
        stepper.abort(jobs[1])
        while stepper.busy:
            stepper.step()
        assert [jobs[index].result().annotated for index in (0, 2, 3)] == [alone[index] for index in (0, 2, 3)]
        assert engine.pool.free_slots == engine.pool.slots


def test_what_drafts_wrote_is_cached_once_it_is_certain() -> None:
    """A later prompt that begins as an answer did finds its blocks, and goes on as if it had found none."""
    engine = make(NativeEngine)
    found = 0
    for seed in range(3):
        options: dict[str, Any] = {"max_tokens": 160, "plain": True, "temperature": 0.3, "seed": seed}
        first = generate(engine, PROMPTS[1], cache_salt="one", drafts=True, **options)
        assert first.steps < first.tokens_total
        longer = [*first.prompt_ids, *first.threads[0].token_ids]
        again = generate(engine, longer, cache_salt="one", **options)
        fresh = generate(engine, longer, **options)
        assert again.tree == fresh.tree
        found += again.cached_tokens >= 192
    assert found == 3


def test_a_wrong_draft_leaves_nothing_behind() -> None:
    """Places close up: siblings that drafted find their keys and values where they should be."""
    engine = make()
    prompt = engine.vocabulary.encode("Say it.")
    chosen = []
    for guesses in ((), ([65, 66, 67], [68], [69, 70])):
        main = engine.open(prompt, Expect.TEXT, SamplingParams())
        engine.step()
        threads = [main, engine.fork(main), engine.fork(main)]
        tokens: list[list[int]] = []
        for place in range(len(prompt), len(prompt) + 12):
            for index, thread in enumerate(threads):
                engine.feed(thread, 80 + index, place, Expect.TEXT)
            for thread, guess in zip(threads, guesses, strict=False):
                engine.draft(thread, place + 1, guess)
            decoded = engine.step()
            tokens.append([one.token for one in decoded if isinstance(one.token, int)])
            assert [one.thread for one in decoded] == threads
        assert len(main.request.tokens) == len(prompt) + 36
        engine.close(main)
        chosen.append(tokens)
    assert chosen[0] == chosen[1]


def test_guesses_must_be_worth_the_wait() -> None:
    engine = make()
    found = []
    for engine.wait_cost in (0.0, 0.2, 1e9):
        without, drafted = both(engine, parallelism=0.0, max_tokens=150)
        found.append(steps(without) - steps(drafted))
    assert found[0] > found[1] > found[2] == 0


def test_what_is_decided_already_is_no_gain() -> None:
    guess = Guess([5, 6, 7], [0.9, 0.5, 0.4])
    assert guess.gain(0.1, 0) == pytest.approx(1.5)
    assert guess.gain(0.1, 1) == pytest.approx(0.7)
    assert guess.gain(0.1, 5) == 0


def test_a_wait_costs_a_small_model_most() -> None:
    from pasta.engine.cuda import costs

    times = [costs.step_seconds(weights) for weights in (270_000_000, 3_000_000_000, 16_000_000_000)]
    for cost in (costs.row_cost, costs.wait_cost):
        found = [cost(step_s) for step_s in times]
        assert found == sorted(found, reverse=True) and 0 < found[-1] < found[0] < 1


def test_scripts_and_penalties_are_not_drafted() -> None:
    engine = make()
    result = generate(engine, PROMPTS[0], parallelism=2.0, max_tokens=60)
    played = [replay(engine, PROMPTS[0], result.tree, drafts=drafts) for drafts in (False, True)]
    assert played[0].steps == played[1].steps and played[0].tree == played[1].tree
    without, drafted = both(engine, max_tokens=60, repetition_penalty=1.2)
    assert steps(without) == steps(drafted)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"temperature": 0.7, "top_p": 0.9, "seed": 5}])
def test_real_weights(default_model: Any, options: dict[str, Any]) -> None:
    """The default model, which forks, on prompts whose answers repeat themselves."""
    engine = CpuEngine(default_model.model, default_model.vocabulary, slots=4096)
    engine.row_cost = 0.02
    prompts = [
        "Write an HTML table with five rows of countries and their capitals.",
        "List ten fruits, and say of each its colour.",
    ]
    without, drafted = both(engine, prompts, max_tokens=120, **options)
    assert steps(drafted) < steps(without)
