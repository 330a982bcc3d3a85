"""Rows as people have them: ShareGPT's, OpenAI's, lists, byte order marks, data sets; and disks that are full."""

from __future__ import annotations

import errno
import gzip
import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from data_texts import LIST, count_words

from pasta.data.annotate import annotate
from pasta.data.fields import prompt_of, read_example, reference_of, replaced
from pasta.data.lines import append_lines, read_json, read_lines, write_json
from pasta.data.rows import check_rows, read_rows
from pasta.data.storing import storing
from pasta.data.structure import Structure
from pasta.errors import PastaError, StorageError, UsageError
from pasta.eval.questions import read_questions
from pasta.lang import parse, plain
from pasta.train.examples import split_row

SHAREGPT = {"conversations": [{"from": "system", "value": "Be brief."}, {"from": "human", "value": "Garden?"},
                              {"from": "gpt", "value": LIST}], "id": "a1"}  # fmt: skip
OPENAI = {
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Gar"}, {"type": "text", "text": "den?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": LIST}], "name": "helper"},
    ]
}


def write(path: Path, rows: list[dict[str, Any]], head: bytes = b"") -> str:
    path.write_bytes(head + "".join(json.dumps(row) + "\n" for row in rows).encode())
    return str(path)


def marked(source: str, target: Path) -> list[dict[str, Any]]:
    annotate(source, str(target), Structure(count_words), count_words)
    return list(read_rows(str(target)))


def test_sharegpt(tmp_path: Path) -> None:
    (row,) = marked(write(tmp_path / "in.jsonl", [SHAREGPT]), tmp_path / "out.jsonl")
    last = row["conversations"][-1]
    assert last["from"] == "gpt" and plain(parse(last["value"])) == LIST and "<promise" in last["value"]
    assert row["conversations"][:-1] == SHAREGPT["conversations"][:-1] and row["id"] == "a1"
    messages, answer = split_row(row)
    assert [message["role"] for message in messages] == ["system", "user"]
    assert answer == last["value"]
    assert prompt_of(row) == "Garden?"


def test_openai_parts(tmp_path: Path) -> None:
    (row,) = marked(write(tmp_path / "in.jsonl", [OPENAI]), tmp_path / "out.jsonl")
    assert row["messages"][-1]["name"] == "helper"
    messages, answer = split_row(row)
    assert messages == [{"role": "user", "content": "Garden?"}]
    assert plain(parse(answer)) == LIST


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"conversations": [{"from": "human", "value": "Hi"}]}, "conversations do not end with an assistant's text"),
        ({"conversations": [{"from": "gpt"}]}, "a turn of gpt whose value is not text"),
        ({"messages": [{"role": "assistant", "content": None, "tool_calls": []}]}, "whose content is not text"),
        ({"messages": [{"content": "x"}]}, "a turn without a role"),
        ({"messages": [{"role": "narrator", "content": "x"}]}, "a turn of 'narrator', expected user, assistant"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "an answer to nothing"),
        ({"prompt": " ", "response": "x"}, "an answer to nothing"),
        ({"prompt": "x", "response": None, "chosen": "y"}, "no prompt and response, but prompt, chosen"),
        (dict.fromkeys("abcdefgh", 1), "but a, b, c, d, e, f, …"),
        ({"messages": "Hi"}, "messages: not a list of turns"),
        ({"prompt": 42, "response": "x"}, "prompt: not a text, nor a list of turns"),
        ({"messages": []}, "no messages, no conversations, and no prompt and response"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "whose content is not text"),
    ],
)
def test_what_is_no_conversation_is_named(row: dict[str, Any], reason: str) -> None:
    assert reason in str(read_example(0, row))


def test_who_speaks_is_told_to_the_template_by_a_name_that_it_knows() -> None:
    """OASST's prompter is nobody to a template, which may leave out, and not refuse, what nobody says."""
    said = [{"role": "Developer", "content": "Be brief."}, {"role": "prompter", "content": "Garden?"}]
    messages, _ = split_row({"messages": [*said, {"role": "gpt", "content": LIST}]})
    assert [message["role"] for message in messages] == ["system", "user"]


