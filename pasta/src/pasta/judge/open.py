"""How a judge is named on a command line."""

from __future__ import annotations

from pasta.errors import UsageError
from pasta.judge.base import Judge, LongerIsBetter

KINDS = """reward:FOLDER_OR_HUB_NAME   a reward model; one of `pasta train judge` is controlled for length
reward-raw:FOLDER           the same, not controlled for length
features:FILE               a linear judge over counted features, made by `pasta train judge`, controlled for length
features-raw:FILE           the same, not controlled for length
llm:MODEL@BASE_URL          a large model behind an OpenAI-compatible server, asked as AlpacaEval asks
right:TASKS[+OTHER]         right answers of tasks, marked by a program; about other prompts, another judge
right-code:TASKS[+OTHER]    the same, and may run code that models wrote
length                      the longer answer wins: a baseline"""


def open_judge(spec: str, *, price: float | None = None) -> Judge:
    """The judge that `spec` names, as KINDS lists them; `price` of a million tokens, to say what `llm` will cost."""
    kind, _, rest = spec.partition(":")
    if kind == "length" and not rest:
        return LongerIsBetter()
    if kind in ("right", "right-code") and rest:
        from pasta.judge.right import open_right

        source, _, more = rest.partition("+")
        return open_right(source, open_judge(more, price=price) if more else None, run_code=kind == "right-code")
    if kind in ("reward", "reward-raw") and rest:
        from pasta.judge.reward import open_reward

        return open_reward(rest, length_control=kind == "reward")
    if kind in ("features", "features-raw") and rest:
        from pasta.judge.features import FeatureJudge

        return FeatureJudge.read(rest, length_control=kind == "features")
    if kind == "llm" and "@" in rest:
        from pasta.judge.llm import LlmJudge

        model, _, base_url = rest.partition("@")
        return LlmJudge(model, base_url, price=price)
    known = "; ".join(" ".join(line.split()[:1]) for line in KINDS.splitlines())
    raise UsageError(f"{spec!r} names no judge", f"expected one of: {known}")
