"""The native engine on a GPU: steps are CUDA graphs over Triton kernels. Needs triton."""
