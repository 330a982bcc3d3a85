"""A CPU report as tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.table import Table


def tables(report: dict[str, Any]) -> Iterator[RenderableType]:
    machine = report["machine"]
    yield (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['torch_threads']} torch threads, "
        f"load {machine['load']}; "
        f"torch {machine['torch']}, transformers {machine['transformers']}; {report['model']}, {report['dtype']}"
    )
    yield of_baseline(report["baseline"])
    yield of_steps(report["steps"])
    yield of_sampled(report["sampled"])
    yield of_overhead(report["overhead"])
    yield of_claims(report["claims"])


def of_baseline(baseline: dict[str, Any]) -> Table:
    table = Table("greedy, sequential", "ms a token", "CPU ms a token", title="Against transformers' generate")
    for name in ("pasta", "transformers"):
        wall, cpu = (1e3 * baseline[name][clock] / baseline["tokens"] for clock in ("wall_s", "cpu_s"))
        table.add_row(name, f"{wall:.1f}", f"{cpu:.1f}")
    table.add_row("times as fast", f"{baseline['speedup']:.2f}", f"{baseline['speedup_cpu']:.2f}")
    return table


def of_steps(rows: list[dict[str, Any]]) -> Table:
    table = Table(
        "weights", "threads", "ms a step", "of one thread", "by CPU time", "tokens/s", title="A step of many threads"
    )
    for row in rows:
        table.add_row(
            row["weights"],
            str(row["threads"]),
            f"{1e3 * row['wall_s']:.1f}",
            f"{row['ratio']:.2f}",
            f"{row['ratio_cpu']:.2f}",
            f"{row['tokens_per_s']:.0f}",
        )
    return table


def of_sampled(rows: list[dict[str, Any]]) -> Table:
    table = Table("weights", "threads", "ms a step", "of greedy", "by CPU time", title="Temperature 0.7, top-p 0.9")
    for row in rows:
        table.add_row(
            row["weights"],
            str(row["threads"]),
            f"{1e3 * row['wall_s']:.1f}",
            f"{row['of_greedy']:.2f}",
            f"{row['of_greedy_cpu']:.2f}",
        )
    return table


def of_overhead(rows: list[dict[str, Any]]) -> Table:
    table = Table("replayed", "steps", "not the model", "by CPU time", "ms a step", title="Beside the model")
    for row in rows:
        table.add_row(
            row["response"],
            str(row["steps"]),
            f"{row['wall_share']:.1%}",
            f"{row['cpu_share']:.1%}",
            f"{row['ms_a_step']:.2f}",
        )
    return table


def of_claims(rows: list[dict[str, Any]]) -> Table:
    table = Table("it must hold", "expected", "measured", "", title="Claims")
    for row in rows:
        table.add_row(row["what"], row["expected"], f"{row['measured']:.3g}", "yes" if row["holds"] else "no")
    return table
