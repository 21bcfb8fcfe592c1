"""Answers to contexts of tokens: each laid before the model as it is scored, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch.nn.utils.rnn import pad_sequence

from paribus.errors import SpecError
from paribus.generate.beams import context_beams
from paribus.generate.choosing import sample_stream
from paribus.generate.mask_filling import append_masks, fill_rows
from paribus.generate.requests import RowRequests
from paribus.generate.sampling import GeneratedTokens, continue_rows
from paribus.generate.settings import Sampling
from paribus.generate.text_stream import TextDecoder, TextStream
from paribus.generate.turn_answers import continue_turns, has_encoded_turns, require_one_turn
from paribus.model import Transformer
from paribus.objectives.framing import Ids, ItemLayout, LaidContext, lay_context


@dataclass(frozen=True)
class GeneratedAnswer:
    """The tokens of an answer without what ended it, and how much of its context was not read.

    An answer that ends at a stop string keeps the tokens that hold text before it, of which the
    last may hold a part of the stop string too; `text` ends before it.
    """

    tokens: Ids
    is_ended: bool  # by the model itself; else by a stop string or a limit
    n_truncated: int
    text: str | None = None  # None: nobody gave a decoder
    stop_string: str | None = None  # the one that ended it
    # Natural logarithms of the model's own probabilities, before any penalty, temperature or
    # filter; None where they were not asked for.
    logprobs: tuple[float, ...] | None = None
    likeliest: tuple[tuple[tuple[int, float], ...], ...] | None = None  # ids with theirs, by place
    # of a beam: its log-probability over its length to the power of the length penalty
    beam_score: float | None = None


def generate_answers(
    model: Transformer,
    layout: ItemLayout,
    contexts: Sequence[Sequence[int]],
    sampling: Sampling,
    is_done: Callable[[Ids], bool] | None = None,
    decoder: TextDecoder | None = None,
) -> tuple[GeneratedAnswer, ...]:
    """What a model says after each context; a row ends early where `is_done` says so of its
    tokens.

    Each context has `n_samples` answers, one after another: the first is the one that it has
    alone, and of beams they are the best. A `decoder` gives each answer its text, and is needed
    for stop strings.
    """
    _require_decoder(sampling, decoder)
    if sampling.order != "left":
        raise SpecError(
            f"order is {sampling.order!r}, but the tokens are said one after another; use it with"
            " a model that fills masks"
        )
    if sampling.n_beams > 1:
        if is_done is not None:
            raise SpecError(f"n_beams is {sampling.n_beams} with is_done; use one or the other")
        return _beam_answers(model, layout, contexts, sampling, decoder)
    laid_contexts = _laid_contexts(layout, contexts, sampling)
    ends = _RowEnds(sampling, is_done, decoder, len(laid_contexts))
    requests = _row_requests(sampling, len(laid_contexts), ends)
    if has_encoded_turns(layout, laid_contexts):
        said = continue_turns(model, layout, laid_contexts, requests)
    else:
        said = _continue_answers(model, layout, laid_contexts, requests)
    return _answers(layout, laid_contexts, said, ends)


def fill_answers(
    model: Transformer,
    layout: ItemLayout,
    contexts: Sequence[Sequence[int]],
    sampling: Sampling,
    decoder: TextDecoder | None = None,
) -> tuple[GeneratedAnswer, ...]:
    """What a model that fills masks puts under those after each context, in the order that is
    asked for; see `generate_answers`.
    """
    _require_decoder(sampling, decoder)
    if sampling.n_beams > 1:
        raise SpecError(
            f"n_beams is {sampling.n_beams}, but masks are filled one by one; use it with a model"
            " that says what follows"
        )
    laid_contexts = _laid_contexts(layout, contexts, sampling)
    ends = _RowEnds(sampling, None, decoder, len(laid_contexts))
    requests = _row_requests(sampling, len(laid_contexts), ends)
    said = _fill_answers(model, layout, laid_contexts, requests)
    return _answers(layout, laid_contexts, said, ends)


def _laid_contexts(
    layout: ItemLayout, contexts: Sequence[Sequence[int]], sampling: Sampling
) -> list[LaidContext]:
    """Each context as often as it is answered."""
    laid_contexts = []
    for context in contexts:
        laid = lay_context(layout, context, sampling.n_tokens)
        laid_contexts += [laid] * sampling.n_samples
    return laid_contexts


def _row_requests(sampling: Sampling, n_rows: int, ends: _RowEnds) -> RowRequests:
    """Settings that all rows share, with draws of their own."""
    streams = []
    for row in range(n_rows):
        context, sample = divmod(row, sampling.n_samples)
        streams.append(sample_stream(sampling.seed, context, sample))
    return RowRequests(samplings=[sampling] * n_rows, streams=streams, is_done=ends.row_check)


def _continue_answers(
    model: Transformer,
    layout: ItemLayout,
    laid_contexts: Sequence[LaidContext],
    requests: RowRequests,
) -> GeneratedTokens:
    device = model.embedding.weight.device
    rows = [torch.tensor(laid.inputs) for laid in laid_contexts]
    inputs_BT = pad_sequence(rows, batch_first=True, padding_value=layout.vocabulary.pad)
    lengths_B = None
    if len({len(row) for row in rows}) > 1:
        lengths_B = torch.tensor([len(row) for row in rows]).to(device)
    return continue_rows(model, layout, inputs_BT.to(device), requests, lengths_B)


def _fill_answers(
    model: Transformer,
    layout: ItemLayout,
    laid_contexts: Sequence[LaidContext],
    requests: RowRequests,
) -> GeneratedTokens:
    """Masks after each context, filled; then every answer is looked at from its beginning."""
    inputs = [laid.inputs for laid in laid_contexts]
    rows = append_masks(layout, inputs, requests.n_tokens, model.embedding.weight.device)
    said = fill_rows(model, layout, rows, requests)
    if requests.is_done is None:
        return said
    lengths = []
    for row, (tokens, length) in enumerate(
        zip(said.tokens_BT.tolist(), said.lengths_B.tolist(), strict=True)
    ):
        n_said = 0
        while n_said < length:
            n_said += 1
            if tokens[n_said - 1] in layout.end_tokens:
                break
            if requests.is_done(row, tuple(tokens[:n_said])):
                break
        lengths.append(n_said)
    return replace(said, lengths_B=torch.tensor(lengths))


def _beam_answers(
    model: Transformer,
    layout: ItemLayout,
    contexts: Sequence[Sequence[int]],
    sampling: Sampling,
    decoder: TextDecoder | None,
) -> tuple[GeneratedAnswer, ...]:
    """The best answers to each context, one context after another."""
    answers = []
    for context in contexts:
        laid = lay_context(layout, context, sampling.n_tokens)
        require_one_turn(layout, laid, sampling.n_beams)
        for beam in context_beams(model, layout, laid.inputs, sampling):
            answer = _answer(layout, beam.tokens, laid.n_truncated)
            if decoder is not None:
                answer = replace(answer, text=decoder.text(answer.tokens))
            answers.append(replace(answer, beam_score=beam.score))
    return tuple(answers)


def _require_decoder(sampling: Sampling, decoder: TextDecoder | None) -> None:
    """SpecError where stop strings are asked for, and nothing gives text."""
    if sampling.stop and decoder is None:
        raise SpecError(
            f"stop is {sampling.stop!r:.40}, but nothing here turns tokens into text; give a"
            " decoder, or use is_done"
        )


class _RowEnds:
    """Who says that a row is done: its stop strings, and what the caller asks of its tokens."""

    def __init__(
        self,
        sampling: Sampling,
        is_done: Callable[[Ids], bool] | None,
        decoder: TextDecoder | None,
        n_rows: int,
    ):
        self.is_done, self.decoder = is_done, decoder
        self.streams: list[TextStream] = []
        self.texts = [""] * n_rows
        if sampling.stop and decoder is not None:
            self.streams = [TextStream(decoder, sampling.stop) for _ in range(n_rows)]

    @property
    def row_check(self) -> Callable[[int, Ids], bool] | None:
        """What is asked of a row and its tokens after each of them; None where nothing is."""
        if self.is_done is None and not self.streams:
            return None
        return self._is_row_done

    def _is_row_done(self, row: int, tokens: Ids) -> bool:
        is_stopped = False
        if self.streams:
            self.texts[row] += self.streams[row].push(tokens[-1])
            is_stopped = self.streams[row].stop_string is not None
        return is_stopped or (self.is_done is not None and self.is_done(tokens))

    def stop_string(self, row: int) -> str | None:
        """The stop string that ended a row. One may be complete only now that nothing follows."""
        if not self.streams:
            return None
        self.texts[row] += self.streams[row].finish()
        return self.streams[row].stop_string


def _answers(
    layout: ItemLayout,
    laid_contexts: Sequence[LaidContext],
    said: GeneratedTokens,
    ends: _RowEnds,
) -> tuple[GeneratedAnswer, ...]:
    answers = []
    for row, (laid, tokens, n_tokens) in enumerate(
        zip(laid_contexts, said.tokens_BT.tolist(), said.lengths_B.tolist(), strict=True)
    ):
        answer = _answer(layout, tuple(tokens[:n_tokens]), laid.n_truncated)
        if ends.decoder is not None:
            answer = _with_text(answer, ends.decoder, ends.stop_string(row), ends.texts[row])
        answers.append(_with_logprobs(answer, said, row))
    return tuple(answers)


def _answer(layout: ItemLayout, tokens: Ids, n_truncated: int) -> GeneratedAnswer:
    is_ended = tokens[-1:] != () and tokens[-1] in layout.end_tokens
    if is_ended:
        tokens = tokens[:-1]
    return GeneratedAnswer(tokens, is_ended, n_truncated)


def _with_text(
    answer: GeneratedAnswer, decoder: TextDecoder, stop_string: str | None, text: str
) -> GeneratedAnswer:
    """An answer with its text; one that met a stop string loses the tokens after its text."""
    if stop_string is None:
        return replace(answer, text=decoder.text(answer.tokens))
    tokens = answer.tokens
    while tokens and decoder.text(tokens[:-1]).startswith(text):
        tokens = tokens[:-1]
    return replace(answer, tokens=tokens, is_ended=False, text=text, stop_string=stop_string)


def _with_logprobs(answer: GeneratedAnswer, said: GeneratedTokens, row: int) -> GeneratedAnswer:
    """An answer with the log-probabilities of its tokens, where they were asked for."""
    if said.logprobs_BT is None:
        return answer
    assert said.likeliest_BTK is not None
    assert said.likeliest_logprobs_BTK is not None
    n_tokens = len(answer.tokens)
    likeliest = []
    for ids, logprobs in zip(
        said.likeliest_BTK[row, :n_tokens].tolist(),
        said.likeliest_logprobs_BTK[row, :n_tokens].tolist(),
        strict=True,
    ):
        likeliest.append(tuple(zip(ids, logprobs, strict=True)))
    logprobs = tuple(said.logprobs_BT[row, :n_tokens].tolist())
    return replace(answer, logprobs=logprobs, likeliest=tuple(likeliest))
