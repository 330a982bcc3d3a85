"""PASTA inside vLLM: one answer is one request, and its live threads are decoded together, one token each a step.

`lanes`, `plan` and `terms` know nothing of vLLM; `engine` is the front; the others are what vLLM loads in its workers.
"""
