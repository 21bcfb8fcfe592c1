"""Loss by position: how surprised a model is by each token of a text, by how much came before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from paribus.errors import SpecError
from paribus.objectives.framing import LaidItem, lay_item
from paribus.probe.item_answers import ItemReader, token_answers
from paribus.record.probe_rows import ProbeRow

PROBE = "position loss"


def position_loss_rows(
    reader: ItemReader, texts: Sequence[str], n_tokens: int, n_context: int = 1
) -> Iterator[ProbeRow]:
    """The mean nats of the tokens of texts, at each position from `n_context` to `n_tokens` - 1.

    Every text has `n_tokens` tokens at least; what lies beyond is not read. The first `n_context`
    tokens are the context: the prefix, or what an encoder reads.
    """
    items = [_lay_text(reader, text, n_tokens, n_context) for text in texts]
    if not items:
        raise SpecError("there is no text to read; give at least one")
    nats = torch.zeros(len(items), n_tokens - n_context, dtype=torch.float64)
    n_answered = [0] * len(items)
    for answer in token_answers(reader, items):
        first = n_answered[answer.item]
        n_answered[answer.item] += len(answer.nats_M)
        nats[answer.item, first : n_answered[answer.item]] = answer.nats_M.double()
    for position, value in enumerate(nats.mean(0).tolist(), n_context):
        yield ProbeRow(
            probe=PROBE,
            quantity="nats",
            value=value,
            n=len(items),
            x=float(position),
            x_name="position",
        )


def _lay_text(reader: ItemReader, text: str, n_tokens: int, n_context: int) -> LaidItem:
    if not 1 <= n_context < n_tokens:
        raise SpecError(
            f"n_context is {n_context} of n_tokens {n_tokens}; use at least 1, and fewer than all"
        )
    ids = reader.checkpoint.tokenizer.encode(text)
    if len(ids) < n_tokens:
        raise SpecError(
            f"{text[:20]!r} has {len(ids)} tokens, but n_tokens is {n_tokens}; give longer texts,"
            " or ask for fewer tokens"
        )
    item = lay_item(reader.layout, repr(text[:20]), ids[:n_context], ids[n_context:n_tokens])
    if item.n_truncated:
        raise SpecError(
            f"n_tokens is {n_tokens}, which does not fit the window of {reader.layout.window};"
            " ask for fewer"
        )
    return item
