"""Scores and weights of attention beside any kernel, for those who look on."""

from __future__ import annotations

import torch
from torch import Tensor

from paribus.model.kernels.attention_mask import AttentionMask
from paribus.model.kernels.dispatch import ScoreChange, repeat_kv


def attention_scores(query_BHTE: Tensor, key_BGSE: Tensor, scores: ScoreChange) -> Tensor:
    """What softmax is given, before any mask: scale · Q Kᵀ + bias, in float32, [B, H, T, S]."""
    with torch.autocast(query_BHTE.device.type, enabled=False):
        precise = torch.promote_types(query_BHTE.dtype, torch.float32)
        key = repeat_kv(key_BGSE, query_BHTE.shape[1]).to(precise)
        product = query_BHTE.to(precise) @ key.transpose(-1, -2) * scores.scale
        return product if scores.bias is None else product + scores.bias


def attention_weights(scores_BHTS: Tensor, mask: AttentionMask) -> Tensor:
    """How much of each key a query takes. That of a hidden key is 0; a query that sees nothing
    takes nothing.
    """
    visible = mask.dense_mask
    hidden = torch.finfo(scores_BHTS.dtype).min
    return scores_BHTS.masked_fill(~visible, hidden).softmax(-1) * visible
