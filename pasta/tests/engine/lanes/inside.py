"""`inside.py FOLDER RANKS`: answers of a tiny model inside vLLM on a CPU, as JSON after the word `answers`.

With `hold` as a third word it starts, says `holding`, and waits. With `lose` its engine is killed while it answers, and
it says what it is told after the word `lost`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pasta.core.params import SamplingParams
from pasta.core.tags import Tags
from pasta.decoding.api import generate_all
from pasta.engine.vllm.core import start_engine
from pasta.errors import PastaError

PROMPTS = ["Compare cats and dogs.", "Hello!", "Why is the sky blue, and the sea too? Say more.", "Compare birds."]
OPTIONS = {
    "dtype": "float32", "max_model_len": 1024, "enforce_eager": True, "max_num_seqs": 8, "block_size": 32,
    "max_num_batched_tokens": 64,
}  # fmt: skip


def lively(tags: Tags, seed: int) -> SamplingParams:
    """Of a model that knows nothing: drawn tokens, tags among them."""
    bias = ((tags.sync, 4.0), (tags.close, 3.0), *((length, 3.0) for length in tags.lengths[:4]))
    return SamplingParams(temperature=1.0, parallelism=3.0, logit_bias=bias, max_tokens=70, seed=seed)


def lose(engine: Any) -> None:
    process = engine.core.llm.engine_core.resources.engine_manager.processes[0]
    threading.Timer(2, process.kill).start()
    for ask in (lambda: generate_all(engine, PROMPTS, max_tokens=900), engine.check):
        try:
            ask()
        except PastaError as error:
            print("\nlost", error)


def main() -> None:
    engine = start_engine(Path(sys.argv[1]), tensor_parallel_size=int(sys.argv[2]), **OPTIONS)
    if sys.argv[3:] == ["hold"]:
        print("\nholding", flush=True)
        time.sleep(3600)
    if sys.argv[3:] == ["lose"]:
        lose(engine)
        return
    tags = engine.vocabulary.tags
    assert tags is not None
    answers = [generate_all(engine, PROMPTS, lively(tags, seed), cache_salt="shared") for seed in range(2)]
    print("\nanswers", json.dumps([[one.annotated for one in each] for each in answers]))


if __name__ == "__main__":
    main()
