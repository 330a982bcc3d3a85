"""Where a row keeps its prompt, its conversation and its answer: OpenAI's messages, ShareGPT's, or two fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import Any

from pasta.data.example import Example
from pasta.errors import UsageError

#: Names of the two fields, where a row has no conversation.
PAIRS = (
    ("prompt", "response"), ("prompt", "completion"), ("instruction", "output"), ("instruction", "response"),
    ("question", "response"), ("question", "answer"),
)  # fmt: skip
CONVERSATIONS = ("messages", "conversations", "conversation")
#: Who speaks, by the names that data sets use: ShareGPT's, OpenAI's, OASST's. Others a chat template may skip unseen.
SPEAKERS = {
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "model", "bot"), "assistant"),
    **dict.fromkeys(("user", "human", "prompter"), "user"),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("tool", "function", "observation", "ipython"), "tool"),
}
#: What a row may hold beside its turns: what the model is told before them, and what a question is about.
SYSTEM = ("system", "system_prompt")
BESIDE = ("input", "context")
SHOWN = 6  # fields of a row that holds no example
EXPECTED = "messages (role, content), conversations (from, value), or prompt and response"
ASKED = "prompt, instruction, question, text, turns or messages"

Turn = dict[str, str]


def read_example(index: int, row: Mapping[str, Any]) -> Example | str:
    """The example in a row, or why there is none."""
    for name in CONVERSATIONS:
        if _holds(row, name):
            turns = read_turns(row[name])
            if isinstance(turns, str):
                return f"{name}: {turns}"
            if turns[-1]["role"] != "assistant":
                return f"{name} do not end with an assistant's text"
            return _example(index, row, turns)
    pair = _pair(row)
    if pair is None:
        held = [name for name in row if _holds(row, name)]
        but = f", but {', '.join(held[:SHOWN])}{', …' if len(held) > SHOWN else ''}" if held else ""
        return f"no messages, no conversations, and no prompt and response{but}"
    asked, answered = pair
    before, answer = _asked(row, asked), _answered(row[answered])
    if isinstance(before, str):
        return f"{asked}: {before}"
    if answer is None:
        return f"{answered} is not a text"
    return _example(index, row, [*before, {"role": "assistant", "content": answer}])


def _asked(row: Mapping[str, Any], name: str) -> list[Turn] | str:
    """The turns that a prompt is: one question, with the questions and answers in `history` before it; or a list."""
    if not isinstance(row[name], str | list):
        return "not a text, nor a list of turns"
    if isinstance(row[name], list):
        return read_turns(row[name])
    turns = []
    history = row.get("history") or ()
    for pair in history if isinstance(history, list | tuple) else [history]:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            return "a history that is not of questions and their answers"
        turns += [{"role": role, "content": text} for role, text in zip(("user", "assistant"), pair, strict=True)]
    return [*turns, {"role": "user", "content": _with_input(row, name)}]


def _answered(answer: Any) -> str | None:
    """A text, or a list of one turn of the assistant's."""
    if isinstance(answer, list) and len(answer) == 1:
        turns = read_turns(answer)
        return turns[0]["content"] if not isinstance(turns, str) and turns[0]["role"] == "assistant" else None
    return answer if isinstance(answer, str) else None


def read_turns(conversation: Any) -> list[Turn] | str:
    """A conversation as chat templates take it, or why it is none."""
    if not isinstance(conversation, list) or not all(isinstance(turn, Mapping) for turn in conversation):
        return "not a list of turns"
    turns = []
    for turn in conversation:
        who, said = _keys(turn)
        role, text = turn.get(who), text_of(turn.get(said))
        if not isinstance(role, str):
            return f"a turn without a {who}"
        role = role.lower()
        if turn.get("tool_calls") or turn.get("function_call") or role == "function_call":
            return "a turn that calls a tool"  # which the text beside it does not say
        if role not in SPEAKERS:
            return f"a turn of {role!r:.40}, expected user, assistant, system or tool"
        if text is None:
            return f"a turn of {role} whose {said} is not text"
        turns.append({"role": SPEAKERS[role], "content": text})
    return turns


