"""The optimizers of a run: torch's own, stepped as one.

AdamW is held back and clipped on the device, so that a step can be captured in a CUDA graph.
Adafactor and Muon read numbers back from the device; their steps are launched kernel by kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from paribus.model.shards import is_sharded, sharded_like
from paribus.spec.parameters import Role
from paribus.spec.training import Adafactor, AdamW, Muon, Optimizer, Training

DECAYED_ROLES: tuple[Role, ...] = ("word", "query", "inward", "residual", "router", "head")
MATRIX_ROLES: tuple[Role, ...] = ("query", "inward", "residual", "router")
BLOCK_PATH = ".layers."  # in the name of every parameter of a block


@dataclass(frozen=True, eq=False)
class LearnedParameter:
    """A parameter that learns: its name, its values, its role, and its share of the rate."""

    name: str
    tensor: Tensor
    role: Role
    rate_share: float = 1.0


class Optimizers:
    """The torch optimizers of a run, each with parameters of its own."""

    def __init__(
        self,
        members: Sequence[torch.optim.Optimizer],
        learned: Sequence[LearnedParameter],
        slices: Mapping[str, Sequence[Tensor]],
        can_be_captured: bool,
    ):
        self.members, self.can_be_captured = tuple(members), can_be_captured
        # of parameters that are many matrices, each matrix: a view of the values
        self._slices = slices
        self._tensors = {one.name: one.tensor for one in learned}
        self._withheld: Tensor | None = None
        self._clip_scale: Tensor | None = None

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of all members."""
        groups: list[dict[str, Any]] = []
        for member in self.members:
            groups += member.param_groups
        return groups

    @property
    def state(self) -> dict[Tensor, dict[str, Tensor]]:
        """What the members keep of each tensor that they move."""
        state: dict[Tensor, dict[str, Tensor]] = {}
        for member in self.members:
            state |= member.state
        return state

    def read_on_device(self, withheld: Tensor, clip_scale: Tensor) -> None:
        """Take the tensors that say whether a step is held back, and what gradients are divided
        by.
        """
        self._withheld, self._clip_scale = withheld, clip_scale
        if self.can_be_captured:
            for member in self.members:
                member.found_inf = withheld  # pyright: ignore[reportAttributeAccessIssue]
                member.grad_scale = clip_scale  # pyright: ignore[reportAttributeAccessIssue]

    def set_learning_rate(self, rate: float) -> None:
        """Set the rate of each group: a share of the rate of the step."""
        for group in self.param_groups:
            own = rate * group["rate_share"]
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(own)
            else:
                group["lr"] = own

    @torch.no_grad()
    def step(self) -> None:
        """Move the weights by their gradients, and forget the gradients."""
        if self.can_be_captured:
            self._step_members()
        elif self._withheld is None or not self._withheld.item():
            self._clip_gradients()
            self._share_gradients()
            self._step_members()
        for tensor in self._tensors.values():
            tensor.grad = None

    def _step_members(self) -> None:
        for member in self.members:
            if isinstance(member, torch.optim.Muon):
                with _without_onednn():
                    member.step()
            else:
                member.step()

    def _clip_gradients(self) -> None:
        if self._clip_scale is None:
            return
        for tensor in self._tensors.values():
            if tensor.grad is not None:
                tensor.grad.div_(self._clip_scale)

    def _share_gradients(self) -> None:
        """Give each matrix of a parameter its part of the gradient."""
        for name, matrices in self._slices.items():
            gradient = self._tensors[name].grad
            if gradient is None:
                continue
            for matrix, own in zip(matrices, gradient.unbind(0), strict=True):
                matrix.grad = own

    def state_tensors(self) -> dict[str, Tensor]:
        """What the members keep, by what it is and the name of the parameter."""
        names = self._names()
        tensors: dict[str, Tensor] = {}
        for moved, state in self.state.items():
            for key, tensor in state.items():
                tensors[f"{key}.{names[moved]}"] = tensor.reshape(tensor.shape)
        return tensors

    def load_state(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        """Put back what `state_tensors` gave."""
        kept: dict[str, dict[str, Tensor]] = {}
        for path, tensor in tensors.items():
            key, name = path.split(".", 1)
            kept.setdefault(name, {})[key] = tensor
        names = self._names()
        for member in self.members:
            for moved in _moved_tensors(member):
                state: dict[str, Tensor] = {}
                for key, tensor in kept[names[moved]].items():
                    if is_sharded(moved) and tensor.dim() > 0:
                        state[key] = sharded_like(tensor, moved, device)
                    else:
                        state[key] = tensor.to(_state_device(member, key, device))
                member.state[moved] = state

    def _names(self) -> dict[Tensor, str]:
        names = {tensor: name for name, tensor in self._tensors.items()}
        for name, matrices in self._slices.items():
            for number, matrix in enumerate(matrices):
                names[matrix] = f"{name}.{number}"
        return names


@contextmanager
def _without_onednn() -> Iterator[None]:
    """Products of matrices on the CPU without oneDNN, which refuses Muon's bfloat16 with a warning
    on CPUs that lack it.
    """
    was_enabled = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = was_enabled


def _moved_tensors(member: torch.optim.Optimizer) -> Iterable[Tensor]:
    for group in member.param_groups:
        yield from group["params"]


def _state_device(member: torch.optim.Optimizer, key: str, device: torch.device) -> torch.device:
    """Where a value of the state lies: Adafactor reads its step number on the CPU."""
    if isinstance(member, torch.optim.Adafactor) and key == "step":
        return torch.device("cpu")
    return device


def build_optimizers(
    learned: Sequence[LearnedParameter],
    training: Training,
    device: torch.device,
    eps_factor: float = 1.0,
    captures: bool = True,
) -> Optimizers:
    """The optimizers that a spec asks for; AdamW has its eps times a factor. Where no step is
    captured, rates are plain numbers.
    """
    match training.optimizer:
        case AdamW() as spec:
            on_cuda = device.type == "cuda" and captures
            adamw = _adamw(spec, learned, device if on_cuda else None, eps_factor)
            return Optimizers([adamw], learned, {}, can_be_captured=True)
        case Adafactor() as spec:
            return Optimizers([_adafactor(spec, learned)], learned, {}, can_be_captured=False)
        case Muon() as spec:
            return _muon(spec, learned)


def launch_notes(
    optimizer: Optimizer, device: torch.device, is_sharded: bool = False
) -> Iterator[str]:
    """What a person should know of how the steps of an optimizer are launched on a device."""
    if device.type == "cuda" and is_sharded:
        yield (
            "the weights are sharded, so steps are launched kernel by kernel; no CUDA graph is"
            " captured"
        )
    if device.type == "cuda" and not isinstance(optimizer, AdamW):
        yield (
            f"training.optimizer is {optimizer.kind}, whose steps are launched kernel by kernel;"
            " those of adamw are replayed as a CUDA graph"
        )


def _adamw(
    spec: AdamW | Muon,
    learned: Sequence[LearnedParameter],
    capture_device: torch.device | None,
    eps_factor: float = 1.0,
) -> torch.optim.AdamW:
    """AdamW; on a device where steps are captured its rates are tensors."""
    groups = _groups(spec.rate, spec.decay, learned)
    if capture_device is not None:
        for group in groups:
            group["lr"] = torch.tensor(group["lr"], device=capture_device)
    return torch.optim.AdamW(
        groups,
        betas=(spec.beta1, spec.beta2),
        eps=spec.eps * eps_factor,
        fused=True,
        capturable=capture_device is not None,
    )


def _adafactor(spec: Adafactor, learned: Sequence[LearnedParameter]) -> torch.optim.Adafactor:
    return torch.optim.Adafactor(
        _groups(spec.rate, spec.decay, learned),
        beta2_decay=-spec.beta2_power,
        eps=(spec.min_root, spec.min_scale),
        d=spec.update_clip,
    )


def _muon(spec: Muon, learned: Sequence[LearnedParameter]) -> Optimizers:
    """Muon for the matrices of blocks, AdamW for the rest."""
    matrices: list[Tensor] = []
    others: list[LearnedParameter] = []
    slices: dict[str, Sequence[Tensor]] = {}
    for one in learned:
        if not is_block_matrix(one):
            others.append(one)
        elif one.tensor.dim() == 2:
            matrices.append(one.tensor)
        else:
            slices[one.name] = one.tensor.detach().unbind(0)
            matrices += slices[one.name]
    members: list[torch.optim.Optimizer] = []
    if matrices:
        muon = torch.optim.Muon(
            [{"params": matrices, "rate_share": 1.0}],
            lr=spec.rate,
            weight_decay=spec.decay,
            momentum=spec.momentum,
            adjust_lr_fn="match_rms_adamw",
        )
        members.append(muon)
    if others:
        members.append(_adamw(spec, others, None))
    return Optimizers(members, learned, slices, can_be_captured=False)


def is_block_matrix(one: LearnedParameter) -> bool:
    """Is a parameter a matrix of a block, or one for each expert?"""
    return BLOCK_PATH in one.name and one.role in MATRIX_ROLES


def _groups(rate: float, decay: float, learned: Sequence[LearnedParameter]) -> list[dict[str, Any]]:
    """Parameters that decay, then those that do not, by their share of the rate.

    Decay is decoupled: what a step takes off a weight is rate × decay whatever the share.
    """
    members: dict[tuple[bool, float], list[Tensor]] = {}
    for does_decay in (True, False):
        for one in learned:
            if (one.role in DECAYED_ROLES) is does_decay:
                members.setdefault((does_decay, one.rate_share), []).append(one.tensor)
    groups: list[dict[str, Any]] = []
    for (does_decay, share), tensors in members.items():
        own_decay = decay / share if does_decay else 0.0
        groups.append(
            {"params": tensors, "weight_decay": own_decay, "lr": rate * share, "rate_share": share}
        )
    return groups
