"""vLLM's own scheduler and block manager drive the lanes (where vLLM is installed; its GPU parts are not needed)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

vllm = pytest.importorskip("vllm", reason="vLLM is not installed")

from simulated import BLOCK, NAME, Output, Running, Simulated  # noqa: E402

from pasta.core.params import SamplingParams  # noqa: E402
from pasta.core.taught import Taught  # noqa: E402
from pasta.core.vocabulary import Vocabulary  # noqa: E402
from pasta.decoding.api import generate_all  # noqa: E402
from pasta.engine.vllm import plugin  # noqa: E402
from pasta.engine.vllm.burst import Burst, ahead  # noqa: E402
from pasta.engine.vllm.core import arguments  # noqa: E402
from pasta.engine.vllm.engine import VllmEngine  # noqa: E402
from pasta.engine.vllm.plan import Rows, Span  # noqa: E402
from pasta.engine.vllm.sampler import Choice  # noqa: E402
from pasta.engine.vllm.terms import KEY  # noqa: E402
from pasta.models.tags import add_tags  # noqa: E402
from support import byte_tokenizer, tiny_engine, tiny_model  # noqa: E402

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

PROMPTS = [
    "Compare cats and dogs.",
    "Hello!",
    "Why is the sky blue, and the sea too? Say more.",
    "Compare cats and birds.",
]


class Scheduled(Simulated):
    """The simulated worker under vLLM's scheduler."""

    def __init__(self, folder: Path, *args: Any, blocks: int, budget: int, **kwargs: Any):
        from vllm import EngineArgs
        from vllm.utils.hashing import get_hash_fn_by_name
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
        from vllm.v1.structured_output import StructuredOutputManager

        super().__init__(*args, blocks=blocks, **kwargs)
        plugin.register()
        import torch

        options = {"dtype": "float32", "max_model_len": 1024, "block_size": BLOCK, "max_num_seqs": 8}
        config = EngineArgs(
            **arguments(folder, **options, max_num_batched_tokens=budget, enable_prefix_caching=True)
        ).create_engine_config()
        config.cache_config.num_gpu_blocks = blocks
        spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=2, head_size=8, dtype=torch.float32)
        cache = KVCacheConfig(
            num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)]
        )
        self.scheduler: Any = config.scheduler_config.get_scheduler_cls()(
            vllm_config=config,
            kv_cache_config=cache,
            structured_output_manager=StructuredOutputManager(config),
            block_size=BLOCK,
            log_stats=True,
        )
        hash_of = get_hash_fn_by_name(config.cache_config.prefix_caching_hash_algo)
        init_none_hash(hash_of)
        self.hasher = get_request_block_hasher(BLOCK, hash_of)
        self.cached = 0
        self.burst, self.ahead = 1, 0

    def add(self, request: str, prompt: Sequence[int], terms: str, cache_salt: str | None) -> None:
        from vllm import SamplingParams as Params
        from vllm.v1.request import Request

        params = Params(max_tokens=1024 - len(prompt), temperature=0.0, ignore_eos=True, extra_args={KEY: terms})
        self.scheduler.add_request(
            Request(request, list(prompt), params, None, cache_salt=cache_salt, block_hasher=self.hasher)
        )
        self.running[request] = Running(request, tuple(prompt), terms, list(prompt))

    def abort(self, request: str) -> None:
        from vllm.v1.request import RequestStatus

        self.scheduler.finish_requests(request, RequestStatus.FINISHED_ABORTED)
        self.running.pop(request)

    def step(self) -> list[Output]:
        from vllm.v1.outputs import ModelRunnerOutput

        self.steps += 1
        out = self.scheduler.schedule()
        for name in out.preempted_req_ids or ():
            self.preempted += 1
            self.running[name].answer = None
        for new in out.scheduled_new_reqs:  # of runner V2: resumed requests are among them
            self._begin(new.req_id, new.block_ids[0], new.num_computed_tokens)
        cached = out.scheduled_cached_reqs
        for index, name in enumerate(cached.req_ids):
            if name in cached.resumed_req_ids:  # of runner V1
                self._begin(name, cached.new_block_ids[index][0], cached.num_computed_tokens[index])
            elif cached.new_block_ids[index] is not None:
                self.running[name].blocks += cached.new_block_ids[index][0]
            self.running[name].computed = cached.num_computed_tokens[index]
        names = list(out.num_scheduled_tokens)
        requests = [self.running[name] for name in names]
        tokens_before = [list(request.tokens) for request in requests]
        spans = [
            Span(request.answer.lanes, request.computed, out.num_scheduled_tokens[request.name])
            for request in requests
            if request.answer is not None
        ]
        outputs = {
            each.request: each for each in self._sample(requests, spans, self._forward(requests, Rows.of(spans)))
        }
        streams = [list(outputs[name].tokens) if name in outputs else [] for name in names]
        pending = [len(stream) for stream in streams]
        answers = [request.answer for request in requests if request.answer is not None]
        decoding = all(span.start >= answer.lanes.prompt_length for span, answer in zip(spans, answers, strict=True))
        if self.burst > 1 and decoding and all(streams):
            burst = Burst(answers, streams, [min(span.end + ahead(span.rows), 1024) for span in spans])
            burst.run(self.burst - 1, lambda *step: self._decide(requests, *step), seconds=1e9)
            self.ahead += sum(member.extra for member in burst.members)
            streams = [member.stream for member in burst.members]
            pending = [member.pending for member in burst.members]
            for request, stream, before in zip(requests, streams, tokens_before, strict=True):
                request.tokens = before + stream
        tokens = [[*stream, count] if stream else [] for stream, count in zip(streams, pending, strict=True)]
        result = ModelRunnerOutput(
            req_ids=names, req_id_to_index={name: i for i, name in enumerate(names)}, sampled_token_ids=tokens
        )
        told = self.scheduler.update_from_output(out, result)
        return [
            Output(one.request_id, one.new_token_ids, one.finish_reason is not None)
            for outputs in told.values()
            for one in outputs.outputs
        ]

    def _decide(
        self, requests: list[Running], step: Rows, deciding: list[int], choices: list[Choice] | None
    ) -> list[int]:
        for _, _, request, held in step.spans.T:
            assert held <= len(requests[request].blocks) * BLOCK  # nothing is written where nobody allotted a slot
        assert choices is not None
        return self.sampler.choose(self._forward(requests, step)[deciding], choices)

    def _begin(self, name: str, blocks: list[int], computed: int) -> None:
        from pasta.engine.vllm.terms import Terms

        request = self.running[name]
        request.blocks, request.computed = list(blocks), computed
        self.cached += computed
        stream = request.tokens[len(request.prompt) :]
        request.answer = self.sampler.answer(Terms.read(request.terms), request.prompt, stream, 1024)

    def _release(self, request: Running) -> None:
        """The scheduler's own."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    model, vocabulary = tiny_model(), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    model.save_pretrained(path)
    vocabulary.tokenizer.save_pretrained(path)
    return path


@pytest.mark.parametrize(
    "blocks,budget,burst", [(400, 256, 1), (400, 17, 1), (36, 64, 1), (400, 256, 8), (44, 64, 3)],
    ids=["roomy", "small steps", "few blocks", "bursts", "bursts, few blocks"],
)  # fmt: skip
def test_answers_are_those_of_the_native_engine(folder: Path, blocks: int, budget: int, burst: int) -> None:
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    model, vocabulary = tiny_model(), Vocabulary(byte_tokenizer())
    add_tags(model, vocabulary)
    native = tiny_engine()
    core = Scheduled(folder, model, vocabulary, blocks=blocks, budget=budget)
    core.burst = burst
    size = int(model.get_output_embeddings().weight.shape[0])
    engine = VllmEngine(core, vocabulary, size=size, context=4096, taught=Taught())
    tags = vocabulary.tags
    assert tags is not None and model.config._attn_implementation == NAME
    bias = ((tags.sync, 4.0), (tags.close, 3.0), *((length, 3.0) for length in tags.lengths[:4]))
    for seed in range(2):
        params = SamplingParams(temperature=1.0, parallelism=3.0, logit_bias=bias, max_tokens=100, seed=seed)
        ours = generate_all(engine, PROMPTS, params, cache_salt="shared")
        assert [one.annotated for one in ours] == [one.annotated for one in generate_all(native, PROMPTS, params)]
        assert any(len(one.threads) > 2 for one in ours)
    pool = core.scheduler.kv_cache_manager.block_pool
    assert pool.get_num_free_blocks() == blocks - 1  # the null block
    assert not core.scheduler.requests and not core.scheduler.running
    assert core.cached > 0  # prompts begin alike
    assert core.preempted > 0 or blocks == 400
    assert (core.ahead > 100) == (burst > 1)
    answers = {block.block_id for block in pool.blocks if block.block_hash is not None}
    prompts = sum(len(one.prompt_ids) // BLOCK for one in ours)
    assert len(answers) <= prompts, "what threads wrote is in the prefix cache"
