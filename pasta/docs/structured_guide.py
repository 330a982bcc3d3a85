"""The table of structured.md: how much is lost in parallel, what gives it back, and how that holds on other prompts."""

from __future__ import annotations

from structured_fresh import fresh_all, fresh_cell, fresh_sets, identity
from structured_quality import points, quality_models, trials, ways_of
from structured_saved import WORDS, table

from pasta.eval.extraction.summary import ALL


def guide() -> str:
    """The guide's table: exact matches of the first model, in parallel less sequentially, and what gives them back."""
    models, tried = quality_models(), trials()
    first, *others = models
    lines = []
    for line in WORDS["guide"]:
        own = [models[first][name]["modes"] for name in line["sets"]]
        lost = sorted(modes["parallel"]["over_sequential"]["value"] for modes in own)
        cell = f"{lost[0]:+.1f}" + (f" to {lost[-1]:+.1f}" if len(lost) > 1 else "")
        mended = {**tried.get(line["sets"][0], {"modes": {}})["modes"], **own[0], **ways_of(first, line["sets"][0])}
        for mode in line.get("mended", ()):
            if mode in mended:
                cell += f"; {WORDS['mended'][mode]} {mended[mode]['over_sequential']['value']:+.1f}"
        lines.append([line["fields"], cell, fresh_cell(line)])
    made = table(["fields", "exact matches, in parallel less sequentially, points", "on other prompts"], lines)
    checked = fresh_all()["checked"]
    told, named = (fresh_sets()[name]["modes"] for name in ("coqa", "coqa-named"))
    made += WORDS["guide_checked"].format(
        **identity(), fewer=checked["fewer_steps"], points=points(checked["over_sequential"]),
        after=points(told["after"]["over_sequential"]), after_named=points(named["after"]["over_sequential"]),
        after_fewer=named["after"]["fewer_steps"],
        **{f"{mode}_steps": told[mode]["steps"] for mode in ("turns", "checked", "sequential")},
    )  # fmt: skip
    for other in others:
        every = models[other][ALL]
        over = every["modes"]["parallel"]["over_sequential"]["value"]
        made += WORDS["guide_other"].format(model=other, points=over, fields=every["fields"])
    return made
