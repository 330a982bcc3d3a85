"""Objects from a completions server that enforces each value's schema itself, as vLLM does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from completions_server import CompletionsServer
from jsonschema import validate
from remote_support import served

import pasta
from pasta.engine.connect import connect_engine as connect
from pasta.engine.native import NativeEngine
from pasta.engine.remote import RemoteEngine
from pasta.structured import ConstraintError

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "size": {"enum": ["small", "large"]},
        "count": {"type": "integer", "minimum": 0, "maximum": 99},
        "kind": {"const": "order"},
        "sure": {"type": "boolean"},
        "place": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 8},
                "zip": {"type": "string", "pattern": "^[0-9]{3}$"},
            },
            "required": ["city", "zip"],
        },
        "note": {"type": "string", "maxLength": 5},
    },
    "required": ["name", "size", "count", "kind", "sure", "place"],
}


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_objects_are_valid(remote: RemoteEngine, server: CompletionsServer, mode: str, temperature: float) -> None:
    for seed in range(3):
        options = {"temperature": temperature, "seed": seed, "max_tokens": 300}
        answer = pasta.extract_stream(remote, "An order, please.", SCHEMA, mode=mode, **options)
        fields = {field.pointer: field.value for field in answer}
        validate(answer.value, SCHEMA)
        assert answer.value["kind"] == "order"
        assert fields["/place/zip"] == answer.value["place"]["zip"]
        assert json.loads("".join(output.text for output in answer.result.outputs)) == answer.value


def test_a_value_is_one_request_with_its_own_schema(remote: RemoteEngine, server: CompletionsServer) -> None:
    value = pasta.extract(remote, "An order, please.", SCHEMA, max_tokens=300)
    asked = [seen.body["structured_outputs"] for seen in server.seen]
    assert len(asked) == 7  # the constant is not asked for
    assert sum('"enum": ["small", "large"]' in each["grammar"] for each in asked if "grammar" in each) == 1
    texts = [remote.vocabulary.decode(seen.body["prompt"]) for seen in server.seen]
    assert sum(text.endswith('{"place": {"city":') for text in texts) == 1
    server.seen.clear()
    after = pasta.extract(remote, "An order, please.", SCHEMA, mode="sequential", max_tokens=300)
    texts = [remote.vocabulary.decode(seen.body["prompt"]) for seen in server.seen]
    assert texts[-1].endswith(json.dumps({k: after[k] for k in SCHEMA["required"]})[:-1] + ', "note":')
    assert value["name"] == after["name"]  # which sees nothing in either


def test_what_waits_sees(remote: RemoteEngine, server: CompletionsServer) -> None:
    value = pasta.extract(remote, "An order, please.", SCHEMA, after={"size": ["name"]}, max_tokens=300)
    texts = [remote.vocabulary.decode(seen.body["prompt"]) for seen in server.seen]
    assert any(text.endswith(json.dumps({"name": value["name"]})[:-1] + ', "size":') for text in texts)


@pytest.mark.parametrize("limits", [{"max_tokens": 6}, {"max_thread_tokens": 2}])
def test_what_a_limit_leaves_unfinished_is_completed_here(remote: RemoteEngine, limits: dict[str, int]) -> None:
    for seed in range(3):
        options: dict[str, Any] = {"temperature": 1.0, "seed": seed, "max_tokens": 300, **limits}
        answer = pasta.extract_stream(remote, "An order, please.", SCHEMA, at_limit="close", **options)
        validate(answer.value, SCHEMA)
        assert answer.result.closed


def test_a_root_that_is_no_object(remote: RemoteEngine) -> None:
    assert pasta.extract(remote, "A mouse.", {"enum": ["small", "large"]}) in ("small", "large")
    assert isinstance(pasta.extract(remote, "How many?", {"type": "integer", "minimum": 0, "maximum": 500}), int)


def test_a_server_that_takes_schemas_alone(native: NativeEngine, folder: str) -> None:
    with served(native, folder, "no-grammars") as server:
        engine = connect(server.url)
        assert not engine.grammars
        validate(pasta.extract(engine, "An order, please.", SCHEMA, max_tokens=300), SCHEMA)
        asked = [seen.body["structured_outputs"] for seen in server.seen if "structured_outputs" in seen.body]
        assert {"json": {"enum": ["small", "large"]}} in asked and not any("grammar" in each for each in asked)
        engine.client.shut_down()


def test_a_number_may_end_as_json_goes_on(remote: RemoteEngine, server: CompletionsServer) -> None:
    """And not only by the end of the text, which a model in the middle of an object does not want."""
    ends = set()
    for seed in range(12):
        value = pasta.extract(remote, "How many?", {"type": "integer"}, temperature=1.0, seed=seed, max_tokens=200)
        assert isinstance(value, int)
        ends.add(server.seen[-1].tokens[-1])
    assert ends - remote.vocabulary.eos, "some ended otherwise"


def test_a_server_that_knows_no_schemas(native: NativeEngine, folder: str) -> None:
    with served(native, folder, "no-schemas") as server:
        engine = connect(server.url)
        with pytest.raises(ConstraintError, match=r"server gives what the schema forbids.*structured_outputs"):
            pasta.extract(engine, "An order, please.", SCHEMA)
        engine.client.shut_down()
