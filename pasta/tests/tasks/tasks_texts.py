"""A few problems of both kinds, in the forms of GSM8K and MBPP; all made up here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SUMS: list[dict[str, Any]] = [
    {"id": n, "question": question, "answer": answer, "final": final}
    for n, (question, answer, final) in enumerate(
        [
            ("Ann has 5 red hats and 7 blue ones. How many hats is that?", "5 + 7 = 12 hats.", "12"),
            ("Bob had 20 pens and lost 13. How many are left?", "20 - 13 = 7 pens are left.", "7"),
            ("A box holds 12 eggs. How many eggs are in 4 boxes?", "12 * 4 = 48 eggs.", "48"),
            ("Carl reads 7 pages a day. How many pages is that in 6 days?", "7 * 6 = 42 pages.", "42"),
            ("Dora buys 3 cups for $8 each. How many dollars is that?", "3 * 8 = 24 dollars.", "24"),
            ("Of 48 ducks, 8 are white. How many are not?", "48 - 8 = 40 ducks.", "40"),
            ("Eve walks 5 miles on each of 4 days. How many miles is that?", "5 * 4 = 20 miles.", "20"),
        ]
    )
]
FUNCTIONS: list[dict[str, Any]] = [
    {"task_id": n, "text": text, "code": code, "test_list": tests, "test_setup_code": ""}
    for n, (text, code, tests) in enumerate(
        [
            (
                "Write a function to add two numbers.",
                "def add_two(a, b):\r\n    return a + b",
                ["assert add_two(1, 2) == 3", "assert add_two(-1, 1) == 0"],
            ),
            (
                "Write a function to turn a text round.",
                "def turn_round(text):\n    return text[::-1]",
                ['assert turn_round("abc") == "cba"', 'assert turn_round("") == ""'],
            ),
            (
                "Write a function to find the largest item.",
                "import math\n\ndef find_largest(items):\n    return max(items)",
                ["assert find_largest([1, 5, 2]) == 5"],
            ),
            (
                "Write a function to count the vowels of a word.",
                "def count_vowels(word):\n    return sum(c in 'aeiou' for c in word)",
                ['assert count_vowels("radio") == 3'],
            ),
            (
                "Write a function to square every item.",
                "def square_all(items):\n    return [x * x for x in items]",
                ["assert square_all([1, 2, 3]) == [1, 4, 9]"],
            ),
            (
                "Write a function to say whether a number is even.",
                "def is_even_number(n):\n    return n % 2 == 0",
                ["assert is_even_number(4) == True", "assert is_even_number(3) == False"],
            ),
        ]
    )
]


def write_problems(folder: Path, rows: list[dict[str, Any]], name: str = "problems.jsonl") -> str:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(path)
