"""Work on the device as a CUDA graph: recorded once, launched in one call ever after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

T = TypeVar("T")


def capture(work: Callable[[], T], memory: Any, *, error_mode: str = "global") -> tuple[torch.cuda.CUDAGraph, T]:
    """The graph of what `work` does the second time that it is called, and what it then returns.

    The first time compiles its kernels. `memory` is what `torch.cuda.graph_pool_handle` gave. A graph does not hold the
    tensors that it reads and writes: whoever has it must keep `work`, too. `error_mode`: whose calls of CUDA may not
    disturb the recording, as `torch.cuda.graph` names them.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        work()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=memory, capture_error_mode=error_mode):
        result = work()
    return graph, result