def test_rows_of_tables_put_together_hold_empty_fields_of_the_others() -> None:
    """As data sets and Parquet files of Alpaca's rows and of pairs have them."""
    for nothing in ({"messages": None, "prompt": None, "response": None}, {"messages": [], "conversations": []}):
        check_alpaca({**nothing, "instruction": "Garden?", "input": "", "output": LIST})
    row = {"messages": [], "prompt": SHAREGPT["conversations"][:2], "completion": [{"role": "gpt", "content": LIST}]}
    assert (prompt_of(row), reference_of(row)) == ("Garden?", LIST)


def check_alpaca(row: dict[str, Any]) -> None:
    messages, answer = split_row(row)
    assert (messages, answer) == ([{"role": "user", "content": "Garden?"}], LIST)
    assert replaced(row, "x") == {**row, "output": "x"}
    assert prompt_of(row) == "Garden?"


def test_byte_order_marks_and_lists(tmp_path: Path) -> None:
    rows = [{"prompt": "a", "response": "b"}, {"prompt": "c", "response": "d"}]
    mark = b"\xef\xbb\xbf"
    assert list(read_rows(write(tmp_path / "in.jsonl", rows, mark))) == rows
    (tmp_path / "list.json").write_bytes(mark + json.dumps(rows, indent=2).encode())
    assert list(read_rows(str(tmp_path / "list.json"))) == rows
    with gzip.open(tmp_path / "in.jsonl.gz", "wb") as packed:
        packed.write(mark + json.dumps(rows[0]).encode())
    assert list(read_rows(str(tmp_path / "in.jsonl.gz"))) == rows[:1]
    (tmp_path / "late.json").write_text("\n" + json.dumps(rows, indent=1))
    assert list(read_rows(str(tmp_path / "late.json"))) == rows
    (tmp_path / "bad.json").write_text("[1, 2]")
    with pytest.raises(PastaError, match="entry 1 of the list is not a JSON object"):
        list(read_rows(str(tmp_path / "bad.json")))


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("one.json", json.dumps({"prompt": "a", "response": "b"}, indent=2),
         r"one\.json holds an object that goes over several lines, expected one object a line.*jq -c \. "),
        ("two.jsonl", 2 * json.dumps({"prompt": "a", "response": "b"}, indent=1), "goes over several lines"),
        ("wrapped.json", json.dumps({"version": 1, "data": [{"prompt": "a"}]}), r"a list of 1 rows in its 'data', "),
        ("pretty.json", json.dumps({"rows": [{"prompt": "a"}] * 2}, indent=2),
         r"of 2 rows in its 'rows'.*jq -c '\.rows"),
        ("t.csv", "prompt,response\na,b\n", r"t\.csv is a table \(CSV\), .*make JSON lines of it: python -c"),
        ("t.tsv", "prompt\tresponse\na\tb\n", r"t\.tsv is a table \(TSV\)"),
        ("half.jsonl", '{"prompt": "a",\n', r"half\.jsonl:1: not JSON"),
    ],
)  # fmt: skip
def test_a_file_of_another_form_is_told_what_it_is(tmp_path: Path, name: str, text: str, told: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(PastaError, match=told):
        list(read_rows(str(tmp_path / name)))
    with pytest.raises(PastaError, match=told):
        annotate(str(tmp_path / name), str(tmp_path / "out.jsonl"), Structure(count_words), count_words)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_what_a_table_is_told_to_do_helps(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "prompt,response\na,b\n".replace(",", "," if name == "t.csv" else "\t")
    Path(name).write_text(text, "utf-8-sig")  # as spreadsheets do
    with pytest.raises(UsageError) as refused:
        list(read_rows(name))
    command = str(refused.value.hint).partition(": ")[2].replace("python", sys.executable, 1)
    subprocess.run(command, shell=True, check=True, timeout=100)
    assert list(read_rows("t.jsonl")) == [{"prompt": "a", "response": "b"}]


def test_a_field_that_is_called_data_is_no_list_of_rows(tmp_path: Path) -> None:
    row = {"prompt": "a", "response": "b", "data": [{"x": 1}]}
    assert list(read_rows(write(tmp_path / "in.jsonl", [row]))) == [row]


@pytest.mark.parametrize("text", ['{"a": ' + 100_000 * "[", 100_000 * "["])
def test_what_is_nested_too_deep_is_told_with_its_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "deep.jsonl").write_text(text)
    for read in (read_rows, read_questions):
        with pytest.raises(PastaError, match=r"deep\.jsonl.*not JSON"):
            list(read(str(tmp_path / "deep.jsonl")))
    with pytest.raises(PastaError, match=r"deep\.jsonl is not JSON"):
        read_json(tmp_path / "deep.jsonl")
    assert list(read_lines(tmp_path / "deep.jsonl")) == []


def test_half_a_character_costs_its_row_alone(tmp_path: Path) -> None:
    """As cut off emoji are spelled in JSON: in a prompt, in an answer, and in a field that nobody reads."""
    rows = [
        {"prompt": "Garden \ud83d", "response": LIST},
        {"prompt": "Garden?", "response": LIST + "\ud83d"},
        {"prompt": "Garden?", "response": LIST, "title": "\ud83d"},
    ]
    source = write(tmp_path / "in.jsonl", rows)
    (row,) = marked(source, tmp_path / "out.jsonl")
    assert row["title"] == "\ud83d" and row["plain"] == LIST
    assert [question.prompt for question in read_questions(source)] == ["Garden?"] * 2
    with pytest.raises(UsageError, match="the prompt is not valid Unicode"):
        split_row(rows[0])


def test_rows_that_are_all_refused_are_an_error(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [{"dialog": ["Hi", "Ho"]}] * 3)
    with pytest.raises(PastaError, match=r"none of the 3 rows.*, but dialog \(3\); .*from, value") as caught:
        annotate(source, str(tmp_path / "out.jsonl"), Structure(count_words), count_words)
    assert caught.value.exit_code == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl"]
    source = write(tmp_path / "two.jsonl", [{"prompt": "Name five needs of a garden.", "response": LIST}])
    with pytest.raises(PastaError, match="the only row"):  # those that `strict` leaves out
        annotate(source, str(tmp_path / "out.jsonl"), Structure(count_words), count_words, strict=True)
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a disk that is always full")
def test_a_full_disk_is_one_line() -> None:
    message = r"cannot write out: No space left on device \(make room"
    with pytest.raises(StorageError, match=message), storing("out"), open("/dev/full", "w") as out:
        out.write("row")
    with pytest.raises(StorageError, match="cannot write /dev/full: No space left on device"):  # as a stage's rows are
        append_lines(Path("/dev/full"), [{"prompt": "a"}])
    with pytest.raises(ConnectionError), storing("out"):  # which is no matter of disks
        raise ConnectionError("nobody there")


def test_a_file_that_is_written_whole_stays_as_it_was_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(tmp_path / "run.json", {"a": 1})

    def no_room(path: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", no_room)
    with pytest.raises(StorageError, match=r"cannot write .*run\.json: No space left on device \(make room"):
        write_json(tmp_path / "run.json", {"a": 2})
    assert read_json(tmp_path / "run.json") == {"a": 1} and len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="limits are POSIX's")
def test_a_target_that_cannot_be_written_keeps_the_part(tmp_path: Path) -> None:
    """The limit is on a file's size: the packed target is small, what is appended is not."""
    source = write(tmp_path / "in.jsonl", [SHAREGPT] * 40)
    code = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); "
        "from pasta.data.annotate import annotate; from pasta.data.structure import Structure; "
        "from pasta.cli.main import print_error; from pasta.errors import PastaError; import sys\n"
        "count = lambda text: len(text.split())\n"
        "try: annotate(sys.argv[1], sys.argv[2], Structure(count), count)\n"
        "except PastaError as error: print_error(error); sys.exit(error.exit_code)"
    )
    out = tmp_path / "out.jsonl"
    done = subprocess.run([sys.executable, "-c", code, source, str(out)], capture_output=True, text=True, timeout=500)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: cannot write {out}.part: File too large") and done.stderr.count("\n") == 1
    assert len(marked(source, out)) == 40


