"""Options that would pass silently, or fail deep inside, are refused by name."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import siren
from siren.options import OptionError

TEXT = "let x <- gaussian(0, 1) in x"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"plan": {"x": "foo"}}, "the plan of `x` is one of symbolic, sample, not 'foo'"),
        ({"plan": "x=sample"}, "a plan is a dict"),
        ({"mean": "q"}, "mean is one of exact, plugin, not 'q'"),
        ({"ess": 2}, "ess is a share of the particles, from 0 to 1, not 2"),
        ({"ess": -0.5}, "not -0.5"),
        ({"ess": float("nan")}, "not nan"),
        ({"particles": 2.5}, "particles is a whole number of at least 1, not 2.5"),
        ({"particles": 0}, "not 0"),
        ({"particles": True}, "not True"),
        ({"seed": -1}, "seed is a whole number of at least 0, not -1"),
        ({"seed": 1.5}, "not 1.5"),
        ({"method": "sis"}, "method is one of ssi, ds, bp, not 'sis'"),
        ({"resample": "systematical"}, "did you mean `systematic`"),
    ],
)
def test_wrong_options_are_refused(options, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        siren.run(TEXT, **options)
    assert message in caught.value.render()
    with pytest.raises(OptionError):
        list(siren.stream(TEXT, [], **options))


def test_quantiles_go_by_probabilities() -> None:
    output = siren.run("let x <- gaussian(0, 1) in [x, x + 1]", seed=0)[0]
    both = output.quantile([0.5, 0.95])
    assert output.quantile(np.array(0.95)).tolist() == both[1].tolist()
    assert both.shape == (2, 2) and both[1].tolist() == output.quantile(0.95).tolist()
    for q, hint in ((95, "write 0.95 for 95 %"), (-0.1, None), ("0.5", None), (float("nan"), None)):
        with pytest.raises(OptionError, match="a quantile goes by a probability, from 0 to 1, not") as caught:
            output.quantile(q)
        assert caught.value.hint == hint
    with pytest.raises(OptionError, match="n is a whole number of at least 0, not -1"):
        output.draws(-1)


@pytest.mark.parametrize("program", [b"1", 5, None, ["x"]])
def test_what_is_no_program_is_refused(program) -> None:
    for run in (siren.run, siren.Stream, siren.learn.smc2, siren.smooth, siren.predictive):
        with pytest.raises(OptionError, match=f"a program is no {type(program).__name__}"):
            run(program)


def test_numbers_of_numpy_are_whole() -> None:
    assert siren.run(TEXT, particles=np.int64(5), seed=np.uint8(3)).particles == 5


def test_labels_in_brackets_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from siren.cli.show import show_result

    show_result(siren.run("let x <- gaussian(0, 1) in ([x, 2 * x], x)", seed=0), 12)
    shown = capsys.readouterr().out
    assert "[x, 2 * x][0]" in shown and "[x, 2 * x][1]" in shown


def test_streams_write_json_that_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    from siren.cli.show import show_stream

    program = """
    val step = fun (row, p) -> let () = observe(gaussian(0, 1 / p), List.hd(row)) in p in
    let p <- gamma(1, 1) in
    let p = fold(step, data, p) in
    1 / p
    """
    show_stream(siren.stream(program, [[0.0], [1.0], [2.0]], particles=10, seed=0), True)
    refuse = lambda word: pytest.fail(f"{word} is no JSON")  # noqa: E731
    rows = [json.loads(line, parse_constant=refuse) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 3 and rows[0]["1 / p"]["sd"] is None
    assert sys.float_info.max > rows[2]["1 / p"]["mean"] > 0
