"""Judges: which of two answers to a prompt is better, and how surely."""
