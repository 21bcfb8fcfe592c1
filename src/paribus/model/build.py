"""From a spec to a model."""

from numbers import Integral
from typing import get_args

import torch

from paribus.errors import SpecError
from paribus.model.experts import ExpertRouter
from paribus.model.forward import ExpertCompute
from paribus.model.initialise import initialise
from paribus.model.kernels import KernelChoice, parse_kernel
from paribus.model.transformer import Transformer
from paribus.runtime import prepare_cuda, require_memory
from paribus.spec import Architecture


def build(
    architecture: Architecture,
    *,
    seed: int = 1,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    kernel: KernelChoice = "auto",
    compute: ExpertCompute = "grouped",
) -> Transformer:
    """A model with its starting weights, the same on every device; on `meta`, shapes alone."""
    if not isinstance(architecture, Architecture):
        raise SpecError(
            f"build was given {architecture!r} ({type(architecture).__name__}); give what pb.load"
            " returns"
        )
    if not isinstance(seed, Integral):
        raise SpecError(f"seed is {seed!r} ({type(seed).__name__}); use a whole number")
    seed = int(seed)
    model = build_empty(architecture, device=device, dtype=dtype, kernel=kernel, compute=compute)
    if torch.device(device).type != "meta":
        initialise(model, model.spec, seed)
    return model


def build_empty(
    architecture: Architecture,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    kernel: KernelChoice = "auto",
    compute: ExpertCompute = "grouped",
) -> Transformer:
    """A model whose weights hold nothing yet: the caller fills all of them."""
    with torch.device("meta"):
        model = Transformer(architecture, parse_kernel(kernel), _parse_compute(compute)).to(dtype)
    for module in model.modules():
        if isinstance(module, ExpertRouter) and module.selection_bias is not None:
            # its steps would round away in half precision
            module.selection_bias = module.selection_bias.float()
    return allocate(model, device)


def allocate(model: Transformer, device: str | torch.device) -> Transformer:
    """A model of shapes alone with memory for them; UnsupportedError where there is not so much."""
    prepare_cuda(torch.device(device))
    tensors = [*model.parameters(), *model.buffers()]
    n_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    require_memory(
        n_bytes, torch.device(device), f"a model of {sum(map(torch.numel, tensors)):,} numbers"
    )
    # what to_empty does; that loads sympy, since shapes alone might be symbols
    return model._apply(lambda tensor: torch.empty(tensor.shape, dtype=tensor.dtype, device=device))


def _parse_compute(name: str) -> ExpertCompute:
    for choice in get_args(ExpertCompute):
        if name == choice:
            return choice
    raise SpecError(f"compute is {name!r}; use one of {', '.join(get_args(ExpertCompute))}")
