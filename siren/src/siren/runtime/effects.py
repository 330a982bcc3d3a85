"""What a program may do, read off its syntax tree: effects of expressions, and which names they need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from siren.syntax import ast
from siren.syntax.builtins import WITH_FUNCTIONS
from siren.syntax.traverse import children, everything, pattern_names

# An expression is pure if it neither observes nor resamples, and simple if it moreover neither assumes, loops
# nor recurs, so that it can be evaluated for particles that do not need it.
OBSERVE, RESAMPLE, ASSUME, LOOP, RECUR = "observe", "resample", "assume", "loop", "recur"
_IMPURE = frozenset({OBSERVE, RESAMPLE})


@dataclass(frozen=True, slots=True)
class Facts:
    """What an expression does itself, which functions of the program it calls, and which names it reads."""

    direct: frozenset[str]
    called: frozenset[str]
    needs: frozenset[str]


class Effects:
    """Effects of every function of a program, and of expressions in it."""

    def __init__(self, program: ast.Program) -> None:
        # By identity: the expression is kept, so that its identity is not given to another one.
        self._facts: dict[int, tuple[ast.Expr, Facts]] = {}
        self._of: dict[Facts, frozenset[str]] = {}
        self._bodies: dict[str, Facts] = {}
        bodies = _bodies(program)
        self._functions = frozenset(bodies)
        for name, several in bodies.items():
            facts = [self._look_at(body) for body in several]
            self._bodies[name] = Facts(
                _union(fact.direct for fact in facts), _union(fact.called for fact in facts), _NONE
            )

    def of(self, expr: ast.Expr) -> frozenset[str]:
        facts = self._look_at(expr)
        found = self._of.get(facts)
        if found is None:
            effects = set(facts.direct)
            for name in self._reached(facts.called):
                effects |= self._bodies[name].direct
                if name in self._reached(self._bodies[name].called):
                    effects.add(RECUR)
            found = self._of[facts] = frozenset(effects)
        return found

    def is_pure(self, expr: ast.Expr) -> bool:
        return not self.of(expr) & _IMPURE

    def is_simple(self, expr: ast.Expr) -> bool:
        return not self.of(expr)

    def needs(self, expr: ast.Expr) -> frozenset[str]:
        """The variables that an expression reads."""
        return self._look_at(expr).needs

    def _look_at(self, expr: ast.Expr) -> Facts:
        """The facts of an expression, from those of its parts: each is looked at once, without recursion."""
        known = self._facts.get(id(expr))
        if known is not None:
            return known[1]
        stack = [expr]
        while stack:
            node = stack[-1]
            open_parts = [part for part in children(node) if id(part) not in self._facts]
            if open_parts:
                stack.extend(open_parts)
                continue
            stack.pop()
            if id(node) not in self._facts:
                self._facts[id(node)] = (node, self._facts_of(node))
        return self._facts[id(expr)][1]

    def _facts_of(self, node: ast.Expr) -> Facts:
        parts = [self._facts[id(part)][1] for part in children(node)]
        direct = _union(part.direct for part in parts)
        called = _union(part.called for part in parts)
        kind = _KINDS.get(type(node))
        if kind is not None:
            direct |= {kind}
        given: ast.Expr | None = None
        if isinstance(node, ast.Fold):
            given = node.function
        elif isinstance(node, ast.Call):
            if node.function in WITH_FUNCTIONS and node.arguments:
                direct |= {LOOP}
                given = node.arguments[0]
            if node.function in self._functions:
                called |= {node.function}
        if isinstance(given, ast.Name) and given.name in self._functions:
            called |= {given.name}
        match node:
            case ast.Name(name):
                return Facts(direct, called, frozenset({name}))
            case ast.Call(name):  # which may be a variable that holds a function
                needs = _union(part.needs for part in parts) | {name}
            case ast.Lambda(parameters, body):
                needs = self.needs(body) - bound(parameters)
            case ast.Let(pattern, value, body):
                needs = self.needs(value) | (self.needs(body) - bound(pattern))
            case ast.Assume(_, name, distribution, body):
                needs = self.needs(body) - {name}
                needs |= _union(self.needs(argument) for argument in distribution.arguments)
            case _:
                needs = _union(part.needs for part in parts)
        return Facts(direct, called, needs)

    def _reached(self, names: Iterable[str]) -> set[str]:
        seen: set[str] = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo.extend(self._bodies[name].called)
        return seen


def _bodies(program: ast.Program) -> dict[str, list[ast.Expr]]:
    """What may run when a name is called: the body of the function, and of the functions without a name that
    a variable of this name may hold. If that cannot be told, it may hold any of them."""
    bodies: dict[str, list[ast.Expr]] = {function.name: [function.body] for function in program.functions}
    nodes = list(everything(program))
    lambdas = [node for node in nodes if isinstance(node, ast.Lambda)]
    if not lambdas:
        return bodies
    patterns = [function.parameters for function in program.functions]
    for node in nodes:
        match node:
            case ast.Let(ast.NamePattern(name), ast.Lambda(_, body)):
                bodies.setdefault(name, []).append(body)
            case ast.Let(pattern) | ast.Lambda(pattern):
                patterns.append(pattern)
    for name in {name.name for pattern in patterns for name in pattern_names(pattern)}:
        bodies.setdefault(name, []).extend(function.body for function in lambdas)
    return bodies


_KINDS: dict[type, str] = {
    ast.Observe: OBSERVE,
    ast.Resample: RESAMPLE,
    ast.Assume: ASSUME,
    ast.Fold: LOOP,
}
_NONE: frozenset[str] = frozenset()


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    """One of them if it has all, so that equal sets are the same object."""
    total = _NONE
    for each in sets:
        if not each <= total:
            total = each if total <= each else total | each
    return total


def bound(pattern: ast.Pattern) -> set[str]:
    """The names that a pattern binds."""
    return {name.name for name in pattern_names(pattern)}
