"""Answers to conversations of which each turn is encoded alone: an engine reads them, source by
source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from torch.nn.utils.rnn import pad_sequence

from paribus.errors import SpecError
from paribus.generate.answer_handle import AnswerHandle
from paribus.generate.engine import Engine
from paribus.generate.requests import RowRequests
from paribus.generate.sampling import GeneratedTokens
from paribus.generate.token_request import TokenRequest
from paribus.model import Transformer
from paribus.objectives.framing import ItemLayout, LaidContext

CACHE_BYTES = 1 << 26  # several answers to one conversation read it once


def has_encoded_turns(layout: ItemLayout, laid_contexts: Sequence[LaidContext]) -> bool:
    """Is any context a conversation of several turns that are encoded one by one?"""
    if not layout.encodes_turns:
        return False
    return any(len(layout.encoded_turns(laid.inputs).sources) > 1 for laid in laid_contexts)


def require_one_turn(layout: ItemLayout, laid: LaidContext, n_beams: int) -> None:
    """SpecError where beams are asked for after several turns that are encoded one by one."""
    if has_encoded_turns(layout, [laid]):
        raise SpecError(
            f"n_beams is {n_beams} for a conversation of several turns, of which each is encoded"
            " alone; use 1, or one turn"
        )


def continue_turns(
    model: Transformer,
    layout: ItemLayout,
    laid_contexts: Sequence[LaidContext],
    requests: RowRequests,
) -> GeneratedTokens:
    """What follows each conversation, as `continue_rows` says it of contexts."""
    engine, handles = Engine(model, CACHE_BYTES), []
    for row, laid in enumerate(laid_contexts):
        sampling = replace(requests.samplings[row], n_samples=1, stop=())
        is_done = None
        if requests.is_done is not None:
            is_done = partial(requests.is_done, row)
        request = TokenRequest(
            inputs=laid.inputs,
            layout=layout,
            sampling=sampling,
            stream=requests.streams[row],
            is_done=is_done,
        )
        handles.append(engine.submit(request))
    engine.close()
    for handle in handles:
        if handle.error is not None:
            raise handle.error
    return _generated_tokens(handles, layout.vocabulary.pad, requests.n_logprobs)


def _generated_tokens(
    handles: Sequence[AnswerHandle], pad: int, n_logprobs: int | None
) -> GeneratedTokens:
    rows = []
    for handle in handles:
        tokens = [one.token for one in handle.said_tokens]
        if handle.end_token is not None:
            tokens.append(handle.end_token)
        rows.append(torch.tensor(tokens, dtype=torch.int64))
    said = GeneratedTokens(
        pad_sequence(rows, batch_first=True, padding_value=pad),
        torch.tensor([len(row) for row in rows]),
    )
    if n_logprobs is None:
        return said
    shape = (*said.tokens_BT.shape, n_logprobs)
    logprobs_BT = torch.zeros(shape[:2])
    likeliest_BTK = torch.zeros(shape, dtype=torch.int64)
    likeliest_logprobs_BTK = torch.zeros(shape)
    for row, handle in enumerate(handles):
        for place, one in enumerate(handle.said_tokens):
            assert one.logprob is not None
            logprobs_BT[row, place] = one.logprob
            for rank, (token, logprob) in enumerate(one.likeliest):
                likeliest_BTK[row, place, rank] = token
                likeliest_logprobs_BTK[row, place, rank] = logprob
    return replace(
        said,
        logprobs_BT=logprobs_BT,
        likeliest_BTK=likeliest_BTK,
        likeliest_logprobs_BTK=likeliest_logprobs_BTK,
    )