@pytest.mark.filterwarnings("ignore")
def test_data_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data set that was saved, and a folder as the hub has it, by the real library."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    made = datasets.Dataset.from_list([{"prompt": "a", "response": "b"}])
    made.save_to_disk(str(tmp_path / "saved"))
    assert [row["prompt"] for row in read_rows(str(tmp_path / "saved"))] == ["a"]
    (tmp_path / "repository" / "data").mkdir(parents=True)
    made.to_parquet(str(tmp_path / "repository" / "data" / "test-00000.parquet"))
    assert [row["response"] for row in read_rows(str(tmp_path / "repository"), "test")] == ["b"]
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UsageError, match="cannot read the data set nobody/nothing, split train"):
        list(read_rows("nobody/nothing"))


@pytest.mark.filterwarnings("ignore")
def test_a_data_set_without_a_name_is_none() -> None:
    for source in ("", " "):
        with pytest.raises(UsageError, match="the data set has no name"):
            next(read_rows(source))


def test_a_parquet_file_is_read_and_its_dates_are_written_as_texts(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "train-00000-of-00001.parquet"
    row = {"prompt": "Garden?", "response": LIST, "timestamp": datetime(2024, 5, 6, 7)}
    parquet.write_table(arrow.Table.from_pylist([row]), file)
    (written,) = marked(str(file), tmp_path / "out.jsonl")
    assert written["timestamp"] == "2024-05-06 07:00:00" and "<promise" in written["response"]
    check_rows(str(file))
    file.write_bytes(b"no Parquet")
    with pytest.raises(PastaError, match=r"cannot read .*parquet"):
        check_rows(str(file))


@pytest.mark.filterwarnings("ignore")
def test_a_split_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    made = datasets.Dataset.from_list([{"prompt": "a", "response": "b"}])
    datasets.DatasetDict({"train_sft": made}).save_to_disk(str(tmp_path / "saved"))
    with pytest.raises(UsageError, match=r"has no split train \(it has train_sft: name one of these\)"):
        list(read_rows(str(tmp_path / "saved")))
    assert len(list(read_rows(str(tmp_path / "saved"), "train_sft"))) == 1


def test_what_is_packed_otherwise_is_told_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    with pytest.raises(PastaError) as refused:
        list(read_rows(str(tmp_path / "in.jsonl.zst")))
    assert "UTF-8, plain, .gz or .xz" in str(refused.value)


def test_without_datasets_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UsageError, match=r"pasta-decoding\[train\]"):
        list(read_rows("owner/name"))


