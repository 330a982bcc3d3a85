"""The static analysis: can a plan be kept, whatever the data and the draws?"""

from siren.analysis.verdict import Verdict, analyze

__all__ = ["Verdict", "analyze"]
