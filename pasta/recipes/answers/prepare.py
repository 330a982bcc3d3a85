"""The stages before a training: answers are drawn, marked, and put together."""

from __future__ import annotations

import argparse
import subprocess
import sys

from options import HERE, given, need, need_made

from pasta.errors import PastaError
from pasta.settings import read_part


def run_sample(options: argparse.Namespace) -> None:
    from sample import sample

    if not options.chat_prompts:
        need(options, "problems")
    names = ("samples", "code_samples", "limit", "batch", "max_tokens", "temperature", "seed")
    sample(
        need(options, "model"), options.problems, options.out, chat_prompts=options.chat_prompts,
        minutes=options.left / 60, device=options.device, part=read_part(options.part),
        chat_manner=manner_of(options),
        **given(options, *names, "chat_limit", "chat_tokens", "chat_samples"),
    )  # fmt: skip


def manner_of(options: argparse.Namespace) -> str:
    """How chats are answered after their first answer, where they are."""
    if options.chat_samples is not None and options.chat_samples < 1:
        raise PastaError(f"--chat-samples is {options.chat_samples}, expected 1 or more")
    if (options.chat_samples or 1) == 1:
        return ""
    try:
        return str(options.chat_manner.read_text("utf-8").strip())
    except OSError as error:
        hint = "name a file with what the model is told beside a prompt"
        raise PastaError(f"--chat-manner {options.chat_manner} cannot be read: {error.strerror}", hint) from error


def run_chats(options: argparse.Namespace) -> None:
    """By the recipe `default`, in a process of its own."""
    if not (options.out / "chats" / "samples.jsonl").exists():
        print("no chats were answered: nothing is learned of them, but for what --chats holds")
        return
    more = ["--device", options.device] if options.device else []
    if options.chat_sequential is not None:
        more += ["--sequential", str(options.chat_sequential)]
    command = [sys.executable, str(HERE.parent / "default" / "run.py"), "annotate", "--annotator", options.annotator]
    done = subprocess.run([*command, "--model", options.model, "--out", str(options.out / "chats"), *more])
    if done.returncode:
        raise PastaError(f"{options.out / 'chats'}: its answers were not marked", hint="the reason stands above")


def run_bundle(options: argparse.Namespace) -> None:
    from bundles import bundle

    need(options, "problems")
    if not options.solutions:
        need_made(options.out / "answers.jsonl", "sample")
    marked = options.out / "chats" / "annotated.jsonl"
    chats = options.chats or (str(marked) if marked.exists() else None)
    bundle(
        need(options, "model"), options.problems, options.out, chats=chats, run_code=options.run_code,
        solutions=options.solutions, **given(options, "scale", "seed"),
    )  # fmt: skip
