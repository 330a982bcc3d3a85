"""From logits to tokens: against slow references, by frequencies, and one row at a time."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.core.params import SamplingParams
from pasta.engine.base import uniform
from pasta.engine.sampling import choose, distribution, masks_of, nucleus
from pasta.errors import UsageError

LOGITS = [2.0, 1.5, 1.5, 0.0, -1.0, -3.0, -math.inf]


def softmax(logits: list[float], temperature: float) -> list[float]:
    top = max(logits)
    weights = [math.exp((logit - top) / temperature) for logit in logits]
    return [weight / sum(weights) for weight in weights]


def reference(logits: list[float], way: SamplingParams) -> list[float]:
    """min-p, then top-k, then top-p, each by its definition."""
    probabilities = softmax(logits, way.temperature)
    kept = [p if p >= way.min_p * max(probabilities) else 0.0 for p in probabilities]
    if way.top_k:
        least = sorted(kept, reverse=True)[min(way.top_k, len(kept)) - 1]
        kept = [p if p >= least else 0.0 for p in kept]  # ties at the edge all stay
    if way.top_p < 1:
        order = sorted(range(len(kept)), key=lambda token: -kept[token])
        total, mass = sum(kept), 0.0
        for token in order:
            if mass >= way.top_p * total:
                kept[token] = 0.0
            mass += kept[token] or 0.0
    total = sum(kept)
    return [p / total for p in kept]


def normalised(logits: list[float], way: SamplingParams) -> list[float]:
    row = distribution(torch.tensor([logits]), way)[0].double()
    return (row / row.sum()).tolist()


@pytest.mark.parametrize(
    "way",
    [
        SamplingParams(temperature=1.0),
        SamplingParams(temperature=0.5),
        SamplingParams(temperature=1.0, top_k=1),
        SamplingParams(temperature=1.0, top_k=2),  # ties with the third
        SamplingParams(temperature=2.0, top_k=4),
        SamplingParams(temperature=1.0, top_k=100),
        SamplingParams(temperature=1.0, top_p=0.3),
        SamplingParams(temperature=1.0, top_p=0.6),
        SamplingParams(temperature=1.0, top_p=0.99),
        SamplingParams(temperature=1.0, min_p=0.1),
        SamplingParams(temperature=1.0, min_p=1.0),
        SamplingParams(temperature=1.5, top_k=4, top_p=0.8, min_p=0.05),
    ],
    ids=str,
)
def test_against_the_definition(way: SamplingParams) -> None:
    assert normalised(LOGITS, way) == pytest.approx(reference(LOGITS, way), abs=1e-6)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(-40, 40).map(lambda n: n / 4), min_size=1, max_size=12, unique=True),
    st.builds(
        SamplingParams,
        temperature=st.sampled_from([0.3, 0.7, 1.0, 3.0]),
        top_k=st.integers(0, 14),
        top_p=st.sampled_from([0.11, 0.37, 0.77, 0.93, 1.0]),
        min_p=st.sampled_from([0.0, 0.013, 0.31, 1.0]),
    ),
)
def test_against_the_definition_at_random(logits: list[float], way: SamplingParams) -> None:
    assert normalised(logits, way) == pytest.approx(reference(logits, way), abs=1e-5)


def test_frequencies_are_the_probabilities() -> None:
    """A chi-square statistic over 20,000 draws: five degrees of freedom, one in ten thousand exceeds 25.7."""
    way, draws = SamplingParams(temperature=1.0), 20_000
    numbers = [uniform(11, (), index) for index in range(draws)]
    counts = Counter(choose(torch.tensor([LOGITS]).expand(draws, -1), [way] * draws, numbers))
    expected = softmax(LOGITS, 1.0)
    assert counts[6] == 0, "a forbidden token is never drawn"
    assert sum((counts[t] - draws * p) ** 2 / (draws * p) for t, p in enumerate(expected) if p) < 25.7


@pytest.mark.parametrize("draw, token", [(0.0, 1), (0.2499, 1), (0.25, 2), (0.4999, 2), (0.5, 4), (0.9999, 4)])
def test_a_draw_falls_on_its_step_of_the_ladder(draw: float, token: int) -> None:
    logits = torch.tensor([[-math.inf, 0.0, 0.0, -math.inf, math.log(2.0), -math.inf]])
    assert choose(logits, [SamplingParams(temperature=1.0)], [draw]) == [token]


def test_the_largest_draw_stays_in_the_vocabulary() -> None:
    generator = torch.Generator().manual_seed(0)
    for size in (1, 7, 1000):
        logits = torch.randn(64, size, generator=generator)
        tokens = choose(logits, [SamplingParams(temperature=0.8)] * 64, [math.nextafter(1.0, 0.0)] * 64)
        assert max(tokens) < size


@settings(max_examples=50, deadline=None)
@given(st.data(), st.integers(2, 7), st.integers(0, 1000))
def test_a_row_is_independent_of_the_others(data: st.DataObject, rows: int, seed: int) -> None:
    logits = torch.randn(rows, 40, generator=torch.Generator().manual_seed(seed))
    way = st.builds(
        SamplingParams,
        temperature=st.sampled_from([0.0, 0.7, 1.0]),
        top_k=st.sampled_from([0, 5]),
        top_p=st.sampled_from([0.9, 1.0]),
        seed=st.integers(0, 3),
        parallelism=st.sampled_from([0.0, 1.0]),
    )
    ways = data.draw(st.lists(way, min_size=rows, max_size=rows))
    draws = data.draw(st.lists(st.floats(0, 0.999), min_size=rows, max_size=rows))
    together = choose(logits, ways, draws)
    alone = [choose(logits[row : row + 1], [ways[row]], [draws[row]])[0] for row in range(rows)]
    assert together == alone


def test_greedy_takes_the_best_whatever_the_draw() -> None:
    logits = torch.randn(5, 100, generator=torch.Generator().manual_seed(3))
    best = logits.argmax(-1).tolist()
    assert choose(logits, [SamplingParams()] * 5, [0.0, 0.2, 0.5, 0.9, 0.999]) == best
    assert choose(logits, [SamplingParams(temperature=1.0, top_k=1)] * 5, [0.0, 0.2, 0.5, 0.9, 0.999]) == best


@pytest.mark.parametrize("temperature", [1e-3, 1e-8, 1e-30, 1e-45, 1e-300])
def test_near_zero_temperature_is_greedy(temperature: float) -> None:
    logits = 20 * torch.randn(5, 100, generator=torch.Generator().manual_seed(3))
    logits[:, ::3] = -torch.inf
    tokens = choose(logits, [SamplingParams(temperature=temperature)] * 5, [0.0, 0.2, 0.5, 0.9, 0.999])
    assert tokens == logits.argmax(-1).tolist()


@pytest.mark.parametrize(
    "way",
    [
        SamplingParams(temperature=1.0, top_p=1e-300),
        SamplingParams(temperature=1e6),
        SamplingParams(temperature=1e6, top_p=1e-300, min_p=1.0, top_k=1),
    ],
)
def test_what_is_drawn_by_extreme_parameters_may_be_drawn(way: SamplingParams) -> None:
    logits = torch.randn(5, 100, generator=torch.Generator().manual_seed(3))
    logits[:, ::3] = -torch.inf
    tokens = choose(logits, [way] * 5, [0.0, 0.2, 0.5, 0.9, math.nextafter(1.0, 0.0)])
    assert [token for token in tokens if token % 3 and token < 100] == tokens
    if way.top_p < 1:
        assert tokens == logits.argmax(-1).tolist()


# -- seeds --------------------------------------------------------------------------------------------


def test_uniform_numbers_are_uniform_and_differ_by_seed_thread_and_place() -> None:
    numbers = [uniform(seed, path, i) for seed in (0, 1) for path in ((), (0,), (0, 1), (1,)) for i in range(500)]
    assert len(set(numbers)) == len(numbers)
    assert all(0 <= number < 1 for number in numbers)
    deciles = Counter(int(10 * number) for number in numbers)
    expected = len(numbers) / 10
    # Nine degrees of freedom, one in ten thousand exceeds 33.7.
    assert sum((deciles[d] - expected) ** 2 / expected for d in range(10)) < 33.7


def test_uniform_numbers_are_always_the_same() -> None:
    """A seed that a user wrote down must give the same answer after an upgrade."""
    assert uniform(0, (), 0) == pytest.approx(0.22348495, abs=1e-8)
    assert uniform(7, (1, 0), 3) == pytest.approx(0.40293908, abs=1e-8)


def test_paths_cannot_be_confused() -> None:
    assert len({uniform(1, (1, 1), 1), uniform(1, (11,), 1), uniform(1, (1,), 11), uniform(11, (), 1)}) == 4


def test_the_largest_number_is_below_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __init__(self, *_: object, digest_size: int) -> None:
            self.size = digest_size

        def digest(self) -> bytes:
            return b"\xff" * self.size

    monkeypatch.setattr("pasta.engine.base.hashlib.blake2b", Full)
    assert 0.999 < uniform(0, (), 0) < 1


# -- bad values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, value",
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("temperature", 1e300),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_p", math.nan),
        ("min_p", -0.1),
        ("min_p", 1.5),
        ("parallelism", math.nan),
        ("parallelism", math.inf),
        ("parallelism", -1e308),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", -1.1),
        ("repetition_penalty", 101.0),
        ("repetition_penalty", math.nan),
        ("repetition_penalty", math.inf),
    ],
)
def test_bad_values_are_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"{name} is .*, expected"):
        SamplingParams(**{name: value})


def test_a_step_in_which_nobody_is_held_to_a_grammar_has_no_masks():
    assert masks_of([], 4).shape == (0, 4)  # keys of an object are put while others choose


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([1, 63, 64, 65, 1024, 3000]), st.integers(1, 40), st.floats(0.001, 0.999), st.integers(0, 9999))
def test_a_nucleus_is_that_of_a_sorted_vocabulary(size: int, highest: int, top_p: float, seed: int) -> None:
    """Whole numbers for probabilities: sums are exact, and many are equal, at the edge as well."""
    weights = torch.randint(0, highest + 1, (4, size), generator=torch.Generator().manual_seed(seed)).float()
    weights[:, -1] = 1
    ordered, order = weights.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    expected = torch.zeros_like(weights).scatter_(
        -1, order, ordered.masked_fill(before >= top_p * ordered.sum(-1, keepdim=True), 0.0)
    )
    assert nucleus(weights, top_p).equal(expected)


def test_a_row_that_is_no_numbers_fails_no_other() -> None:
    logits = torch.zeros(2, 100)
    logits[0], logits[1, 7] = math.nan, 50.0
    assert choose(logits, [SamplingParams(temperature=1.0, top_p=0.9)] * 2, [0.5, 0.5])[1] == 7
