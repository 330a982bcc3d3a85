"""What Prometheus is told."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from pasta.decoding.results import Result
from pasta.engine.base import Pool
from pasta.serve.dispatcher import Dispatcher

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100)
THREADS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
SPEEDUPS = (0.75, 1, 1.25, 1.5, 2, 2.5, 3, 4, 6, 8)


class Metrics:
    """One server's figures, in a registry of their own."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, dispatcher: Dispatcher, pool: Pool):
        own = self._registry = CollectorRegistry()
        self.requests = Counter("pasta_requests", "HTTP requests.", ["path", "status"], registry=own)
        self.cancelled = Counter(
            "pasta_cancelled", "Requests that were ended early, mostly because their client went away.", registry=own
        )
        self._prompt = Counter("pasta_prompt_tokens", "Tokens of prompts.", registry=own)
        self._cached = Counter("pasta_prompt_tokens_cached", "Of them, those that were computed before.", registry=own)
        self._completion = Counter("pasta_completion_tokens", "Tokens decoded, tags included.", registry=own)
        self.first = Histogram(
            "pasta_time_to_first_token_seconds", "From a request to its first text.", registry=own, buckets=SECONDS
        )
        self._whole = Histogram(
            "pasta_answer_seconds", "From an answer's start in the engine to its end.", registry=own, buckets=SECONDS
        )
        self._threads = Histogram("pasta_threads_per_answer", "Main thread included.", registry=own, buckets=THREADS)
        self._speedup = Histogram(
            "pasta_theoretical_speedup", "Content tokens over critical path.", registry=own, buckets=SPEEDUPS
        )
        for name, what, read in (
            ("pasta_requests_running", "Requests in the batch.", lambda: dispatcher.running),
            ("pasta_requests_waiting", "Requests in the queue.", lambda: dispatcher.waiting),
            ("pasta_steps", "Steps of the engine so far.", lambda: dispatcher.steps),
            ("pasta_preemptions", "Requests that lost their place to others, so far.", lambda: dispatcher.preemptions),
            ("pasta_kv_slots", "Size of the KV pool in tokens.", lambda: pool.slots),
            ("pasta_kv_slots_free", "Slots that no request holds.", lambda: pool.free_slots),
            ("pasta_kv_slots_kept", "Slots that hold what prompts began with.", lambda: pool.kept_slots),
        ):
            Gauge(name, what, registry=own).set_function(read)
        ProcessCollector(registry=own)  # memory, processor time and open files, by their usual names

    def answered(self, result: Result) -> None:
        self._prompt.inc(len(result.prompt_ids))
        self._cached.inc(result.cached_tokens)
        self._completion.inc(result.tokens_total)
        self._whole.observe(result.wall_s)
        self._threads.observe(len(result.threads))
        self._speedup.observe(result.parallelism)

    def text(self) -> bytes:
        return generate_latest(self._registry)
