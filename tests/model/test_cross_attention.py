"""Cross-attention with positions, against attention that is written out by hand."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny_model import random_tokens, tiny_architecture, tiny_batch
from torch import Tensor

from paribus.batch import Batch
from paribus.errors import SpecError
from paribus.model import Transformer, build
from paribus.model.block import TransformerBlock
from paribus.spec import Architecture, resolve

ROTARY = {"positions": "rotary", "encoder.cross_positions": "rotary"}


def turn(heads_HTE: Tensor, positions_T: Tensor, theta: float = 10_000.0) -> Tensor:
    """Channels as complex numbers that are turned by their position: channel i with i + E/2."""
    half = heads_HTE.shape[-1] // 2
    rates = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    turns = torch.polar(torch.ones(()).double(), positions_T.double()[:, None] * rates)
    turned = torch.complex(heads_HTE[..., :half], heads_HTE[..., half:]) * turns
    return torch.cat([turned.real, turned.imag], -1)


def heads(rows_TD: Tensor, weight: Tensor, d_head: int) -> Tensor:
    return (rows_TD @ weight.T).unflatten(-1, (-1, d_head)).transpose(0, 1)


def softmax_attention(
    query: Tensor, key: Tensor, value: Tensor, hidden_TS: Tensor, scale: float
) -> Tensor:
    key, value = (part.repeat_interleave(len(query) // len(part), 0) for part in (key, value))
    scores = query @ key.transpose(-1, -2) * scale
    weights = scores.masked_fill(hidden_TS, float("-inf")).softmax(-1)
    return (weights @ value).transpose(0, 1).flatten(1)


def first_cross_output(model: Transformer, batch: Batch) -> Tensor:
    """What the cross-attention of the first layer adds, as the model computes it."""
    seen: list[Tensor] = []

    class Observer:
        def wants(self, name: str, layer: int) -> bool:
            return name == "stack.cross_output" and layer == 0

        def see(self, name: str, layer: int, value: Tensor) -> None:
            seen.append(value)

    model.hidden_states(batch, observer=Observer())
    return seen[0]


@torch.no_grad()
@pytest.mark.parametrize("lengths", [(7, 7), (7, 4)])
def test_rotary_cross_attention_equals_one_that_is_written_out(lengths: tuple[int, int]) -> None:
    spec = tiny_architecture("t5-v1.1", ROTARY | {"placement": "parallel"})
    model = build(spec).double()
    real_BS = torch.arange(7) < torch.tensor(lengths)[:, None]
    source = Batch.of(random_tokens(2, 7, 1), real_BT=None if min(lengths) == 7 else real_BS)
    batch = Batch.of(random_tokens(2, 5), source=source)
    ours = first_cross_output(model, batch)
    block = model.stack.layers[0]
    assert isinstance(block, TransformerBlock)
    assert block.cross is not None
    cross = block.cross
    states_BSD = model.text_states(source).states_BTD
    rows_BTD = block.attention_norm(model.embed(batch))
    for row, length in enumerate(lengths):
        own = states_BSD[row, :length]
        query = turn(heads(rows_BTD[row], cross.query.weight, 6), length + torch.arange(5))
        key = turn(heads(own, cross.key.weight, 6), torch.arange(length))
        value = heads(own, cross.value.weight, 6)
        hidden = torch.zeros(5, length, dtype=torch.bool)
        found = softmax_attention(query, key, value, hidden, float(cross.scale))
        theirs = found @ cross.output.weight.T
        torch.testing.assert_close(ours[row], theirs, atol=1e-5, rtol=0)


@torch.no_grad()
def test_queries_go_on_after_the_source_of_their_own_document() -> None:
    changes = ROTARY | {"mask": "causal & same_document", "encoder.mask": "same_document"}
    model = build(tiny_architecture("t5-v1.1", changes)).double()
    sources, texts = (random_tokens(1, 3, 1), random_tokens(1, 4, 2)), random_tokens(2, 2, 3)
    alone = [
        model(Batch.of(text[None], source=source)).logits_BTV
        for text, source in zip(texts, sources, strict=True)
    ]
    packed_source = Batch.of(
        torch.cat(sources, 1),
        documents_BT=torch.tensor([[0, 0, 0, 1, 1, 1, 1]]),
        positions_BT=torch.tensor([[0, 1, 2, 0, 1, 2, 3]]),
    )
    packed = Batch.of(
        texts.reshape(1, 4),
        documents_BT=torch.tensor([[0, 0, 1, 1]]),
        positions_BT=torch.tensor([[0, 1, 0, 1]]),
        source=packed_source,
    )
    torch.testing.assert_close(model(packed).logits_BTV, torch.cat(alone, 1), atol=1e-5, rtol=0)


@torch.no_grad()
def test_padding_before_or_after_a_source_changes_nothing() -> None:
    model = build(tiny_architecture("t5-v1.1", ROTARY)).double()
    text, source = random_tokens(1, 5), random_tokens(1, 4, 1)
    alone = model(Batch.of(text, source=source)).logits_BTV
    padding = torch.zeros(1, 3, dtype=torch.long)
    right = Batch.of(torch.cat([source, padding], 1), real_BT=torch.arange(7)[None] < 4)
    left = Batch.of(torch.cat([padding, source], 1), real_BT=torch.arange(7)[None] >= 3)
    left = replace(left, layout=replace(left.layout, prefix=7))
    for padded in (right, left):
        logits = model(Batch.of(text, source=padded)).logits_BTV
        torch.testing.assert_close(logits, alone, atol=1e-5, rtol=0)


@torch.no_grad()
def test_the_order_of_a_source_that_knows_no_order_is_seen_by_rotary_cross_attention_alone() -> (
    None
):
    def moved(changes: dict[str, Any]) -> float:
        spec = tiny_architecture("t5-v1.1", {"positions": "rotary"} | changes)
        model, batch = build(spec).double(), tiny_batch(spec)
        assert model.encoder is not None
        assert batch.source is not None
        model.encoder.positions.spec = tiny_architecture("gpt2", {"positions": "none"}).positions
        order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
        source = Batch.of(batch.source.tokens_BT[:, order])
        other = model(replace(batch, source=source)).logits_BTV
        return float((other - model(batch).logits_BTV).abs().max())

    assert moved({}) < 1e-12
    assert moved({"encoder.cross_positions": "rotary"}) > 1e-3


REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"encoder.cross_positions": "rotary"},
        r"encoder\.cross_positions is 'rotary' with positions 'relative_bias', .*; use positions ="
        r" 'rotary', or encoder\.cross_positions = 'none'",
    ),
    (
        ROTARY | {"encoder.cross": "by_head(full, same_document)"},
        r"encoder\.cross_positions is 'rotary' with encoder\.cross 'by_head\(full,"
        r" same_document\)', under which heads would have places of their own; use one rule",
    ),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_what_cross_attention_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        resolve(tiny_architecture("t5", changes))


def test_a_spec_that_does_not_use_positions_of_sources_is_written_as_before() -> None:
    spec: Architecture = tiny_architecture("t5")
    assert "cross_positions" not in str(spec.model_dump())
    assert "cross_positions" not in str(resolve(spec).model_dump())
