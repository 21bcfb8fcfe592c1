import hashlib
import signal

import numpy as np
import pytest
import torch

from paribus.philox import first_uniforms
from paribus.runtime import (
    STOP_SIGNALS,
    best_device,
    deferred_signals,
    derive_seed,
    derive_seed_per_name,
    device_kind,
    numpy_generator,
    numpy_generator_per_name,
    random_uint64,
    torch_generator,
)


def test_a_key_is_the_first_63_bits_of_the_hash_of_seed_and_names():
    digest = hashlib.sha256(b"int:7\x1fstr:start\x1fint:3").digest()
    assert derive_seed(7, "start", 3) == int.from_bytes(digest[:8], "big") // 2


def test_a_key_does_not_depend_on_the_process_or_the_version():
    assert derive_seed(1, "dropout", "stack.embedding") == 6542479625948494353


def test_names_that_read_alike_are_different_keys():
    keys = [
        derive_seed(1),
        derive_seed(1, ""),
        derive_seed(11),
        derive_seed(1, 1),
        derive_seed(1, "1"),
        derive_seed(1, "a", "b"),
        derive_seed(1, "ab"),
        derive_seed(1, "b", "a"),
    ]
    assert len(set(keys)) == len(keys)
    assert all(0 <= number < 2**63 for number in keys)


def test_a_stream_repeats_itself_and_no_other_moves_it():
    first = torch.randn(5, generator=torch_generator(3, "a"))
    torch.randn(11, generator=torch_generator(3, "b"))
    assert torch.equal(torch.randn(5, generator=torch_generator(3, "a")), first)
    assert not torch.equal(torch.randn(5, generator=torch_generator(3, "b")), first)
    assert not torch.equal(torch.randn(5, generator=torch_generator(2, "a")), first)


def test_a_stream_leaves_the_global_generator_alone():
    before = torch.random.get_rng_state()
    torch.randn(7, generator=torch_generator(3, "a"))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_numbers_of_each_are_the_numbers_of_one():
    def drawn(draws: np.random.Generator) -> list[float]:
        # An odd count of 32-bit numbers leaves half a draw behind, and few doubles a part of a
        # block.
        return [
            *draws.integers(100, size=3, dtype=np.uint32),
            *draws.random(3),
            *draws.choice(50, 7, replace=False),
        ]

    rows = [0, 5, 2**40, 5]
    assert [drawn(one) for one in numpy_generator_per_name(3, "spans", 8, last_names=rows)] == [
        drawn(numpy_generator(3, "spans", 8, row)) for row in rows
    ]


def test_a_key_and_a_uniform_of_each_are_those_of_one():
    rows = [0, 5, 2**40, 5, *range(100)]
    keys = derive_seed_per_name(3, "generate", 8, last_names=rows)
    assert keys.tolist() == [derive_seed(3, "generate", 8, row) for row in rows]
    assert first_uniforms(keys).tolist() == [
        numpy_generator(3, "generate", 8, row).random() for row in rows
    ]


def test_the_best_device_is_cuda_then_mps_then_cpu(monkeypatch):
    chosen = []
    for cuda, mps in [(True, True), (False, True), (False, False)]:
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=cuda: there)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda there=mps: there)
        chosen.append(best_device().type)
    assert chosen == ["cuda", "mps", "cpu"]


def test_raw_numbers_of_a_row_are_its_own_whichever_others_are_drawn():
    whole = random_uint64(3, "masked", 8, rows=np.arange(12), n=7)
    some = np.array([9, 4, 5])
    assert (random_uint64(3, "masked", 8, rows=some, n=7) == whole[some]).all()
    assert len(np.unique(whole)) == whole.size
    assert (random_uint64(3, "masked", 9, rows=some, n=7) != whole[some]).all()
    shares = random_uint64(1, "masked", 0, rows=np.arange(400), n=1000) / 2.0**64
    assert abs(shares.mean() - 0.5) < 0.002
    assert abs(np.corrcoef(shares[:, :-1].ravel(), shares[:, 1:].ravel())[0, 1]) < 0.01
    assert abs(np.corrcoef(shares[:-1].ravel(), shares[1:].ravel())[0, 1]) < 0.01


def test_the_kind_of_a_device_says_how_many_ranks_there_are():
    assert device_kind(torch.device("cpu")) == "cpu"
    assert device_kind(torch.device("cpu"), 3) == "3 × cpu"
    assert device_kind(torch.device("cpu"), 2, is_sharded=True) == "2 × cpu, sharded"


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_deferred_signals_are_noted_and_the_handler_before_comes_back(number: signal.Signals):
    before = signal.getsignal(number)
    with deferred_signals() as caught_signals:
        signal.raise_signal(number)
        signal.raise_signal(number)
        assert caught_signals == [number, number]
    assert signal.getsignal(number) == before
