"""The feed-forward branch, dense."""

import torch.nn.functional as F
from torch import Tensor, nn

from paribus.model.forward import PLAIN_FORWARD, Forward
from paribus.model.linear import Linear
from paribus.spec.architecture import Activation


def apply_activation(hidden: Tensor, activation: Activation) -> Tensor:
    """The non-linearity by name; `gelu_tanh` is GELU's tanh form."""
    match activation:
        case "relu":
            return F.relu(hidden)
        case "gelu":
            return F.gelu(hidden)
        case "gelu_tanh":
            return F.gelu(hidden, approximate="tanh")
        case "silu":
            return F.silu(hidden)


class FeedForward(nn.Module):
    """down(act(up(x))), or down(act(gate(x)) · up(x))."""

    def __init__(self, d_model: int, d_ff: int, activation: Activation, gated: bool, bias: bool):
        super().__init__()
        self.activation: Activation = activation
        self.gate = Linear(d_model, d_ff, bias) if gated else None
        self.up = Linear(d_model, d_ff, bias)
        self.down = Linear(d_ff, d_model, bias)

    def forward(self, hidden_BTD: Tensor, forward: Forward = PLAIN_FORWARD) -> Tensor:
        up = forward.linear(hidden_BTD, (self.up,))
        if self.gate is None:
            inner = apply_activation(up, self.activation)
        else:
            gate = forward.linear(hidden_BTD, (self.gate,))
            inner = apply_activation(gate, self.activation) * up
        return forward.linear(inner, (self.down,))
