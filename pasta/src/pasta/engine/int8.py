"""A linear layer with 8-bit weights on a CPU: a quarter of the bytes to read, through torch's own kernels.

The kernel quantises its whole input to one scale, which would make a thread's tokens depend on its company, and
costs much quality. So each row is brought to the same range first, and a guard row pins that range: every row
then has a scale of its own, and sums of whole numbers do not depend on how they are batched.
"""

from __future__ import annotations

import platform
import warnings

import torch

from pasta.errors import PastaError

KERNELS = "x86" if platform.machine().lower() in ("x86_64", "amd64") else "qnnpack"  # torch's, for this processor
LEAST = 1e-12  # a row of zeros keeps a scale


class Int8Linear:
    """x @ weight.T + bias, the weight rounded to 8 bits with a scale for each output."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None):
        scales = weight.abs().amax(1).clamp_min(LEAST) / largest()
        rounded = (weight / scales[:, None]).round().to(torch.int8)
        self._packed = pack(rounded, scales)
        self._bias = bias
        self._guard = torch.zeros(1, weight.shape[1])
        self._guard[0, :2] = torch.tensor([1.0, -1.0])

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        scale = x.abs().amax(-1, keepdim=True).clamp_min(LEAST)
        guarded = torch.cat([x / scale, self._guard])
        out = torch.ops.quantized.linear_dynamic(guarded, self._packed)[:-1] * scale
        return out if self._bias is None else out + self._bias


def largest() -> int:
    """The largest of the whole numbers that weights become.

    On x86 without VNNI two products of 8 bits overflow their 16 together, unless one factor has 7. Weights are the ones
    that can spare a bit: inputs have outliers, against which all others of their row are rounded.
    """
    has_vnni = getattr(torch.cpu, "_is_vnni_supported", lambda: False)()
    return 63 if KERNELS == "x86" and not has_vnni else 127


def pack(weight: torch.Tensor, scales: torch.Tensor) -> torch.ScriptObject:
    """The weight in the order in which the kernel reads it."""
    if KERNELS in torch.backends.quantized.supported_engines:
        torch.backends.quantized.engine = KERNELS
    try:
        with warnings.catch_warnings():  # announced to go in some later torch; pyproject.toml bounds ours
            warnings.simplefilter("ignore", UserWarning)
            zeros = torch.zeros(len(scales), dtype=torch.long)
            quantised = torch._make_per_channel_quantized_tensor(weight, scales.double(), zeros, 0)
            return torch.ops.quantized.linear_prepack(quantised, None)
    except (AttributeError, RuntimeError) as error:
        raise PastaError(f"this torch has no 8-bit kernels for this CPU: {error}", hint="use float32") from error
