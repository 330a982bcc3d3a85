"""What a model was taught of the language, in its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pasta.core.taught import Taught

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def mark(model: PreTrainedModel, taught: Taught) -> None:
    """Writes into the configuration what an engine must know to decode this model as it was trained."""
    model.config.pasta = taught.record()


def taught_of(model: PreTrainedModel) -> Taught:
    """What `mark` wrote."""
    return Taught.read(getattr(model.config, "pasta", None))
