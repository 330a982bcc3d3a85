"""Each method against the exact posterior of a linear-Gaussian program, which symbolic runs give."""

import json
from collections.abc import Callable

import numpy as np
import pytest

import siren
from siren.errors import SirenError
from siren.learn import Learned, pmmh, rejuvenate, smc2, tempered
from siren.learn.walk import gained, normalised

DRIFT = """
val step = fun (y, (x, drift)) ->
  let sample x <- gaussian(x + drift, 0.5) in
  let () = observe(gaussian(x, 1), y) in
  let () = resample() in
  (x, drift)
in
let sample drift <- gaussian(0, 1) in
let (x, drift) = fold(step, ys, (0, drift)) in
(drift, x)
"""
SYMBOLIC = {"x": "symbolic", "drift": "symbolic"}


def data(steps: int = 15) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    xs = np.cumsum(0.7 + np.sqrt(0.5) * rng.normal(size=steps))
    return {"ys": xs + rng.normal(size=steps)}


def exact() -> siren.Result:
    return siren.run(DRIFT, data=data(), plan=SYMBOLIC, particles=1, seed=0)


METHODS = {
    "smc2": lambda **more: smc2(DRIFT, data=data(), values=200, particles=60, seed=1, **more),
    "tempered": lambda **more: tempered(DRIFT, data=data(), values=200, particles=60, seed=1, **more),
    "pmmh": lambda **more: pmmh(
        DRIFT, data=data(), chains=16, iterations=80, warmup=40, particles=60, seed=1, **more
    ),
    "moves": lambda **more: rejuvenate(DRIFT, data=data(), particles=1500, seed=1, **more),
}


@pytest.mark.parametrize("name", METHODS)
def test_the_posterior_is_the_exact_one(name: str) -> None:
    """200 values carry errors of 0.07 standard deviations; chains and moves are worth about as much."""
    learned, truth = METHODS[name](), exact()
    spread = truth["drift"].sd
    assert learned.method == name
    assert abs(learned.mean("drift") - truth["drift"].mean) < 0.3 * spread
    assert 0.75 < learned.sd("drift") / spread < 1.3
    for output in ("drift", "x"):
        there, here = truth[output], learned.result[output]
        assert abs(here.mean - there.mean) < 0.35 * there.sd
        assert 0.7 < here.sd / there.sd < 1.35
    assert 0.05 < learned.acceptance < 0.95
    if name != "pmmh":
        assert learned.log_evidence == pytest.approx(truth.log_evidence, abs=0.5)
        assert learned.result.log_evidence == learned.log_evidence


def test_a_symbolic_state_needs_one_particle_a_filter() -> None:
    """Then the likelihood is exact, and so is the walk."""
    learned = pmmh(DRIFT, data=data(), plan={"x": "symbolic"}, particles=1, chains=16, iterations=80, seed=2)
    truth = exact()["drift"]
    assert abs(learned.mean("drift") - truth.mean) < 0.25 * truth.sd
    assert 0.8 < learned.sd("drift") / truth.sd < 1.25
    assert learned.result.plan == {"x": "symbolic", "drift": "sample"}


SEEN = "let () = observe(gaussian(x, 0.5), 2) in "
LOOP = "let () = fold(fun (y, ()) -> let () = observe(gaussian(x, 0.5), y) in resample(), [1.5, 1], ()) in "
AROUND = {"no loop": SEEN, "before": SEEN + LOOP, "after": LOOP + SEEN}


@pytest.mark.parametrize("name", AROUND)
@pytest.mark.parametrize("method", [smc2, tempered, rejuvenate])
def test_what_is_observed_around_the_loop_counts(method, name: str) -> None:
    text = f"let x <- gaussian(0, 1) in {AROUND[name]} x"
    learned = method(text, particles=4 if method is not rejuvenate else 2000, seed=1)
    truth = siren.run(text, plan={"x": "symbolic"}, seed=0)
    assert abs(learned.mean("x") - truth[0].mean) < 0.3 * truth[0].sd
    assert 0.75 < learned.sd("x") / truth[0].sd < 1.3
    assert learned.log_evidence == pytest.approx(truth.log_evidence, abs=0.5)


def test_the_same_seed_gives_the_same_answer() -> None:
    for method in (smc2, tempered):
        first, again, other = (method(DRIFT, data=data(5), values=16, particles=8, seed=s) for s in (4, 4, 5))
        assert np.array_equal(first.draws["drift"], again.draws["drift"])
        assert not np.array_equal(first.draws["drift"], other.draws["drift"])


def test_parameters_with_bounds_stay_inside() -> None:
    program = """
    val step = fun (y, (x, rho)) ->
      let sample x <- gaussian(rho * x, 1 - rho * rho) in
      let () = observe(gaussian(x, 0.1), y) in
      let () = resample() in
      (x, rho)
    in
    let sample rho <- beta(2, 1) in
    let sample x <- gaussian(0, 1) in
    let (x, rho) = fold(step, ys, (x, rho)) in rho
    """
    ys = [0.3, 0.35, 0.4, 0.38, 0.36, 0.35, 0.33, 0.3]
    options = {"data": {"ys": ys}, "parameters": ["rho"], "seed": 0}
    for learned in (
        smc2(program, values=64, particles=32, **options),
        tempered(program, values=64, particles=32, **options),
        pmmh(program, chains=8, iterations=20, warmup=20, particles=32, **options),
        rejuvenate(program, particles=200, **options),
    ):
        assert learned.draws["rho"].min() > 0 and learned.draws["rho"].max() < 1
        assert learned.mean("rho") > 0.6


