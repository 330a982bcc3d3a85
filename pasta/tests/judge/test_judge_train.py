"""A tiny judge, trained for real: it learns, keeps its folds apart, and is saved as it was."""

import json
import math
import shutil

import pytest
import torch
import transformers

from pasta.cli.main import app
from pasta.data.rows import read_rows
from pasta.errors import CorruptModel, UnknownModel, UsageError
from pasta.judge.base import Comparison
from pasta.judge.config import JudgeConfig
from pasta.judge.encode import Encoder, padded
from pasta.judge.learn import forward, make_model, score
from pasta.judge.open import open_judge
from pasta.judge.preferences import prompt_key, read_contests
from pasta.judge.report import markdown
from pasta.judge.reward import Fold, FoldedReward, RewardModel
from pasta.judge.train import pairs_of, score_file, train_judge, write_report
from support import byte_tokenizer

ASKED = {"prompt": "Why?", "answer": "So."}


@pytest.fixture(scope="module")
def trained(data, base, tmp_path_factory):
    out = tmp_path_factory.mktemp("judge")
    config = JudgeConfig(
        data=data, out=str(out), model=base, reference="teacher", method="lora", lora_rank=8, learning_rate=1e-2,
        epochs=20,
        group=4, prompts=5, max_length=160, tokens=4096, spoiled=0.05, device="cpu",
    )  # fmt: skip
    return out, train_judge(config)


def test_it_learns_what_is_better_on_prompts_that_it_has_not_seen(trained):
    _, report = trained
    agreement = report["judges"]["reward"]["agreement"]
    assert agreement["models"]["rate"] > 0.9
    assert report["judges"]["length"]["agreement"]["models"]["rate"] < 0.65
    assert report["judges"]["reward"]["spearman_of_models"] > 0.8
    assert abs(report["judges"]["reward"]["reward_and_length"]) < 0.3
    assert all(fold["saved_and_trained"] > 0.999 for fold in report["training"])
    assert "| off_topic | 20 |" in markdown(report)


def test_a_folder_with_a_judge_is_left_alone(trained, data, base):
    out, _ = trained
    before = (out / "judge.json").read_bytes()
    with pytest.raises(UsageError, match=rf"the output {out} holds a judge already \(name a new folder\)"):
        train_judge(JudgeConfig(data=data, out=str(out), model=base, reference="teacher"))
    assert (out / "judge.json").read_bytes() == before


def test_an_output_that_is_a_file_is_named(tmp_path, data, base):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(UsageError, match=f"cannot write to {tmp_path / 'taken'}: it is a file"):
        train_judge(JudgeConfig(data=data, out=str(tmp_path / "taken"), model=base, reference="teacher"))


def test_each_prompt_is_scored_by_the_model_that_was_not_trained_on_it(trained, data):
    out, _ = trained
    judge = FoldedReward.read(out, device="cpu")
    known = read_contests(data, "teacher")[0]
    own = judge.prompts[prompt_key(known.prompt)]
    alone = RewardModel(str(out / f"fold-{own}"), device="cpu", max_length=160).rewards(pairs_of(known))
    texts = [text for _, text in pairs_of(known)]
    wanted = [judge.folds[own].log_odds(r, len(text), True) for r, text in zip(alone, texts, strict=True)]
    assert judge.rewards(pairs_of(known)) == pytest.approx(wanted, abs=1e-4)
    held_out = {(row["prompt"], row["model"]): row["reward"] for row in read_rows(str(out / "held-out.jsonl"))}
    assert held_out[prompt_key(known.prompt), "teacher"] == pytest.approx(alone[0], abs=0.02)
    both = [model.rewards([("New?", "Yes.")])[0] for model in judge.models]
    assert both[0] != pytest.approx(both[1])
    mean = sum(fold.log_odds(r, 4, True) for fold, r in zip(judge.folds, both, strict=True)) / 2
    assert judge.rewards([("New?", "Yes.")]) == pytest.approx([mean], abs=1e-4)


def test_the_small_adapter_is_the_same_judge(trained, tmp_path):
    out, _ = trained
    small = tmp_path / "small"
    shutil.copytree(out, small, ignore=shutil.ignore_patterns("model.safetensors", "config.json"))
    asked = [Comparison("New?", "It is ----", "It is ++++"), Comparison("New?", "It is ++++", "It is ~~~~")]
    whole, light = open_judge(f"reward:{out}").compare(asked), open_judge(f"reward:{small}").compare(asked)
    assert light == pytest.approx(whole, abs=0.01)
    assert whole[0] > 0.5 > whole[1]


