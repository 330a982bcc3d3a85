"""Trackers of a run: tensorboard, wandb, trackio, and whatever else transformers knows."""

from __future__ import annotations

from transformers.integrations import get_available_reporting_integrations, get_reporting_integration_callbacks
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

from pasta.errors import UsageError


def check_trackers(names: str) -> list[str]:
    """The trackers of a list with commas; refuses one that is unknown or not installed, before any work is done."""
    wanted = [name.strip() for name in names.split(",") if name.strip() and name.strip() != "none"]
    for name in wanted:
        if name not in INTEGRATION_TO_CALLBACK:
            known = ", ".join(("none", *sorted(INTEGRATION_TO_CALLBACK)))
            raise UsageError(f"report_to is {name!r}, which is no tracker", hint=f"use one of {known}")
        try:
            for make in get_reporting_integration_callbacks([name]):
                make()
        except (RuntimeError, ImportError, ValueError) as error:
            here = ", ".join(get_available_reporting_integrations()) or "none"
            raise UsageError(
                f"report_to is {name!r}, which is not installed: {str(error).splitlines()[0]}",
                hint=f"pip install {name}; installed: {here}",
            ) from error
    return wanted
