"""vLLM's own engine, started so that its workers decode in threads."""

from __future__ import annotations

import contextlib
import itertools
import json
import shlex
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from pasta.engine.exported import read_json, read_taught, read_vocabulary
from pasta.engine.vllm import plugin, refusals, tether
from pasta.engine.vllm.engine import Output, VllmEngine
from pasta.engine.vllm.terms import KEY
from pasta.errors import PastaError, UnknownModel, UnsupportedModel

SCHEME = "vllm://"
INSTALL = 'pip install "pasta-decoding[vllm]"'
GRAPH_ROWS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)  # of the steps that are CUDA graphs


class VllmCore:
    """One `LLMEngine`. `options` are fields of vLLM's `EngineArgs`, and override what is set here."""

    def __init__(self, folder: Path, **options: Any):
        try:
            from vllm import EngineArgs
            from vllm.v1.engine.exceptions import EngineDeadError
            from vllm.v1.engine.llm_engine import LLMEngine
        except ModuleNotFoundError as error:
            raise PastaError(f"{error.name} is not installed, and this engine needs it", INSTALL) from None
        plugin.register()
        tether.tie()
        self._dead: type[Exception] = EngineDeadError
        self._ended = False
        config = EngineArgs(**arguments(folder, **options)).create_engine_config()
        refusals.check(config)
        try:
            self.llm = LLMEngine.from_vllm_config(config, disable_log_stats=True)
        except RuntimeError as error:  # of its own process, which has said more
            raise PastaError(f"vLLM did not start: {error}", "see what it wrote before this") from error
        tether.listen(self.llm.engine_core, EngineDeadError())
        self.max_model_len = int(self.llm.model_config.max_model_len)

    def add(self, request: str, prompt: Sequence[int], terms: str, cache_salt: str | None) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        params = SamplingParams(
            max_tokens=self.max_model_len - len(prompt),
            temperature=0.0,
            ignore_eos=True,  # a stream may hold the end of a thread that waits
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
            extra_args={KEY: terms},
        )
        salt = cache_salt or uuid.uuid4().hex  # without one vLLM shares with everybody
        inputs: dict[str, Any] = {"prompt_token_ids": list(prompt), "cache_salt": salt}
        with self._alive():
            self.llm.add_request(request, inputs, params)

    def abort(self, request: str) -> None:
        with contextlib.suppress(PastaError), self._alive():  # one that has ended has nothing to leave
            self.llm.abort_request([request])

    def step(self) -> list[Output]:
        with self._alive():
            outputs = self.llm.step()
        return [Output(each.request_id, each.outputs[0].token_ids, each.finished) for each in outputs]

    def check(self) -> None:
        resources = getattr(self.llm.engine_core, "resources", None)  # of an engine in a process of its own
        if self._ended or getattr(resources, "engine_dead", False):
            raise PastaError("vLLM's engine has ended", "see its log, and start the server again")

    @contextlib.contextmanager
    def _alive(self) -> Iterator[None]:
        self.check()
        try:
            yield
        except self._dead:
            self._ended = True
            self.check()


def arguments(folder: Path, **options: Any) -> dict[str, Any]:
    """vLLM's arguments for a model folder that `pasta export` wrote."""
    architecture = (read_json(folder / "config.json").get("architectures") or [""])[0]
    known = [f"{family}ForCausalLM" for family in plugin.FAMILIES]
    if architecture not in known:
        raise UnsupportedModel(f"{folder} is a {architecture or 'model of no name'}", f"vLLM takes {', '.join(known)}")
    compilation = {"cudagraph_mode": "FULL", "cudagraph_capture_sizes": list(GRAPH_ROWS)}
    return {
        "model": str(folder),
        "hf_overrides": {"architectures": [f"Pasta{architecture}"]},
        "attention_backend": "CUSTOM",
        "scheduler_cls": plugin.SCHEDULER,
        "async_scheduling": False,  # a step's tokens decide how many rows the next one has
        "generation_config": "vllm",
        "disable_log_stats": True,
        "compilation_config": compilation,
        **options,
    }


def command_line(folder: Path) -> list[str]:
    """The same as a command: `vllm serve` with threads for requests that ask for them."""
    flags = []
    for name, value in itertools.islice(arguments(folder).items(), 1, None):
        flag = "--" + name.replace("_", "-")
        if value is False:
            flags.append(flag.replace("--", "--no-", 1))
        elif value is not True:
            flags += [flag, json.dumps(value) if isinstance(value, dict) else str(value)]
    return ["vllm", "serve", str(folder), *flags]


def print_command() -> None:
    """`python -m pasta.engine.vllm.core FOLDER`."""
    print(shlex.join(command_line(Path(sys.argv[1]))))


def start_at(url: str, *, context: int | None = None) -> VllmEngine:
    """An engine by its address: `vllm://FOLDER`, and vLLM's own options after a question mark, as in a URL."""
    place, _, query = url.removeprefix(SCHEME).partition("?")
    folder = Path(place).expanduser()
    if not (folder / "config.json").is_file():
        raise UnknownModel(f"{folder} holds no model", "write one: pasta export --output FOLDER")
    return start_engine(folder.resolve(), context=context, **{key: read_value(text) for key, text in parse_qsl(query)})


def read_value(text: str) -> Any:
    """JSON where it is JSON, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def start_engine(folder: Path, *, context: int | None = None, **options: Any) -> VllmEngine:
    """An engine inside vLLM, for a folder that `pasta export` wrote."""
    vocabulary = read_vocabulary(folder)
    core = VllmCore(folder, **options)
    config = read_json(folder / "config.json")
    known = int(config.get("max_position_embeddings") or core.max_model_len)
    return VllmEngine(
        core,
        vocabulary,
        size=int(core.llm.model_config.get_vocab_size()),
        context=min(known, context or known),
        taught=read_taught(folder),
        name=folder.name,
    )


if __name__ == "__main__":
    print_command()
