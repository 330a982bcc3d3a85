"""A small completions server on a real socket: a real model, one request a thread, no forks and no joins.

It takes what vLLM takes and answers as vLLM does, tokens one by one. It keeps each request that it saw.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import torch
from llguidance import LLMatcher
from transformers import PreTrainedModel

from chat_server import quiet_port
from pasta.core.vocabulary import Vocabulary
from pasta.structured.matcher import Grammars


@dataclass
class Seen:
    """One request, and how it ended."""

    body: dict[str, Any]
    headers: dict[str, str]
    cached: int
    tokens: list[int] = field(default_factory=list)
    logprobs: list[torch.Tensor] = field(default_factory=list)  # of the model, before each token
    ended: str = ""  # as the server says, or "aborted" where the client left


class CompletionsServer(ThreadingHTTPServer):
    """What `quirks` may name, and what such a server does:

    no-ids: returns none. no-bias: ignores it. no-tokenize: lacks that path. pairs: sends tokens two by two.
    no-penalty: ignores it. no-logprobs: likewise. no-schemas: likewise.
    quiet-stop: withholds the token that stops, and names it; matched-stop: as SGLang names it; mute-stop: not at all.
    drop: breaks off after 5 tokens. refuse: answers 503.
    """

    daemon_threads = True

    def __init__(self, model: PreTrainedModel, vocabulary: Vocabulary, root: str, *, quirks: str = "", key: str = ""):
        super().__init__(("127.0.0.1", quiet_port()), Handler)
        self.model = model.eval()
        self.vocabulary = vocabulary
        self.root, self.quirks, self.key = root, quirks.split(), key
        self.pause = 0.0  # seconds before each token
        self.holds: Callable[[Seen], bool] = lambda seen: False  # whether a request's next token is held back now
        self.seen: list[Seen] = []
        self.errors: list[Any] = []
        self._texts: dict[str, set[tuple[int, ...]]] = {}  # by salt: what was computed
        self._lock = threading.Lock()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def begin(self, body: dict[str, Any], headers: dict[str, str]) -> Seen:
        """A prefix cache with blocks of one token: all but the last token of a prompt may be found."""
        prompt = body["prompt"]
        with self._lock:
            cached = max((shared(prompt[:-1], text) for text in self._texts.get(body["cache_salt"], ())), default=0)
            seen = Seen(body, headers, cached)
            self.seen.append(seen)
            self._remember(seen)
        return seen

    def decode(self, seen: Seen) -> Iterator[int]:
        body = seen.body
        ids = list(body["prompt"])
        generator = torch.Generator().manual_seed(body.get("seed", 0))
        bias = {} if "no-bias" in self.quirks else body.get("logit_bias", {})
        penalty = 1.0 if "no-penalty" in self.quirks else body.get("repetition_penalty", 1.0)
        asked = {} if "no-schemas" in self.quirks else body.get("structured_outputs", {})
        matcher = matcher_of(asked, self.vocabulary) if asked else None
        biased, by = [int(token) for token in bias], torch.tensor(list(bias.values()))
        for _ in range(body["max_tokens"]):
            time.sleep(self.pause)
            while self.holds(seen):
                time.sleep(0.01)
            with torch.no_grad():
                logits = self.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
            seen.logprobs.append(logits.log_softmax(-1))
            logits[biased] += by
            seen_logits = logits[ids]
            logits[ids] = torch.where(seen_logits > 0, seen_logits / penalty, seen_logits * penalty)
            if matcher is not None:
                logits[~allowed_by(matcher, len(logits))] = -torch.inf
            if body["temperature"]:
                token = int(torch.multinomial((logits / body["temperature"]).softmax(-1), 1, generator=generator))
            else:
                token = int(logits.argmax())
            if matcher is not None:
                matcher.consume_token(token)
            ids.append(token)
            seen.tokens.append(token)
            with self._lock:
                self._remember(seen)
            yield token
            if token in body["stop_token_ids"] or token in self.vocabulary.eos:
                seen.ended = "stop"
                return
        seen.ended = "length"

    def _remember(self, seen: Seen) -> None:
        self._texts.setdefault(seen.body["cache_salt"], set()).add((*seen.body["prompt"], *seen.tokens[:-1]))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is no error; anything else is this server's own."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            self.errors.append(sys.exc_info()[1])


class Handler(BaseHTTPRequestHandler):
    server: CompletionsServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.server.key and self.headers.get("Authorization") != f"Bearer {self.server.key}":
            return self._reply(401, {"error": {"message": "Unauthorized"}})
        entry = {"id": self.server.root, "object": "model", "root": self.server.root, "max_model_len": 2048}
        return self._reply(200 if self.path == "/v1/models" else 404, {"object": "list", "data": [entry]})

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if len(data) < int(self.headers["Content-Length"]):
            return None  # the client left before it had said what it wants
        body = json.loads(data)
        if self.path == "/tokenize" and "no-tokenize" not in self.server.quirks:
            ids = self.server.vocabulary.tokenizer.encode(body["prompt"], add_special_tokens=False)
            return self._reply(200, {"tokens": list(ids)})
        if self.path != "/v1/completions":
            return self._reply(404, {"detail": "Not Found"})
        if "refuse" in self.server.quirks:
            return self._reply(503, {"error": {"message": "not now"}})
        if len(body.get("logit_bias", ())) > 1024:  # vLLM's engine ends there, for everybody
            self.server.errors.append(ValueError(f"Too many logit bias tokens: {len(body['logit_bias'])}"))
            return self._reply(500, {"error": {"message": "EngineDeadError"}})
        size = self.server.model.get_input_embeddings().weight.shape[0]
        if max(body["prompt"]) >= size:
            return self._reply(400, {"error": {"message": f"Token id {max(body['prompt'])} is out of vocabulary"}})
        if body.get("repetition_penalty", 1.0) <= 0 and "no-penalty" not in self.server.quirks:
            return self._reply(400, {"error": {"message": "repetition_penalty must be greater than zero"}})
        grammar = body.get("structured_outputs", {}).get("grammar")
        if grammar is not None and "no-schemas" not in self.server.quirks:
            matcher = matcher_of({"grammar": grammar}, self.server.vocabulary)
            if "no-grammars" in self.server.quirks or matcher.get_error():
                return self._reply(400, {"error": {"message": "grammar error"}})
        if not body.get("stream"):
            choice: dict[str, Any] = {"text": "…", "finish_reason": "length"}
            if "logprobs" in body and "no-logprobs" not in self.server.quirks:
                choice["logprobs"] = {"token_logprobs": [-1.0], "top_logprobs": [{"token_id:1": -1.0}]}
            return self._reply(200, {"choices": [choice]})
        return self._stream(body)

    def _stream(self, body: dict[str, Any]) -> None:
        server = self.server
        seen = server.begin(body, dict(self.headers))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            held: list[int] = []
            reason = None
            for count, token in enumerate(server.decode(seen), 1):
                if "drop" in server.quirks and count > 5:
                    seen.ended = "dropped"
                    return
                if token in body["stop_token_ids"] and any("-stop" in quirk for quirk in server.quirks):
                    reason = token
                    continue
                held.append(token)
                if "pairs" not in server.quirks or count % 2 == 0:
                    self._send_tokens(seen, held, None)
                    held = []
            self._send_tokens(seen, held, seen.ended, reason)
            usage = {"prompt_tokens": len(body["prompt"]), "prompt_tokens_details": {"cached_tokens": seen.cached}}
            self._send({"choices": [], "usage": usage})
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            seen.ended = "aborted"

    def _send_tokens(self, seen: Seen, tokens: list[int], finish: str | None, reason: int | None = None) -> None:
        choice: dict[str, Any] = {"text": "…", "finish_reason": finish, "token_ids": tokens}
        if "logprobs" in seen.body and tokens:
            assert seen.body["return_tokens_as_token_ids"]
            choice["logprobs"] = as_vllm(seen, tokens)
        if "mute-stop" not in self.server.quirks:
            choice["matched_stop" if "matched-stop" in self.server.quirks else "stop_reason"] = reason
        if "no-ids" in self.server.quirks:
            del choice["token_ids"]
        self._send({"choices": [choice]})

    def _send(self, event: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        self.wfile.flush()

    def _reply(self, status: int, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def matcher_of(asked: dict[str, Any], vocabulary: Vocabulary) -> LLMatcher:
    """What vLLM makes of `structured_outputs`: a completion of the grammar or the schema, or a choice."""
    if "grammar" in asked:
        return LLMatcher(Grammars.of(vocabulary)._tokenizer, LLMatcher.grammar_from_lark(asked["grammar"]), log_level=0)
    schema = asked.get("json")
    choices = " | ".join(json.dumps(each) for each in asked.get("choice", ()))
    value = f"%json {json.dumps(schema)}" if schema is not None else f"({choices})"
    grammar = LLMatcher.grammar_from_lark(f"start: value\nvalue: {value}\n")
    matcher = LLMatcher(Grammars.of(vocabulary)._tokenizer, grammar)
    assert not matcher.get_error(), matcher.get_error()
    return matcher


def allowed_by(matcher: LLMatcher, size: int) -> torch.Tensor:
    mask = np.zeros((1, -(-size // 32)), dtype=np.int32)
    matcher.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
    return torch.from_numpy(np.unpackbits(mask.view(np.uint8), bitorder="little")[:size].astype(bool))


def as_vllm(seen: Seen, tokens: list[int]) -> dict[str, Any]:
    """The logprobs of the last tokens as vLLM gives them: the token's own among the likeliest, whether it is or not."""
    given: dict[str, Any] = {"tokens": [], "token_logprobs": [], "top_logprobs": []}
    for token, logprobs in zip(tokens, seen.logprobs[len(seen.tokens) - len(tokens) : len(seen.tokens)], strict=True):
        best = logprobs.topk(seen.body["logprobs"]).indices.tolist()
        given["tokens"].append(f"token_id:{token}")
        given["token_logprobs"].append(float(logprobs[token]))
        given["top_logprobs"].append({f"token_id:{each}": float(logprobs[each]) for each in {token, *best}})
    return given


def shared(first: list[int], second: tuple[int, ...]) -> int:
    """How many tokens both begin with."""
    count = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        count += 1
    return count
