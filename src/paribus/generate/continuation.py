"""Tokens after tokens, greedily or by chance, each from everything before it computed anew."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from paribus.batch import Batch, Vocabulary
from paribus.errors import UnsupportedError
from paribus.masks import Layout, leaks
from paribus.model import Transformer
from paribus.runtime import numbers


def speaks(model: Transformer) -> bool:
    """Can it be asked for a next token: does no position see the one after it?"""
    layout = Layout(8)
    return not len(leaks(model.spec.stack.masks, layout, np.append(np.arange(1, 8), -1)))


@torch.no_grad()
def continued(
    model: Transformer,
    vocabulary: Vocabulary,
    context_BT: Tensor,
    n_tokens: int,
    temperature: float = 0.0,
    seed: int = 0,
) -> Tensor:
    """What follows each context, [B, n]: the likeliest token at temperature 0, else one drawn by (seed, row, place).

    After an `end` a row is padded. An encoder reads the context; without one it is the prefix.
    """
    if not speaks(model):
        raise UnsupportedError(
            f"the mask {model.architecture.mask} lets a position see what comes after it, so it cannot say what does; "
            f"generate with a causal, prefix or encoder-decoder model"
        )
    told = context_BT[:, :0]
    done = torch.zeros(len(context_BT), dtype=torch.bool, device=context_BT.device)
    for place in range(n_tokens):
        if not _room(model, context_BT, told) or bool(done.all()):
            break
        logits_BV = _next(model, vocabulary, context_BT, told)
        token_B = logits_BV.argmax(-1) if temperature == 0 else _drawn(logits_BV / temperature, seed, place)
        token_B = torch.where(done, vocabulary.pad, token_B)
        done = done | (token_B == vocabulary.end)
        told = torch.cat([told, token_B[:, None]], 1)
    return told


def _room(model: Transformer, context: Tensor, told: Tensor) -> bool:
    length = told.shape[1] + (1 if model.encoder is not None else context.shape[1])
    return length <= model.spec.max_length


def _next(model: Transformer, vocabulary: Vocabulary, context: Tensor, told: Tensor) -> Tensor:
    """Scores of every token of text, and of the end, for the place after the last."""
    if model.encoder is None:
        batch = Batch.of(torch.cat([context, told], 1), prefix=context.shape[1])
    else:
        start = torch.full_like(context[:, :1], vocabulary.start)
        batch = Batch.of(torch.cat([start, told], 1), source=context)
    logits = model.words(model.hidden(batch).states_BTD[:, -1]).float()
    sayable = torch.arange(logits.shape[-1], device=logits.device)
    return logits.masked_fill((sayable >= vocabulary.n_text) & (sayable != vocabulary.end), float("-inf"))


def _drawn(logits_BV: Tensor, seed: int, place: int) -> Tensor:
    """One token a row by its own draw, so that a row says the same in any company."""
    chances = [numbers(seed, "generate", row, place).random() for row in range(len(logits_BV))]
    reached = logits_BV.softmax(-1).double().cumsum(-1)
    return (reached < torch.tensor(chances, device=logits_BV.device)[:, None] * reached[:, -1:]).sum(-1)
