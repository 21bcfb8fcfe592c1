"""Experts on disk: one tensor for each expert, or all of a layer's in one."""

import re

from torch import Tensor

from paribus.interop.family import Spelled
from paribus.interop.names import Pairs, stacked

FUSED = re.compile(r"(.*\.experts)\.(gate_up_proj|down_proj)")


def routed(ours: str, here: str, n_experts: int, roles: dict[str, str]) -> Pairs:
    """A layer's routed experts; `roles` has their names of gate, up and down."""
    for role, name in roles.items():
        yield stacked(f"{ours}.{role}", [f"{here}.{number}.{name}.weight" for number in range(n_experts)])


def unfused(name: str, tensor: Tensor, roles: dict[str, str]) -> Spelled:
    """Each expert of a fused tensor under its own name: transformers 5 holds, and may write, gate over up in one."""
    found = FUSED.fullmatch(name)
    if found is None or tensor.dim() != 3:
        yield name, tensor
        return
    fused = found[2] == "gate_up_proj"
    parts = zip(("gate", "up"), tensor.chunk(2, 1), strict=False) if fused else [("down", tensor)]
    for role, part in parts:
        for number, expert in enumerate(part):
            yield f"{found[1]}.{number}.{roles[role]}.weight", expert
