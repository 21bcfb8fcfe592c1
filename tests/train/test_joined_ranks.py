"""What stays of ranks that learnt together."""

import gc
import weakref

import pytest
import torch
import torch.distributed as dist
from rank_processes import free_ports

from paribus.train.ranks import join_ranks


def test_a_group_is_not_freed_before_the_process_ends(monkeypatch: pytest.MonkeyPatch):
    """A module of DDP that is freed later would be the last to hold it, and wait for threads that
    wait for the interpreter's lock.
    """
    (port,) = free_ports(1)
    variables = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with join_ranks(torch.device("cpu")) as (ranks, _):
        assert ranks.is_leader
        assert dist.group.WORLD is not None
        group = weakref.ref(dist.group.WORLD)
    assert not dist.is_initialized()
    gc.collect()
    assert group() is not None
