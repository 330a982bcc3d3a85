"""`python -m pasta` is `pasta`, for where the command is not on the path."""

from pasta.cli import main

main()
