"""What a client is told when something is wrong: OpenAI's envelope, and the status that says whose fault it is."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi.responses import JSONResponse

from pasta.decoding.runner import EngineFailed
from pasta.engine.base import OutOfSlots
from pasta.engine.remote_client import ServerError, Unavailable
from pasta.errors import PastaError, UsageError
from pasta.serve.dispatcher import QueueFull, ShuttingDown
from pasta.serve.keys import TooMany
from pasta.structured.errors import ConstraintError

log = logging.getLogger("pasta.serve")

# Of unions in a body.
BRANCHES = frozenset(
    f"as {kind}"
    for kind in ("lists of tokens", *"text list tokens texts object schema name message call result".split())
)
TOKEN_ID = r"^(0|[1-9][0-9]{0,8})$"
# What pydantic says in the words of Python.
EXPECTED = {
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "be an object"),
    "list_type": "be a list",
    "string_type": "be a string",
    "string_unicode": "be valid Unicode, without lone surrogates",
    "bool_type": "be true or false",
    "int_type": "be an integer",
    "float_type": "be a number",
    f"match pattern '{TOKEN_ID}'": "be the id of a token, in digits as in 42",
}
# What else is taken where a complaint is about the text of a union.
ALSO = {"string_type": " or a list", "literal_error": ", or an object"}
KEY = "[key]"  # what pydantic puts after the key of an object, where the key itself is wrong
TOLD = r"(?:Input|List|String|Dictionary) should (.*?)(?: after validation, not (?:\d+|more))?"
MAX_SHOWN = 60  # characters of a value
TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class ApiError(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ):
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        kind = TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        # What a client sent may be quoted here, and may hold what UTF-8 cannot say.
        message = self.message.encode("utf-8", "replace").decode()
        param = self.param and self.param.encode("utf-8", "replace").decode()
        return {"error": {"message": message, "type": kind, "param": param, "code": self.code}}

    def response(self) -> JSONResponse:
        return JSONResponse(self.body(), self.status, self.headers)


def from_pasta(error: PastaError) -> ApiError:
    """A library's error as a client should see it."""
    match error:
        case QueueFull():
            headers = {"Retry-After": str(error.retry_after)}
            return ApiError(429, str(error), code="queue_full", headers=headers)
        case ShuttingDown():
            return ApiError(503, str(error), code="shutting_down", headers={"Retry-After": "10"})
        case TooMany():
            return ApiError(429, str(error), code=error.code, headers={"Retry-After": str(error.retry_after)})
        case OutOfSlots():
            return ApiError(503, str(error), code="out_of_memory", headers={"Retry-After": "1"})
        case Unavailable():
            message = "the model's server does not answer now"
            return ApiError(503, message, code="engine_unavailable", headers={"Retry-After": "5"})
        case ServerError():
            return ApiError(502, "the model's server failed to answer; the log says why", code="engine_failed")
        case ConstraintError():
            return ApiError(400, str(error), code="invalid_schema")
        case UsageError():
            return ApiError(400, str(error))
        case EngineFailed():
            return ApiError(500, str(error), code="engine_failed")
    log.error("a request failed: %s", error)
    return ApiError(500, "the server failed to answer; its log says why", code="internal_error")


def from_validation(errors: Sequence[Mapping[str, Any]]) -> ApiError:
    """The most telling of the complaints about a body, as one sentence."""
    error = max(errors, key=lambda error: len(error["loc"]))  # of a union's branches, the one that fitted best
    kind, message = error["type"], str(error["msg"])
    place = path_of(error["loc"][:-1] if is_of_key(error) else error["loc"])
    if kind == "json_invalid":
        why = error.get("ctx", {}).get("error", message)
        return ApiError(400, f"the body is not valid JSON: {why}", code="invalid_json")
    if kind == "extra_forbidden":
        *owner, name = error["loc"]  # whatever a client thought of, also the name of a branch
        place = f"{path_of(owner)}.{name[:80]}" if owner else name[:80]
        message = f"Unrecognized request argument supplied: {place or shown(name)}"
        return ApiError(400, message, param=place, code="unknown_parameter")
    if kind == "missing":
        return ApiError(400, f"you must provide {place or 'a JSON body'}", param=place, code="missing_parameter")
    if kind == "unsupported_parameter":
        name = str(error["ctx"]["name"])
        return ApiError(400, message, param=name, code=kind)
    return ApiError(400, sentence(place or "the body", error), param=place, code="invalid_value")


def sentence(place: str, error: Mapping[str, Any]) -> str:
    """`temperature is 3, but it should be less than or equal to 2`; what we complain of ourselves, in our own words."""
    message = str(error["msg"])
    told = re.fullmatch(TOLD, message, re.DOTALL)
    if told is None:
        return f"{place}: {message}"
    expected = EXPECTED.get(error["type"]) or EXPECTED.get(told[1], told[1])
    if error["loc"][-1:] == ("as text",):
        expected += ALSO.get(error["type"], "")
    if is_of_key(error):
        owner = path_of(error["loc"][:-2]) or "the body"
        return f"{owner} has the key {shown(error['input'])}, but a key should {expected}"
    return f"{place} is {shown(error['input'])}, but it should {expected}"


def is_of_key(error: Mapping[str, Any]) -> bool:
    """Whether a key of an object is complained of, and not its value: a key may itself be called `[key]`."""
    return error["loc"][-1:] == (KEY,) and error["loc"][-2:-1] == (error["input"],)


def shown(value: Any) -> str:
    """A value that a client sent: a list and an object by their kind, since they may be long."""
    match value:
        case dict():
            return "an object"
        case list():
            return f"a list of {len(value)}" if value else "an empty list"
        case str() if len(value) > MAX_SHOWN:
            return f"{json.dumps(value[:MAX_SHOWN], ensure_ascii=False)}…"
    return json.dumps(value, ensure_ascii=False)[:MAX_SHOWN]


def path_of(location: Sequence[str | int]) -> str | None:
    """`messages[0].content` for a place in the body, without the names of a union's branches."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part not in BRANCHES:
            path += f".{part[:80]}" if path else part[:80]  # it may be a name that only a client could think of
    return path or None