@pytest.mark.parametrize(
    "row",
    [
        {"system": "Be brief.", "conversations": [*SHAREGPT["conversations"][1:]]},
        {"system_prompt": "Be brief.", "question": "Garden?", "response": LIST},
        {"messages": [{"role": "developer", "content": "Be brief."}, {"role": "User", "content": "Garden?"},
                      {"role": "Assistant", "content": LIST}]},
        {"prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Garden?"}],
         "completion": [{"role": "assistant", "content": LIST}], "system": "not this one"},
    ],
)  # fmt: skip
def test_what_the_model_was_told_stays_with_the_question(row: dict[str, Any], tmp_path: Path) -> None:
    """LLaMA-Factory's, OpenOrca's, OpenAI's newer name, TRL's: each is the same conversation."""
    (written,) = marked(write(tmp_path / "in.jsonl", [row]), tmp_path / "out.jsonl")
    messages, answer = split_row(written)
    assert messages == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Garden?"}]
    assert plain(parse(answer)) == LIST and "<promise" in answer


def test_what_a_question_is_about_stays_with_it() -> None:
    row = {"instruction": "And beds?", "context": "A garden.", "response": LIST, "history": [["Hi", "Hello."]]}
    example = read_example(0, row)
    assert not isinstance(example, str)
    assert [message["content"] for message in example.messages] == ["Hi", "Hello.", "And beds?\n\nA garden."]
    for history in (["Hi"], "Hi", 3, {"Hi": "Hello."}, [["Hi", 3]]):
        assert read_example(0, {**row, "history": history}) == (
            "instruction: a history that is not of questions and their answers"
        )
    assert not isinstance(read_example(0, {**row, "history": []}), str)


@pytest.mark.parametrize("place", [1, 3])
@pytest.mark.parametrize("said", ["Let me look.", "", None])
def test_a_turn_that_calls_a_tool_is_no_turn_without_the_call(place: int, said: str | None) -> None:
    """Its text alone would teach to end there."""
    roles = ("user", "assistant", "tool", "assistant")
    turns: list[dict[str, Any]] = [{"role": role, "content": "x"} for role in roles]
    turns[place] |= {"content": said, "tool_calls": [{"function": {"name": "look", "arguments": "{}"}}]}
    assert read_example(0, {"messages": turns}) == "messages: a turn that calls a tool"
    turns[place] |= {"content": "x", "tool_calls": None}  # as data sets fill up what a row lacks
    assert not isinstance(read_example(0, {"messages": turns}), str)
