"""Asks a large language model, behind any OpenAI-compatible server, what is independent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pasta.data.endpoint import Endpoint, Gone, digest, keep, read_kept
from pasta.data.example import Decision, Example, Refused
from pasta.data.plan import PlanError
from pasta.data.prompt import RULES, messages
from pasta.data.reply import read_plan

FORM = 2  # of the prompt: another number makes all cached replies old


class Llm:
    """The annotator `llm`; its options are those of `Endpoint`, `cache` by default a folder of the user's cache."""

    name = "llm"

    def __init__(self, model: str, base_url: str, *, cache: Path | None = None, **options: Any) -> None:
        self.endpoint = Endpoint(model, base_url, cache=cache or _default_cache(), **options)
        self.batch = 16 * self.endpoint.concurrency

    @property
    def requests(self) -> int:
        """Sent, retries included."""
        return self.endpoint.requests

    def settings(self) -> Mapping[str, Any]:
        where = {"model": self.endpoint.model, "base_url": self.endpoint.base_url}
        return {**where, "form": FORM, "rules": digest(RULES)}

    def decide(self, examples: Sequence[Example]) -> Iterator[Decision]:
        """Decisions as they come in."""
        return self.endpoint.each(examples, self._decide_one)

    async def _decide_one(self, client: Any, example: Example) -> Decision:
        body = {"model": self.endpoint.model, "messages": messages(example), "temperature": 0}
        kept = self.endpoint.place(FORM, body)
        try:
            reply = read_kept(kept)
            if not isinstance(reply, str):
                reply = (await self.endpoint.ask(client, body))["message"]["content"]
                plan, reason = read_plan(reply, example.text)
                keep(kept, reply)  # only a reply that can be used: a refused one is asked for again
            else:
                plan, reason = read_plan(reply, example.text)
        except PlanError as error:
            return Decision(example.row, Refused(f"unusable reply: {error}"))
        except Gone as error:
            return Decision(example.row, Refused(str(error)))
        return Decision(example.row, plan, reason)


def _default_cache() -> Path:
    from pasta.models.store import cache_root

    return cache_root() / "annotate"
