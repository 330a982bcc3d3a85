import os

from hypothesis import settings

# A busy machine is no failure of the parser; the tests that are about time measure it themselves.
# For a longer search: EXAMPLES=5000 pytest tests/lang
settings.register_profile("lang", deadline=None, max_examples=int(os.environ.get("EXAMPLES", "100")))
settings.load_profile("lang")
