"""Kernels are compiled for a GPU that is not here, as the engine would launch them: what the interpreter cannot tell."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

triton = pytest.importorskip("triton", reason="needs triton")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="interpreted kernels are not compiled"),
]
HOPPER, AMPERE = 90, 80
REGISTERS = 255  # that a thread can have


@pytest.fixture(params=[HOPPER, AMPERE])
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Any]]]:
    """The kernels that were asked for, by name: none of them runs."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime.jit import JITFunction

    launch = JITFunction.run
    kernels: list[tuple[str, Any]] = []

    def compile_only(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
        kernels.append((self.fn.__name__, launch(self, *args, grid=grid, warmup=True, **options)))

    there = SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", request.param, 32),
        get_current_device=lambda: request.param,  # what was compiled for one is not taken for the other
        get_current_stream=lambda _=None: 0,
    )
    monkeypatch.setattr(triton.runtime.driver, "_active", there, raising=False)
    monkeypatch.setattr(JITFunction, "run", compile_only)
    monkeypatch.setattr(
        "pasta.engine.cuda.sampling.can_launch_beside", lambda _: request.param == HOPPER
    )
    yield kernels
    assert kernels
    for name, kernel in kernels:
        assert kernel.metadata.target.arch == request.param
        check(name, kernel.asm["ptx"], beside=bool(kernel.metadata.launch_pdl))


def check(name: str, ptx: str, *, beside: bool) -> None:
    """A kernel that is launched beside the one before waits for it before it touches memory; the others need not."""
    code = ptx[ptx.index(".entry") :]
    wait = code.find("griddepcontrol.wait")
    assert (wait >= 0) == beside, name
    touched = re.search(r"\b(ld\.global|st\.global|atom|cp\.async\.(ca|cg|bulk))", code)
    assert touched is not None, name
    assert not beside or wait < touched.start(), name
