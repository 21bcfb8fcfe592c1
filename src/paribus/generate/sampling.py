"""Tokens after tokens, greedily or by chance. What was read is kept where the mask lets it be, and
read again elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from paribus.errors import SpecError, UnsupportedError
from paribus.generate.answer_batch import answer_batch, n_positions_read, real_mask
from paribus.generate.answer_stream import AnswerStream, can_cache
from paribus.generate.captured_answers import say_rest
from paribus.generate.choosing import RowStream, TokenLogprobs, token_logprobs
from paribus.generate.requests import RowRequests, TokenChooser
from paribus.generate.said_rows import SaidRows
from paribus.generate.settings import Sampling as Sampling
from paribus.masks import SequenceLayout, find_leak
from paribus.model import Transformer
from paribus.objectives.framing import Ids, ItemLayout


def can_generate(model: Transformer, length: int | None = None, prefix: int = 0) -> bool:
    """Can it be asked for next tokens in a text of this length, or of its own: does no position
    see its answer?
    """
    length = model.spec.max_length if length is None else length
    answers = np.arange(1, length + 1)
    answers[: max(prefix - 1, 0)] = -1  # what is given is not asked for
    answers[-1:] = -1
    return find_leak(model.spec.stack.masks, SequenceLayout(length, prefix), answers) is None


@dataclass(frozen=True, eq=False)
class GeneratedTokens:
    """Tokens after each context, padded on the right, and how many of them were said.

    Where they were asked for, also natural logarithms of the model's own probabilities, before any
    penalty, temperature or filter: of each token, and of the likeliest ones at its place.
    """

    tokens_BT: Tensor
    lengths_B: Tensor
    logprobs_BT: Tensor | None = None
    likeliest_BTK: Tensor | None = None
    likeliest_logprobs_BTK: Tensor | None = None


def continuation(
    model: Transformer,
    layout: ItemLayout,
    inputs_BT: Tensor,
    sampling: Sampling,
    lengths_B: Tensor | None = None,
    is_done: Callable[[Ids], bool] | None = None,
) -> GeneratedTokens:
    """What follows each context: the likeliest token at temperature 0, else one drawn
    by (seed, row, place).

    `inputs_BT` are contexts as `layout` lays them, and its `opening` opens each answer without
    being part of it. Contexts of several lengths stand at the left of their rows, and `lengths_B`
    says how long each is. After one of the layout's ends, where `is_done` says so of a row's
    tokens, or where the window has no more room, a row is padded.
    """
    n_rows = len(inputs_BT)

    def is_row_done(_: int, tokens: Ids) -> bool:
        return is_done is not None and is_done(tokens)

    requests = RowRequests(
        samplings=[sampling] * n_rows,
        streams=[RowStream(sampling.seed, row) for row in range(n_rows)],
        is_done=None if is_done is None else is_row_done,
    )
    return continue_rows(model, layout, inputs_BT, requests, lengths_B)


@torch.no_grad()
def continue_rows(
    model: Transformer,
    layout: ItemLayout,
    inputs_BT: Tensor,
    requests: RowRequests,
    lengths_B: Tensor | None = None,
) -> GeneratedTokens:
    """What follows each context, where each row has settings and draws of its own; see
    `continuation`.
    """
    _require_lengths(inputs_BT, lengths_B)
    require_generation(model, layout, inputs_BT, requests.n_tokens, lengths_B)
    rows = SaidRows(layout, inputs_BT, lengths_B, requests)
    chooser = TokenChooser(requests, layout, model.spec.n_vocab, inputs_BT.device)
    seen_BV = chooser.tokens_seen(inputs_BT, real_mask(lengths_B, inputs_BT.shape[1]))
    logprobs: list[TokenLogprobs] = []
    stream: AnswerStream | None = None
    if can_cache(model, layout):
        stream = AnswerStream(model, layout, inputs_BT, lengths_B, requests.n_tokens)
    while not rows.all_finished():
        if stream is None:
            logits_BV = next_logits(model, layout, inputs_BT, lengths_B, rows.answer_BT)
        else:
            logits_BV = stream.logits(rows.said_BT)
        token_B = rows.say(chooser.choose(logits_BV, rows.n_said, seen_BV))
        if requests.n_logprobs is not None:
            logprobs.append(token_logprobs(logits_BV, token_B, requests.n_logprobs))
        if seen_BV is not None:
            seen_BV = seen_BV.scatter(1, token_B[:, None], True)
        if rows.n_said == 1 and stream is not None and _may_leave(stream, requests, token_B):
            say_rest(model, stream.cache, rows, chooser, seen_BV)
    return _with_logprobs(GeneratedTokens(rows.said_BT, rows.lengths_B), logprobs)


def _may_leave(stream: AnswerStream, requests: RowRequests, token_B: Tensor) -> bool:
    """May the device say the rest on its own? Not if somebody looks at each token."""
    is_watched = requests.is_done is not None or requests.n_logprobs is not None
    return token_B.device.type == "cuda" and not is_watched and stream.can_prepare()


def _with_logprobs(said: GeneratedTokens, places: list[TokenLogprobs]) -> GeneratedTokens:
    """What was said with its log-probabilities, where there are any."""
    if not places:
        return said
    return replace(
        said,
        logprobs_BT=torch.stack([one.said_B for one in places], 1),
        likeliest_BTK=torch.stack([one.likeliest_BK for one in places], 1),
        likeliest_logprobs_BTK=torch.stack([one.logprobs_BK for one in places], 1),
    )


def require_generation(
    model: Transformer, layout: ItemLayout, inputs: Tensor, n_tokens: int, lengths: Tensor | None
) -> None:
    """UnsupportedError if a position sees the one after it in any text that is made, with a
    prefix or without.
    """
    input_lengths = {inputs.shape[1]} if lengths is None else set(lengths.tolist())
    if model.encoder is not None:
        input_lengths = {1}  # a decoder is given its start alone
    for n_inputs in sorted(input_lengths):
        length = min(n_inputs + len(layout.opening) + n_tokens, model.spec.max_length)
        prefixes = {0, min(n_inputs, length)} if model.encoder is None else {0}
        if not all(can_generate(model, length, prefix) for prefix in prefixes):
            raise UnsupportedError(
                f"the mask {model.architecture.mask} lets a position see later tokens, so it"
                " cannot predict them; generate with a causal, prefix or encoder-decoder model"
            )


def _require_lengths(inputs: Tensor, lengths: Tensor | None) -> None:
    longest = inputs.shape[1]
    if lengths is None:
        return
    if lengths.shape != inputs.shape[:1] or bool(((lengths < 1) | (lengths > longest)).any()):
        raise SpecError(
            f"lengths_B is {lengths.tolist()} beside contexts {list(inputs.shape)}; "
            f"give one of 1 to {longest} for each of {len(inputs)} rows"
        )


def next_logits(
    model: Transformer,
    layout: ItemLayout,
    inputs: Tensor,
    lengths: Tensor | None,
    answer: Tensor,
) -> Tensor:
    """Logits of each row for the place after its answer so far, [B, V], in float32.

    `answer` begins with what opens it.
    """
    batch = answer_batch(layout, inputs, lengths, answer)
    n_read_B = n_positions_read(layout, inputs, lengths, answer.shape[1])
    last_B = (n_read_B - 1).clamp(max=batch.layout.length - 1)
    states_BTD = model.hidden_states(batch).states_BTD
    rows_B = torch.arange(len(last_B), device=last_B.device)
    return model.logits(states_BTD[rows_B, last_B]).float()
