"""Gradient norms between positions: how much the input at each position moves one state at the
top.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from paribus.probe.subject import ProbedModel
from paribus.runtime import torch_generator
from paribus.spec.objectives import ReverseLM


@dataclass(frozen=True)
class GradientPath:
    """From the inputs at one place to the state of one position at another."""

    inputs: str
    outputs: str
    position: int  # of the state; -1 is the last
    n_before: int = 0  # how many positions before the first of the outputs the inputs end

    def distances(self, n_inputs: int) -> Tensor:
        """How far each input is from the state, in tokens."""
        places = torch.arange(n_inputs)
        if self.n_before:
            return n_inputs - places
        return (places - self.position % n_inputs).abs()


def gradient_path(subject: ProbedModel) -> GradientPath:
    """To the last position of a text; to the first where each token is predicted from those after
    it; and from a source to the first token that is written.
    """
    if subject.layout.framing == "apart":
        return GradientPath("encoder.embedding", "stack.output", position=0, n_before=1)
    stack = "encoder" if subject.has_encoder_alone else "stack"
    is_reverse = isinstance(subject.layout.component.objective, ReverseLM)
    return GradientPath(f"{stack}.embedding", f"{stack}.output", position=0 if is_reverse else -1)


def position_gradients(
    subject: ProbedModel, tokens_BT: Tensor, path: GradientPath, n_directions: int, seed: int
) -> Tensor:
    """‖∂h/∂x_t‖ of each input x_t, [B, T], in the Frobenius norm.

    With random signs v, the mean of ‖vᵀ ∂h/∂x_t‖² is its square. So many directions are drawn, or
    the unit vectors are taken where there are no more of them: then it is exact.
    """
    observer = _Ends(path)
    subject.read(tokens_BT, observer)
    state_BD = observer.values[path.outputs][:, path.position]
    directions_KD = _directions(state_BD.shape[1], n_directions, seed).to(state_BD)
    squares_BT = torch.zeros(())
    for number, direction_D in enumerate(directions_KD):
        (gradient_BTD,) = torch.autograd.grad(
            (state_BD * direction_D).sum(),
            observer.values[path.inputs],
            retain_graph=number < len(directions_KD) - 1,
        )
        squares_BT = squares_BT + gradient_BTD.double().square().sum(-1).cpu()
    if len(directions_KD) < state_BD.shape[1]:
        squares_BT = squares_BT / len(directions_KD)
    return squares_BT.sqrt()


def _directions(d_model: int, n_directions: int, seed: int) -> Tensor:
    """Random signs, [K, D], or the unit vectors."""
    if n_directions >= d_model:
        return torch.eye(d_model)
    generator = torch_generator(seed, "flow", "directions")
    bits = torch.randint(0, 2, (n_directions, d_model), generator=generator)
    return 2.0 * bits - 1


@dataclass
class _Ends:
    """Keeps the inputs and the outputs of a path, with their graph."""

    path: GradientPath
    values: dict[str, Tensor] = field(default_factory=dict)

    def wants(self, name: str, layer: int) -> bool:
        return name in (self.path.inputs, self.path.outputs)

    def see(self, name: str, layer: int, value: Tensor) -> None:
        self.values[name] = value
