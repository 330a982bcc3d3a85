"""`pasta check FILE`: what is wrong with an annotated response, and where.

One line for each finding, `FILE:LINE:COL: CODE message`, on stdout. Exit code 0 without errors (warnings may
remain), 1 with errors, 2 where there was nothing to check.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from pasta.errors import UsageError
from pasta.lang import Diagnostic, LangError, check, fix
from pasta.lang.source import Source, read_response, write_atomically, write_standard


def command(
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="The response, or what generate --json wrote; - reads stdin.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    with_fix: Annotated[
        bool,
        typer.Option("--fix", help="Carry out the safe fixes: rewrite FILE, or print the new text for -."),
    ] = False,
) -> None:
    if as_json and with_fix and file == "-":
        raise UsageError("--json and --fix both want standard output when reading -", "leave one of them out")
    source = read_response(file)
    if with_fix and source.is_result:
        raise UsageError(
            f"{file} is a result in JSON, and --fix would write text in its place",
            f"take the text out first: pasta render {file} --form merged",
        )
    fixed: list[Diagnostic] = []
    if with_fix:
        source, fixed = _fixed(source)
    diagnostics = check(source.data, cut=source.is_cut)

    if as_json:
        _print(json.dumps(_as_json(source, diagnostics, fixed), ensure_ascii=False, indent=2))
    elif with_fix and source.is_stdin:  # the new text has standard output for itself
        write_standard(source.data)
        _print_diagnostics(source, diagnostics, to_stderr=True)
    else:
        _print_diagnostics(source, diagnostics)
    if any(diagnostic.is_error for diagnostic in diagnostics):
        raise typer.Exit(1)


def _fixed(source: Source) -> tuple[Source, list[Diagnostic]]:
    """Carry out the fixes, in the file too, and say so on stderr."""
    try:
        text, applied = fix(source.data)
    except LangError:  # not UTF-8: nothing to fix, and `check` says where
        return source, []
    data = text.encode()
    if data != source.data and not source.is_stdin:
        write_atomically(source.name, data)
    for diagnostic in applied:
        what = diagnostic.fix.what if diagnostic.fix is not None else ""
        _print(f"{_place(source, diagnostic)}: fixed {diagnostic.code}: {what}", to_stderr=True)
    return Source(source.name, data), applied


def _print_diagnostics(source: Source, diagnostics: list[Diagnostic], *, to_stderr: bool = False) -> None:
    for diagnostic in diagnostics:
        next_step = f"--fix: {diagnostic.fix.what}" if diagnostic.fix is not None else diagnostic.hint
        line = f"{_place(source, diagnostic)}: {diagnostic.code} {diagnostic.message} ({next_step})"
        _print(line, to_stderr=to_stderr)


def _place(source: Source, diagnostic: Diagnostic) -> str:
    return f"{source.name}:{diagnostic.line}:{diagnostic.column}"


def _as_json(source: Source, diagnostics: list[Diagnostic], fixed: list[Diagnostic]) -> dict[str, Any]:
    errors = sum(diagnostic.is_error for diagnostic in diagnostics)
    return {
        "file": source.name,
        "ok": errors == 0,
        "errors": errors,
        "warnings": len(diagnostics) - errors,
        "diagnostics": [_diagnostic_as_json(diagnostic) for diagnostic in diagnostics],
        "fixed": [_diagnostic_as_json(diagnostic) for diagnostic in fixed],
    }


def _diagnostic_as_json(diagnostic: Diagnostic) -> dict[str, Any]:
    return {
        "code": diagnostic.code,
        "severity": "error" if diagnostic.is_error else "warning",
        "message": diagnostic.message,
        "hint": diagnostic.hint,
        "line": diagnostic.line,
        "column": diagnostic.column,
        "start": diagnostic.span.start,
        "end": diagnostic.span.end,
        "fix": diagnostic.fix.what if diagnostic.fix is not None else None,
    }


def _print(line: str, *, to_stderr: bool = False) -> None:
    # As bytes, so that no locale can make a letter unprintable; a file's name may be any bytes at all.
    write_standard(f"{line}\n".encode("utf-8", "surrogateescape"), to_stderr=to_stderr)