def test_a_missing_datum_is_no_evidence() -> None:
    program = DRIFT.replace("(drift, x)\n", "drift\n")
    gaps = [1.0, None, 2.0, None]
    learned = smc2(program, data={"ys": gaps}, values=300, particles=20, plan={"x": "symbolic"}, seed=0)
    truth = siren.run(program, data={"ys": gaps}, plan=SYMBOLIC, particles=1)["drift"]
    assert abs(learned.mean("drift") - truth.mean) < 0.3 * truth.sd


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parameters": ["drfit"]}, "did you mean `drift`"),
        ({"parameters": ["x"]}, "does not assume it before its loop"),
        ({"plan": {"drift": "symbolic"}}, "no parameters to learn"),
        ({"values": 1}, "values is a whole number of at least 2, not 1"),
        ({"moves": 0}, "moves is a whole number"),
        ({"particles": 2.5}, "particles is a whole number"),
    ],
)
def test_mistakes_are_named(options, message: str) -> None:
    with pytest.raises(SirenError) as caught:
        smc2(DRIFT, data=data(3), **options)
    assert message in caught.value.render()


@pytest.mark.parametrize("method", [smc2, pmmh, tempered, rejuvenate])
@pytest.mark.parametrize("prior", ["bernoulli(0.5)", "uniform_int(0, 1)", "dirichlet([1, 1])"])
def test_what_cannot_walk_is_refused(method, prior: str) -> None:
    """Before the run, by every method."""
    program = f"let b <- {prior} in let () = observe(gaussian(0, 1), 1) in b"
    with pytest.raises(SirenError, match="`b` is no number on a line") as caught:
        method(program, particles=2, seed=0)
    assert "1:5" in caught.value.render()


def test_a_vector_beside_the_parameters_is_left_to_the_filter() -> None:
    """An initial state, say, that is drawn."""
    program = """
    val step = fun (y, (shift, x)) ->
      let sample x <- mv_gaussian([x[0] + shift, x[1]], [[0.5, 0], [0, 0.5]]) in
      let () = observe(gaussian(x[0], 1), y) in
      let () = resample() in
      (shift, x)
    in
    let sample shift <- gaussian(0, 1) in
    let sample x <- mv_gaussian([0, 0], [[1, 0], [0, 1]]) in
    let (shift, x) = fold(step, [0.8, 1.2, 2.4, 2.6, 3.9], (shift, x)) in
    (shift, x)
    """
    exact = siren.run(program.replace("let sample", "let symbolic"), particles=1)["shift"]
    learned = smc2(program, parameters=["shift"], values=200, particles=100, seed=0)
    assert learned.mean("shift") == pytest.approx(exact.mean, abs=0.4 * exact.sd)


def test_json_and_arviz() -> None:
    learned = METHODS["tempered"]()
    found = json.loads(json.dumps(learned.to_json()))
    assert found["learn"] == "tempered" and set(found["parameters"]) == {"drift"}
    assert found["parameters"]["drift"]["mean"] == pytest.approx(learned.mean("drift"))
    pytest.importorskip("arviz", exc_type=ImportError)
    assert learned.to_arviz().posterior["drift"].shape == (1, 200)


def test_a_parameter_that_was_not_learnt_is_named() -> None:
    program = "let sample drift <- gaussian(0, 1) in fold(fun (y, d) -> d, ys, drift)"
    learned = siren.learn.tempered(program, data={"ys": [1.0]}, values=5, particles=2, seed=0)
    with pytest.raises(SirenError, match="no parameter `drit` was learnt") as caught:
        learned.mean("drit")
    assert caught.value.hint == "did you mean `drift`?"


def test_an_option_that_there_is_not():
    with pytest.raises(siren.SirenError, match="there is no option `metod`") as caught:
        siren.learn.smc2("let x <- gaussian(0, 1) in x", metod="ds")
    assert caught.value.hint == "did you mean `method`?"


COUNTS = """
val step = fun (y, (rate, p)) ->
  let sample n <- poisson(rate) in
  let () = observe(binomial(n, p), y) in
  let () = resample() in
  (rate, p)
in
let sample rate <- gamma(4, 0.5) in
let (rate, p) = fold(step, ys, (rate, 0.5)) in rate
"""


@pytest.mark.parametrize("method", [smc2, tempered])
def test_filters_that_find_the_data_impossible_have_no_say(method: Callable[..., Learned]) -> None:
    """Few particles reach the largest counts: many filters die, and must not come back as not-a-number."""
    ys = [3, 4, 9, 6, 8, 3, 7, 8]
    shape, rate = 4 + sum(ys), 0.5 + len(ys) / 2  # thinned, counts are poisson of half the rate
    learned = method(COUNTS, data={"ys": ys}, values=200, particles=10, seed=3)
    assert abs(learned.mean("rate") - shape / rate) < 0.3 * np.sqrt(shape) / rate
    assert 0.7 < learned.sd("rate") / (np.sqrt(shape) / rate) < 1.35


def test_when_every_filter_has_died_that_is_an_error() -> None:
    dead = gained(np.zeros(3), np.array([-1.0, -np.inf, -2.0]), np.full(3, -np.inf))
    with pytest.raises(SirenError, match="no filter finds the data possible"):
        normalised(dead)
