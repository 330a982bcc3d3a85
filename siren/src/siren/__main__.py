"""`python -m siren` is the command `siren`."""

from siren.cli import main

main()
