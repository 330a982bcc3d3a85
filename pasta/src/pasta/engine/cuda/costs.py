"""What steps take on a GPU and its host, about: enough to choose between two ways of doing the same."""

from __future__ import annotations

from transformers import PreTrainedModel

GRAPH_ROWS = 256  # of a step, unless more threads decide
MAX_PROMPT_ROWS = 1024  # of a step that prompts run in: every size more is more graphs to capture
LEAST_STEP_S = 0.6e-3  # that the smallest models take
BANDWIDTH = 3.5e12  # bytes a second at which larger ones are read, about
HOST_S = 0.15e-3  # what the host does in a step, about
HOST_ROW_S = 0.02e-3  # and for each of its rows
ROW = 0.018  # of a step: what a row more takes on the device, about
SEVERAL = 0.06  # of a step: what several rows take more than one, whose matrices are read in another way
EXPECTING_ROWS = 16  # of a step, below which forks and joins are expected: more have no time for what may be wrong
SECOND_ROW_S = 0.08e-3  # what a second row takes in the thirty layers of a model that is not small
CHEAP = 0.03  # of a step: what a row may cost that is likely to be wrong
PASS_S = 8e-3  # what the host takes to launch the pass of a prompt, about
OPERATIONS = 6e14  # a second, of products in 16 bits, about


def weight_bytes(model: PreTrainedModel) -> int:
    return sum(weight.numel() * weight.element_size() for weight in model.parameters())


def step_seconds(weights: int) -> float:
    """A step of one thread, by the bytes of the weights."""
    return max(LEAST_STEP_S, weights / BANDWIDTH)


def row_cost(step_s: float) -> float:
    """What a drafted token adds to a step, in steps."""
    return HOST_ROW_S / step_s + ROW


def wait_cost(step_s: float) -> float:
    """What a step takes more that checks guesses: the host's work is not done beside it, and it has several rows."""
    return HOST_S / step_s + SEVERAL


def is_row_cheap(step_s: float, *, small: bool) -> bool:
    """Whether a step may have a second row, where one comes to nothing ten times for one time that it saves a step."""
    return small or CHEAP * step_s > SECOND_ROW_S


def prompt_rows(weights: int) -> int:
    """How many rows a step may have for a prompt to run in it: those are computed before a pass would be launched.

    `weights` are bytes, of 16 bits each: as many operations a row.
    """
    rows = int(PASS_S * OPERATIONS / weights)
    return min(MAX_PROMPT_ROWS, max(GRAPH_ROWS, 1 << rows.bit_length() >> 1))
