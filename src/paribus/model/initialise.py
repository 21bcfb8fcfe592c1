"""Starting weights: every parameter from its role and its name.

A parameter of the same name, shape and distribution starts with the same values in every
architecture: its draws come from a stream of its own, on the CPU, whatever else is drawn.
"""

import torch
from torch import Tensor

from paribus.model.shards import fill_rows
from paribus.runtime import torch_generator
from paribus.spec import (
    FanInInit,
    MultiHead,
    MupInit,
    NormalInit,
    Parameter,
    ResolvedArchitecture,
    parameters,
)
from paribus.spec.mup import BASE_WIDTH


@torch.no_grad()
def initialise(model: torch.nn.Module, spec: ResolvedArchitecture, seed: int) -> None:
    """Fill a built model: parameters by the table of roles, selection biases with zero."""
    table = parameters(spec)
    for name, tensor in model.named_parameters():
        fill_rows(tensor, initial_values(name, table[name], spec, seed))
    for buffer in model.buffers():
        buffer.zero_()


def initial_values(
    name: str, parameter: Parameter, spec: ResolvedArchitecture, seed: int
) -> Tensor:
    """The starting values of one parameter."""
    match parameter.role:
        case "gain":
            return torch.ones(parameter.shape)
        case "bias":
            return torch.zeros(parameter.shape)
        case _:
            return torch.randn(
                parameter.shape, generator=torch_generator(seed, "start", name)
            ) * initial_std(parameter, spec)


def initial_std(parameter: Parameter, spec: ResolvedArchitecture) -> float:
    """The standard deviation a parameter is drawn with."""
    match spec.init:
        case NormalInit(std=std, residual=residual):
            is_residual = residual and parameter.role == "residual"
            if is_residual:
                return std / (2 * len(spec.stack.layers)) ** 0.5
            return std
        case FanInInit(gain=gain):
            return gain * _fan_in_std(parameter, spec)
        case MupInit(std=std):
            return _mup_std(parameter, std)


def _mup_std(parameter: Parameter, table_std: float) -> float:
    """Table 8 of Tensor Programs V; queries start at zero, as its authors advise."""
    n_inputs = parameter.shape[-1]
    match parameter.role:
        case "query":
            return 0.0
        case "router" | "head":
            return BASE_WIDTH**0.5 / n_inputs
        case "inward" | "residual":
            return n_inputs**-0.5
        case _:
            return table_std


def _fan_in_std(parameter: Parameter, spec: ResolvedArchitecture) -> float:
    match parameter.role:
        case "word" | "position":
            return 1.0
        case "relative":
            return spec.d_model**-0.5
        case "query":
            # Scores start at one size whatever their scale; T5, which has none, draws its queries
            # this much smaller.
            attention = spec.stack.layers[0].attention
            assert isinstance(attention, MultiHead)
            assert attention.d_head
            assert attention.score_scale
            if attention.qk_norm == "fixed":  # no weight has a part in the size of scores
                return parameter.shape[-1] ** -0.5
            return parameter.shape[-1] ** -0.5 * attention.d_head**-0.5 / attention.score_scale
        case _:
            return parameter.shape[-1] ** -0.5
