"""The figures of a CPU on a real model, and what they must show."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pasta.bench import baseline, overhead, steps
from pasta.bench.machine import describe
from pasta.bench.responses import make_responses, plain_tokens
from pasta.engine.cpu import CpuEngine
from pasta.engine.load import load_engine
from pasta.engine.native import NativeEngine
from pasta.models import load_model, resolve

QUESTION = "Explain how a bicycle stays upright."
MOST_OVERHEAD = 0.05


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that must hold, and what was measured."""

    what: str
    expected: str
    measured: float
    holds: bool


def run(name: str | None = None, *, quick: bool = False) -> dict[str, Any]:
    """Every figure is a ratio of runs that took turns, so that a busy machine disturbs both sides alike."""
    base = str(resolve(name).whole.path)  # its weights alone, without an adapter: those are compared
    engine = load_engine(base, device="cpu", tags=True)
    engines: dict[str, NativeEngine] = {"float32": engine}
    if isinstance(engine, CpuEngine):
        engines["int8"] = load_engine(base, device="cpu", tags=True, dtype="int8")
    plain = load_model(base, dtype=engine.model.dtype, device="cpu").model
    vocabulary = engine.vocabulary
    assert vocabulary.tags is not None
    prompt = vocabulary.encode_chat([{"role": "user", "content": QUESTION}])
    letters = [vocabulary.encode(letter)[0] for letter in "abcdefghijklmnop"]
    forked = make_responses(1, vocabulary.tags, letters, threads=(8, 8))[0]
    report: dict[str, Any] = {
        "machine": describe(),
        "model": engine.name,
        "dtype": "float32",
        "context": len(prompt),
        # Short turns: the load of a machine drifts within the ten seconds that a long answer takes.
        "baseline": baseline.measure(engine, plain, prompt, tokens=24, repeats=2 if quick else 14),
        "steps": steps.measure(engines, prompt * 8, repeats=5 if quick else 20),
        "sampled": steps.measure_sampled(engines, prompt * 8, repeats=5 if quick else 20),
        "overhead": overhead.measure(
            engine,
            prompt,
            {"one thread": plain_tokens(forked, vocabulary.tags)[:60], "eight threads": forked},
            repeats=1 if quick else 3,
        ),
    }
    report["claims"] = [asdict(claim) for claim in claims(report)]
    return report


def claims(report: dict[str, Any]) -> list[Claim]:
    speedup = report["baseline"]["speedup"]
    share = max(row["cpu_share"] for row in report["overhead"])
    return [
        Claim("decoding without tags, times as fast as transformers' generate", "at least 1", speedup, speedup >= 1),
        Claim("share of a step that is not the model", f"under {MOST_OVERHEAD}", share, share < MOST_OVERHEAD),
        Claim(
            "greedy tokens are transformers'",
            "1",
            float(report["baseline"]["same_tokens"]),
            report["baseline"]["same_tokens"],
        ),
    ]
