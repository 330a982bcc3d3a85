"""From a request to its answer: what `generate`, the server, evaluation and training all use."""
