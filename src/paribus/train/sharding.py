"""Weights, gradients and the optimizer's memory shared out over the ranks, block by block: FSDP2.

A block is put together on every rank just before it is used, and its gradient is summed over the
ranks and cut again as soon as it is there. What lies outside of blocks (tables, the output head,
last norms) is one more such group, which stays together from the forward pass to the backward pass.
FSDP2 is imported only where it is used, for that takes seconds.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from paribus.errors import SpecError, UnsupportedError
from paribus.model.block import TransformerBlock
from paribus.spec.objectives import Preference
from paribus.spec.run import Stage
from paribus.spec.training import AdamW

FSDP_OPTION = "--fsdp"
SHARDING_DEVICES = ("cpu", "cuda")


def require_shardable(stage: Stage) -> None:
    """SpecError where a stage needs something whole that no rank holds."""
    optimizer = stage.training.optimizer
    if not isinstance(optimizer, AdamW):
        raise SpecError(
            f"training.optimizer is {optimizer.kind}, which needs whole matrices, and with"
            f" {FSDP_OPTION} a rank holds some rows of each; use adamw, or leave out {FSDP_OPTION}"
        )
    if isinstance(stage.objective, Preference):
        raise SpecError(
            "objective is preference, which compares with a second model, and that one is not"
            f" sharded; train this stage without {FSDP_OPTION}"
        )


def require_several_ranks(world_size: int, device: torch.device) -> None:
    """SpecError where there is only one process to hold the weights."""
    if world_size == 1:
        raise SpecError(
            f"{FSDP_OPTION} is given, but there is only one process; start several with `torchrun"
            f" --nproc-per-node N -m paribus train SPEC {FSDP_OPTION}`, or leave it out"
        )
    if device.type not in SHARDING_DEVICES:
        able = " or ".join(SHARDING_DEVICES)
        raise UnsupportedError(f"{FSDP_OPTION} is given, but device is {device.type}; use {able}")


def shard_module(module: nn.Module, device: torch.device) -> nn.Module:
    """A module whose parameters are cut into rows, in place. One of shapes alone gets memory for
    its own rows, which hold nothing yet.

    Gradients are summed over the ranks and not averaged: the loss is already divided by what all
    ranks count.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
    blocks = [one for one in module.modules() if isinstance(one, TransformerBlock)]
    for block in blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=True)
    # the backward pass begins with it
    fully_shard(module, mesh=mesh, reshard_after_forward=False)
    register_fsdp_forward_method(module, "score_sums")
    for one in (*blocks, module):
        group: Any = one
        group.set_gradient_divide_factor(1.0)
        group.set_force_sum_reduction_for_comms(True)
    if any(tensor.is_meta for tensor in (*module.parameters(), *module.buffers())):
        module.to_empty(device=device)
    return module


def set_gradient_sync(module: nn.Module, is_last: bool) -> None:
    """Whether the next backward pass sums gradients over the ranks; before the last micro-batch
    each rank adds up its own.
    """
    sharded: Any = module
    sharded.set_requires_gradient_sync(is_last)


def release_weights(module: nn.Module) -> None:
    """Hold only own rows of what a pass without a backward pass left whole."""
    sharded: Any = module
    sharded.reshard()
