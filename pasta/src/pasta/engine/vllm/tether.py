"""vLLM's engine in a process of its own ends with the one that started it, however that ended.

vLLM ends it when its front exits; a front that is killed leaves it behind, with the GPU's memory.
"""

from __future__ import annotations

import os
import signal
import threading
import time

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
