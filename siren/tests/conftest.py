"""Shared test set-up: helper modules beside the tests are importable by name."""

import sys
from pathlib import Path

for folder in ("analysis", "oracle", "syntax"):
    sys.path.insert(0, str(Path(__file__).parent / folder))
