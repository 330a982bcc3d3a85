import random
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from programs import programs

from siren.syntax import ast, format_program, format_text, parse

MESSY = """
(* all about it *)
val f = fun (x) -> x+1 in   # increments
let a=f( 1 )in  # one

# two
let sample b<-gaussian(a,1.)in
let () = if a < b then observe(gaussian(a_long_mean, a_long_variance), the_observed_value_of_today) else () in
(a,b)
# bye
"""
NEAT = """\
(* all about it *)
val f = fun x ->
  x + 1  # increments
in

let a = f(1) in  # one

# two
let sample b <- gaussian(a, 1.) in
let () =
  if a < b then
    observe(gaussian(a_long_mean, a_long_variance), the_observed_value_of_today)
  else
    ()
in
(a, b)
# bye
"""


def test_layout() -> None:
    assert format_text(MESSY) == NEAT


@given(programs)
@settings(max_examples=200, deadline=None)
def test_formatting_keeps_the_tree_and_is_idempotent(program: ast.Program) -> None:
    text = format_program(program)
    assert parse(text) == program
    assert format_text(text) == text
    assert all(line == line.rstrip() for line in text.splitlines())


@given(programs, st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_comments_survive_anywhere(program: ast.Program, seed: int) -> None:
    chooser = random.Random(seed)
    tokens = re.findall(r'"[^"]*"|\s+|[A-Za-z0-9_.\']+|.', format_program(program))
    pieces = []
    for index, token in enumerate(tokens):
        if token.isspace() and chooser.random() < 0.2:
            pieces.append(chooser.choice([f" # c{index}x\n", f" (* c{index}x *) ", f"\n# c{index}x\n"]))
        pieces.append(token)
    text = "".join(pieces)
    once = format_text(text)
    assert parse(once) == program
    assert sorted(re.findall(r"c\d+x", once)) == sorted(re.findall(r"c\d+x", text))
    assert format_text(once) == once
