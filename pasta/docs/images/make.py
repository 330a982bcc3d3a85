"""Makes the picture of the README: the default model halfway through an example, as a terminal shows it.

python pasta/docs/images/make.py
"""

import io
from pathlib import Path

from rich.console import Console, Group
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from pasta import load, replay
from pasta.core.tree import spell
from pasta.decoding.api import Stream
from pasta.decoding.prompts import make_request, replay_options
from pasta.display import Board, Screen
from pasta.examples import EXAMPLES
from pasta.lang import parse

EXAMPLE = "cities"
WIDTH, HEIGHT = 112, 20
PROGRESS = 0.55  # of the steps

COLOURS = [(224, 108, 117), (152, 195, 121), (229, 192, 123), (97, 175, 239), (198, 120, 221), (86, 182, 194)]
GREY, LIGHT = (92, 99, 112), (220, 223, 228)
THEME = TerminalTheme((24, 26, 33), LIGHT, [GREY, *COLOURS, LIGHT], [GREY, *COLOURS, LIGHT])


def main() -> None:
    example = EXAMPLES[EXAMPLE]
    engine = load(device="cpu", tags=True).engine
    tree = spell(parse(example.text), engine.vocabulary)
    replay(engine, example.question, tree)  # warm, so that the seconds are those of an ordinary run
    script = make_request(engine, example.question, script=tree, **replay_options({}))
    result = Stream(engine, script).result
    console = Console(
        file=io.StringIO(),
        record=True,
        width=WIDTH,
        height=HEIGHT,
        force_terminal=True,
        color_system="truecolor",
        highlight=False,
    )
    screen = Screen(console, Board())
    for output in result.outputs[: int(PROGRESS * result.steps)]:
        screen.board.take(output)
    settled = Text("".join(span.text for span in screen.board.settled).strip())
    console.print(Text.assemble(("$ ", "dim"), "pasta demo"))
    console.print(Text.assemble(("Question  ", "bold"), example.question))
    console.print()
    console.print(Group(settled, "", screen.draw()))
    target = Path(__file__).with_name("threads.svg")
    console.save_svg(str(target), title="pasta", theme=THEME)
    print(target)


if __name__ == "__main__":
    main()
