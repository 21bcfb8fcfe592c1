"""The processes that learn together: as many as torchrun starts, or one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from paribus.errors import SpecError
from paribus.spec.training import Training
from paribus.train.sharding import require_several_ranks, shard_module

T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """This process's number among those that learn together; the first one leads, and alone
    keeps the record.
    """

    rank: int = 0
    world_size: int = 1
    # where each rank holds some rows of every weight; None: every rank holds all of them
    shard_device: torch.device | None = None

    @property
    def is_sharded(self) -> bool:
        return self.shard_device is not None

    @property
    def n_shards(self) -> int:
        """Into how many parts weights and the optimizer's memory are cut."""
        return self.world_size if self.is_sharded else 1

    @property
    def is_leader(self) -> bool:
        return self.rank == 0

    def summed(self, *numbers: float) -> tuple[float, ...]:
        """Each number summed over the ranks; between hosts, so no device is asked anything."""
        if self.world_size == 1:
            return numbers
        sums = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(sums)
        return tuple(sums.tolist())

    def all_reduce_(self, tensor: Tensor) -> Tensor:
        """A tensor summed over the ranks, in place, on its device."""
        if self.world_size > 1:
            dist.all_reduce(tensor)
        return tensor

    def broadcast(self, value: Any) -> Any:
        """What the leading rank says, to all."""
        if self.world_size == 1:
            return value
        message = [value]
        dist.broadcast_object_list(message)
        return message[0]

    def leader_first(self, function: Callable[[], T]) -> T:
        """What `function` makes: the leading rank first, the others when it is done and its files
        are there.
        """
        result = function() if self.is_leader else None
        if self.world_size > 1:
            dist.barrier()
        if result is None:
            return function()
        return result

    def n_micro_batches(self, training: Training) -> int:
        """Into how many micro-batches the ranks cut a global batch: no fewer than asked, and
        as many for each rank.
        """
        rows = training.n_sequences
        for n in range(training.n_micro_batches, rows + 1):
            if rows % n == 0 and n % self.world_size == 0:
                return n
        raise SpecError(
            f"training.n_sequences is {rows}, which {self.world_size} ranks cannot share equally;"
            f" use a multiple of {self.world_size}"
        )

    def data_parallel(self, module: nn.Module) -> nn.Module:
        """The module with gradients summed over the ranks, as if one process had worked through
        all micro-batches; its parameters are sharded where that is asked.
        """
        if self.shard_device is not None:
            return shard_module(module, self.shard_device)
        if self.world_size == 1:
            return module
        parallel = DistributedDataParallel(module)
        parallel.register_comm_hook(None, _sum_hook)
        return parallel


SINGLE_RANK = Ranks()
# A group that is freed waits for its threads, and a thread may wait for the interpreter's lock to
# free a tensor. The last to hold a group is the module of DDP, which is freed under that lock: both
# then wait forever. So groups stay until the process ends.
_kept_groups: list[Any] = []


@contextmanager
def join_ranks(device: torch.device, fsdp: bool = False) -> Iterator[tuple[Ranks, torch.device]]:
    """This process among its ranks, and its own device; torchrun's variables say which it is.
    With `fsdp`, the ranks share out the weights.
    """
    if fsdp:
        require_several_ranks(int(os.environ.get("WORLD_SIZE", "1")), device)
    if "WORLD_SIZE" not in os.environ:
        yield SINGLE_RANK, device
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    _kept_groups.append(dist.group.WORLD)
    try:
        shard_device = device if fsdp else None
        yield Ranks(dist.get_rank(), dist.get_world_size(), shard_device), device
    finally:
        dist.destroy_process_group()


def _sum_hook(_, bucket):  # DDP reads annotations, and takes these words for wrong ones
    """A sum where DDP itself would take a mean: the loss is already divided by what all ranks
    count.
    """
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    assert work is not None
    return work.get_future().then(lambda future: future.value()[0])
