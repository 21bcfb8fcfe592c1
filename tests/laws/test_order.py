"""Order comes from the mask or from positions: full attention without either is blind to it."""

import pytest
import torch
from tiny_model import tiny_architecture, tiny_batch

from paribus.batch import Batch
from paribus.model import build


def moved(mask: str, positions: str) -> float:
    """How far the logits of permuted tokens are from the permuted logits."""
    spec = tiny_architecture("bert", {"mask": mask, "positions": positions})
    model, tokens = build(spec).double(), tiny_batch(spec).tokens_BT
    order = torch.randperm(tokens.shape[1], generator=torch.Generator().manual_seed(3))
    plain, permuted = (
        model(Batch.of(tokens)).logits_BTV,
        model(Batch.of(tokens[:, order])).logits_BTV,
    )
    return (permuted - plain[:, order]).abs().max().item()


def test_full_attention_without_positions_is_permutation_equivariant() -> None:
    assert moved("full", "none") < 1e-12


@pytest.mark.parametrize(
    "mask",
    [
        "causal",
        "reverse",
        "window(3)",
        "strided(2)",
        "by_head(causal, reverse)",
        "alternate(causal, reverse)",
    ],
)
def test_a_mask_that_is_not_full_breaks_the_symmetry(mask: str) -> None:
    assert moved(mask, "none") > 1e-3


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "relative_bias", "alibi"])
def test_positions_break_the_symmetry(positions: str) -> None:
    assert moved("full", positions) > 1e-3
