"""Flow of information: how far attention looks, how widely, and where it rests.

Weights are [..., T, S], rows sum to 1. What is measured of each query is [..., T]; a mean over
queries is the caller's, who knows which are padding. Compare each figure with the same figure of
`uniform_attention`, for a mask alone already shapes it.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from paribus.masks import Rule, SequenceLayout, reachable_from


def uniform_attention(visible: Tensor) -> Tensor:
    """Equal weights over the visible keys: what the mask alone would give; zeros for a query that
    sees nothing.
    """
    visible = visible.double()
    return visible / visible.sum(-1, keepdim=True).clamp(min=1)


def attention_distance(weights: Tensor) -> Tensor:
    """Σ_s a_ts |t - s| for each query of self-attention, in tokens."""
    n_queries, n_keys = weights.shape[-2:]
    query = torch.arange(n_queries, device=weights.device)[:, None]
    key = torch.arange(n_keys, device=weights.device)
    return (weights * (query - key).abs()).sum(-1)


def attention_entropy(weights: Tensor) -> Tensor:
    """-Σ_s a_ts ln a_ts for each query, in nats: 0 for one key, ln n for n equal ones."""
    return torch.special.entr(weights).sum(-1)


def first_token_share(weights: Tensor) -> Tensor:
    """The weight of each query on the first key."""
    return weights[..., 0]


def self_share(weights: Tensor) -> Tensor:
    """The weight of each query on its own position, in self-attention."""
    return weights.diagonal(dim1=-2, dim2=-1)


def key_shares(weights: Tensor, real: Tensor | None = None) -> Tensor:
    """The mean weight on each key over all queries that are real, [..., S]; sums to 1."""
    if real is None:
        return weights.mean(-2)
    return weights.where(real[..., None], 0).sum(-2) / real.sum(-1, keepdim=True)


def sink(weights: Tensor, real: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The key that draws the most attention over all queries, and its share."""
    found = key_shares(weights, real).max(-1)
    return found.indices, found.values


def received_attention(weights: Tensor, visible: Tensor) -> Tensor:
    """The mean weight on each key over the queries that see it, [..., S]; NaN if none does.

    Under a causal mask early keys are seen by more queries; this does not count for them. A key is
    called a sink where this exceeds 0.3 (Gu 2024).
    """
    visible = visible.expand_as(weights)
    return weights.where(visible, 0).sum(-2) / visible.sum(-2)


def reached_shares(stack: Sequence[Rule], layout: SequenceLayout) -> list[float]:
    """The share of all pairs (position, source) in which the source's input can change the
    position, after each layer.

    It follows from the masks alone and bounds what any weights can do.
    """
    reach, shares = np.eye(layout.length, dtype=bool), []
    for rule in stack:
        reach = reachable_from((rule,), layout, reach)
        shares.append(float(reach.mean()))
    return shares
