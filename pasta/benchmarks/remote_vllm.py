"""A running vLLM beside the native engine, both in layout `stitched`, greedy.

    pasta export merged
    scripts/vllm-cpu.sh serve VENV merged 8001
    python benchmarks/remote_vllm.py http://127.0.0.1:8001/v1 merged --json results/remote.json

Prints for each question whether the answers are the same, how many tokens of the prompts were cached, and the seconds
of both. The exit status is 1 if an answer differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from pasta.bench.machine import describe
from pasta.bench.remote import compare
from pasta.engine.connect import connect_engine
from pasta.engine.load import load_engine


def main() -> int:
    parser = argparse.ArgumentParser(description="A running vLLM beside the native engine, both stitched.")
    parser.add_argument("url")
    parser.add_argument("model", help="The folder that the server loaded.")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    remote = connect_engine(options.url, options.model)
    report = compare(remote, load_engine(options.model, dtype=options.dtype), tell=show)
    print("total", json.dumps(report["total"]))
    if options.json:
        record = {"what": "vLLM and the native engine in layout stitched", "machine": describe(), **report}
        options.json.write_text(json.dumps(record, indent=2) + "\n", "utf-8")
    return 0 if report["total"]["same"] == report["total"]["questions"] else 1


def show(row: dict[str, Any]) -> None:
    share = row["cached_tokens"] / max(1, row["prompt_tokens"])
    same = "same" if row["same_parallel"] and row["same_sequential"] else "DIFFERENT"
    print(
        f"{same}: {row['threads']} threads, {row['tokens']} tokens, critical path {row['critical_path']}; "
        f"{row['requests']} requests, {share:.0%} of their tokens cached; seconds in parallel and sequentially: "
        f"server {row['server_parallel_s']:.1f} {row['server_sequential_s']:.1f}, "
        f"native {row['native_parallel_s']:.1f} {row['native_sequential_s']:.1f}; {row['question']}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
