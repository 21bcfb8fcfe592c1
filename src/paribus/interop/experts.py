"""Experts on disk: one tensor for each expert, or all of a layer's in one."""

import re

from torch import Tensor

from paribus.interop.family import NamedTensors
from paribus.interop.tensor_pairs import TensorPairs, stacked_experts

FUSED_NAME = re.compile(r"(.*\.experts)\.(gate_up_proj|down_proj)")


def routed_expert_pairs(
    ours: str, theirs: str, n_experts: int, roles: dict[str, str]
) -> TensorPairs:
    """A layer's routed experts; `roles` has their names of gate, up and down."""
    for role, name in roles.items():
        yield stacked_experts(
            f"{ours}.{role}", [f"{theirs}.{number}.{name}.weight" for number in range(n_experts)]
        )


def split_fused_experts(name: str, tensor: Tensor, roles: dict[str, str]) -> NamedTensors:
    """Each expert of a fused tensor under its own name: transformers 5 holds, and may write,
    gate over up in one.
    """
    match = FUSED_NAME.fullmatch(name)
    if match is None or tensor.dim() != 3:
        yield name, tensor
        return
    is_gate_up = match[2] == "gate_up_proj"
    if is_gate_up:
        parts = zip(("gate", "up"), tensor.chunk(2, 1), strict=False)
    else:
        parts = [("down", tensor)]
    for role, part in parts:
        for number, expert in enumerate(part):
            yield f"{match[1]}.{number}.{roles[role]}.weight", expert
