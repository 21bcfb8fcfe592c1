"""From a spec to a model."""

import torch

from paribus.model.block import ExpertCompute
from paribus.model.kernels import Wanted, kernel_named
from paribus.model.start import start
from paribus.model.transformer import Transformer
from paribus.spec import Architecture


def build(
    architecture: Architecture,
    *,
    seed: int = 1,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    kernel: Wanted = "auto",
    compute: ExpertCompute = "grouped",
) -> Transformer:
    """A model with its starting weights, the same on every device; on `meta`, shapes alone."""
    model = empty(architecture, device=device, dtype=dtype, kernel=kernel, compute=compute)
    if torch.device(device).type != "meta":
        start(model, model.spec, seed)
    return model


def empty(
    architecture: Architecture,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    kernel: Wanted = "auto",
    compute: ExpertCompute = "grouped",
) -> Transformer:
    """A model whose weights hold nothing yet: the caller fills all of them."""
    with torch.device("meta"):
        model = Transformer(architecture, kernel_named(kernel), compute)
    return model.to(dtype).to_empty(device=device)
