"""Tokens after tokens, greedily or by chance, each from everything before it computed anew."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from paribus.batch import Batch, Vocabulary
from paribus.errors import SpecError, UnsupportedError
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
    lengths_B: Tensor | None = None,
) -> Tensor:
    """What follows each context, [B, n]: the likeliest token at temperature 0, else one drawn by (seed, row, place).

    Contexts of several lengths stand at the left of their rows, and `lengths_B` says how long each is. After an `end`,
    or where the model has no more room, a row is padded. An encoder reads the context; without one it is the prefix.
    """
    if not speaks(model):
        raise UnsupportedError(
            f"the mask {model.architecture.mask} lets a position see what comes after it, so it cannot say what does; "
            f"generate with a causal, prefix or encoder-decoder model"
        )
    _check(context_BT, lengths_B)
    told = context_BT[:, :0]
    done = torch.zeros(len(context_BT), dtype=torch.bool, device=context_BT.device)
    for place in range(n_tokens):
        done = done | (_used(model, context_BT, lengths_B, place) > model.spec.max_length)
        if bool(done.all()):
            break
        logits_BV = _next(model, vocabulary, context_BT, lengths_B, told)
        token_B = logits_BV.argmax(-1) if temperature == 0 else _drawn(logits_BV / temperature, seed, place)
        token_B = torch.where(done, vocabulary.pad, token_B)
        done = done | (token_B == vocabulary.end)
        told = torch.cat([told, token_B[:, None]], 1)
    return told


def _check(context: Tensor, lengths: Tensor | None) -> None:
    longest = context.shape[1]
    if lengths is None:
        return
    if lengths.shape != context.shape[:1] or bool(((lengths < 1) | (lengths > longest)).any()):
        raise SpecError(
            f"lengths_B is {lengths.tolist()} beside contexts {list(context.shape)}; "
            f"give one of 1 to {longest} for each of {len(context)} rows"
        )


def _used(model: Transformer, context: Tensor, lengths: Tensor | None, place: int) -> Tensor:
    """How many positions the main stack reads before it says the token of a place."""
    if model.encoder is not None:
        return torch.full_like(context[:, 0], 1 + place)
    return (torch.full_like(context[:, 0], context.shape[1]) if lengths is None else lengths) + place


def _next(model: Transformer, vocabulary: Vocabulary, context: Tensor, lengths: Tensor | None, told: Tensor) -> Tensor:
    """Scores of every token of text, and of the end, for the place after the last."""
    if model.encoder is not None:
        start = torch.full_like(context[:, :1], vocabulary.start)
        source = Batch.of(context, real_BT=_real(lengths, context.shape[1]))
        batch = Batch.of(torch.cat([start, told], 1), source=source)
    elif lengths is None:
        batch = Batch.of(torch.cat([context, told], 1), prefix=context.shape[1])
    else:
        batch = _ragged(context, lengths, told, model.spec.max_length)
    last_B = (_used(model, context, lengths, told.shape[1]) - 1).clamp(max=batch.layout.length - 1)
    states_BTD = model.hidden(batch).states_BTD
    logits = model.words(states_BTD[torch.arange(len(last_B), device=last_B.device), last_B]).float()
    sayable = torch.arange(logits.shape[-1], device=logits.device)
    return logits.masked_fill((sayable >= vocabulary.n_text) & (sayable != vocabulary.end), float("-inf"))


def _ragged(context: Tensor, lengths: Tensor, told: Tensor, max_length: int) -> Batch:
    """Each context with what was told right after it, padded on the right, cut where no row has more room."""
    n_told = told.shape[1]
    whole = torch.cat([context, told], 1)
    whole = whole.scatter(1, lengths[:, None] + torch.arange(n_told, device=told.device), told)
    longest = min(int(lengths.max()) + n_told, max_length)
    return Batch.of(whole[:, :longest], prefix=lengths, real_BT=_real(lengths + n_told, longest))


def _real(lengths: Tensor | None, longest: int) -> Tensor | None:
    return None if lengths is None else torch.arange(longest, device=lengths.device) < lengths[:, None]


def _drawn(logits_BV: Tensor, seed: int, place: int) -> Tensor:
    """One token a row by its own draw, so that a row says the same in any company."""
    chances = [numbers(seed, "generate", row, place).random() for row in range(len(logits_BV))]
    reached = logits_BV.softmax(-1).double().cumsum(-1)
    return (reached < torch.tensor(chances, device=logits_BV.device)[:, None] * reached[:, -1:]).sum(-1)
