"""vLLM's engine in a process of its own, and its front: where one of them is killed, the other knows.

vLLM ends its engine when the front exits, and the front hears of an engine that fails. But a front that is killed
leaves the engine behind, with the GPU's memory; and of an engine that is killed a front that waits hears nothing.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from multiprocessing import connection
from typing import Any

FRONT = "PASTA_VLLM_FRONT"  # in the environment: the process that waits for answers
LOOK_S = 1.0
GRACE_S = 10.0  # for an end of its own accord


def tie() -> None:
    """Called by the front, before it starts vLLM."""
    os.environ[FRONT] = str(os.getpid())


def watch() -> None:
    """Called by the engine, a child of its front: from now on it ends soon after that. Nothing in the front itself."""
    front = int(os.environ.get(FRONT, os.getpid()))
    if front != os.getpid():
        threading.Thread(target=_end_after, args=(front,), name="pasta-tether", daemon=True).start()


def _end_after(front: int) -> None:
    while os.getppid() == front:
        time.sleep(LOOK_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os._exit(1)


def listen(client: Any, ended: Exception) -> None:
    """Called by the front: whoever waits for the engine's output is told when its process is gone."""
    outputs = getattr(client, "outputs_queue", None)
    manager = getattr(getattr(client, "resources", None), "engine_manager", None)
    if outputs is None or manager is None:  # it is in this process
        return

    def tell() -> None:
        connection.wait([process.sentinel for process in manager.processes])
        outputs.put_nowait(ended)

    threading.Thread(target=tell, name="pasta-engine-end", daemon=True).start()
