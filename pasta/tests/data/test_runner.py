"""The runner: what goes in comes out, once, checked; whatever interrupts it."""

import gzip
import json
import lzma

import pytest
from data_texts import LIST, STEPS, count_words

from pasta.data.annotate import annotate
from pasta.data.example import Decision, Refused
from pasta.data.plan import Block, Plan
from pasta.data.report import REASONS_SHOWN, Report
from pasta.data.structure import Limits, Structure
from pasta.errors import PastaError, UsageError
from pasta.lang import parse, plain


class Interrupted(Exception):
    pass


class Flaky(Structure):
    """Marks as `structure` does; stops, or refuses, when told to."""

    def __init__(self, stop_at=None, refuse=()):
        super().__init__(count_words)
        self.batch = 1
        self.stop_at = stop_at
        self.refuse = refuse
        self.asked = []

    def plan(self, example):
        if example.row == self.stop_at:
            raise Interrupted
        self.asked.append(example.row)
        return Decision(example.row, Refused("tired")) if example.row in self.refuse else super().plan(example)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.jsonl"
    rows = [
        {"prompt": "Garden?", "response": LIST, "source": "a"},
        {"messages": [{"role": "user", "content": "Cocoa?"}, {"role": "assistant", "content": STEPS}], "id": 7},
        {"prompt": "Tags?", "response": "Write <sync/> and </async> to spell them."},
        {"prompt": "Empty?", "response": " "},
        {"text": "no such fields"},
        {"instruction": "Garden?", "input": "small", "output": LIST},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_rows_keep_their_fields_and_answers_stay_to_the_letter(source, tmp_path):
    out = tmp_path / "out.jsonl"
    report = annotate(str(source), str(out), Structure(count_words), count_words)
    rows = read(out)
    assert (report.annotated, report.sequential, report.refused) == (2, 2, 2)
    assert [row["pasta"]["row"] for row in rows] == [0, 1, 2, 5]
    assert rows[0]["source"] == "a"
    assert rows[1]["id"] == 7
    answers = [rows[0]["response"], rows[1]["messages"][-1]["content"], rows[2]["response"], rows[3]["output"]]
    for row, answer in zip(rows, answers, strict=True):
        assert plain(parse(answer)) == row["plain"]
    assert rows[0]["plain"] == LIST
    assert "<promise " in answers[0]
    assert rows[2]["plain"] == "Write <sync/> and </async> to spell them."
    assert not (tmp_path / "out.jsonl.part").exists()
    data = report.as_json()
    assert data["blocks"] == 6
    assert data["parallelism_annotated"] > data["parallelism_all"] > 1
    assert data["reasons"]["refused: the answer is empty"] == 1
    assert len(report.lines()) == 3 + len(data["reasons"])


def test_a_run_goes_on_where_it_was_interrupted(source, tmp_path):
    out = tmp_path / "out.jsonl"
    with pytest.raises(Interrupted):
        annotate(str(source), str(out), Flaky(stop_at=2), count_words)
    assert not out.exists()
    part = tmp_path / "out.jsonl.part"
    part.write_bytes(part.read_bytes() + b'{"half a li')  # as if it had been killed while writing
    again = Flaky()
    report = annotate(str(source), str(out), again, count_words)
    assert again.asked == [2, 5]
    assert report.resumed == 2
    whole = tmp_path / "whole.jsonl"
    annotate(str(source), str(whole), Flaky(), count_words)
    assert out.read_text() == whole.read_text()


def test_a_run_that_ends_before_a_row_is_done_leaves_nothing(source, tmp_path):
    for out in (tmp_path / "out.jsonl", tmp_path / "new" / "deep" / "out.jsonl"):
        for annotator, error in ((Flaky(stop_at=0), Interrupted), (Flaky(refuse=range(6)), PastaError)):
            with pytest.raises(error):
                annotate(str(source), str(out), annotator, count_words)
            assert list(tmp_path.iterdir()) == [source]


def test_what_is_annotated_already_is_refused(source, tmp_path):
    out = tmp_path / "out.jsonl"
    annotate(str(source), str(out), Structure(count_words), count_words)
    with pytest.raises(UsageError, match=r"row 0 of .*out.jsonl is annotated already.*it was made from"):
        annotate(str(out), str(tmp_path / "again.jsonl"), Structure(count_words), count_words)


def test_more_rows_are_added_and_refused_ones_tried_again(source, tmp_path):
    out = tmp_path / "out.jsonl"
    first = annotate(str(source), str(out), Flaky(refuse={0}), count_words, limit=3)
    assert first.refused == 1
    assert [row["pasta"]["row"] for row in read(out)] == [1, 2]
    again = Flaky()
    annotate(str(source), str(out), again, count_words)
    assert again.asked == [0, 5]
    assert [row["pasta"]["row"] for row in read(out)] == [0, 1, 2, 5]


def test_fewer_rows_than_before_do_not_take_away_what_is_done(source, tmp_path):
    out = tmp_path / "out.jsonl"
    annotate(str(source), str(out), Structure(count_words), count_words)
    before = out.read_text()
    with pytest.raises(UsageError, match=r"out\.jsonl is annotated up to row 5, and no more than 2 of .* are read now"):
        annotate(str(source), str(out), Structure(count_words), count_words, limit=2)
    assert out.read_text() == before
    annotate(str(source), str(out), Structure(count_words), count_words, limit=2, overwrite=True)
    assert len(read(out)) == 2


def test_other_settings_or_another_source_are_not_mixed_in(source, tmp_path):
    out = tmp_path / "out.jsonl"
    annotate(str(source), str(out), Structure(count_words), count_words)
    with pytest.raises(UsageError, match="other settings"):
        annotate(str(source), str(out), Structure(count_words, Limits(min_gain=1)), count_words)
    source.write_text(source.read_text().replace("small garden", "large garden"))
    with pytest.raises(UsageError, match="row 0"):
        annotate(str(source), str(out), Structure(count_words), count_words)
    annotate(str(source), str(out), Structure(count_words), count_words, overwrite=True)
    out.write_text('{"x": 1}\n')
    with pytest.raises(UsageError, match="not written by"):
        annotate(str(source), str(out), Structure(count_words), count_words)
    out.unlink()
    (tmp_path / "out.jsonl.part").write_text("half of a download\n")
    with pytest.raises(PastaError, match=r"out\.jsonl\.part:1: not JSON"):
        annotate(str(source), str(out), Structure(count_words), count_words)


@pytest.mark.parametrize(
    ("name", "value"), [("row", "3"), ("row", None), ("row", -1), ("lengths", None), ("tokens", "x")]
)
def test_a_row_whose_mark_was_edited_is_no_row_to_go_on_from(source, tmp_path, name, value):
    target = tmp_path / "out.jsonl"
    annotate(str(source), str(target), Structure(count_words), count_words)
    first, *others = read(target)
    first["pasta"][name] = value
    target.write_text("".join(json.dumps(row) + "\n" for row in (first, *others)))
    with pytest.raises(UsageError, match="not written by"):
        annotate(str(source), str(target), Structure(count_words), count_words)


def test_another_question_to_the_same_answer_is_another_row(tmp_path):
    """A system prompt that was added, say: what was written before lacks it."""
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    row = {"prompt": "Garden?", "response": LIST}
    source.write_text(json.dumps(row) + "\n")
    annotate(str(source), str(out), Structure(count_words), count_words)
    assert annotate(str(source), str(out), Structure(count_words), count_words).resumed == 1
    for changed in ({**row, "system": "Be brief."}, {**row, "prompt": "Gardens?"}):
        source.write_text(json.dumps(changed) + "\n")
        with pytest.raises(UsageError, match=r"row 0 of .*in\.jsonl is not the one in .*out\.jsonl"):
            annotate(str(source), str(out), Structure(count_words), count_words)


def test_strict_leaves_out_annotations_with_a_flaw(tmp_path):
    rows = [{"prompt": prompt, "response": LIST} for prompt in ("Garden?", "Name five needs of a garden.")]
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert annotate(str(source), str(out), Structure(count_words), count_words).annotated == 2
    with pytest.raises(UsageError, match="other settings"):
        annotate(str(source), str(out), Structure(count_words), count_words, strict=True)
    report = annotate(str(source), str(out), Structure(count_words), count_words, strict=True, overwrite=True)
    assert (report.annotated, report.refused) == (1, 1)
    assert [row["prompt"] for row in read(out)] == ["Garden?"]


@pytest.mark.parametrize("packed", [".gz", ".xz"])
def test_packed_files(source, tmp_path, packed):
    opener = {".gz": gzip.open, ".xz": lzma.open}[packed]
    packed_source = tmp_path / f"in.jsonl{packed}"
    with opener(packed_source, "wt") as file:
        file.write(source.read_text())
    out = tmp_path / f"out.jsonl{packed}"
    annotate(str(packed_source), str(out), Structure(count_words), count_words)
    with opener(out, "rt") as file:
        assert len(file.readlines()) == 4
    again = Flaky()
    again.settings = Structure(count_words).settings
    assert annotate(str(packed_source), str(out), again, count_words).resumed == 4
    assert again.asked == []


def test_a_plan_that_does_not_fit_leaves_the_row_sequential(source, tmp_path):
    class Wild(Structure):
        def plan(self, example):
            return Decision(example.row, Plan((Block(0, 5, "a"), Block(3, 9, "b"))))

    report = annotate(str(source), str(tmp_path / "out.jsonl"), Wild(count_words), count_words)
    assert report.annotated == 0
    assert report.sequential == 4


@pytest.mark.parametrize(("text", "message"), [("[1]\n", "not a JSON object"), ("{\n", "not JSON")])
def test_a_broken_line_is_named(tmp_path, text, message):
    path = tmp_path / "in.jsonl"
    path.write_text('{"prompt": "a", "response": "b"}\n' + text)
    with pytest.raises(PastaError, match=f"in.jsonl:2: {message}"):
        annotate(str(path), str(tmp_path / "out.jsonl"), Structure(count_words), count_words)


def test_sources_and_targets_that_cannot_be(source, tmp_path):
    with pytest.raises(UsageError, match="no file"):
        annotate(str(tmp_path / "none.jsonl"), str(tmp_path / "out.jsonl"), Structure(count_words), count_words)
    with pytest.raises(UsageError, match="cannot tell how"):
        annotate(str(source), str(tmp_path / "out.csv"), Structure(count_words), count_words)
    assert not (tmp_path / "out.csv.part").exists()


def test_a_report_for_people_is_short():
    report = Report("llm")
    for number in range(REASONS_SHOWN + 5):
        report.refuse(f"the server answered 400, {number} tokens are too many")
    lines = report.lines()
    assert len(lines) == 1 + REASONS_SHOWN + 1
    assert lines[-1].split()[0] == "5"
    assert len(report.as_json()["reasons"]) == REASONS_SHOWN + 5


def test_strict_keeps_the_good_beginning_of_an_answer_that_does_not_end(tmp_path):
    row = {
        "prompt": "Garden?",
        "response": f"{LIST.rpartition('With these')[0].strip()}\n5. **Tools**: and then",
        "finished": False,
    }
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(json.dumps(row) + "\n" + json.dumps({**row, "response": "Again and again. " * 40}) + "\n")
    report = annotate(str(source), str(out), Structure(count_words), count_words, strict=True)
    assert report.refusals == {"not ended": 1} and report.rows == 2
    [kept] = [json.loads(line) for line in out.read_text().splitlines()]
    assert row["response"].startswith(kept["plain"]) and "Tools" not in kept["plain"]
    assert plain(parse(kept["response"])) == kept["plain"] and kept["pasta"]["form"] == "list"
    again = annotate(str(source), str(out), Structure(count_words), count_words, strict=True)
    assert again.resumed == 1, "a second run goes on from what is there"
