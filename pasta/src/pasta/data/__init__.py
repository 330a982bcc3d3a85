"""How training data is made: which parts of an answer may be written apart.

Annotators choose spans (`Plan`); `apply` turns them into PASTA-LANG; `annotate` runs one over a file.
"""

from pasta.data.plan import Block, Plan, PlanError, apply, counter, verified

__all__ = ["Block", "Plan", "PlanError", "apply", "counter", "verified"]
