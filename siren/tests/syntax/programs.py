"""Random programs for property tests: any tree that the parser could have built."""

from __future__ import annotations

from hypothesis import strategies as st

from siren.syntax import ast
from siren.syntax.builtins import KEYWORDS

names = st.from_regex(r"[a-z][a-z0-9_]{0,5}'?", fullmatch=True).filter(lambda name: name not in KEYWORDS)
qualified = st.sampled_from(["List.hd", "List.tl", "List.rev", "File.read"])
numbers = st.floats(min_value=0, allow_nan=False, allow_infinity=False).map(ast.Number)
strings = st.text(
    st.characters(exclude_characters='"\n\r', codec="utf-8", categories=["L", "N", "P", "Zs"]), max_size=6
)

leaf_patterns = st.one_of(
    names.map(ast.NamePattern), st.just(ast.WildcardPattern()), st.just(ast.UnitPattern())
)
# A column of a file may have any name.
fields = st.one_of(names, st.sampled_from(["let", "sample", "_", "Speed (m/s)", "2", ""]))


def _record_patterns(inner: st.SearchStrategy[ast.Pattern]) -> st.SearchStrategy[ast.Pattern]:
    # `{x}` is short for `{x = x}`: both are the same tree.
    pairs = st.lists(
        st.one_of(st.tuples(fields, inner), names.map(lambda name: (name, ast.NamePattern(name)))),
        min_size=1,
        max_size=3,
    )
    return pairs.map(lambda pairs: ast.RecordPattern(*map(tuple, zip(*pairs, strict=True))))


patterns = st.recursive(
    leaf_patterns,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda items: ast.TuplePattern(tuple(items))),
        _record_patterns(inner),
    ),
    max_leaves=4,
)
leaves = st.one_of(
    numbers,
    st.booleans().map(ast.Boolean),
    strings.map(ast.String),
    st.just(ast.Unit()),
    st.just(ast.Resample()),
    st.just(ast.List(())),
    names.map(ast.Name),
    qualified.map(ast.Name),
)


def _compound(inner: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Expr]:
    some = st.lists(inner, max_size=3).map(tuple)
    two_or_more = st.lists(inner, min_size=2, max_size=3).map(tuple)
    distributions = st.builds(ast.Distribution, names, some)
    records = st.dictionaries(fields, inner, min_size=1, max_size=3)
    bases = st.one_of(st.none(), names.map(ast.Name))
    operators = st.sampled_from(["+", "-", "*", "/", "=", "<>", "<", "<=", ">", ">=", "&&", "||", "::"])
    return st.one_of(
        st.builds(ast.Tuple, two_or_more),
        st.builds(ast.List, some),
        st.builds(ast.Unary, st.sampled_from(["-", "not"]), inner),
        st.builds(ast.Binary, operators, inner, inner),
        st.builds(ast.Call, st.one_of(names, qualified), some),
        st.builds(ast.Fold, inner, inner, inner),
        st.builds(lambda r, base: ast.Record(tuple(r), tuple(r.values()), base), records, bases),
        st.builds(ast.Field, inner, fields),
        st.builds(ast.Lambda, patterns, inner),
        st.builds(ast.If, inner, inner, inner),
        st.builds(ast.Let, patterns, inner, inner),
        st.builds(ast.Assume, st.sampled_from([None, "sample", "symbolic"]), names, distributions, inner),
        st.builds(ast.Observe, distributions, inner),
    )


expressions = st.recursive(leaves, _compound, max_leaves=12)
functions = st.builds(ast.Function, names, patterns, expressions)
programs = st.builds(ast.Program, st.lists(functions, max_size=2).map(tuple), expressions)
