"""How PASTA looks in a terminal: threads filling side by side, then the answer, then the figures."""

from pasta.display.board import Board, Lane, Span, State
from pasta.display.fields import Fields, figures, object_text
from pasta.display.flow import Flow, harmless
from pasta.display.panels import Arrangement, Panels, arrange, colour, marks
from pasta.display.screen import Screen, is_interactive
from pasta.display.summary import legend, summary

__all__ = [
    "Arrangement",
    "Board",
    "Fields",
    "Flow",
    "Lane",
    "Panels",
    "Screen",
    "Span",
    "State",
    "arrange",
    "colour",
    "figures",
    "harmless",
    "is_interactive",
    "legend",
    "marks",
    "object_text",
    "summary",
]
