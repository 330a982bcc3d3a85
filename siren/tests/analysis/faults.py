"""Faults that the analysis could have, each of which makes it accept plans that a run breaks."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

from siren.analysis.engines import AbstractBP, AbstractDS, AbstractSSI
from siren.analysis.interpreter import Interpreter
from siren.analysis.lists import Lists
from siren.analysis.number import Unknown
from siren.analysis.paths import Paths
from siren.analysis.widen import Widening
from siren.distributions import GAUSSIAN
from siren.inference.ds import MARGINALIZED
from siren.inference.node import Node
from siren.inference.ssi import SSI
from siren.symbolic.dist import Dist


def _only_the_first_answer(self, question, options: int = 2) -> int:
    return self.facts.setdefault(question, 0)


def _any_gaussian(self, dist) -> bool:
    return dist.family is GAUSSIAN


def _any_family(self, variable, kind) -> bool:
    return variable in self.closed


def _nothing_is_drawn(self, variable, dist) -> None:
    root = Dist(GAUSSIAN, (self.numbers.fresh(), self.numbers.fresh()))
    self.graph.set(variable, Node(root, MARGINALIZED))


def _one_step(self, loop, rest, start) -> list:
    return [start, *self._states_after(loop, rest, start, 0)]


ALL = ("ssi", "ds", "bp")


@dataclass(frozen=True)
class Fault:
    """What takes the place of an attribute, and the algorithms that it matters to."""

    owner: object
    attribute: str
    replacement: object
    methods: tuple[str, ...] = ALL


FAULTS: dict[str, Fault] = {
    "ds: all that is put away is settled": Fault(AbstractDS, "is_settled", lambda *_: True, ("ds",)),
    "ssi: all that is put away is settled": Fault(AbstractSSI, "is_settled", lambda *_: True, ("ssi",)),
    "no coefficient is 0": Fault(Unknown, "__bool__", lambda self: True),
    "undecided questions have one answer": Fault(Paths, "decide", _only_the_first_answer),
    "one order of exchanges stands for all": Fault(AbstractSSI, "in_order", SSI.in_order, ("ssi",)),
    "gaussians of random variance are closed": Fault(AbstractSSI, "_is_closed", _any_gaussian, ("ssi",)),
    "sets of several families are closed": Fault(AbstractSSI, "_is_member", _any_family, ("ssi",)),
    "bp: every parent is kept": Fault(AbstractBP, "_enter", _nothing_is_drawn, ("bp",)),
    "a loop has one step": Fault(Interpreter, "_states", _one_step),
    "the answer asks for nothing": Fault(Interpreter, "answer", lambda *_: None),
    "what is read after a loop is forgotten": Fault(Interpreter, "_outside", lambda self: []),
    "numbers are the same in every step": Fault(Widening, "_number", lambda self, before, after: before),
    "an `if` draws nothing": Fault(Interpreter, "_choose", lambda self, node, env: self.eval(node.then, env)),
}

# Those that only data with gaps show.
FAULTS_OF_GAPS: dict[str, Fault] = {
    "no datum is missing": Fault(Interpreter, "_there", Lists._there),
    "all observations may as well be skipped": Fault(Interpreter, "_seen", lambda *_: None),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    fault = {**FAULTS, **FAULTS_OF_GAPS}[name]
    with mock.patch.object(fault.owner, fault.attribute, fault.replacement):
        yield
