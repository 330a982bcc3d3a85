"""Answers, replays, training data and the remote engine with tokenizers that put spaces in front of texts."""

from __future__ import annotations

import json
import random
import sys
import warnings
from pathlib import Path

import pytest

from pasta.core.positions import Positions
from pasta.core.tree import flatten, spell
from pasta.core.vocabulary import Vocabulary
from pasta.decoding.api import generate, replay, stream
from pasta.decoding.events import TextWritten
from pasta.engine.connect import connect_engine
from pasta.engine.native import NativeEngine
from pasta.lang import Response, parse, plain
from pasta.models import load_model
from pasta.models.tags import add_tags
from pasta.train import sft
from pasta.train.config import SftConfig
from pasta.train.examples import make_examples
from round_trips import random_response, random_text
from support import tiny_model, toy_rows
from toy_tokenizers import toy_tokenizer

sys.path.append(str(Path(__file__).parents[1] / "engine" / "remote"))
from completions_server import CompletionsServer

CASES = [
    ("metaspace-always-split", "phi3"),
    ("metaspace-first-whole", "mistral"),
    ("prepend", "llama2"),
    ("gemma", "chatml"),
    ("byte-level-prefix", "zephyr"),
]
FRUITS = 'Fruits:\n1. <promise topic="Banana" tokens=3/><async>Banana, 黄色.</async>\n2. Apple.<sync/> Enough?'
QUESTION = "Name three fruits."


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def engine(request: pytest.FixtureRequest) -> NativeEngine:
    model, vocabulary = tiny_model(), Vocabulary(toy_tokenizer(*request.param))
    add_tags(model, vocabulary)
    return NativeEngine(model, vocabulary, name="tiny")


def test_a_replay_is_the_response(engine: NativeEngine) -> None:
    source = random.Random(4)
    vocabulary = engine.vocabulary
    prompt = vocabulary.encode_chat([{"role": "user", "content": QUESTION}])
    texts = [text for _ in range(60) if len(text := random_text(source)) < 80][:4]
    for response in [parse(FRUITS), *(Response(random_response(text, source)) for text in texts)]:
        result = replay(engine, QUESTION, spell(response, vocabulary, prompt))
        assert parse(result.annotated) == response
        assert result.text == plain(response) == "".join(output.text for output in result.outputs)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_what_is_streamed_is_what_is_returned(engine: NativeEngine, seed: int, raw: bool) -> None:
    """Random weights write any tokens, halves of characters too; odd limits cut them anywhere."""
    options = {"temperature": 1.0, "seed": seed, "parallelism": 4.0, "max_tokens": 50 + seed}
    answer = stream(engine, QUESTION, raw=raw, **options)
    text = "".join(step.text for step in answer)
    result = answer.result
    assert text == result.text == plain(parse(result.annotated)) == generate(engine, QUESTION, raw=raw, **options).text
    written = [event for output in result.outputs for event in output.events if isinstance(event, TextWritten)]
    said = sum(event.tokens for event in written)
    assert said >= result.content_tokens  # what was cut off was told of too
    stops = [text[at : at + 3] for at in range(5, len(text) - 3, 29)][:2]
    for stop in stops:
        cut = stream(engine, QUESTION, raw=raw, **options, stop=stop)
        expected = text[: text.index(stop)]
        assert "".join(step.text for step in cut) == expected
        assert cut.result.text == expected == plain(parse(cut.result.annotated))


def test_training_examples_are_the_tokens_that_a_replay_puts(engine: NativeEngine) -> None:
    vocabulary = engine.vocabulary
    tags = vocabulary.tags
    assert tags is not None
    for row in [*toy_rows(), {"prompt": QUESTION, "response": FRUITS}]:
        [layout] = make_examples([row], vocabulary, Positions()).layouts
        prompt = vocabulary.encode_chat([{"role": "user", "content": row["prompt"]}])
        result = replay(engine, row["prompt"], spell(parse(row["response"]), vocabulary, prompt))
        assert result.text == plain(parse(row["response"]))
        # All but the promises' lengths, which are measured anew in each vocabulary.
        texts = [[token for token in ids if token not in tags.length_of] for ids in (layout.ids, flatten(result.tree))]
        assert texts[0] == [*prompt, *texts[1]]
        [bare] = make_examples([row], vocabulary, Positions(), strip_tags=True).layouts
        answered = [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": result.text}]
        whole = vocabulary.tokenizer.apply_chat_template(answered, return_dict=False)
        assert whole[: len(bare.ids)] == list(bare.ids)


@pytest.mark.parametrize(
    "case",
    [("metaspace-first-whole", "mistral"), pytest.param(("prepend", "phi3"), marks=pytest.mark.slow)],
    ids="-".join,
)
def test_a_model_learns_and_writes_its_examples(case: tuple[str, str], tmp_path: Path) -> None:
    """Trained, saved, loaded again, decoded here and on a server: the examples come back to the letter."""
    base, data, out = (tmp_path / name for name in ("base", "rows.jsonl", "out"))
    model, vocabulary = tiny_model(), Vocabulary(toy_tokenizer(*case))
    add_tags(model, vocabulary)
    model.save_pretrained(base)
    vocabulary.tokenizer.save_pretrained(base)
    rows = toy_rows(3)
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = SftConfig(
        data=str(data), output=str(out), model=str(base), positions="stitched", epochs=90, learning_rate=1e-2,
        batch_size=2, max_length=512, schedule="cosine",
    )  # fmt: skip
    with warnings.catch_warnings(action="ignore"):  # of the trainer's libraries
        sft.train(settings)
    loaded = load_model(str(out), device="cpu")
    native = NativeEngine(loaded.model, loaded.vocabulary, name="native")
    server = CompletionsServer(load_model(str(out), device="cpu").model, loaded.vocabulary, str(out))
    try:
        remote = connect_engine(server.url)
        for row in rows:
            expected = plain(parse(row["response"]))
            assert generate(native, row["prompt"], max_tokens=200).text == expected
            answer = stream(remote, row["prompt"], max_tokens=200)
            assert "".join(step.text for step in answer) == answer.result.text == expected
            assert plain(parse(answer.result.annotated)) == expected
            stop = expected[5:8]
            cut = generate(remote, row["prompt"], max_tokens=200, stop=stop)
            assert cut.text == expected[: expected.index(stop)] == plain(parse(cut.annotated))
        remote.client.shut_down()
    finally:
        server.shutdown()
        server.server_close()
    assert not server.errors
