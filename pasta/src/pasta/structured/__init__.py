"""Structured answers: a JSON schema becomes threads, each decoding one value under its own constraint.

The schema names the parts that do not depend on each other, so no model has to learn them: it works with any model.

    request = make_structured_request(engine, "Ada, 36, from London", schema, mode="parallel", max_tokens=256)
    [result] = pasta.decoding.api.run(engine, [request])     # or Stream(engine, request), or a Runner
    result.value        # {"name": "Ada", "age": 36}: JSON as Python reads it; None where a limit cut it
    result.text         # its JSON; `result.missing` names the values that a limit cut off, by JSON pointer
    result.fields       # (pointer, text, value, thread, tokens, complete), in the schema's order

`compile_schema(schema, mode=, after=)` gives the `Plan` alone, which stands for the schema wherever one is taken.
Fields are independent unless the schema (`"x-after": ["total"]`) or `after={"tax": ["total"]}` says otherwise; names
are of the same object, or JSON pointers. `mode="sequential"` lets every value see those before it; `lead` and
`leftover` are between the two (`ways.py`). An array whose length is not known is one value; with `arrays="parallel"`
its count comes first, and then all elements at once.

A request steps, streams and is cancelled like any other. Of each step, `StepOutput.text` is the JSON that became
certain, in reading order; the events are `Forked(0, thread, pointer, 0)` for each value, `TextWritten(thread, text)`
for what it writes, `Ended(thread, 'stop' | 'closed' | 'length')` when it is done, and `Finished('stop' | 'length')`.
"""

from pasta.structured.errors import ConstraintError, MissingPackage, SchemaError
from pasta.structured.plan import Plan
from pasta.structured.planner import compile_schema
from pasta.structured.request import Extraction, make_program, make_structured_request
from pasta.structured.result import Field, StructuredResult
from pasta.structured.schema import as_schema

__all__ = [
    "ConstraintError",
    "Extraction",
    "Field",
    "MissingPackage",
    "Plan",
    "SchemaError",
    "StructuredResult",
    "as_schema",
    "compile_schema",
    "make_program",
    "make_structured_request",
]
