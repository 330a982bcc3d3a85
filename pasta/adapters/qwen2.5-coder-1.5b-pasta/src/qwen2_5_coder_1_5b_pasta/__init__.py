"""The adapter qwen2.5-coder-1.5b-pasta, for pasta-decoding."""
