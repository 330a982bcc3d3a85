"""A backend of Triton's that compiles nothing: with it, and `TRITON_INTERPRET=1`, vLLM runs its kernels on any CPU."""
