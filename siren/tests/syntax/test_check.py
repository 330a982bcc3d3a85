import pytest

from siren.errors import CheckErrors
from siren.syntax import check, parse
from siren.syntax.check import require_valid


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("let x = 1 in print(x)", "1:14", "unknown function `print`", "is printed"),
        ("foo + 1", "1:1", "unknown name `foo`", "--data foo=FILE"),
        ("data", "1:1", "unknown name `data`", "with `run --stream` it is the rows that arrive"),
        ("let data = 1 in dta", "1:17", "unknown name `dta`", "`data`"),
        ("val f = fun x -> y in let y = 1 in f(y)", "1:18", "unknown name `y`", "only its parameters"),
        ("let x <- normal(0, 1) in x", "1:10", "unknown distribution `normal`", "`gaussian`"),
        ("let x <- gausian(0, 1) in x", "1:10", "unknown distribution `gausian`", "`gaussian`"),
        ("let x <- gaussian(mean = 0, 1) in x", "1:19", "of `gaussian` have no names", "`gaussian(mean, v"),
        ("observe(beta(1, b = 2), 0.5)", "1:17", "of `beta` have no names", "`beta(a, b)`"),
        ("let x <- gaussian(0) in x", "1:10", "takes 2 arguments (mean, variance), not 1", None),
        (
            "let x <- gaussian(0, -1) in x",
            "1:22",
            "variance of `gaussian` must be positive",
            "not a standard dev",
        ),
        ("let x <- gaussian(0, 0) in x", "1:22", "must be positive", None),
        ("let x <- bernoulli(1.5) in x", "1:20", "between 0 and 1", None),
        ("let x <- binomial(2.5, .5) in x", "1:19", "whole number", None),
        ("let x <- student_t(0, 1, 0) in x", "1:26", "must be positive", None),
        ("let x = gaussian(0, 1) in x", "1:9", "is not a value", "let x <- gaussian"),
        ("List.hed([1])", "1:1", "unknown function `List.hed`", "`List.hd`"),
        ("map(f, [1])", "1:1", "unknown function `map`", "`List.map`"),
        ("fold(f, [1], 2)", "1:6", "unknown function `f`", None),
        ("List.hd([1], 2)", "1:1", "takes 1 argument (list), not 2", None),
        ("val f = fun x -> x in f + 1", "1:23", "`f` is a function", "call it"),
        ("let (a, a) = (1, 2) in a", "1:9", "bound twice", "`_`"),
        ("File.read(3)", "1:1", "needs a file name", 'File.read("data.csv")'),
        ("let (a, b) = 3 in a", "1:6", "`(a, b)` cannot match a number", None),
        ("let (a, b, c) = (1, 2) in a", "1:6", "cannot match the tuple `(number, number)`", None),
        ("let () = 3 in 1", "1:5", "`()` cannot match a number", None),
        ("val f = fun (a, b, c) -> a in f(1, 2)", "1:31", "`f` takes `(a, b, c)`", None),
        ("val f = fun (x, (a, b)) -> (x, a) in fold(f, [1, 2], 3)", "1:43", "`f` takes `(x, (a, b))`", None),
        ("val g = fun () -> 1 in g(3)", "1:24", "`g` takes `()`", None),
        (
            "1 + [2]",
            "1:5",
            "`+` needs a number, but this is a list",
            "two numbers or two lists of one length",
        ),
        ("add(1, [2])", "1:8", "`+` needs a number", None),
        ("if [1] then 2 else 3", "1:4", "`if` needs a number", None),
        ("1 :: 2", "1:6", "`::` needs a list", None),
        ("List.hd(1)", "1:9", "`List.hd` needs a list", None),
        ("exp(())", "1:5", "`exp` needs a number, but this is ()", None),
        ("let x <- gaussian([1], 2) in x", "1:19", "`gaussian` needs a number", None),
        ("val f = fun x -> x + 1 in List.map(f, [(1, 2)])", "1:18", "but this is the tuple", None),
        ("val never = fun x -> 1 + () in 2", "1:26", "`+` needs a number", None),
    ],
)
def test_finding(text: str, place: str, message: str, hint: str | None) -> None:
    errors = check(parse(text))
    assert errors, "nothing was found"
    assert str(errors[0].span) == place
    assert message in errors[0].message
    assert hint is None or (errors[0].hint is not None and hint in errors[0].hint)


@pytest.mark.parametrize(
    "text",
    [
        "true + 1",
        "let x <- bernoulli(0.5) in let () = observe(bernoulli(0.9), 1.) in if x then 1 else 0",
        "let d <- delta([1, 2]) in List.hd(d)",
        "let x <- categorical(0, 2, [.2, .3, .5]) in x",
        "val f = fun (a, b) -> b in f(1, 2, 3)",
        "val f = fun (a, b, c) -> c in let rest = (2, 3) in f(1, rest)",
        "val f = fun n -> if n < 1 then 0 else n + f(n - 1) in f(3)",
        "val sqrt = fun x -> x in sqrt(2)",
        "val step = fun (y, acc) -> y :: acc in fold(step, [1, 2], [])",
        "val step = fun (y, acc) -> (y, acc) in fold(step, [1, 2], 0)",
        "if true then 1 else [2]",
        "List.map(List.hd, [[1], [2]])",
        "fold(add, [1, 2], 0)",
        "let x <- gamma(1, 1) in let g <- gaussian(0, 1 / x) in (g, sqrt(x), exp(g), log(x))",
        "lst(1, 2, 3)",
        "let (a, b) = pair(1, 2) in a",
    ],
)
def test_what_may_run_is_accepted(text: str) -> None:
    assert check(parse(text)) == ()


def test_data_names_are_known_in_the_main_expression_only() -> None:
    program = parse("val f = fun x -> ys in (f(1), ys)")
    assert [str(error.span) for error in check(program, ["ys"])] == ["1:18"]


def test_all_findings_at_once_with_the_source() -> None:
    with pytest.raises(CheckErrors) as caught:
        require_valid(parse("a + b", "p.si"))
    assert str(caught.value).count("p.si:1:") == 2


def test_a_comparison_with_a_name_that_there_is_may_be_an_argument() -> None:
    assert not check(parse("let mean = 1 in let x <- bernoulli(mean = 1) in x"))
