"""The eleven benchmark programs, data for them, and what is measured on them: `python -m benchmarks`."""
