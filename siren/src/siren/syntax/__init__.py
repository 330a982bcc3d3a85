"""The language as text: tree, parser, printer, formatter and the checks that need no run."""

from siren.syntax.check import check
from siren.syntax.formatter import format_program, format_text
from siren.syntax.parser import parse, parse_file
from siren.syntax.printer import flat

__all__ = ["check", "flat", "format_program", "format_text", "parse", "parse_file"]
