"""An error names the place in the body, what stands there, and what else is taken."""

import pytest
from serve_support import CHAT, TEXT, serving
from test_refusals import refused

from support import tiny_engine

RESPONSES = "/v1/responses"
TOOLS = [{"type": "function", "function": {"name": "f"}}]


@pytest.mark.parametrize(
    ("path", "fields", "saying"),
    [
        (RESPONSES, {"input": 5}, "input is 5, but it should be a string or a list"),
        (RESPONSES, {"input": {}}, "input is an object, but it should be a string or a list"),
        (RESPONSES, {"input": [{"role": "user", "content": 5}]}, "input[0].content is 5, but it should be a string or"),
        (TEXT, {"prompt": None}, "prompt is null, but it should be a string or a list"),
        (TEXT, {"prompt": ["a", 5]}, "prompt[1] is 5, but it should be a string"),
        (TEXT, {"prompt": "a", "stop": 5}, "stop is 5, but it should be a string or a list"),
        (RESPONSES, {"input": "a", "instructions": 5}, "instructions is 5, but it should be a string"),
        (
            CHAT,
            {"messages": [{"role": "user", "content": "a"}], "tools": TOOLS, "tool_choice": 5},
            "tool_choice is 5, but it should be 'none', 'auto' or 'required', or an object",
        ),
    ],
)
def test_all_that_is_taken_is_told(tiny, path, fields, saying):
    response = tiny.http.post(path, json=fields)
    refused(response, code="invalid_value", saying=saying)
    assert saying.endswith(" or") or response.json()["error"]["message"] == saying


@pytest.mark.parametrize(
    ("prompt", "place"),
    [
        ("", "prompt"),
        ([10**6], "prompt"),
        ("x" * 5000, "prompt"),
        (["a", ""], "prompt[1]"),
        ([""], "prompt[0]"),
        ([[1], [2], [10**6]], "prompt[2]"),
        (["a", "x" * 5000], "prompt[1]"),  # tokens
        (["a", "x" * 100_000, "b"], "prompt[1]"),  # characters
    ],
)
def test_the_prompt_that_is_wrong_is_named(tiny, prompt, place):
    refused(tiny.http.post(TEXT, json={"prompt": prompt, "max_tokens": 1}), param=place, saying=place)


def test_too_many_answers_are_refused_by_what_asked_for_them():
    with serving(tiny_engine(), max_running=1, max_queue=2) as running:

        def ask(prompt, n=None):
            return running.http.post(TEXT, json={"prompt": prompt, "n": n, "max_tokens": 1})

        saying = "4 answers are asked for (n: 2, prompts: 2), and the server takes 3 at the most"
        refused(ask(["a", "b"], 2), param="n", saying=saying)
        refused(ask("a", 4), param="n")
        refused(running.chat(n=4), param="n")
        refused(ask(["a"] * 4), param="prompt")
        assert ask("a", 3).status_code == ask(["a"] * 3).status_code == 200