def text_of(content: Any) -> str | None:
    """What a turn says: a text, or OpenAI's list of parts where every part is text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not content:
        return None
    parts = [part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None for part in content]
    return "".join(map(str, parts)) if all(isinstance(part, str) for part in parts) else None


def prompt_of(row: Mapping[str, Any]) -> str | None:
    """The first thing that a row asks: of a conversation with several turns, its first."""
    for name in ("prompt", "instruction", "question", "text"):
        if isinstance(row.get(name), str):
            return _with_input(row, name)
    if isinstance(row.get("turns"), list) and row["turns"] and isinstance(row["turns"][0], str):
        return str(row["turns"][0])
    return next((turn["content"] for turn in _turns(row) if turn["role"] == "user"), None)


def reference_of(row: Mapping[str, Any]) -> str | None:
    """The answer to `prompt_of` that the row holds, if it holds one."""
    for name in ("response", "completion", "output", "answer", "reference"):
        if isinstance(answer := row.get(name), str) and answer.strip():
            return answer
    after = dropwhile(lambda turn: turn["role"] != "user", _turns(row))
    return next((turn["content"] for turn in after if turn["role"] == "assistant"), None)


def read_pair(source: str, number: int, row: Mapping[str, Any]) -> tuple[str, str]:
    """The question and the answer of a row that holds no more than these, in whichever form.

    Raises:
        UsageError: The row holds no answer, or turns or a system prompt before its question.
    """
    example = read_example(number, row)
    reason = example if isinstance(example, str) else "it holds more than one question and its answer"
    if isinstance(example, str) or [message["role"] for message in example.messages] != ["user"]:
        raise UsageError(f"{source}: row {number}: {reason}", "leave such rows out: here one question is learned a row")
    return example.messages[0]["content"], example.text


def mark_of(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What `pasta annotate` says of a row that it wrote."""
    mark = row.get("pasta")
    return mark if isinstance(mark, Mapping) and "recipe" in mark else None


def with_answer(row: Mapping[str, Any], annotated: str, text: str) -> dict[str, Any]:
    """The row with its answer replaced by the annotated one, and the plain answer kept in `plain`."""
    return {**replaced(row, annotated), "plain": text}


def replaced(row: Mapping[str, Any], answer: str) -> dict[str, Any]:
    """A row that holds an example (`read_example`), with another answer where it keeps its own."""
    for name in CONVERSATIONS:
        if _holds(row, name):
            last = row[name][-1]
            return {**row, name: [*row[name][:-1], {**last, _keys(last)[1]: answer}]}
    pair = _pair(row)
    assert pair is not None
    name = pair[1]
    before = row[name]
    return {**row, name: answer if isinstance(before, str) else [{**before[0], _keys(before[0])[1]: answer}]}


def _turns(row: Mapping[str, Any]) -> list[Turn]:
    """Those of the row's conversation; of TRL's two lists, the question's and the answer's."""
    for name in CONVERSATIONS:
        if _holds(row, name) and not isinstance(turns := read_turns(row[name]), str):
            return turns
    prompt, completion = (read_turns(row.get(name)) for name in ("prompt", "completion"))
    return [turn for turns in (prompt, completion) if not isinstance(turns, str) for turn in turns]


def _pair(row: Mapping[str, Any]) -> tuple[str, str] | None:
    """The names of the question and the answer; where tables were put together, those of the others are empty."""
    return next((pair for pair in PAIRS if all(_holds(row, name) for name in pair)), None)


def _holds(row: Mapping[str, Any], name: str) -> bool:
    """Whether a row has this field: where tables were put together, it may be there and hold nothing, or no turns."""
    value = row.get(name)
    return value is not None and value != []


def _keys(turn: Mapping[str, Any]) -> tuple[str, str]:
    """The names under which a turn says who speaks, and what."""
    return ("from", "value") if "from" in turn else ("role", "content")


def _with_input(row: Mapping[str, Any], name: str) -> str:
    """A prompt; an `instruction` may have an `input` beside it (Alpaca's), or a `context` (Dolly's)."""
    beside = (row.get(other) for other in BESIDE) if name == "instruction" else ()
    extra = next((text for text in beside if isinstance(text, str) and text), None)
    return str(row[name]) if extra is None else f"{row[name]}\n\n{extra}"


def _example(index: int, row: Mapping[str, Any], turns: Sequence[Turn]) -> Example | str:
    """Of turns that end with the answer."""
    system = next((row[name] for name in SYSTEM if isinstance(row.get(name), str) and row[name]), None)
    if system is not None and turns[0]["role"] != "system":
        turns = [{"role": "system", "content": system}, *turns]
    messages, text = tuple(turns[:-1]), turns[-1]["content"]
    if not any(message["content"].strip() for message in messages):
        return "an answer to nothing"
    if not text.strip():
        return "the answer is empty"
    if not is_unicode(text):
        return "the answer is not valid Unicode"
    if not all(is_unicode(message["content"]) for message in messages):
        return "the prompt is not valid Unicode"
    return Example(index, messages, text)


def is_unicode(text: str) -> bool:
    """JSON can spell half a character (`\\ud800`), which no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
