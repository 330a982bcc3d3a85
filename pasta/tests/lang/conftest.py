from hypothesis import settings

# A busy machine is no failure of the parser; the tests that are about time measure it themselves.
settings.register_profile("lang", deadline=None)
settings.load_profile("lang")
