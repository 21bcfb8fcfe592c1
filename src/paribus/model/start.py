"""Starting weights: every parameter from its role and its name.

A parameter of the same name, shape and distribution starts with the same values in every architecture: its draws
come from a stream of its own, on the CPU, whatever else is drawn.
"""

import torch
from torch import Tensor

from paribus.runtime import stream
from paribus.spec import FanIn, MultiHead, Normal, Parameter, Resolved, parameters


@torch.no_grad()
def start(model: torch.nn.Module, spec: Resolved, seed: int) -> None:
    """Fill a built model: parameters by the table of roles, selection biases with zero."""
    table = parameters(spec)
    for name, tensor in model.named_parameters():
        tensor.copy_(drawn(name, table[name], spec, seed))
    for buffer in model.buffers():
        buffer.zero_()


def drawn(name: str, parameter: Parameter, spec: Resolved, seed: int) -> Tensor:
    """The starting values of one parameter."""
    match parameter.role:
        case "gain":
            return torch.ones(parameter.shape)
        case "bias":
            return torch.zeros(parameter.shape)
        case _:
            return torch.randn(parameter.shape, generator=stream(seed, "start", name)) * deviation(parameter, spec)


def deviation(parameter: Parameter, spec: Resolved) -> float:
    """The standard deviation a parameter is drawn with."""
    match spec.start:
        case Normal(std=std, residual=residual):
            scaled = residual and parameter.role == "residual"
            return std / (2 * len(spec.stack.layers)) ** 0.5 if scaled else std
        case FanIn(gain=gain):
            return gain * _fan_in(parameter, spec)


def _fan_in(parameter: Parameter, spec: Resolved) -> float:
    match parameter.role:
        case "word" | "position":
            return 1.0
        case "relative":
            return spec.d_model**-0.5
        case "query":
            # Scores start at one size whatever their scale; T5, which has none, draws its queries this much smaller.
            attention = spec.stack.layers[0].attention
            assert isinstance(attention, MultiHead)
            assert attention.d_head
            assert attention.score_scale
            return parameter.shape[-1] ** -0.5 * attention.d_head**-0.5 / attention.score_scale
        case _:
            return parameter.shape[-1] ** -0.5
