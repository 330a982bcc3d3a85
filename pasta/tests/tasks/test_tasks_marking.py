"""Problems put together, composed and marked: what was made right is right, and what is wrong is seen."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tasks_texts import FUNCTIONS, SUMS, write_problems

from pasta.errors import UsageError
from pasta.lang import Promise, Sync, Text, check, plain, print_response
from pasta.tasks.bundle import Bundle, links_of, plain_prompt
from pasta.tasks.compose import body_of, compose
from pasta.tasks.drawing import draw_bundles
from pasta.tasks.freely import TAUGHT
from pasta.tasks.marking import mark, right_numbers, sections_of
from pasta.tasks.numbers import final_number, stated_numbers
from pasta.tasks.problem import Problem, read_problems


def problems(tmp_path: Path, rows: list[dict]) -> list[Problem]:
    return read_problems(write_problems(tmp_path, rows))


def tokens(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize("task", ["several", "gather", "chain", "plain", "freely"])
@pytest.mark.parametrize("kind", ["numbers", "functions"])
def test_what_is_composed_of_right_answers_is_right(tmp_path: Path, task: str, kind: str) -> None:
    if (task, kind) in (("chain", "functions"), ("freely", "numbers")):
        return
    given = problems(tmp_path, SUMS if kind == "numbers" else FUNCTIONS)
    for bundle in draw_bundles(task, given, parts=8):
        response = compose(bundle, [problem.solution for problem in bundle.problems], tokens)
        assert not [it for it in check(print_response(response)) if it.is_error]
        row = bundle.question("0").row
        assert mark(row, plain(response)).share == 1, plain(response)
        promised = [node for node in response.nodes if isinstance(node, Promise)]
        assert len(promised) == (len(bundle.problems) if task in ("several", "gather", "freely") else 0)
        assert sum(isinstance(node, Sync) for node in response.nodes) == (task == "gather")
        wrong = plain(response).replace("Answer: ", "Answer: 1").replace("return", "return None or not")
        assert mark(row, wrong).share == 0


def test_functions_are_asked_for_freely_in_other_words_than_are_taught(tmp_path: Path) -> None:
    given = problems(tmp_path, FUNCTIONS)
    bundles = draw_bundles("freely", given, parts=12)
    asked = [bundle.prompt for bundle in bundles]
    taught = [wording(bundle.problems) for wording in TAUGHT for bundle in bundles]
    for bundle, prompt in zip([*bundles, *bundles * len(TAUGHT)], [*asked, *taught], strict=True):
        assert all(problem.name in prompt for problem in bundle.problems)
        assert "Function 1" not in prompt
    assert len({prompt.split()[0] for prompt in asked}) == 3, "the wordings take turns"
    assert not {prompt.split(maxsplit=3)[2] for prompt in asked} & {prompt.split(maxsplit=3)[2] for prompt in taught}
    one = Bundle("freely", tuple(given[:1]))
    assert plain(compose(one, [given[0].solution], tokens)).startswith("```python\n"), "one function forks nothing"
    with pytest.raises(UsageError, match="must be functions"):
        draw_bundles("freely", problems(tmp_path, SUMS))


def test_one_wrong_part_and_one_missing_part_are_seen(tmp_path: Path) -> None:
    given = problems(tmp_path, SUMS)
    bundle = Bundle("gather", tuple(given[:3]), "total")
    text = plain(compose(bundle, [problem.solution for problem in given[:3]], tokens))
    row = bundle.question("0").row
    assert mark(row, text.replace("Answer: 7\n", "Answer: 8\n")).parts == (True, False, True)
    gone = text.replace("**Problem 3**", "**Something**")
    assert mark(row, gone).parts == (True, False, False) and mark(row, gone).end, (
        "the second's last answer is the third's"
    )
    steps = text.replace("**Problem 2**\n", "**Problem 2**\n**Solution**\n")
    assert mark(row, steps).share == 1, "a heading inside a part is the part's own"
    assert mark(row, text.partition("**Total**")[0]).end is False
    assert mark(row, "Answer: 12\nAnswer: 7").parts == (True, True, False), "without headings, in their order"


def test_other_ways_to_write_headings_and_numbers() -> None:
    text = "### Problem 1:\nso 3 + 4\n**Answer: $1,207.00**\n\nproblem 2.\nIt is 5 and then 6"
    row = {"task": "several", "noun": "Problem", "parts": [{"answer": 1207}, {"answer": 6}]}
    assert right_numbers(row, text) == [True, True]
    assert sections_of("nothing", row) == {}
    assert right_numbers(row, f"{text}\n\nProblem {'1' * 5000}\nAnswer: 7") == [True, True]
    assert stated_numbers("the answer is 4\nAnswer: -3.5\nANSWER = 2") == [-3.5, 2]
    assert stated_numbers("**Answer:** 3 * 4 = **$12**\nAnswer: -$5 in 2 days\nAnswer: none") == [12, -5]
    assert final_number("Answer: 3, not 4") == 3 and final_number("3 or 4") == 4 and final_number("none") is None


def test_what_only_speaks_of_a_part_or_of_a_total_ends_no_part() -> None:
    row = {"task": "several", "noun": "Problem", "parts": [{"answer": 12}, {"answer": 7}]}
    one, two = "**Problem 1**\n5 hats, 7 caps.\nTotal:\n5 + 7 = 12\nAnswer: 12", "**Problem 2**\n20 - 13\nAnswer: 7"
    assert right_numbers(row, f"{one}\n\n{two}") == [True, True]
    assert right_numbers(row, f"{two}\n\n{one}") == [True, True], "in any order"
    speaks = two.replace("20 - 13", "Problem 1 gives X = 12.\nProblem 1's answer is not 13.")
    assert right_numbers(row, f"{one}\n\n{speaks}") == [True, True]
    again = f"{one}\n\n{two}\n\n**Problem 1**\nAnswer: 3\n\n**Problem 2**\nAnswer: 4"
    assert right_numbers(row, again) == [True, True], "the first of each counts"
    gathers = {**row, "end": {"heading": "Total", "answer": 19}}
    assert right_numbers(gathers, f"{two}\n\n{one}\n\n**Total**\nAnswer: 19") == [True, True, True]
    whole = f"{one}\n\n{two}\n\n**Total**\nAnswer: 19"
    assert right_numbers(gathers, f"{whole}\n\n{whole}") == [True, True, True]


def test_a_heading_said_twice_is_one_heading() -> None:
    row = {"task": "several", "noun": "Problem", "parts": [{"answer": 12}, {"answer": 7}]}
    one = "**Problem 1**\n\nProblem 1: 5 hats and 7 caps.\n5 + 7 = 12\nAnswer: 12"
    two = "**Problem 2**\n**Problem 2**\nAnswer: 7"
    assert right_numbers(row, f"{one}\n\n{two}") == [True, True]
    assert right_numbers(row, f"{one}\n\n{two}\n\n**Problem 1**\nAnswer: 3") == [True, True]


def test_signs_and_fractions_belong_to_their_numbers() -> None:
    assert stated_numbers("Answer: 1/2\nAnswer: −5\nAnswer: 3/0\nAnswer: 1/2/3") == [0.5, -5, 3, 1]
    assert final_number("so 20-13") == 13 and final_number("it falls to -13") == -13 and final_number("is 10/4") == 2.5


@pytest.mark.parametrize(
    ("stated", "number"),
    [
        (".5", 0.5), ("$.75", 0.75), ("-.5", -0.5), ("2 1/2 hours", 2.5), ("-1 3/4", -1.75), ("1{,}080", 1080),
        ("$\\frac{3}{4}$", 0.75), ("$2\\frac{1}{2}$", 2.5), ("2 12/24", 2.5), ("No.5", 5),
        ("3..5", 3), ("1,080.50", 1080.5),
    ],
)  # fmt: skip
def test_numbers_in_other_forms(stated: str, number: float) -> None:
    assert final_number(f"Answer: {stated}") == number
    assert stated == "3..5" or final_number(f"so it is {stated}") == number


@pytest.mark.parametrize("piece", ["=", "= ", "\n", "-\n", "```\n"])
def test_an_answer_that_goes_in_circles_is_marked_in_no_time(piece: str) -> None:
    begun = time.process_time()
    assert final_number("Answer: " + 20_000 * piece) is None
    assert final_number(20_000 * piece + "\nAnswer: 5") == 5
    assert time.process_time() - begun < 1


def test_a_chain_cannot_be_solved_without_its_first_answer(tmp_path: Path) -> None:
    given = problems(tmp_path, SUMS)
    chains = draw_bundles("chain", given, parts=6)
    for chain in chains:
        first, second = chain.problems
        text = chain.link
        assert text.count("X") == second.text.count("X") + 1
        assert text.replace("X", str(int(first.answer or 0)), 1) == second.text
        assert "(X is the answer to Problem 1)" in chain.prompt and second.text not in chain.prompt
    assert body_of(chains[0], 2, chains[0].problems[1].solution).startswith("X is ")


def test_what_stands_before_a_chain_forks_and_its_end_waits(tmp_path: Path) -> None:
    given = problems(tmp_path, SUMS)
    for chain in draw_bundles("chain", given, size=4, parts=12):
        assert len(set(chain.problems)) == 4 and "Problem 4 (X is the answer to Problem 3)" in chain.prompt
        response = compose(chain, [problem.solution for problem in chain.problems], tokens)
        assert [type(node) for node in response.nodes if not isinstance(node, Text)] == [Promise] * 3 + [Sync]
        assert response.nodes[-1].text.startswith("\n\n**Problem 4**\nX is ")
        assert mark(chain.question("0").row, plain(response)).parts == (True,) * 4
    with pytest.raises(UsageError, match="a chain of 99 problems"):
        draw_bundles("chain", given, size=99)


def test_only_a_number_that_is_used_once_can_be_left_out() -> None:
    def links(text: str, solution: str) -> list[float]:
        return list(links_of(Problem("0", text, solution, 1.0)))

    assert links("Ann has $12 and 5 hats.", "12 - 5 = 7") == [12, 5]
    assert links("Ann has 12 hats and 12 caps.", "12 + 12") == []
    assert links("Ann has 12 hats.", "none of them") == []
    assert links("It grew 12% in 2 years, by 1/4, to 1,012 or 3.5, in week-6.", "12 2 4 1012 3 5 6") == []


def test_draws_are_the_same_in_every_run_even_and_never_twice_in_a_prompt(tmp_path: Path) -> None:
    given = problems(tmp_path, SUMS)
    bundles = draw_bundles("several", given, parts=60)
    assert bundles == draw_bundles("several", list(reversed(given)), parts=60)
    assert {len(bundle.problems) for bundle in bundles} == {2, 3, 4, 5, 6}
    ids = [problem.id for bundle in bundles for problem in bundle.problems]
    uses = [ids.count(problem.id) for problem in given]
    assert max(uses) - min(uses) <= 2
    assert all(len(set(bundle.problems)) == len(bundle.problems) for bundle in bundles)
    assert {len(bundle.problems) for bundle in draw_bundles("several", given, size=4, parts=9)} == {4}
    with pytest.raises(UsageError, match="99 problems in one prompt"):
        draw_bundles("several", given, size=99)
    with pytest.raises(UsageError, match="answers are numbers"):
        draw_bundles("chain", problems(tmp_path, FUNCTIONS))


def test_main_needs_the_names_that_the_blocks_chose(tmp_path: Path) -> None:
    given = problems(tmp_path, FUNCTIONS)
    bundle = Bundle("gather", tuple(given[:2]), "main")
    names = [problem.name for problem in given[:2]]
    assert not any(name in bundle.prompt for name in names)
    text = plain(compose(bundle, [problem.solution for problem in given[:2]], tokens))
    row = bundle.question("0").row
    renamed = text.replace(names[0], "helper_of_mine")
    assert mark(row, renamed).share == 1
    head, main = renamed.split("**Main**")
    told = renamed.replace("```python\n", "```python\n# Function 1\n# Function 2: as above\n")
    assert told != renamed and mark(row, told).share == 1, "comments in code are no headings"
    called = renamed.rstrip().removesuffix("```") + '\nif __name__ == "__main__":\n    main()\n```'
    assert mark(row, called).share == 1, "nor is a call of main"
    open_end = head.replace("\n```\n", "\n", 1) + "**Main**" + main
    assert mark(row, open_end).parts[1], "a block that nobody closed ends no later part"
    blind = head + "**Main**" + main.replace("helper_of_mine", "another_name")
    assert mark(row, blind).parts == (True, True) and mark(row, blind).end is False


def fenced(code: str, depth: int = 0) -> str:
    return "\n".join(" " * depth + line for line in f"```python\n{code}\n```".splitlines())


def test_a_block_that_fails_fails_its_own_function_alone(tmp_path: Path) -> None:
    given = problems(tmp_path, FUNCTIONS)
    row = Bundle("several", tuple(given[:2])).question("0").row
    one, other = (problem.solution for problem in given[:2])

    def parts(*blocks: str) -> tuple[bool, ...]:
        return mark(row, "\n\n".join(blocks)).parts

    for spoiled in (f"{other}\n\nturn_round(1)", f"import no_such_module\n{other}", f"{other}\nraise SystemExit"):
        assert parts(fenced(one), fenced(spoiled)) == (True, False), spoiled
        assert parts(fenced(spoiled), fenced(one)) == (True, False), spoiled
    assert parts(fenced(one), fenced(other), "It prints\n```\nhello\n```") == (True, True)
    loops = f"{other}\n\nwhile True:\n    try:\n        turn_round('')\n    except:\n        pass"
    assert parts(fenced(loops), fenced(one)) == (True, False), "nor does a loop without end take another's time"
    named = f"{other}\n\ndef signal(code):\n    pass\n\ndef too_late():\n    pass"
    assert parts(fenced(named), fenced(one)) == (True, True)
    asks = f'{other}\n\nif __name__ == "__main__":\n    print(turn_round(input()))'
    assert parts(fenced(one), fenced(asks)) == (True, True), "it is not run as a program"
    helpers = ["def helper(x):\n    return x\n\n{}", "def helper(x):\n    return x[::-1]\n\n{}"]
    own = ["def add_two(a, b):\n    return helper(a) + b", "def turn_round(text):\n    return helper(text)"]
    assert parts(*(fenced(helper.format(code)) for helper, code in zip(helpers, own, strict=True))) == (True, True)
    later = "from __future__ import annotations\n\ndef turn_round(text):\n    return text[:: -add_two(0, 1)]"
    assert parts(fenced(one), fenced(later)) == (True, True), "a block may call what another defines"
    assert parts(fenced(one), fenced(other), fenced(other.replace("-1", "2"))) == (True, False), "the last one counts"


def test_code_is_found_in_lists_and_behind_any_word_at_the_fence(tmp_path: Path) -> None:
    given = problems(tmp_path, FUNCTIONS)
    row = Bundle("freely", tuple(given[:2])).question("0").row
    one, other = (problem.solution for problem in given[:2])
    assert mark(row, f"1. Adds:\n{fenced(one, 3)}\n2. Turns:\n{fenced(other, 3)}").share == 1
    named = fenced(one).replace("```python", '```python title="add.py"')
    assert mark(row, f"{named}\n\nAnd the other:\n\n{fenced(other)}").share == 1
    assert mark(row, f"{fenced(one)}\n\n{fenced(other)}".replace("```", "~~~")).share == 1


@pytest.mark.parametrize("given", ["Yes()", "Number(0)", "[Yes(), Yes(), Yes()]", "Bound()", "mock.ANY"])
def test_an_object_that_says_it_equals_everything_is_no_right_answer(tmp_path: Path, given: str) -> None:
    says = "    def __eq__(self, other):\n        return True\n    __hash__ = object.__hash__\n"
    classes = f"class Yes:\n{says}\nclass Number(int):\n{says}\n"
    classes += "class Bound:\n    __eq__ = functools.partialmethod(lambda *_: True)\n"
    classes = f"import functools\nfrom unittest import mock\n{classes}"
    [problem] = problems(tmp_path, FUNCTIONS[4:5])
    row = Bundle("plain", (problem,)).question("0").row
    assert mark(row, fenced(f"{classes}\ndef square_all(items):\n    return {given}")).parts == (False,)
    assert mark(row, fenced(f"{classes}\n{problem.solution}")).parts == (True,)


def test_values_of_the_standard_library_and_objects_that_tests_make_are_compared_as_they_are(tmp_path: Path) -> None:
    counts = {
        "text": "Write a function to count letters.",
        "code": "from collections import Counter\n\ndef count(word):\n    return Counter(word)",
        "test_list": ["assert count('aab') == {'a': 2, 'b': 1}"],
    }
    copies = {
        "text": "Write a function to copy a point.",
        "code": "from dataclasses import dataclass, replace\n\n@dataclass\nclass Point:\n    x: int\n\n"
        "def copy(point):\n    return replace(point)",
        "test_list": ["assert copy(Point(1)) == Point(1)"],
    }
    for problem in problems(tmp_path, [counts, copies]):
        assert mark(Bundle("plain", (problem,)).question("0").row, fenced(problem.solution)).parts == (True,)


def test_a_test_keeps_what_it_says_in_quotes_and_what_it_needs_comes_after_the_code(tmp_path: Path) -> None:
    says = {
        "text": "Write a function that knows no solution.",
        "code": "def solution(n):\n    return 'No solution'",
        "test_list": ["assert solution(7) == 'No solution'", 'assert solution(8) == "No solution"'],
    }
    walks = {
        "text": "Write a function to find a leaf.",
        "code": "class Node:\n    pass\n\ndef leaf(node):\n    return node",
        "test_list": ["assert leaf(root) == root"],
        "test_setup_code": "root = Node()",
    }
    given = problems(tmp_path, [says, FUNCTIONS[0], walks])
    bundle = Bundle("gather", tuple(given[:2]), "main")
    assert "assert <name>(7) == 'No solution'" in bundle.prompt
    text = plain(compose(bundle, [problem.solution for problem in given[:2]], tokens)).replace(
        "def solution", "def knows"
    )
    assert mark(bundle.question("0").row, text).parts == (True, True)
    assert mark(Bundle("plain", (given[2],)).question("0").row, fenced(given[2].solution)).parts == (True,)


def test_rows_of_gsm8ks_own_form_and_rows_of_no_form(tmp_path: Path) -> None:
    [problem] = problems(tmp_path, [{"question": "2 + 2?", "answer": "2 + 2 = 4\n#### 4"}])
    assert problem.answer == 4 and problem.solution == "2 + 2 = 4"
    assert plain_prompt(problem).startswith("2 + 2?")
    with pytest.raises(UsageError, match="row 0 is no problem"):
        problems(tmp_path, [{"question": "Why?"}])
    with pytest.raises(UsageError, match="mixes numbers and functions"):
        problems(tmp_path, [SUMS[0], FUNCTIONS[0]])
    (tmp_path / "none.jsonl").write_text("")
    with pytest.raises(UsageError, match="holds no problem"):
        read_problems(str(tmp_path / "none.jsonl"))
    assert json.loads(json.dumps(SUMS[0])) == SUMS[0]
