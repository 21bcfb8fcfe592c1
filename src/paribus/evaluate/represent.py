"""represent(text): one state for a text, or one for each of its words, from any architecture.

A text is read as in training, with the special tokens before it; these and padding are not part of
the answer. An encoder-decoder gives the states of its encoder. Under a prefix mask the whole text
is the prefix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from paribus.batch import Batch
from paribus.corpus.dataset import vocabulary_of
from paribus.corpus.words import encode_words
from paribus.errors import SpecError, UnsupportedError
from paribus.evaluate.likelihood import N_SEQUENCES, AskedModel, require_vocabulary_fits
from paribus.objectives.answering import reading_component
from paribus.objectives.framing import item_layout
from paribus.objectives.pooling import pool_states, require_whole_text
from paribus.spec import ResolvedArchitecture, text_parameters
from paribus.spec.objectives import POOLINGS, Pooling, TextLabels, WordTags

FloatArray = NDArray[np.float32]
Ids = Sequence[int]


@dataclass(frozen=True)
class TextLayout:
    """How a model reads a text by itself: what stands around it, and how much of it fits."""

    before: tuple[int, ...]  # special tokens
    room: int  # tokens of text
    pad: int
    after: tuple[int, ...] = ()  # what an imported tokenizer ends a text with


def text_layout(asked_model: AskedModel) -> TextLayout:
    """How a model reads a text, framed as its training framed it."""
    spec = asked_model.model.spec
    vocabulary = asked_model.vocabulary or vocabulary_of(asked_model.tokenizer)
    require_vocabulary_fits(spec, vocabulary)
    window = min(asked_model.window or spec.max_length, spec.max_length)
    component = reading_component(asked_model.objective)
    layout = item_layout(component, spec, vocabulary, window)
    before = (*layout.question_begin, *layout.document_prefix)
    after = layout.frame.after
    room = window - len(before) - len(after)
    if isinstance(asked_model.objective, TextLabels | WordTags):
        room = window - 1  # as rows of labelled texts are cut, whatever stands before them
    return TextLayout(before, room, vocabulary.pad, after)


def represent(
    asked_model: AskedModel,
    texts: Sequence[str],
    pooling: Pooling = "mean",
    *,
    n_sequences: int = N_SEQUENCES,
) -> FloatArray:
    """One state for each text, [texts, D]; of a text that is too long, its beginning is read.

    SpecError where the pooling takes the state of a token which the whole text cannot reach.
    """
    layout = text_layout(asked_model)
    ids = _text_ids(asked_model, texts, layout.room)
    if not ids:
        return np.zeros((0, asked_model.model.spec.d_model), np.float32)
    _require_reached(asked_model.model.spec, layout, ids, pooling)
    rows: list[FloatArray] = [np.zeros(0, np.float32)] * len(ids)
    for numbers, states_BTD, is_text_BT in _text_states(asked_model, layout, ids, n_sequences):
        pooled = pool_states(states_BTD, is_text_BT, pooling).float().cpu().numpy()
        for number, row in zip(numbers, pooled, strict=True):
            rows[number] = row
    return np.stack(rows)


def represent_words(
    asked_model: AskedModel,
    sentences: Sequence[Sequence[str]],
    *,
    n_sequences: int = N_SEQUENCES,
) -> tuple[FloatArray, ...]:
    """The state at the last token of each word, [words, D] for each sentence.

    UnsupportedError where a word lies past the window or has no token.
    """
    room = text_layout(asked_model).room
    for number, words in enumerate(sentences):
        last_tokens = encode_words(asked_model.tokenizer, words).last_tokens
        _require_every_word(number, words, last_tokens, room)
    return states_of_words_that_fit(asked_model, sentences, n_sequences=n_sequences)


def states_of_words_that_fit(
    asked_model: AskedModel,
    sentences: Sequence[Sequence[str]],
    *,
    n_sequences: int = N_SEQUENCES,
) -> tuple[FloatArray, ...]:
    """The state at the last token of each word, [words, D] for each sentence; a row of NaN for a
    word that lies past the window or has no token.
    """
    layout = text_layout(asked_model)
    encoded = [encode_words(asked_model.tokenizer, words) for words in sentences]
    ids = [own.ids.tolist()[: layout.room] for own in encoded]
    rows: list[FloatArray] = [np.zeros((0, 0), np.float32)] * len(ids)
    for numbers, states_BTD, _ in _text_states(asked_model, layout, ids, n_sequences):
        for number, states_TD in zip(numbers, states_BTD.float().cpu().numpy(), strict=True):
            places = encoded[number].last_tokens
            is_read = (places >= 0) & (places < len(ids[number]))
            rows[number] = np.full((len(places), states_TD.shape[1]), np.nan, np.float32)
            rows[number][is_read] = states_TD[len(layout.before) + places[is_read]]
    return tuple(rows)


def n_truncated_tokens(asked_model: AskedModel, texts: Sequence[str]) -> list[int]:
    """How many tokens of each text do not fit."""
    room = text_layout(asked_model).room
    return [max(len(asked_model.tokenizer.encode(text)) - room, 0) for text in texts]


def permitted_poolings(asked_model: AskedModel, texts: Sequence[str]) -> tuple[Pooling, ...]:
    """The poolings under which the whole of each text arrives where its state is taken."""
    layout = text_layout(asked_model)
    ids = _text_ids(asked_model, texts, layout.room)
    permitted: list[Pooling] = []
    for pooling in POOLINGS:
        try:
            _require_reached(asked_model.model.spec, layout, ids, pooling)
        except SpecError:
            continue
        permitted.append(pooling)
    return tuple(permitted)


def parameters_used(spec: ResolvedArchitecture) -> int:
    """How many parameters the answer to `represent` depends on: an encoder-decoder does not use
    its decoder, and nobody the output head.
    """
    return sum(parameter.count for parameter in text_parameters(spec).values())


def _text_ids(asked_model: AskedModel, texts: Sequence[str], room: int) -> list[Ids]:
    """The tokens of each text as far as they fit."""
    ids: list[Ids] = []
    for text in texts:
        own = asked_model.tokenizer.encode(text)[:room]
        if not own:
            raise SpecError(
                f"the text {text[:40]!r} has no token; give one that the tokenizer keeps"
            )
        ids.append(own)
    return ids


def _require_reached(
    spec: ResolvedArchitecture, layout: TextLayout, ids: Sequence[Ids], pooling: Pooling
) -> None:
    for n_text in sorted(set(map(len, ids))):
        require_whole_text(pooling, spec, len(layout.before), n_text)


def _require_every_word(
    number: int, words: Sequence[str], last_tokens: NDArray[np.int64], room: int
) -> None:
    if not len(words) or (last_tokens < 0).any():
        raise UnsupportedError(
            f"sentence {number} has a word without a token, or no word; use a tokenizer that loses"
            " nothing, such as byte-level BPE"
        )
    if last_tokens[-1] >= room:
        raise UnsupportedError(
            f"sentence {number} needs {last_tokens[-1] + 1} positions for its {len(words)} words,"
            f" but {room} fit; cut it into shorter ones"
        )


@torch.no_grad()
def _text_states(
    asked_model: AskedModel, layout: TextLayout, ids: Sequence[Ids], n_sequences: int
) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """The numbers of texts of about one length, their states and where their text stands."""
    assert n_sequences >= 1
    model = asked_model.model
    device = model.embedding.weight.device
    by_length = sorted(range(len(ids)), key=lambda number: len(ids[number]))
    for first in range(0, len(by_length), n_sequences):
        numbers = by_length[first : first + n_sequences]
        batch, is_text_BT = _text_batch([ids[number] for number in numbers], layout)
        states_BTD = model.text_states(batch.to(device)).states_BTD
        yield numbers, states_BTD, is_text_BT.to(device)


def _text_batch(ids: Sequence[Ids], layout: TextLayout) -> tuple[Batch, Tensor]:
    """Texts as one batch, padded on the right, and where their own tokens stand in it."""
    rows = [torch.tensor([*layout.before, *own, *layout.after]) for own in ids]
    lengths_B = torch.tensor([len(row) for row in rows])
    tokens_BT = pad_sequence(rows, batch_first=True, padding_value=layout.pad)
    positions = torch.arange(tokens_BT.shape[1])
    real_BT = positions < lengths_B[:, None]
    ends_B = lengths_B - len(layout.after)
    is_text_BT = (positions >= len(layout.before)) & (positions < ends_B[:, None])
    # What all rows have in common is said once: it leaves a choice of faster kernels.
    if bool(real_BT.all()):
        return Batch.of(tokens_BT, prefix=tokens_BT.shape[1]), is_text_BT
    return Batch.of(tokens_BT, prefix=lengths_B, real_BT=real_BT), is_text_BT
