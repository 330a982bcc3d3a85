"""Several steps of text at once: what an interpreter does with most tokens, without a call for each."""

from __future__ import annotations

from collections.abc import Sequence

from pasta.core.interpreter import Interpreter
from pasta.core.thread import Status


def text_steps(interpreter: Interpreter, threads: Sequence[int]) -> int:
    """For how many steps these threads, all that decode, may each put text with nothing following but that it is put.

    Text is a token that is no tag and ends nothing. Up to so many steps no limit is reached, and no turn changes.
    """
    if not interpreter.quiet or not threads:
        return 0
    limits = interpreter.limits
    steps = (limits.max_tokens - 1 - interpreter.sampled) // len(threads)
    for each in threads:
        thread = interpreter.threads[each]
        if thread.status is not Status.RUNNING or thread.promise is not None:
            return 0
        steps = min(steps, limits.context - 1 - thread.position)
        if limits.max_thread_tokens is not None and thread.parent is not None:
            steps = min(steps, limits.max_thread_tokens - 1 - thread.sampled)
    return max(0, steps)


def feed_text(interpreter: Interpreter, threads: Sequence[int], tokens: Sequence[int]) -> None:
    """Feeds a token of each thread, step by step, for at most `text_steps` steps."""
    count = len(threads)
    steps = len(tokens) // count
    for lane, each in enumerate(threads):
        thread = interpreter.threads[each]
        thread.tokens += tokens[lane::count]
        thread.positions += range(thread.position, thread.position + steps)
        thread.position += steps
        thread.sampled += steps
    interpreter.sampled += len(tokens)
