"""vLLM's scheduler, for requests whose answers are streams of lanes."""

from __future__ import annotations

from typing import Any

from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import Request, RequestStatus

from pasta.engine.vllm import tether
from pasta.engine.vllm.burst import ahead
from pasta.engine.vllm.terms import KEY, Terms


class PastaScheduler(Scheduler):
    """A step computes what a request's stream has not computed yet: one token for each live thread.

    Three things differ. A worker may take several steps at once, in slots that it was given ahead: after a stream's
    tokens it says how many of them are not computed. A stream ends with its end token twice in a row, and nowhere else.
    And the keys of an answer are not those of its tokens read as text: prompts enter the prefix cache, answers do not.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        tether.watch()
        self._ends: dict[str, int | None] = {}  # by request: the token that ends its stream; None: it has no threads
        allocate = self.kv_cache_manager.allocate_slots

        def allocate_slots(request: Request, num_new_tokens: int, *args: Any, **kwargs: Any) -> Any:
            decodes = self._end_of(request) is not None and request.num_output_tokens > 0
            kwargs["num_lookahead_tokens"] = ahead(num_new_tokens) if decodes else 0
            kwargs["delay_cache_blocks"] = decodes
            return allocate(request, num_new_tokens, *args, **kwargs)

        self.kv_cache_manager.allocate_slots = allocate_slots

    def _end_of(self, request: Request) -> int | None:
        if request.request_id not in self._ends:
            extra = request.sampling_params.extra_args if request.sampling_params is not None else None
            text = (extra or {}).get(KEY)
            self._ends[request.request_id] = None if text is None else Terms.read(text).end
        return self._ends[request.request_id]

    def _update_request_with_output(
        self, request: Request, new_token_ids: list[int], *args: Any, **kwargs: Any
    ) -> tuple[list[int], bool]:
        end = self._end_of(request)
        if end is None:
            return super()._update_request_with_output(request, new_token_ids, *args, **kwargs)
        pending = new_token_ids.pop()  # how many of them the worker has not computed
        request.append_output_token_ids(new_token_ids)
        request.num_computed_tokens = request.num_tokens - pending
        if new_token_ids[-2:] == [end, end]:
            request.status = RequestStatus.FINISHED_STOPPED
        elif request.num_tokens >= self.max_model_len:
            request.status = RequestStatus.FINISHED_LENGTH_CAPPED
        else:
            return new_token_ids, False
        return new_token_ids, True

    def _free_request(self, request: Request, *args: Any, **kwargs: Any) -> Any:
        self._ends.pop(request.request_id, None)
        return super()._free_request(request, *args, **kwargs)
