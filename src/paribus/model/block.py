"""One block: self-attention, perhaps cross-attention, and a feed-forward branch around the
residual.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, assert_never

import torch
from torch import Tensor, nn

from paribus.model.attention import AttentionContext, LatentAttention, MultiHeadAttention
from paribus.model.cache import Keys
from paribus.model.experts import ExpertLoad, RoutedExperts
from paribus.model.feed_forward import FeedForward
from paribus.model.forward import Forward
from paribus.model.norm import Norm
from paribus.spec import Block, Dense, Latent, MultiHead, ResolvedArchitecture
from paribus.spec.architecture import Placement

Branch = tuple[Norm | None, Callable[[Tensor], Tensor]]


class CrossSource(NamedTuple):
    """What cross-attention reads: the states [B, S, D] of the source, or their keys and values, and
    who sees which of them.
    """

    context: AttentionContext
    source: Tensor | Keys


class TransformerBlock(nn.Module):
    """H' = layer(H, M, C): M is in the sight, C the source it may cross-attend to."""

    def __init__(self, spec: ResolvedArchitecture, block: Block):
        super().__init__()
        self.placement: Placement = spec.placement
        self.dropout = spec.dropout
        parallel = spec.placement == "parallel"
        self.attention_norm = Norm(spec.d_model, spec.norm)
        match block.attention:
            case MultiHead():
                self.attention = MultiHeadAttention(spec.d_model, block.attention, spec.norm)
            case Latent():
                self.attention = LatentAttention(spec.d_model, block.attention, spec.norm)
        self.cross_norm = self.cross = None
        self.is_merged = block.cross_form == "merged"
        if block.cross is not None and not self.is_merged:
            assert isinstance(block.attention, MultiHead)
            if parallel:
                self.cross_norm = None
            else:
                self.cross_norm = Norm(spec.d_model, spec.norm)
            self.cross = MultiHeadAttention(spec.d_model, block.attention, spec.norm)
        if parallel:
            self.feed_forward_norm = None
        else:
            self.feed_forward_norm = Norm(spec.d_model, spec.norm)
        match block.feed_forward:
            case Dense(d_ff=int(d_ff)) as dense:
                self.feed_forward = FeedForward(
                    spec.d_model, d_ff, dense.activation, dense.gated, dense.bias
                )
            case experts:
                assert not isinstance(experts, Dense)
                self.feed_forward = RoutedExperts(spec.d_model, experts)

    @property
    def source_attention(self) -> MultiHeadAttention | None:
        """What reads a source, if anything does."""
        if self.is_merged:
            assert isinstance(self.attention, MultiHeadAttention)
            return self.attention
        return self.cross

    def forward(
        self,
        hidden_BTD: Tensor,
        context: AttentionContext,
        source: CrossSource | None,
        forward: Forward,
    ) -> tuple[Tensor, ExpertLoad | None]:
        loads: list[ExpertLoad] = []

        def attention(rows: Tensor) -> Tensor:
            forward.observe("attention_input", rows)
            if self.is_merged and source is not None:
                assert isinstance(self.attention, MultiHeadAttention)
                out = self.attention(rows, source.context, forward, source.source, is_merged=True)
            else:
                out = self.attention(rows, context, forward)
            forward.observe("attention_output", out)
            return forward.drop_out(out, self.dropout, "attention")

        def cross(rows: Tensor) -> Tensor:
            assert self.cross is not None
            assert source is not None
            out = self.cross(rows, source.context, forward, source.source)
            forward.observe("cross_output", out)
            return forward.drop_out(out, self.dropout, "cross")

        def feed_forward(rows: Tensor) -> Tensor:
            if isinstance(self.feed_forward, FeedForward):
                out = self.feed_forward(rows, forward)
            else:
                out, load = self.feed_forward(rows, context.mask.queries.real_BT, forward)
                loads.append(load)
            forward.observe("feed_forward_output", out)
            return forward.drop_out(out, self.dropout, "feed_forward")

        branches: list[Branch] = [(self.attention_norm, attention)]
        if source is not None and not self.is_merged:
            branches.append((self.cross_norm, cross))
        if not forward.leaves_out("feed_forward"):
            branches.append((self.feed_forward_norm, feed_forward))
        hidden_BTD = self._add_branches(hidden_BTD, branches, not forward.leaves_out("skips"))
        forward.observe("block_output", hidden_BTD)
        return hidden_BTD, loads[0] if loads else None

    def _add_branches(self, hidden_BTD: Tensor, branches: list[Branch], has_skips: bool) -> Tensor:
        """The residual after every branch, with the norms where the placement has them. Without
        skips a branch takes the place of what it reads.
        """
        if self.placement == "parallel":
            normed = self.attention_norm(hidden_BTD)
            kept = hidden_BTD if has_skips else torch.zeros_like(hidden_BTD)
            return kept + sum(branch(normed) for _, branch in branches)
        for norm, branch in branches:
            assert norm is not None
            kept = hidden_BTD if has_skips else torch.zeros_like(hidden_BTD)
            match self.placement:
                case "pre":
                    hidden_BTD = kept + branch(norm(hidden_BTD))
                case "post":
                    hidden_BTD = norm(kept + branch(hidden_BTD))
                case other:
                    assert_never(other)
        return hidden_BTD
