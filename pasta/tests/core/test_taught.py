"""What a checkpoint was taught, as its configuration says it."""

from __future__ import annotations

from typing import Any

import pytest

from pasta.core.positions import Positions
from pasta.core.taught import Taught
from pasta.errors import UsageError
from pasta.lang import MAX_DEPTH


@pytest.mark.parametrize("depth", [None, 0, 1, 3])
@pytest.mark.parametrize("positions", ["predicted", "ones", "fixed:40", "stitched"])
def test_a_record_is_read_as_it_was_written(positions: str, depth: int | None) -> None:
    taught = Taught(Positions.parse(positions), depth)
    assert Taught.read(taught.record()) == taught
    assert taught.deepest == (MAX_DEPTH if depth is None else depth)


def test_older_records_say_less() -> None:
    assert Taught.read(None) == Taught.read({}) == Taught(Positions(), None)
    assert Taught.read({"positions": "fixed:7"}) == Taught(Positions(gap=7), None)
    assert Taught().record() == {"positions": "predicted"}


@pytest.mark.parametrize("depth", [-1, MAX_DEPTH + 1, 1.5, "1", True])
def test_a_depth_that_is_none(depth: Any) -> None:
    with pytest.raises(UsageError, match=f"was taught depth {depth!r}, expected a number from 0 to {MAX_DEPTH}"):
        Taught.read({"depth": depth})


@pytest.mark.parametrize("positions", ["sideways", "fixed:0", 5, ["ones"]])
def test_positions_that_are_none(positions: Any) -> None:
    with pytest.raises(UsageError) as refused:
        Taught.read({"positions": positions})
    told = f"the model's record says positions {positions!r}, expected predicted, ones, stitched or fixed:K (correct"
    assert str(refused.value).startswith(told)


@pytest.mark.parametrize("record", ["ones", 5, ["ones"]])
def test_a_record_that_is_none(record: Any) -> None:
    with pytest.raises(UsageError, match=r"record is .*, expected an object"):
        Taught.read(record)
