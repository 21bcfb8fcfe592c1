"""Attention whose gradient repeats: it agrees with the definition, and no cuDNN gradient is
left where it is asked.
"""

import pytest
import torch
from torch import Tensor

from paribus.batch import BatchLayout
from paribus.masks import parse_rule
from paribus.model.kernels import AttentionMask, ScoreChange, attend
from paribus.model.kernels.deterministic_attention import use_deterministic_backward
from paribus.train.determinism import deterministic_algorithms

pytestmark = pytest.mark.gpu

Sizes = tuple[int, int, int, int, int]  # queries, keys, channels of keys and of values, prefix
CASES: list[tuple[str, Sizes]] = [
    ("causal", (257, 257, 64, 64, 0)),
    ("causal", (20, 20, 8, 8, 0)),
    ("causal", (150, 150, 128, 128, 0)),
    ("causal", (150, 150, 96, 64, 0)),
    ("full", (200, 200, 64, 64, 0)),
    ("full", (100, 37, 64, 64, 0)),
    ("full", (37, 300, 16, 16, 0)),
    ("prefix", (256, 256, 64, 64, 100)),
    ("prefix", (250, 250, 64, 64, 130)),
    ("prefix", (150, 150, 24, 16, 33)),
    ("prefix", (96, 96, 40, 40, 96)),
    ("reverse", (190, 190, 32, 32, 0)),
    ("by_head(causal, reverse)", (190, 190, 40, 40, 0)),
    ("causal", (96, 96, 136, 136, 0)),
    ("prefix", (96, 96, 136, 136, 40)),  # too wide for ours: torch's own
]


def heads(length: int, width: int, n_sequences: int = 2) -> Tensor:
    """Four heads beside channels, as projections give them."""
    return torch.randn(
        n_sequences, length, 4, width, device="cuda", dtype=torch.bfloat16
    ).transpose(1, 2)


def seen(rule: str, sizes: Sizes, n_sequences: int = 2) -> AttentionMask:
    n_queries, n_keys, *_, prefix = sizes
    queries, keys = (
        BatchLayout(n_sequences, length, prefix=prefix) for length in (n_queries, n_keys)
    )
    return AttentionMask.of(parse_rule(rule), queries, keys, 4, torch.device("cuda"))


@pytest.mark.parametrize(("rule", "sizes"), CASES)
def test_it_agrees_with_the_definition_and_repeats(rule: str, sizes: Sizes) -> None:
    n_queries, n_keys, width, n_value, _ = sizes
    leaves = [heads(n_queries, width), heads(n_keys, width), heads(n_keys, n_value)]
    grad, view, scale = heads(n_queries, n_value), seen(rule, sizes), width**-0.5
    exact = [leaf.double().requires_grad_() for leaf in leaves]
    truth = attend(exact[0], exact[1], exact[2], view, ScoreChange(scale), "dense")
    true = [truth, *torch.autograd.grad(truth, exact, grad.double())]

    def mine() -> list[Tensor]:
        query, key, value = (leaf.detach().requires_grad_() for leaf in leaves)
        out = attend(query, key, value, view, ScoreChange(scale), "fused")
        return [out.detach(), *torch.autograd.grad(out, (query, key, value), grad)]

    with deterministic_algorithms(True):
        assert use_deterministic_backward(leaves[0], leaves[2]) == (width <= 128)
        first = mine()
        assert all(one.equal(other) for one, other in zip(first, mine(), strict=True))
    for got, right in zip(first, true, strict=True):
        assert (got.double() - right).norm() < 0.01 * right.norm()


@pytest.mark.parametrize(
    "rule", ["causal", "full", "prefix", "by_head(causal, reverse)", "window(256)"]
)
@pytest.mark.parametrize("kernel", ["auto", "masked"])
def test_long_sequences_repeat_bit_for_bit(rule: str, kernel: str) -> None:
    sizes = (1024, 1024, 64, 64, 400)
    leaves = [heads(1024, 64, 8).requires_grad_() for _ in range(3)]
    grad, view = heads(1024, 64, 8), seen(rule, sizes, 8)
    wanted = "masked" if kernel == "masked" else "auto"

    def mine() -> tuple[Tensor, ...]:
        out = attend(leaves[0], leaves[1], leaves[2], view, ScoreChange(0.125), wanted)
        return torch.autograd.grad(out, leaves, grad)

    with deterministic_algorithms(True):
        first = mine()
        for _ in range(5):
            assert all(one.equal(other) for one, other in zip(first, mine(), strict=True))


def test_without_determinism_torchs_own_gradient_is_taken() -> None:
    query, key, value = (heads(64, 64).requires_grad_() for _ in range(3))
    out = attend(
        query, key, value, seen("causal", (64, 64, 64, 64, 0)), ScoreChange(0.125), "fused"
    )
    assert "Ordered" not in type(out.grad_fn).__name__
