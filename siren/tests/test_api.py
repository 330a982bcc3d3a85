import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import siren
from siren.cli.show import summary_lines
from siren.errors import CheckErrors, SirenError

KALMAN = """
val step = fun (y, xs) ->
  let x <- gaussian(List.hd(xs), 1.) in
  let () = observe(gaussian(x, 1.), y) in
  let () = resample() in
  x :: xs
in
List.tl(List.rev(fold(step, ys, [0.])))
"""


def kalman_smoother(ys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation by solving the joint Gaussian directly."""
    n = len(ys)
    walk = np.eye(n) - np.eye(n, k=-1)
    precision = walk.T @ walk + np.eye(n)
    covariance = np.linalg.inv(precision)
    return covariance @ ys, np.sqrt(np.diag(covariance))


def test_arrays_equal_the_kalman_smoother() -> None:
    ys = np.random.default_rng(0).normal(0, 2, 20)
    result = siren.run(KALMAN, data={"ys": ys}, particles=7, seed=1)
    mean, sd = kalman_smoother(ys)
    output = result[0]
    assert output.mean.shape == (20,)
    np.testing.assert_allclose(output.mean, mean, atol=1e-9)
    np.testing.assert_allclose(output.sd, sd, atol=1e-9)
    np.testing.assert_allclose(output.quantile(0.5), mean, atol=1e-6)
    assert result.plan == {"x": "symbolic"}


def test_log_evidence_of_a_conjugate_program() -> None:
    result = siren.run("let p <- beta(2, 3) in let () = observe(bernoulli(p), true) in p", seed=0)
    assert result.log_evidence == pytest.approx(np.log(2 / 5))
    assert result["p"].mean == pytest.approx(3 / 6)


def test_seed_makes_runs_equal_and_is_kept() -> None:
    text = "let sample x <- gaussian(0, 1) in x"
    first = siren.run(text, particles=50)
    again = siren.run(text, particles=50, seed=first.seed)
    other = siren.run(text, particles=50, seed=first.seed + 1)
    assert first[0].mean == again[0].mean != other[0].mean


def test_outputs_are_named_after_their_expressions() -> None:
    result = siren.run("let g <- gamma(3, 2) in let t = (g, [g, 1.]) in (1 / g, t, (2., 3.), g, g)")
    assert list(result.outputs) == ["1 / g", "t.1", "t.2", "2.", "3.", "g", "g #2"]
    assert result["1 / g"].mean == pytest.approx(1.0)
    with pytest.raises(SirenError, match="no output `h`"):
        result["h"]


def test_program_from_path_reads_data_beside_it(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a\n1\n2\n", encoding="utf-8")
    (tmp_path / "p.si").write_text('List.map(List.hd, File.read("d.csv"))', encoding="utf-8")
    for program in (tmp_path / "p.si", str(tmp_path / "p.si")):
        np.testing.assert_array_equal(siren.run(program, particles=1)[0].mean, [1.0, 2.0])


def test_mistakes_are_found_before_the_run() -> None:
    with pytest.raises(CheckErrors, match="unknown name `zs`"):
        siren.run(KALMAN.replace("ys,", "zs,"), data={"ys": [1.0]})


def test_violated_plan_names_variable_and_place() -> None:
    text = "let symbolic x <- gaussian(0, 1) in\nlet () = observe(gaussian(x * x, 1), 2) in x"
    with pytest.raises(siren.PlanError) as caught:
        siren.run(text, seed=0)
    assert "x" in caught.value.message and caught.value.span is not None
    assert "<program>:1" in str(caught.value)


def test_plan_from_outside_overrides() -> None:
    result = siren.run("let x <- gaussian(0, 1) in x", plan={"x": "sample"}, particles=20, seed=0)
    assert result.plan == {"x": "sample"}
    assert result["x"].sd > 0


def test_stream_agrees_with_the_whole_run() -> None:
    ys = [1.0, 2.0, 0.5]
    program = """
    val step = fun (row, x) ->
      let x2 <- gaussian(x, 1.) in
      let () = observe(gaussian(x2, 1.), List.hd(row)) in
      x2
    in
    fold(step, data, 0.)
    """
    means = [result[0].mean for result in siren.stream(program, [[y] for y in ys], particles=3, seed=0)]
    for count in range(1, 4):
        whole = siren.run(program, data={"data": [[y] for y in ys[:count]]}, particles=3, seed=0)
        assert means[count - 1] == pytest.approx(whole[0].mean)


def test_draws_share_particles_between_outputs() -> None:
    result = siren.run("let sample x <- gaussian(0, 1) in (x, 2 * x, [x, x])", particles=40, seed=0)
    x, double, both = (output.draws(30, seed=5) for output in result)
    np.testing.assert_allclose(double, 2 * x)
    assert both.shape == (30, 2)


def test_arviz_gets_every_output() -> None:
    """Of names that differ in signs alone the last was left; lists of unequal lengths were a traceback."""
    pytest.importorskip("arviz", exc_type=ImportError)
    text = "let x <- gaussian(0, 1) in (x + 1, x - 1, {sites = [[x, x, 2], [x]]})"
    result = siren.run(text, particles=10, seed=0)
    posterior = result.to_arviz(draws=500).posterior
    means = {name: float(array.mean()) for name, array in posterior.data_vars.items()}
    assert set(means) == {"x_1", "x_1_2", "sites"}
    assert means["x_1"] - means["x_1_2"] == pytest.approx(2)
    np.testing.assert_array_equal(result["sites"].draws(500), posterior["sites"][0])


def test_arviz() -> None:
    pytest.importorskip("arviz", exc_type=ImportError)
    result = siren.run("let x <- gaussian(0, 1) in (x, [x, x])", seed=0)
    data = result.to_arviz(draws=50)
    assert data.posterior["x"].shape == (1, 50)
    assert data.posterior["x_x"].shape == (1, 50, 2)
    assert data.attrs["inference_library"] == "siren" and data.attrs["particles"] == result.particles


@pytest.mark.slow
def test_memory_stays_flat_on_a_stream() -> None:
    """A program that keeps only its present state may run for ever."""
    generator = np.random.default_rng(0)
    rows = ([float(t), *generator.normal(0.5 * t, 1.5, 2).tolist()] for t in range(401))
    program = Path(__file__).parents[1] / "examples" / "tracking.si"
    tracemalloc.start()
    try:
        used = {}
        for count, _ in enumerate(siren.stream(program, rows, particles=20, seed=0), start=1):
            if count in (100, 400):
                used[count] = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used[400] - used[100] < 300_000


@pytest.mark.parametrize(
    "text",
    [
        "let x <- gaussian(0, 1) in let y <- gaussian(x, 1) in let () = observe(gaussian(x - y, 1), 2) in x",
        "let x <- beta(1, 2) in let () = observe(bernoulli(x), true) in x",
        "let x <- beta(1, 2) in let () = observe(binomial(4, x), 3) in x",
        "let x <- gamma(1.5, 2) in let () = observe(poisson(x), 3) in x",
        "let x <- gamma(1.5, 2) in let () = observe(exponential(x), 0.3) in x",
        "let x <- gamma(1.5, 2) in let () = observe(gaussian(1, 3 / x), 0.3) in x",
        "let g <- gamma(3, 2) in let m <- gaussian(0, 2 / g) in let () = observe(gaussian(m, 1 / g), 1) in m",
        "let c <- categorical(0, 2, [.2, .3, .5]) in let () = observe(bernoulli(c / 3), true) in c",
        "let b <- bernoulli(.3) in let () = observe(bernoulli(if b then .9 else .2), true) in b",
    ],
)
def test_the_table_of_what_stays_symbolic(text: str) -> None:
    """The table in docs/language.md."""
    assert set(siren.run(text, particles=3, seed=0).plan.values()) == {"symbolic"}


def test_the_weights_of_the_answer_count_as_a_sample_size() -> None:
    """Without `resample()` one particle comes to have all the weight, and nothing else says so."""
    program = """
    val step = fun (y, x) ->
      let sample x <- gaussian(x, 1) in
      let () = observe(gaussian(x, 0.1), y) in
      x
    in
    fold(step, ys, 0)
    """
    result = siren.run(program, data={"ys": [1.0, 3.0] * 20}, particles=200, seed=0)
    assert result.ess.size == 0 and result.smallest_ess < 5
    assert result.to_json()["ess_min"] == result.smallest_ess
    assert ("smallest ESS", f"{result.smallest_ess:.0f} of 200") in list(summary_lines(result))
    exact = siren.run("let x <- gaussian(0, 1) in x", particles=200)
    assert exact.smallest_ess == 200 and "smallest ESS" not in dict(summary_lines(exact))


def test_a_result_has_its_outputs() -> None:
    result = siren.run("let x <- gaussian(0, 1) in x", particles=1)
    assert "x" in result and result["x"] in result
    assert "y" not in result and 0 not in result
