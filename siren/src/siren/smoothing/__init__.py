"""Smoothing of what is drawn: states in the light of later data, without the wear of the genealogy."""

from siren.smoothing.smooth import smooth

__all__ = ["smooth"]
