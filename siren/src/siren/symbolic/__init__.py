"""Expressions, distributions and conjugacies, for all particles at once."""
