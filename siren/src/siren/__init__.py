"""Siren: probabilistic programs under inference plans."""

__version__ = "0.1.0"
