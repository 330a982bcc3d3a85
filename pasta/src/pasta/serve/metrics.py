"""What Prometheus is told: PASTA's own figures as `pasta_…`, and beside them those that vLLM has, under its names.

A dashboard that was made for vLLM then works as it is: same names, same labels, same units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from pasta.decoding.results import Result
from pasta.engine.base import UNLIMITED, Engine
from pasta.engine.remote_client import Client
from pasta.serve.dispatcher import Dispatcher

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100)
STEP_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5)
TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000)
THREADS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
SPEEDUPS = (0.75, 1, 1.25, 1.5, 2, 2.5, 3, 4, 6, 8)


@dataclass(frozen=True, slots=True)
class Reading(Collector):
    """A figure that is read when somebody asks for it."""

    family: type[GaugeMetricFamily] | type[CounterMetricFamily]
    name: str
    what: str
    read: Callable[[], float]
    labels: tuple[tuple[str, str], ...] = ()

    def collect(self) -> Iterable[Metric]:
        family = self.family(self.name, self.what, labels=[name for name, _ in self.labels])
        family.add_metric([value for _, value in self.labels], self.read())
        yield family


class Metrics:
    """One server's figures, in a registry of their own."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, dispatcher: Dispatcher, engine: Engine):
        own = self._registry = CollectorRegistry()
        self._tags = engine.vocabulary.tags
        self.requests = Counter("pasta_requests", "HTTP requests.", ["path", "status"], registry=own)
        self.cancelled = Counter(
            "pasta_cancelled", "Requests that were ended early, mostly because their client went away.", registry=own
        )
        self._prompt = Counter("pasta_prompt_tokens", "Tokens of prompts.", registry=own)
        self._cached = Counter("pasta_prompt_tokens_cached", "Of them, those that were computed before.", registry=own)
        self._completion = Counter("pasta_completion_tokens", "Tokens decoded, tags included.", registry=own)
        self._dropped = Counter("pasta_dropped_tokens", "Decoded beyond a limit, and cut off.", registry=own)
        self._forks = Counter("pasta_forks", "Threads that answers opened.", registry=own)
        self._joins = Counter(
            "pasta_joins", "Syncs: threads that went on with what their children wrote.", registry=own
        )
        self._crowded = Counter(
            "pasta_plain_when_full", "Answers that began without threads, since the server was full.", registry=own
        )
        self._first = Histogram(
            "pasta_time_to_first_token_seconds", "From a request to its first text.", registry=own, buckets=SECONDS
        )
        self._whole = Histogram(
            "pasta_answer_seconds", "From an answer's start in the engine to its end.", registry=own, buckets=SECONDS
        )
        self._threads = Histogram("pasta_threads_per_answer", "Main thread included.", registry=own, buckets=THREADS)
        self._path = Histogram(
            "pasta_critical_path_tokens",
            "Tokens decoded one after another, at the least.",
            registry=own,
            buckets=TOKENS,
        )
        self._speedup = Histogram(
            "pasta_theoretical_speedup", "Content tokens over critical path.", registry=own, buckets=SPEEDUPS
        )
        self._vllm = LikeVllm(own, dispatcher, engine)
        pool = engine.pool
        gauge, counter = GaugeMetricFamily, CounterMetricFamily
        readings = [
            Reading(gauge, "pasta_requests_running", "Requests in the batch.", lambda: dispatcher.running),
            Reading(gauge, "pasta_requests_waiting", "Requests in the queue.", lambda: dispatcher.waiting),
            Reading(gauge, "pasta_threads_waiting", "For other requests' sake.", lambda: dispatcher.threads_waiting),
            Reading(gauge, "pasta_full", "1 while answers begin without threads.", lambda: float(dispatcher.full)),
            Reading(counter, "pasta_steps", "Steps of the engine.", lambda: dispatcher.steps),
            Reading(counter, "pasta_preemptions", "Requests that lost their place.", lambda: dispatcher.preemptions),
        ]
        if pool.slots < UNLIMITED:  # else the memory is another server's
            readings += [
                Reading(gauge, "pasta_kv_slots", "Size of the KV pool in tokens.", lambda: pool.slots),
                Reading(gauge, "pasta_kv_slots_free", "Slots that no request holds.", lambda: pool.free_slots),
                Reading(gauge, "pasta_kv_slots_kept", "Slots with what prompts began with.", lambda: pool.kept_slots),
            ]
        client = getattr(engine, "client", None)
        if isinstance(client, Client):
            usage = client.usage
            readings += [
                Reading(counter, "pasta_remote_requests", "Asked of the model's server.", lambda: usage.requests),
                Reading(counter, "pasta_remote_corrections", "Of them, corrections.", lambda: usage.corrections),
            ]
        for reading in readings:
            own.register(reading)
        ProcessCollector(registry=own)  # memory, processor time and open files, by their usual names

    def first_text(self, seconds: float) -> None:
        self._first.observe(seconds)
        self._vllm.first.observe(seconds)

    def step(self, seconds: float) -> None:
        """Between two steps of one answer."""
        self._vllm.between.observe(seconds)

    def answered(self, result: Result, queued_s: float, total_s: float, *, crowded: bool = False) -> None:
        self._crowded.inc(crowded)
        self._prompt.inc(len(result.prompt_ids))
        self._cached.inc(result.cached_tokens)
        self._completion.inc(result.tokens_total)
        self._dropped.inc(result.dropped_tokens)
        self._forks.inc(len(result.threads) - 1)
        if self._tags is not None:
            self._joins.inc(sum(thread.token_ids.count(self._tags.sync) for thread in result.threads))
        self._whole.observe(result.wall_s)
        self._threads.observe(len(result.threads))
        self._path.observe(result.critical_path)
        self._speedup.observe(result.parallelism)
        self._vllm.answered(result, queued_s, total_s)

    def text(self) -> bytes:
        return generate_latest(self._registry)


