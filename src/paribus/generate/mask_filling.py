"""Masks filled by a model that was trained to: the likeliest tokens for each, or one after another,
from the left or the most confident first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from paribus.batch import Batch
from paribus.errors import SpecError
from paribus.generate.choosing import token_logprobs
from paribus.generate.requests import RowRequests, TokenChooser
from paribus.generate.sampling import GeneratedTokens
from paribus.model import Transformer
from paribus.objectives.framing import Ids, ItemLayout, item_layout
from paribus.spec import ResolvedArchitecture
from paribus.spec.objectives import MaskedLM, MixtureComponent, Objective, components_of
from paribus.vocabulary import Vocabulary

Candidates = tuple[tuple[int, float], ...]  # tokens with their probabilities, the likeliest first


def fills_masks(objective: Objective | None) -> bool:
    """Was a model trained to predict tokens under masks?"""
    return objective is not None and _masked_component(objective) is not None


def mask_filling_layout(
    objective: Objective, spec: ResolvedArchitecture, vocabulary: Vocabulary, window: int
) -> ItemLayout:
    """How a text with masks is laid before a model, as in its training; SpecError where it was
    not trained to fill any.
    """
    component = _masked_component(objective)
    if component is None:
        raise SpecError(
            f"objective.kind is {objective.kind!r}, which was not trained to fill masks; use a run"
            " of the objective 'masked', or an imported BERT"
        )
    return item_layout(component, spec, vocabulary, window)


def _masked_component(objective: Objective) -> MixtureComponent | None:
    for component in components_of(objective):
        if isinstance(component.objective, MaskedLM):
            return component
    return None


def lay_masked_text(layout: ItemLayout, tokens: Sequence[int]) -> Ids:
    """A text with masks and what stands around it; SpecError if it is too long, or has none."""
    laid = (
        *layout.question_begin,
        *layout.document_prefix,
        *tokens,
        *layout.question_end,
    )
    if layout.vocabulary.mask not in tokens:
        raise SpecError("TEXT has no mask; write [MASK] where a token is to be filled in")
    if len(laid) > layout.window:
        raise SpecError(
            f"TEXT has {len(tokens)} tokens, and {len(laid) - len(tokens)} stand around it, but the"
            f" length of the model is {layout.window}; give a shorter text"
        )
    return laid


@torch.no_grad()
def mask_candidates(
    model: Transformer, layout: ItemLayout, tokens: Sequence[int], n_candidates: int
) -> tuple[Candidates, ...]:
    """The likeliest tokens for each mask of a text, all others being masks still, with the
    model's own probabilities.
    """
    laid_1T = torch.tensor([lay_masked_text(layout, tokens)], device=model.embedding.weight.device)
    places_M = (laid_1T[0] == layout.vocabulary.mask).nonzero()[:, 0]
    batch = Batch.of(laid_1T, prefix=laid_1T.shape[1])
    states_MD = model.hidden_states(batch).states_BTD[0, places_M]
    chances_MV = model.logits(states_MD).float().softmax(-1)
    highest_MK, ids_MK = chances_MV.topk(min(n_candidates, chances_MV.shape[1]))
    candidates = []
    for ids, chances in zip(ids_MK.tolist(), highest_MK.tolist(), strict=True):
        candidates.append(tuple(zip(ids, chances, strict=True)))
    return tuple(candidates)


@dataclass(frozen=True, eq=False)
class MaskedRows:
    """Texts with masks, padded on the right, and where the masks of each are."""

    tokens_BT: Tensor
    real_BT: Tensor
    places_BM: Tensor
    is_mask_BM: Tensor  # False where a row has fewer masks than others


def append_masks(
    layout: ItemLayout, inputs: Sequence[Ids], n_tokens: int, device: torch.device
) -> MaskedRows:
    """Each context as it is laid with so many masks after it, or as many as its window has room
    for.
    """
    rows, n_masks = [], []
    for row in inputs:
        room = layout.window - len(row) - len(layout.question_end)
        n_masks.append(min(n_tokens, room))
        masks = [layout.vocabulary.mask] * n_masks[-1]
        rows.append(torch.tensor([*row, *masks, *layout.question_end]))
    tokens_BT = torch.nn.utils.rnn.pad_sequence(
        rows, batch_first=True, padding_value=layout.vocabulary.pad
    )
    lengths_B = torch.tensor([len(row) for row in rows])
    first_B = torch.tensor([len(row) for row in inputs])
    columns_M = torch.arange(max(n_masks))
    is_mask_BM = columns_M < torch.tensor(n_masks)[:, None]
    places_BM = torch.where(is_mask_BM, first_B[:, None] + columns_M, first_B[:, None])
    return MaskedRows(
        tokens_BT=tokens_BT.to(device),
        real_BT=(torch.arange(tokens_BT.shape[1]) < lengths_B[:, None]).to(device),
        places_BM=places_BM.to(device),
        is_mask_BM=is_mask_BM.to(device),
    )


@torch.no_grad()
def fill_rows(
    model: Transformer, layout: ItemLayout, rows: MaskedRows, requests: RowRequests
) -> GeneratedTokens:
    """What stands under the masks of each row, filled one at a time from all tokens in sight.

    In the order 'left' the first mask is filled next, in the order 'confident' the one whose
    likeliest token has the highest probability.
    """
    device = rows.tokens_BT.device
    chooser = TokenChooser(requests, layout, model.spec.n_vocab, device)
    chooser.bar_token(layout.vocabulary.mask)
    seen_BV = chooser.tokens_seen(rows.tokens_BT, rows.real_BT)
    is_confident_B = torch.tensor(
        [one.order == "confident" for one in requests.samplings], device=device
    )
    tokens_BT, is_open_BM = rows.tokens_BT, rows.is_mask_BM
    n_likeliest = min(requests.n_logprobs or 0, model.spec.n_vocab)
    n_rows, n_places = rows.places_BM.shape
    logprobs_BT = torch.zeros(n_rows, n_places, device=device)
    likeliest_BTK = torch.zeros(n_rows, n_places, n_likeliest, dtype=torch.int64, device=device)
    likeliest_logprobs_BTK = torch.zeros(n_rows, n_places, n_likeliest, device=device)
    for step in range(n_places):
        logits_BMV = _logits_at(model, tokens_BT, rows)
        column_B = _next_columns(logits_BMV, chooser.bar_V, is_open_BM, is_confident_B)
        picked = torch.arange(n_rows, device=device), column_B
        is_open_B = is_open_BM[picked]
        token_B = chooser.choose(logits_BMV[picked], step, seen_BV)
        place_B = rows.places_BM[picked][:, None]
        written_B = torch.where(is_open_B[:, None], token_B[:, None], tokens_BT.gather(1, place_B))
        tokens_BT = tokens_BT.scatter(1, place_B, written_B)
        if seen_BV is not None:
            seen_BV = seen_BV.scatter(1, written_B, True)
        if requests.n_logprobs is not None:
            found = token_logprobs(logits_BMV[picked], token_B, n_likeliest)
            # a row without an open mask picks its first column, which keeps what it has
            here = picked[0][is_open_B], column_B[is_open_B]
            logprobs_BT[here] = found.said_B[is_open_B]
            likeliest_BTK[here] = found.likeliest_BK[is_open_B]
            likeliest_logprobs_BTK[here] = found.logprobs_BK[is_open_B]
        is_open_BM = is_open_BM.scatter(1, column_B[:, None], False)
    said_BT = tokens_BT.gather(1, rows.places_BM)
    lengths_B = _lengths(said_BT, rows.is_mask_BM, layout)
    if requests.n_logprobs is None:
        return GeneratedTokens(said_BT, lengths_B)
    return GeneratedTokens(
        tokens_BT=said_BT,
        lengths_B=lengths_B,
        logprobs_BT=logprobs_BT,
        likeliest_BTK=likeliest_BTK,
        likeliest_logprobs_BTK=likeliest_logprobs_BTK,
    )


def _logits_at(model: Transformer, tokens_BT: Tensor, rows: MaskedRows) -> Tensor:
    """Logits at the places of masks, [B, M, V], in float32."""
    batch = Batch.of(tokens_BT, prefix=rows.real_BT.sum(1), real_BT=rows.real_BT)
    states_BTD = model.hidden_states(batch).states_BTD
    places_BMD = rows.places_BM[:, :, None].expand(-1, -1, states_BTD.shape[2])
    return model.logits(states_BTD.gather(1, places_BMD)).float()


def _next_columns(
    logits_BMV: Tensor, bar_V: Tensor, is_open_BM: Tensor, is_confident_B: Tensor
) -> Tensor:
    """Which of the open masks of each row is filled next."""
    logprobs_BMV = logits_BMV.log_softmax(-1) + bar_V
    confidence_BM = logprobs_BMV.amax(-1).masked_fill(~is_open_BM, float("-inf"))
    leftmost_B = is_open_BM.int().argmax(1)
    return torch.where(is_confident_B, confidence_BM.argmax(1), leftmost_B)


def _lengths(said_BT: Tensor, is_mask_BM: Tensor, layout: ItemLayout) -> Tensor:
    """How many tokens of each row are said: up to the first that ends an answer."""
    ends = torch.tensor(layout.end_tokens, device=said_BT.device)
    is_end_BT = torch.isin(said_BT, ends) & is_mask_BM
    n_masks_B = is_mask_BM.sum(1)
    first_end_B = is_end_BT.int().argmax(1) + 1
    return torch.where(is_end_BT.any(1), first_end_B, n_masks_B)
