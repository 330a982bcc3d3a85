"""Tests do not take an answer's word for it: an object of a class that it wrote may say that it equals everything."""

from __future__ import annotations

import ast

from pasta.tasks.problem import call_of

# Comes after the answer's code. What an object is compared by must not be of a class that was made there, nor take
# anything for its equal.
LOOK = """
def looked_at(value):
    left, seen = [value], set()
    while left:
        each = left.pop()
        [compares, *_] = [kind for kind in type(each).__mro__ if "__eq__" in vars(kind)]
        assert compares.__module__ != __name__ and (each == object()) is not True
        if isinstance(each, (list, tuple, set, frozenset, dict)) and id(each) not in seen:
            seen.add(id(each))
            left.extend([*each, *(each.values() if isinstance(each, dict) else ())])
    return value
"""


def honest(test: str) -> str:
    """A test `assert f(…) == value` that looks at what `f` gives before it compares; one of another form as it is.

    Only where the value is written out: an object of the answer's own may rightly equal another.
    """
    try:
        call, value = call_of(test)
        ast.literal_eval(value)
        [statement] = ast.parse(test.strip()).body
    except (ValueError, TypeError):
        return test
    assert isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Compare)
    statement.test.left = ast.Call(ast.Name("looked_at", ast.Load()), [call], [])
    return ast.unparse(statement)
