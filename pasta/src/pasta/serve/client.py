"""A client of the server: an answer's stream, step by step."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pasta.decoding.events import Finished, StepOutput
from pasta.errors import PastaError, UsageError
from pasta.serve.events import from_json

NOT_OURS = (ValueError, LookupError, TypeError, OSError, http.client.HTTPException)  # an answer of another form, or cut


class Client:
    """Talks to `pasta serve` at a URL. Nothing is sent before the first question."""

    def __init__(self, url: str, api_key: str | None = None):
        if re.match(r"https?://([/:?#]|$)", url, re.IGNORECASE):
            raise UsageError(f"{url!r} is not a server's address: it names no host", "expected http://HOST:PORT")
        self.url = url.rstrip("/").removesuffix("/v1")
        self.usage: dict[str, Any] = {}  # of the last answer, once it is complete
        self._headers = {"Content-Type": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"

    def model(self) -> str:
        """The name of the server's model. Another's server, whose streams tell nothing of threads, is refused."""
        with self._open("/v1/models") as response, contextlib.suppress(*NOT_OURS):
            served = json.load(response)["data"][0]
            if "pasta" in served:
                return str(served["id"])
        hint = f"start one with `pasta serve`, or decode on this one: pasta generate --engine {self.url}/v1"
        raise PastaError(f"{self.url} is no PASTA server", hint)

    def stream(self, messages: Sequence[Mapping[str, str]], **fields: Any) -> Iterator[StepOutput]:
        """Asks, and gives what each step brought. Ending the iteration early ends the answer on the server."""
        extension = {**fields.pop("pasta", {}), "events": True}
        body = {
            "messages": list(messages), **fields, "stream": True, "stream_options": {"include_usage": True},
            "pasta": extension,
        }  # fmt: skip
        self.usage = {}
        with self._open("/v1/chat/completions", body) as response:
            yield from self._outputs(response)

    def _outputs(self, response: http.client.HTTPResponse) -> Iterator[StepOutput]:
        step, seconds = 0, 0.0
        for chunk in chunks(response):
            if "error" in chunk:
                raise PastaError(chunk["error"]["message"])
            self.usage = chunk.get("usage") or self.usage
            told = chunk.get("pasta", {})
            step, seconds = told.get("step", step), told.get("seconds", seconds)
            events = from_json(told.get("events", ()))
            text = ""
            for choice in chunk["choices"]:
                text += choice["delta"].get("content") or ""
                if choice["finish_reason"] is not None:
                    events.append(Finished(choice["finish_reason"]))
            if events or text:
                yield StepOutput(step, seconds, tuple(events), text)

    def _open(self, path: str, body: Mapping[str, Any] | None = None) -> http.client.HTTPResponse:
        data = None if body is None else json.dumps(body).encode()
        try:
            request = urllib.request.Request(self.url + path, data, self._headers)
            return urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            raise refusal(self.url, error) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise PastaError(f"cannot reach {self.url}: {reason}", "is `pasta serve` running there?") from None
        except ValueError as error:
            raise UsageError(f"{self.url!r} is not a server's address: {error}") from None


def chunks(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """The server-sent events. A stream that ends without saying so was cut."""
    try:
        for line in response:
            if line == b"data: [DONE]\n":
                return
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))
    except (OSError, http.client.HTTPException):
        pass
    raise PastaError("the server ended in the middle of the answer")


def refusal(url: str, error: urllib.error.HTTPError) -> PastaError:
    """What a server says when it does not answer."""
    with error:
        try:
            return PastaError(json.load(error)["error"]["message"])
        except (ValueError, KeyError, TypeError):
            return PastaError(f"{url} answers {error.code} {error.reason}", "is it a PASTA server?")
