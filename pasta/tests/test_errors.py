"""Errors come from another process as they were: a pool that cannot read one breaks, and says nothing of why."""

import pickle

import pytest

from pasta.decoding.runner import EngineFailed
from pasta.errors import PastaError, UsageError
from pasta.lang.errors import LangError
from pasta.structured.errors import SchemaError


@pytest.mark.parametrize(
    "error",
    [
        UsageError("a is 1, expected 2", "use 2"),
        EngineFailed(),
        LangError("E101", "tag is not finished", line=3, column=1),
        SchemaError("no type", "/properties/a", "type"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_a_pickle(error: PastaError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)
