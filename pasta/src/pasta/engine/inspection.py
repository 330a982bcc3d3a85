"""What can be said of a model before it is used: whether it runs, by which forward pass, and how exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pasta.engine.checked import check
from pasta.engine.make import find_way, make_engine, slow_reason
from pasta.engine.native import NativeEngine
from pasta.errors import UnsupportedModel
from pasta.models.load import load_model
from pasta.models.progress import working

WAYS = {
    "cpu": "its own forward pass for CPUs",
    "cuda": "its own forward pass for CUDA: captured graphs and kernels",
    "general": "transformers' forward pass",
}


@dataclass(frozen=True, slots=True)
class Inspection:
    """Differences are in units of the logits' spread."""

    name: str
    family: str
    device: str
    runs: bool
    reason: str | None = None  # why it does not
    path: str | None = None  # `cpu`, `cuda` or `general`
    path_reason: str | None = None  # why not one of the fast ones
    cuda_reason: str | None = None  # why not the fast one on a CUDA device; None: it would
    difference: float | None = None  # from its own forward pass
    tolerance: float | None = None
    context: int | None = None
    windows: tuple[int | None, ...] = ()  # by call of attention: how many positions back it sees; None: all

    def lines(self) -> Iterator[str]:
        yield f"{self.name} ({self.family}) on {self.device}"
        if not self.runs:
            yield f"refused: {self.reason}"
            return
        assert self.path is not None
        why = f" ({self.path_reason})" if self.path_reason else ""
        yield f"runs through {WAYS[self.path]}{why}"
        if self.device != "cuda":
            on_cuda = "general" if self.cuda_reason else "cuda"
            yield f"on CUDA: {WAYS[on_cuda]}{f' ({self.cuda_reason})' if self.cuda_reason else ''}"
        yield f"self-check: differs from its own forward pass by {self.difference:.1e}, {self.tolerance:g} allowed"
        yield f"context: {self.context} positions"
        sizes = sorted({size for size in self.windows if size is not None})
        short = sum(size is not None for size in self.windows)
        yield (
            f"windows: {short} of {len(self.windows)} layers see {' or '.join(map(str, sizes))} positions back"
            if sizes
            else "windows: none"
        )


def inspect_model(name: str, device: str | None = None, base: str | None = None) -> Inspection:
    """Loads a model (an adapter over `base`, where that is given) and runs the self-check, whatever the cache says."""
    with working(f"loading and checking {name}"):
        loaded = load_model(name, device=device, base=base)
        model, about = loaded.model, (loaded.name, loaded.model.config.model_type, loaded.model.device.type)
        try:
            engine = make_engine(model, loaded.vocabulary, name=loaded.name, slots=256)
            agreement = check(engine)
        except UnsupportedModel as refusal:
            return Inspection(*about, False, refusal.message.partition("cannot be run: ")[2])
    asks = (model, engine.calls, engine.context)
    return Inspection(
        *about,
        runs=True,
        path=find_way(*asks),
        path_reason=slow_reason(*asks, model.device.type),
        cuda_reason=slow_reason(*asks, "cuda"),
        difference=max(agreement.plain, agreement.forked),
        tolerance=agreement.tolerance,
        context=engine.context,
        windows=windows(engine),
    )


def windows(engine: NativeEngine) -> tuple[int | None, ...]:
    return tuple(
        call.reach if call.reach is not None and call.reach < engine.context else None for call in engine.calls
    )
