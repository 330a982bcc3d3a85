import json
import re

import numpy as np
import pytest

from siren import Recorder, SirenError, run

BOOTSTRAP = """
val step = fun (y, x) ->
  let sample z <- gaussian(x, 1) in
  let () = observe(gaussian(z, 1), y) in
  let () = resample() in
  z
in
fold(step, [1, 2, 3, 4], 0)
"""


def test_lineages_and_survivors_of_a_known_tree() -> None:
    recorder = Recorder()
    recorder.step(np.array([0, 0, 2]), np.zeros(3), 3.0)
    recorder.step(None, np.zeros(3), 3.0)
    recorder.step(np.array([2, 1, 1]), np.log([0.1, 0.8, 0.1]), 1.5)
    assert recorder.survivors() == [2, 2, 2, 3]
    assert recorder.lineages().tolist() == [[0, 0, 2], [1, 1, 2], [1, 1, 2], [1, 2, 0]]
    assert recorder.steps[2].largest_weight == pytest.approx(0.8)


def test_a_run_fills_it_and_the_page_stands_alone(tmp_path) -> None:
    recorder = Recorder()
    run(BOOTSTRAP, particles=30, seed=0, recorder=recorder)
    assert len(recorder.steps) == 4
    page = tmp_path / "r.html"
    recorder.save(page, {"program": "</script>"})
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=|https?://|@import|url\(", text)
    embedded = re.search(r'<script id="record" type="application/json">(.*?)</script>', text, re.S)
    assert embedded and json.loads(embedded.group(1))["particles"] == 30
    recorder.save(tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["resampled"] == [True] * 4


def test_unknown_ending(tmp_path) -> None:
    with pytest.raises(SirenError, match="cannot write a record"):
        Recorder().save(tmp_path / "r.txt")