class LikeVllm:
    """vLLM's figures, as far as they have a meaning here."""

    def __init__(self, own: CollectorRegistry, dispatcher: Dispatcher, engine: Engine):
        labels = {"model_name": engine.name, "engine": "0"}

        def counter(name: str, what: str, *more: str) -> Counter:
            return Counter(f"vllm:{name}", what, [*labels, *more], registry=own)

        def histogram(name: str, what: str, buckets: tuple[float, ...]) -> Histogram:
            found = Histogram(f"vllm:{name}", what, list(labels), registry=own, buckets=buckets)
            return found.labels(**labels)

        self._labels = labels
        self._success = counter("request_success", "Answers that ended.", "finished_reason")
        self._prompt = counter("prompt_tokens", "Tokens of prompts.").labels(**labels)
        self._generation = counter("generation_tokens", "Tokens decoded.").labels(**labels)
        self._queries = counter("prefix_cache_queries", "Tokens of prompts that were looked for.").labels(**labels)
        self._hits = counter("prefix_cache_hits", "Of them, those that were found.").labels(**labels)
        self.first = histogram("time_to_first_token_seconds", "From a request to its first text.", SECONDS)
        self.between = histogram("inter_token_latency_seconds", "Between two steps of one answer.", STEP_SECONDS)
        self._each = histogram("request_time_per_output_token_seconds", "Of an answer, on average.", STEP_SECONDS)
        self._whole = histogram("e2e_request_latency_seconds", "From a request to its end.", SECONDS)
        self._queue = histogram("request_queue_time_seconds", "Before the engine took it.", SECONDS)
        self._inference = histogram("request_inference_time_seconds", "In the engine.", SECONDS)
        self._prompts = histogram("request_prompt_tokens", "Tokens of a prompt.", TOKENS)
        self._answers = histogram("request_generation_tokens", "Tokens of an answer.", TOKENS)
        pool, pairs = engine.pool, tuple(labels.items())
        gauge = GaugeMetricFamily
        readings = [
            Reading(gauge, "vllm:num_requests_running", "Requests in the batch.", lambda: dispatcher.running, pairs),
            Reading(gauge, "vllm:num_requests_waiting", "Requests in the queue.", lambda: dispatcher.waiting, pairs),
            Reading(CounterMetricFamily, "vllm:num_preemptions", "Places lost.", lambda: dispatcher.preemptions, pairs),
        ]
        if pool.slots < UNLIMITED:
            used = Reading(
                gauge, "vllm:kv_cache_usage_perc", "1 is full.", lambda: 1 - pool.free_slots / pool.slots, pairs
            )
            readings.append(used)
        for reading in readings:
            own.register(reading)

    def answered(self, result: Result, queued_s: float, total_s: float) -> None:
        self._success.labels(**self._labels, finished_reason=result.finish_reason).inc()
        self._prompt.inc(len(result.prompt_ids))
        self._generation.inc(result.decoded_tokens)
        self._queries.inc(len(result.prompt_ids))
        self._hits.inc(result.cached_tokens)
        self._whole.observe(total_s)
        self._queue.observe(queued_s)
        self._inference.observe(max(0.0, result.wall_s - queued_s))
        self._each.observe(max(0.0, result.wall_s - queued_s) / max(1, result.decoded_tokens))
        self._prompts.observe(len(result.prompt_ids))
        self._answers.observe(result.decoded_tokens)
