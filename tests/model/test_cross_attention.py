"""Cross-attention with positions, merged and cut off, against one that is written out by hand."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny_model import random_tokens, tiny_architecture, tiny_batch
from torch import Tensor

from paribus.batch import Batch
from paribus.errors import SpecError, UnsupportedError
from paribus.model import Transformer, build
from paribus.model.attention import MultiHeadAttention
from paribus.model.block import TransformerBlock
from paribus.model.kernels import KernelChoice
from paribus.model.observed_places import places_of
from paribus.spec import resolve

ROTARY = {"positions": "rotary", "encoder.cross_positions": "rotary"}
MERGED = {"positions": "rotary", "encoder.cross_form": "merged"}


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
        r" same_document\)', which divides the heads; use one rule for all heads, or"
        r" encoder\.cross_positions = 'none'",
    ),
    (
        MERGED | {"encoder.cross": "by_head(full, same_document)"},
        r"encoder\.cross_form is 'merged' with encoder\.cross 'by_head\(full, same_document\)',"
        r" which divides the heads; use one rule for all heads, or encoder\.cross_form =",
    ),
    (
        {"encoder.cross_form": "merged"},
        r"encoder\.cross_form is 'merged' with positions 'relative_bias', .*; use positions ="
        r" 'rotary', 'learned', 'sinusoidal' or 'none', or encoder\.cross_form = 'separate'",
    ),
    (
        {"mask": "causal & nothing"},
        r"mask is 'causal & nothing', and under 'nothing' a token would not see itself; use"
        r" 'window\(1\)', or encoder\.cross = 'nothing' to hide a source",
    ),
    (
        {"encoder.mask": "nothing"},
        r"encoder\.mask is 'nothing', and under 'nothing' a token would not see itself",
    ),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_what_cross_attention_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        resolve(tiny_architecture("t5", changes))


def test_a_spec_that_uses_none_of_it_is_written_as_before() -> None:
    spec = tiny_architecture("t5")
    for name in ("cross_positions", "cross_form", "value_norm", "output_norm"):
        assert name not in str(spec.model_dump())
        assert name not in str(resolve(spec).model_dump())


def first_attention(model: Transformer) -> MultiHeadAttention:
    block = model.stack.layers[0]
    assert isinstance(block, TransformerBlock)
    assert isinstance(block.attention, MultiHeadAttention)
    return block.attention


def attention_output(model: Transformer, batch: Batch) -> tuple[Tensor, Tensor]:
    """What self-attention of the first layer of the decoder reads and gives."""
    seen: dict[str, Tensor] = {}

    class Observer:
        def wants(self, name: str, layer: int) -> bool:
            return name in ("stack.attention_input", "stack.attention_output") and layer == 0

        def see(self, name: str, layer: int, value: Tensor) -> None:
            seen[name] = value

    model.hidden_states(batch, observer=Observer())
    return seen["stack.attention_input"], seen["stack.attention_output"]


@torch.no_grad()
@pytest.mark.parametrize("continues", [False, True])
@pytest.mark.parametrize("lengths", [(7, 7), (7, 4)])
def test_merged_attention_equals_one_that_is_written_out(
    lengths: tuple[int, int], continues: bool
) -> None:
    changes = MERGED | {"attention.n_kv_heads": 2, "attention.score_scale": None}
    model = build(tiny_architecture("t5-v1.1", changes | (ROTARY if continues else {}))).double()
    real_BS = torch.arange(7) < torch.tensor(lengths)[:, None]
    source = Batch.of(random_tokens(2, 7, 1), real_BT=None if min(lengths) == 7 else real_BS)
    rows_BTD, ours = attention_output(model, Batch.of(random_tokens(2, 5), source=source))
    attention, states_BSD = first_attention(model), model.text_states(source).states_BTD
    for row, length in enumerate(lengths):
        text, own = rows_BTD[row], states_BSD[row, :length]
        positions = torch.arange(5) + (length if continues else 0)
        query = turn(heads(text, attention.query.weight, 6), positions)
        key = turn(heads(text, attention.key.weight, 6), positions)
        source_key = heads(own, attention.key.weight, 6)
        if continues:
            source_key = turn(source_key, torch.arange(length))
        value, source_value = (heads(rows, attention.value.weight, 6) for rows in (text, own))
        key, value = torch.cat([key, source_key], 1), torch.cat([value, source_value], 1)
        hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
        hidden = torch.cat([hidden, torch.zeros(5, length, dtype=torch.bool)], 1)
        found = softmax_attention(query, key, value, hidden, 6**-0.5)
        theirs = found @ attention.output.weight.T
        torch.testing.assert_close(ours[row], theirs, atol=1e-5, rtol=0)


@torch.no_grad()
def test_merged_attention_equals_that_of_t5gemma_2() -> None:
    transformers = pytest.importorskip("transformers")
    theirs = pytest.importorskip("transformers.models.t5gemma2.modeling_t5gemma2")
    changes = MERGED | {"attention.n_kv_heads": 2, "attention.qk_norm": True, "d_model": 24}
    model = build(tiny_architecture("t5-v1.1", changes))
    attention = first_attention(model)
    assert attention.query_norm is not None
    assert attention.key_norm is not None
    for norm in (attention.query_norm, attention.key_norm):
        norm.weight.copy_(torch.rand(6, generator=torch.Generator().manual_seed(6)) + 0.5)
    config = transformers.T5Gemma2TextConfig(
        hidden_size=24,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=6,
        num_hidden_layers=1,
        layer_types=["full_attention"],
        query_pre_attn_scalar=round(float(attention.scale) ** -2),
        rms_norm_eps=1e-6,
        attn_logit_softcapping=None,
        attention_dropout=0.0,
        attn_implementation="eager",
    )
    merged = theirs.T5Gemma2MergedAttention(config, 0).eval()
    for name, layer in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "output")):
        getattr(merged, f"{name}_proj").weight.copy_(getattr(attention, layer).weight)
    # their gains are counted from one
    merged.q_norm.weight.copy_(attention.query_norm.weight - 1)
    merged.k_norm.weight.copy_(attention.key_norm.weight - 1)
    source = random_tokens(2, 7, 1)
    rows_BTD, ours = attention_output(model, Batch.of(random_tokens(2, 5), source=source))
    angles = torch.arange(5)[:, None] * 10_000.0 ** (-torch.arange(3) / 3)
    angles = torch.cat([angles, angles], -1)[None]
    hidden = torch.cat([torch.ones(5, 5).triu(1), torch.zeros(5, 7)], 1)
    out, _, _ = merged(
        rows_BTD,
        (angles.cos(), angles.sin()),
        torch.where(hidden.bool(), float("-inf"), 0.0)[None, None],
        model.text_states(Batch.of(source)).states_BTD,
    )
    torch.testing.assert_close(ours, out, atol=1e-5, rtol=0)


def test_a_finished_encoding_by_the_same_stack_has_the_parameters_of_a_decoder() -> None:
    forms = {"encoder": {"n_layers": 4, "shared": True, "cross_form": "merged"}}
    for changes in ({}, {"positions": "rotary", "placement": "parallel"}):
        decoder = build(tiny_architecture("gpt2", changes))
        one_stack = build(tiny_architecture("gpt2", changes | forms))
        shapes = [{n: p.shape for n, p in m.named_parameters()} for m in (decoder, one_stack)]
        assert shapes[0] == shapes[1]
        assert decoder.state_dict().keys() == one_stack.state_dict().keys()
        tokens = random_tokens(2, 5)
        assert torch.equal(
            one_stack.text_states(Batch.of(tokens)).states_BTD,
            build(tiny_architecture("gpt2", changes | {"mask": "full"}))
            .hidden_states(tokens)
            .states_BTD,
        )


@pytest.mark.parametrize("kernel", ["dense", "masked", "auto"])
@pytest.mark.parametrize("form", ["separate", "merged"])
def test_a_source_that_is_cut_off_moves_nothing(form: str, kernel: KernelChoice) -> None:
    changes = {"positions": "rotary", "encoder.cross": "nothing", "encoder.cross_form": form}
    model = build(tiny_architecture("t5-v1.1", changes), kernel=kernel)
    real_BS = torch.arange(5) < torch.tensor([5, 3])[:, None]
    batches = [
        Batch.of(random_tokens(2, 5), source=Batch.of(random_tokens(2, 5, 1))),
        Batch.of(random_tokens(2, 5), source=Batch.of(random_tokens(2, 5, 2), real_BT=real_BS)),
    ]
    one, other = (model(batch).logits_BTV for batch in batches)
    assert torch.equal(one, other)
    one.square().sum().backward()
    assert model.encoder is not None
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all(), name
    for parameter in model.encoder.parameters():
        assert parameter.grad is None or not parameter.grad.any()
    if form == "separate":
        block = model.stack.layers[0]
        assert isinstance(block, TransformerBlock)
        assert block.cross is not None
        states = model.text_states(batches[0].source or batches[0]).states_BTD
        assert torch.equal(first_cross_output(model, batches[0]), torch.zeros_like(states))


@torch.no_grad()
def test_all_that_attention_projects_can_be_normalised() -> None:
    norms = {"attention.value_norm": True, "attention.output_norm": True}
    spec = tiny_architecture("gpt2", {"positions": "none", "attention.bias": False} | norms)
    model = build(spec).double()
    rows_BTD, ours = attention_output(model, Batch.of(random_tokens(1, 5)))
    attention, text = first_attention(model), rows_BTD[0]
    query, key, value = (
        heads(text, layer.weight, 6) for layer in (attention.query, attention.key, attention.value)
    )
    value = torch.nn.functional.layer_norm(value, (6,), eps=1e-5)
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
    found = softmax_attention(query, key, value, hidden, 6**-0.5)
    theirs = torch.nn.functional.layer_norm(found, (36,), eps=1e-5) @ attention.output.weight.T
    torch.testing.assert_close(ours[0], theirs, atol=1e-9, rtol=0)


def test_weights_over_a_source_and_a_text_at_once_cannot_be_looked_at() -> None:
    class Observer:
        def wants(self, name: str, layer: int) -> bool:
            return name == "stack.attention_weights"

        def see(self, name: str, layer: int, value: Tensor) -> None: ...

    spec = tiny_architecture("t5-v1.1", MERGED)
    assert "stack.attention_weights" not in places_of(resolve(spec))
    assert "encoder.attention_weights" in places_of(resolve(spec))
    with pytest.raises(UnsupportedError, match=r"where cross_form is 'merged', .* use 'sepa"):
        build(spec).hidden_states(tiny_batch(spec), observer=Observer())