@pytest.mark.parametrize(("words", "counted"), [(2, 100), (40, 280), (999, 3000)])
def test_the_length_term_is_taken_off_where_it_was_fitted(words, counted):
    fold, characters = Fold("", 0.5, 2.0, 3.0), 7 * words
    assert fold.log_odds(4.0, characters, True) == pytest.approx(2 * (4 - 0.5 * math.log(counted + 1)))
    assert fold.log_odds(4.0, characters, False) == 12


def test_an_answer_that_says_nothing_loses(trained):
    out, _ = trained
    asked = [Comparison("New?", "It is ~~~~", " \n"), Comparison("New?", "", "It is ~~~~"), Comparison("New?", "", " ")]
    assert open_judge(f"reward:{out}").compare(asked) == pytest.approx([0, 1, 0.5], abs=1e-6)
    assert open_judge(f"features:{out / 'features.json'}").compare(asked) == pytest.approx([0, 1, 0.5], abs=1e-6)


def test_the_report_can_be_made_again(trained, data, tmp_path):
    out, report = trained
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("judge.json", "held-out.jsonl"):
        shutil.copy(out / name, copy / name)
    again = write_report(copy, read_contests(data, "teacher"))
    assert again["judges"]["reward"]["agreement"] == report["judges"]["reward"]["agreement"]
    assert "| answer against the reference | 80 |" in (copy / "report.md").read_text()
    assert json.loads((copy / "report.json").read_text())["prompts"] == 20


def test_a_linear_judge_by_itself_is_the_one_beside_a_reward_model(trained, data, tmp_path):
    out, report = trained
    own = tmp_path / "linear"
    config = JudgeConfig(data=data, out=str(own), reference="teacher", method="features", spoiled=0.05)
    told = train_judge(config)
    assert sorted(path.name for path in own.iterdir()) == ["features.json", "report.json", "report.md"]
    assert json.loads((own / "features.json").read_text()) == json.loads((out / "features.json").read_text())
    assert told["judges"]["features"]["agreement"] == report["judges"]["features"]["agreement"]
    assert "| the original preferred to | pairs | features | features-raw |" in (own / "report.md").read_text()
    with pytest.raises(UsageError, match="holds a judge already"):
        train_judge(config)
    with pytest.raises(UsageError, match="score asks for a reward model"):
        JudgeConfig(data=data, out=str(own), method="features", score="lines.jsonl")


