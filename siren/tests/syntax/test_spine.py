from siren.syntax import parse
from siren.syntax.printer import flat
from siren.syntax.spine import floated, main_fold

FUNCTION = "val f = fun (a, b) -> b in "


def test_a_fold_inside_of_an_expression_gets_a_let() -> None:
    program = floated(parse(FUNCTION + "let x <- gaussian(0, 1) in List.rev(fold(f, [1], [x]))"))
    fold = main_fold(program)
    assert fold is not None
    assert flat(program.body).endswith("in let (fold) = fold(f, [1], [x]) in List.rev((fold))")


def test_the_last_fold_is_the_loop() -> None:
    text = FUNCTION + "let a = fold(f, [1], 0) in let b = 1 + fold(f, [2], a) in b"
    fold = main_fold(floated(parse(text)))
    assert fold is not None and "[2]" in flat(fold.value)


def test_folds_that_may_not_run_stay() -> None:
    program = parse(FUNCTION + "if true then fold(f, [1], 0) else 0")
    assert floated(program) is program and main_fold(program) is None
