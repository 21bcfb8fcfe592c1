import torch

from paribus.generate.block_pool import BlockPool


def block(value: float) -> dict[int, tuple[torch.Tensor, ...]]:
    return {0: (torch.full((2, 16, 3), float(value)), torch.zeros(2, 16, 3))}


N_BYTES = 2 * 2 * 16 * 3 * 4


def test_the_least_recently_used_goes_first():
    pool = BlockPool(3 * N_BYTES + 1)
    for name in (b"a", b"b", b"c"):
        pool.put(name, block(1))
    assert pool.find(b"a") is not None
    pool.touch([b"b"])
    pool.put(b"d", block(2))
    assert b"c" not in pool
    assert all(name in pool for name in (b"a", b"b", b"d"))
    pool.put(b"e", block(2))
    assert b"a" not in pool
    assert (len(pool), pool.n_bytes) == (3, 3 * N_BYTES)


def test_what_is_there_is_not_put_again_but_used():
    pool = BlockPool(2 * N_BYTES)
    first = block(1)
    pool.put(b"a", first)
    pool.put(b"b", block(1))
    pool.put(b"a", block(2))
    assert pool.find(b"a") is first
    pool.put(b"c", block(3))
    assert pool.find(b"b") is None
    assert pool.n_bytes == 2 * N_BYTES


def test_what_is_larger_than_the_budget_is_not_kept():
    pool = BlockPool(N_BYTES - 1)
    pool.put(b"a", block(1))
    assert (len(pool), pool.n_bytes) == (0, 0)
