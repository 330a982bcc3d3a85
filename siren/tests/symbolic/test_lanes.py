import gc

import numpy as np

from siren.symbolic.expr import Column, fresh
from siren.symbolic.lanes import Scope


def test_values_follow_resampling_when_read() -> None:
    rng = np.random.default_rng(0)
    scope = Scope(50)
    histories, truth = [], []
    for step in range(40):
        value = rng.normal(size=50)
        histories.append(Column(value.copy(), scope.now))
        truth.append(value)
        ancestors = np.sort(rng.integers(50, size=50))
        scope.advance(ancestors)
        truth = [old[ancestors] for old in truth]
        if step % 7 == 0:
            np.testing.assert_array_equal(fresh(histories[step // 2], scope).data, truth[step // 2])
    for column, expected in zip(histories, truth, strict=True):
        np.testing.assert_array_equal(fresh(column, scope).data, expected)


def test_an_old_value_does_not_keep_all_generations() -> None:
    rng = np.random.default_rng(0)
    scope = Scope(8)
    old = Column(np.arange(8.0), scope.now)
    expected = old.data
    for _ in range(1000):
        ancestors = rng.permutation(8)
        scope.advance(ancestors)
        expected = expected[ancestors]
    gc.collect()
    assert len(scope._alive) < 200
    np.testing.assert_array_equal(fresh(old, scope).data, expected)


def test_a_child_scope_sees_its_lanes_and_its_parent_follows_its_resampling() -> None:
    outer = Scope(6)
    column = Column(np.arange(6.0), outer.now)
    inner = Scope(3, outer, np.array([1, 3, 5]))
    np.testing.assert_array_equal(fresh(column, inner).data, [1, 3, 5])
    own = Column(np.array([10.0, 30.0, 50.0]), inner.now)
    inner.advance(np.array([2, 2, 0]))
    np.testing.assert_array_equal(fresh(own, inner).data, [50, 50, 10])
    np.testing.assert_array_equal(fresh(column, outer).data, [0, 5, 2, 5, 4, 1])
    np.testing.assert_array_equal(fresh(column, inner).data, [5, 5, 1])
