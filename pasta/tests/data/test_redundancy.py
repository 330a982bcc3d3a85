"""What an answer says twice."""

import pytest

from pasta.data.redundancy import overlap_in_lists

RIVERS = "Rivers carry water from mountains down towards oceans."
DESERTS = "Deserts hardly receive rainfall during summer months."
FORESTS = "Forests shelter animals beneath their evergreen branches."


@pytest.mark.parametrize("marks", [("1.", "2.", "3."), ("-", "-", "-"), ("•", "•", "•")])
def test_items_of_one_list_are_compared(marks):
    def listed(*items):
        lines = (f"{mark} {item}" for mark, item in zip(marks, items, strict=True))
        return "Here they are:\n\n" + "\n".join(lines) + "\n\nThat is all."

    assert overlap_in_lists(listed(RIVERS, DESERTS, FORESTS)) == 0
    assert overlap_in_lists(listed(RIVERS, DESERTS, RIVERS.upper())) == 1


def test_lists_are_not_compared_with_each_other():
    one, other = (f"- {RIVERS}\n- {end}\n- {FORESTS}" for end in (DESERTS, "Islands rise above coral reefs."))
    assert overlap_in_lists(f"{one}\n\nAnd now again, in other words:\n\n{other}") == 0


@pytest.mark.parametrize("text", ["", RIVERS, f"{RIVERS}\n\n{RIVERS}\n\n{RIVERS}", f"1. {RIVERS}\n2. {RIVERS}"])
def test_where_there_is_no_list_nothing_is_said(text):
    assert overlap_in_lists(text) is None
