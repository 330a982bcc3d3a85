"""Engines: what runs the model under the interpreter."""
