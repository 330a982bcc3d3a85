"""The command line: `pasta` is `main`; one module per subcommand."""

from pasta.cli.main import main

__all__ = ["main"]
