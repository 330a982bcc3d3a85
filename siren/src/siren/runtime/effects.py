"""What a program may do, read off its syntax tree: effects of expressions, and which names they need."""

from __future__ import annotations

from siren.syntax import ast
from siren.syntax.traverse import children, walk

# An expression is pure if it neither observes nor resamples, and simple if it moreover neither assumes, loops
# nor recurs, so that it can be evaluated for particles that do not need it.
OBSERVE, RESAMPLE, ASSUME, LOOP, RECUR = "observe", "resample", "assume", "loop", "recur"
_IMPURE = frozenset({OBSERVE, RESAMPLE})


class Effects:
    """Effects of every function of a program, and of expressions in it."""

    def __init__(self, program: ast.Program) -> None:
        self._functions = {function.name: function for function in program.functions}
        self._direct = {name: _direct(function.body) for name, function in self._functions.items()}
        self._calls = {name: self._called(function.body) for name, function in self._functions.items()}
        self._cache: dict[int, tuple[ast.Expr, frozenset[str]]] = {}
        self._needs: dict[int, tuple[ast.Expr, frozenset[str]]] = {}

    def of(self, expr: ast.Expr) -> frozenset[str]:
        cached = self._cache.get(id(expr))
        if cached is None:
            found = set(_direct(expr))
            for name in self._reached(self._called(expr)):
                found |= self._direct[name]
                if name in self._reached(self._calls[name]):
                    found.add(RECUR)
            cached = self._cache[id(expr)] = (expr, frozenset(found))
        return cached[1]

    def is_pure(self, expr: ast.Expr) -> bool:
        return not self.of(expr) & _IMPURE

    def is_simple(self, expr: ast.Expr) -> bool:
        return not self.of(expr)

    def needs(self, expr: ast.Expr) -> frozenset[str]:
        """The variables that an expression reads."""
        cached = self._needs.get(id(expr))
        if cached is None:
            cached = self._needs[id(expr)] = (expr, frozenset(_free(expr)))
        return cached[1]

    def _called(self, expr: ast.Expr) -> set[str]:
        names = set()
        for node in walk(expr):
            if isinstance(node, (ast.Call, ast.Fold)):
                names.add(node.function)
            elif isinstance(node, ast.Name):
                names.add(node.name)  # the function of a `List.map`
        return names & self._functions.keys()

    def _reached(self, names: set[str]) -> set[str]:
        seen: set[str] = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo.extend(self._calls[name])
        return seen


def _direct(expr: ast.Expr) -> frozenset[str]:
    kinds = {ast.Observe: OBSERVE, ast.Resample: RESAMPLE, ast.Assume: ASSUME, ast.Fold: LOOP}
    found = {kinds[type(node)] for node in walk(expr) if type(node) in kinds}
    if any(isinstance(node, ast.Call) and node.function == "List.map" for node in walk(expr)):
        found.add(LOOP)
    return frozenset(found)


def bound(pattern: ast.Pattern) -> set[str]:
    """The names that a pattern binds."""
    match pattern:
        case ast.NamePattern(name):
            return {name}
        case ast.TuplePattern(items):
            return set().union(*(bound(item) for item in items))
        case _:
            return set()


def _free(expr: ast.Expr) -> set[str]:
    match expr:
        case ast.Name(name):
            return {name}
        case ast.Let(pattern, value, body):
            return _free(value) | (_free(body) - bound(pattern))
        case ast.Assume(_, name, distribution, body):
            return set().union(*(_free(arg) for arg in distribution.arguments)) | (_free(body) - {name})
        case _:
            return set().union(*(_free(child) for child in children(expr)))
