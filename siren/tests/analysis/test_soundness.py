"""Whatever the analysis accepts, no run breaks. And would this test notice if it were otherwise?"""

import faults
import pytest
import random_programs
import vector_programs
from rewriting import nameless
from soundness import METHODS, require_sound

from siren.analysis import analyze
from siren.analysis.number import Numbers
from siren.analysis.paths import Paths
from siren.symbolic.sign import ANY, NEGATIVE, NONNEGATIVE, POSITIVE
from siren.syntax import parse
from siren.syntax.traverse import random_variables

PROGRAMS = 300


def test_what_is_accepted_holds() -> None:
    for seed in range(40):
        require_sound(seed)


def test_what_is_accepted_holds_where_lists_differ_in_length() -> None:
    for seed in range(10):
        require_sound(seed, write=random_programs.ragged)


def test_what_is_accepted_holds_where_a_random_function_is_mapped() -> None:
    for seed in range(30):
        require_sound(seed, write=random_programs.mapped)


def test_what_is_accepted_holds_where_steps_go_unobserved() -> None:
    for seed in range(12):
        require_sound(seed, write=random_programs.gaps)


@pytest.mark.slow
def test_what_is_accepted_holds_where_steps_go_unobserved_at_length() -> None:
    for seed in range(12, 300):
        require_sound(seed, write=random_programs.gaps)


@pytest.mark.slow
def test_what_is_accepted_holds_where_a_random_function_is_mapped_at_length() -> None:
    for seed in range(30, 600):
        require_sound(seed, write=random_programs.mapped)


def test_what_is_accepted_holds_of_vectors_and_categories() -> None:
    """19: a vector that is drawn goes through a loop. 72: a draw decides a choice of parents."""
    for seed in (*range(30), 72):
        require_sound(seed, write=vector_programs.program)


@pytest.mark.slow
def test_what_is_accepted_holds_of_vectors_and_categories_at_length() -> None:
    for seed in range(30, 400):
        require_sound(seed, write=vector_programs.program)


@pytest.mark.slow
def test_what_is_accepted_holds_where_lists_differ_in_length_at_length() -> None:
    for seed in range(10, 400):
        require_sound(seed, write=random_programs.ragged)


def test_verdicts_do_not_depend_on_whether_a_step_has_a_name() -> None:
    for seed in range(12):
        program = parse(random_programs.program(seed))
        other = nameless(program)
        for method in METHODS:
            for name in random_variables(program):
                plan, data = {name: "symbolic"}, {"ys": [1.0]}
                verdicts = [analyze(tree, method, plan, data).satisfiable for tree in (program, other)]
                assert verdicts[0] == verdicts[1], (seed, method, name)


def test_programs_that_were_trouble() -> None:
    """1090: a choice between parents by a flag that was drawn because of this very choice."""
    require_sound(1090)


def test_a_quotient_is_zero_only_if_its_dividend_is() -> None:
    """Were it not known, sums of `1 / g` for drawn precisions would double the ways through a program."""
    numbers = Numbers(Paths(10))
    g, x = numbers.fresh(NONNEGATIVE), numbers.fresh(ANY)
    assert (1.0 / g + 2.0 / g).sign == POSITIVE
    assert (g / (1.0 / g)).sign == NONNEGATIVE
    assert (-1.0 / g).sign == NEGATIVE
    assert (1.0 / x).sign == (x / g).sign == ANY


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 2500, PROGRAMS))
def test_what_is_accepted_holds_at_length(start: int) -> None:
    for seed in range(start, start + PROGRAMS):
        require_sound(seed)


@pytest.mark.slow
@pytest.mark.parametrize("fault", faults.FAULTS)
def test_a_fault_in_the_analysis_is_found(fault: str) -> None:
    """A few hundred programs show each: a run breaks what was accepted, or the analysis itself breaks."""
    with faults.planted(fault), pytest.raises((AssertionError, IndexError), match=r"accepts|out of range"):
        for seed in range(PROGRAMS):
            require_sound(seed, faults.FAULTS[fault].methods)


@pytest.mark.parametrize("fault", ["ds: all that is put away is settled", "a loop has one step"])
def test_some_faults_are_found_at_once(fault: str) -> None:
    with faults.planted(fault), pytest.raises(AssertionError, match="accepts"):
        for seed in range(20):
            require_sound(seed, faults.FAULTS[fault].methods)


@pytest.mark.parametrize("fault", ["no coefficient is 0", "an `if` draws nothing"])
def test_some_faults_are_found_by_vectors_and_categories(fault: str) -> None:
    with faults.planted(fault), pytest.raises(AssertionError, match="accepts"):
        for seed in range(10):
            require_sound(seed, write=vector_programs.program)