def test_lines_are_scored(trained, tmp_path):
    out, _ = trained
    lines = [
        {"prompt": "New?", "answer": "It is ++++", "reference": "It is ----", "id": 7},
        {"instruction": "New?", "output": "It is ~~~~"},
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    score_file(str(out), str(tmp_path / "in.jsonl"), str(tmp_path / "out.jsonl"), "cpu")
    good, none = read_rows(str(tmp_path / "out.jsonl"))
    assert good["id"] == 7 and good["probability"] > 0.5 and good["reward"] > none["reward"]
    assert "probability" not in none
    with pytest.raises(UsageError, match="are the same file"):
        score_file(str(out), str(tmp_path / "in.jsonl"), str(tmp_path / "in.jsonl"), "cpu")
    (tmp_path / "bad.jsonl").write_text('{"prompt": "New?"}\n')
    with pytest.raises(UsageError, match="no answer"):
        score_file(str(out), str(tmp_path / "bad.jsonl"), str(tmp_path / "out.jsonl"), "cpu")


def test_what_cannot_be_scored_or_trained_is_refused_before_the_training(data, base, tmp_path, monkeypatch):
    monkeypatch.setattr("pasta.judge.train.train_fold", lambda *_: pytest.fail("it was trained"))
    lines = tmp_path / "lines.jsonl"
    usual = {"data": data, "out": str(tmp_path / "out"), "model": base, "reference": "teacher"}
    for row, told in (({"prompt": "Why?"}, "a line has no answer"), ({**ASKED, "reference": 3}, "has no reference")):
        lines.write_text(json.dumps(row))
        with pytest.raises(UsageError, match=told):
            train_judge(JudgeConfig(**usual, score=str(lines)))
    with pytest.raises(UsageError, match="cannot use the device 'tpu'"):
        train_judge(JudgeConfig(**usual, device="tpu"))
    with pytest.raises(UnknownModel, match="nowhere"):
        train_judge(JudgeConfig(**{**usual, "model": "./nowhere"}))
    assert not (tmp_path / "out").exists()


def test_a_line_whose_reference_is_null_has_none(trained, tmp_path):
    out, _ = trained
    (tmp_path / "in.jsonl").write_text(json.dumps({**ASKED, "reference": None}))
    score_file(str(out), str(tmp_path / "in.jsonl"), str(tmp_path / "out.jsonl"))
    (row,) = read_rows(str(tmp_path / "out.jsonl"))
    assert "reward" in row and "probability" not in row


def test_a_scoring_that_takes_long_says_how_far_it_is(base, capsys, monkeypatch):
    monkeypatch.setattr("pasta.clock.Pace.is_due", lambda _: True)
    model, tokenizer = make_model(base)
    score(model, Encoder(tokenizer, 64), [("Why?", "So."), ("Why?", "Because it is so.")], tokens=64)
    assert capsys.readouterr().err.splitlines() == ["  1 of 2 answers read", "  2 of 2 answers read"]


def test_rewards_are_those_of_the_model_itself(base):
    """Here the head reads one token, and padding has no mask; the model's own way has both."""
    model, _ = make_model(base)
    sequences = [[40 + i for i in range(n)] for n in (9, 30, 17)]
    with torch.no_grad():
        own = [float(model.eval()(torch.tensor([ids])).logits) for ids in sequences]
        inputs = padded(sequences, model.config.pad_token_id, torch.device("cpu"))
        masked = model(**inputs).logits[:, 0].tolist()
        assert forward(model, sequences, 4096).tolist() == pytest.approx(own, abs=1e-5)
        assert forward(model, sequences, 30).tolist() == pytest.approx(own, abs=1e-5)
        assert masked == pytest.approx(own, abs=1e-5)


def test_a_base_model_is_no_reward_model(base, tmp_path):
    with pytest.raises(CorruptModel, match="not a reward model"):
        open_judge(f"reward:{base}").compare([Comparison("a", "b", "c")])
    (tmp_path / "judge.json").write_text("{}")
    with pytest.raises(CorruptModel, match="train the judge again"):
        open_judge(f"reward:{tmp_path}")


def test_full_weights_stop_in_time_by_the_command_line(data, base, tmp_path, capsys):
    arguments = (
        f"train judge --data {data} --out {tmp_path} --model {base} --reference teacher --method full --device cpu"
    )
    with pytest.raises(SystemExit) as end:
        app(
            [
                *arguments.split(),
                "--minutes",
                "0.02",
                "--epochs",
                "1000",
                "--no-features",
                "--json",
                "--max-length",
                "96",
            ]
        )
    assert end.value.code == 0
    report = json.loads(capsys.readouterr().out)
    assert all(0 < fold["epochs"] < 1000 and fold["seconds"] < 60 for fold in report["training"])
    assert (tmp_path / "fold-1" / "model.safetensors").is_file()


@pytest.mark.parametrize(("change", "said"), [
    ({"data": ""}, "data is missing"), ({"folds": 1}, "folds is 1"), ({"method": "half"}, "use one of lora, full"),
    ({"max_length": 8}, "max_length is 8"), ({"epochs": math.inf}, "epochs is inf"), ({"limit": -1}, "limit is -1"),
    ({"seed": 1 << 32}, "seed is 4294967296"), ({"learning_rate": -1.0}, "learning_rate is -1.0"),
    ({"temper": -1.0}, "temper is -1, expected 0 to 1"), ({"temper": 7.0}, "temper is 7, expected 0 to 1"),
])  # fmt: skip
def test_settings_that_cannot_be_meant(change, said):
    with pytest.raises(UsageError, match=said):
        JudgeConfig(**{"data": "x", "out": "y", **change})


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_any_sequence_classifier_is_a_judge(kind, tmp_path):
    """Padding tells nothing to a model that reads both ways either, and one without a chat template joins the texts."""
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    torch.manual_seed(0)
    shape = {"bert": transformers.BertConfig, "llama": transformers.LlamaConfig}[kind]
    config = shape(vocab_size=258, num_labels=1, pad_token_id=0, **sizes)
    transformers.AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path)
    tokenizer = byte_tokenizer()
    if kind == "bert":
        tokenizer.chat_template = None
    tokenizer.save_pretrained(tmp_path)
    judge = open_judge(f"reward:{tmp_path}")
    pairs = [("Why?", "So."), ("Why?", "A much longer answer than that one."), ("How long is it?", "12 m")]
    together = judge.rewards(pairs)
    assert together == pytest.approx([judge.rewards([pair])[0] for pair in pairs], abs=1e-5)
    assert len(set(together)) == 3
    (won,) = judge.compare([Comparison("Why?", "So.", pairs[1][1])])
    assert won == pytest.approx(1 / (1 + math.exp(together[0] - together[1])), abs=1e-5)


def test_a_classifier_of_several_classes_is_none(tmp_path):
    config = transformers.LlamaConfig(vocab_size=258, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
                                      num_attention_heads=4, num_labels=3, pad_token_id=0)  # fmt: skip
    transformers.AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(UnknownModel, match="3 numbers"):
        open_judge(f"reward:{tmp_path}").compare([Comparison("a", "b", "c")])
