"""Arithmetic is honest: priced parameters and FLOPs equal the built model's.

Dense FLOPs are held against torch's FlopCounterMode on the reference path: attention written out,
plain matrix products, the meta device. Visible FLOPs are held against counting the pairs of the
dense picture.
"""

from typing import Any

import numpy as np
import pytest
import torch
from cross_forms import CROSS_FORMS
from tiny_model import PRESETS, tiny_architecture, tiny_batch
from torch.utils.flop_counter import FlopCounterMode

from paribus.batch import Batch
from paribus.masks import SequenceLayout, dense_mask, rule_at_head
from paribus.model import build
from paribus.model.label_head import LabelHead
from paribus.spec import Architecture, Latent, load, parameters, price, resolve
from paribus.spec.flops import labelling_flops

LENGTH, PREFIX, SOURCE, N_SEQUENCES = 11, 4, 7, 2
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((preset, {}) for preset in PRESETS),
    *CROSS_FORMS.values(),
    ("gpt2", {"attention.qk_norm": True, "norm": "rms", "head.tied": False, "head.bias": True}),
    ("gpt2", {"attention.qk_norm": "fixed"}),
    ("gpt2", {"attention.n_kv_heads": 1, "positions": "alibi", "placement": "parallel"}),
    ("bert", {"positions": "sinusoidal", "attention.bias": False, "feed_forward.gated": True}),
    ("t5", {"placement": "parallel", "feed_forward.bias": True}),
    (
        "deepseek-v3",
        {"attention.d_query_latent": None, "feed_forward.gated": False, "feed_forward.n_shared": 0},
    ),
    ("switch", {"feed_forward.every": 1, "feed_forward.n_shared": 3, "encoder.shared": True}),
]


@pytest.mark.parametrize("preset", PRESETS)
def test_priced_parameters_equal_the_built_model_at_full_size(preset: str) -> None:
    spec = load(preset)
    model = build(spec, device="meta")
    assert price(resolve(spec), length=64).parameters == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(("preset", "changes"), VARIANTS)
def test_the_table_of_parameters_is_the_built_model(preset: str, changes: dict[str, Any]) -> None:
    spec = tiny_architecture(preset, changes)
    built = {name: tuple(p.shape) for name, p in build(spec, device="meta").named_parameters()}
    assert built == {name: p.shape for name, p in parameters(resolve(spec)).items()}


def counted(spec: Architecture, backward: bool, last_word_only: bool = False) -> int:
    model = build(spec, device="meta", kernel="dense", compute="gathered")
    source = (
        None
        if spec.encoder is None
        else torch.zeros(N_SEQUENCES, SOURCE, dtype=torch.long, device="meta")
    )
    tokens = torch.zeros(N_SEQUENCES, LENGTH, dtype=torch.long, device="meta")
    with FlopCounterMode(display=False) as counter:
        states = model.hidden_states(Batch.of(tokens, prefix=PREFIX, source=source)).states_BTD
        logits = model.logits(states[:, -1:] if last_word_only else states)
        if backward:
            logits.sum().backward()
    return counter.get_total_flops()


@pytest.mark.parametrize(("preset", "changes"), VARIANTS)
def test_dense_flops_equal_the_counter_on_the_reference_path(
    preset: str, changes: dict[str, Any]
) -> None:
    spec = tiny_architecture(preset, changes)
    priced = price(resolve(spec), LENGTH, SOURCE if spec.encoder else None, PREFIX)
    assert priced.training.dense * N_SEQUENCES == counted(spec, backward=True)
    assert priced.prefill.dense * N_SEQUENCES == counted(spec, backward=False, last_word_only=True)


@pytest.mark.parametrize(("preset", "changes"), VARIANTS)
def test_flops_of_labels_equal_the_counter_on_the_reference_path(
    preset: str, changes: dict[str, Any]
) -> None:
    spec = tiny_architecture(preset, changes)
    model = build(spec, device="meta", kernel="dense", compute="gathered")
    head = LabelHead(("a", "b", "c"), spec.d_model).to("meta")
    tokens = torch.zeros(N_SEQUENCES, LENGTH, dtype=torch.long, device="meta")
    with FlopCounterMode(display=False) as counter:
        states = model.text_states(Batch.of(tokens, prefix=LENGTH)).states_BTD
        head(states[:, :1]).sum().backward()
    priced = labelling_flops(resolve(spec), LENGTH, n_labels=3, n_scored=1)
    assert priced.dense * N_SEQUENCES == counter.get_total_flops()


@pytest.mark.parametrize("preset", PRESETS)
def test_visible_flops_equal_counting_pairs(preset: str) -> None:
    resolved = resolve(tiny_architecture(preset))
    priced = price(resolved, LENGTH, SOURCE if resolved.encoder else None, PREFIX)
    hidden_pairs = 0.0
    for stack, layout in zip(
        resolved.stacks, (SequenceLayout(LENGTH, PREFIX), SequenceLayout(SOURCE)), strict=False
    ):
        for block in stack.layers:
            attention = block.attention
            width = (
                attention.d_content + attention.d_rotary + attention.d_value
                if isinstance(attention, Latent)
                else 2 * (attention.d_head or 0)
            )
            for head in range(attention.n_heads):
                hidden_pairs += (
                    2
                    * width
                    * np.count_nonzero(
                        ~dense_mask(rule_at_head(block.mask, head, attention.n_heads), layout)
                    )
                )
    assert priced.prefill.dense - priced.prefill.visible == hidden_pairs
    assert priced.training.dense - priced.training.visible == 3 * hidden_pairs


def test_a_decoded_token_of_a_causal_model_costs_its_matrices_and_its_row() -> None:
    resolved = resolve(
        load(
            "gpt2", n_layers=3, d_model=10, n_heads=2, d_head=7, d_ff=13, n_vocab=17, max_length=19
        )
    )
    attention, feed_forward = 2 * 10 * 14 + 2 * 10 * 14, 2 * 10 * 13
    by_hand = 3 * 2 * (attention + feed_forward + 2 * 14 * 19) + 2 * 10 * 17
    assert price(resolved, 19).decode.dense == price(resolved, 19).decode.visible == by_hand


def test_a_decoded_token_of_an_encoder_recomputes_what_it_changed() -> None:
    resolved = resolve(
        load(
            "bert", n_layers=3, d_model=10, n_heads=2, d_head=7, d_ff=13, n_vocab=17, max_length=19
        )
    )
    query, key, pair = 2 * 10 * 14 + 2 * 10 * 13, 2 * 10 * 14, 2 * 14
    # Layer 0: one new key, every row changed. Layer 1: all. Layer 2: all keys, only the newest
    # output is asked for.
    layers = [(19, 1), (19, 19), (1, 19)]
    by_hand = sum(
        2 * (query * rows + key * keys + pair * rows * 19) for rows, keys in layers
    ) + 2 * 10 * (17 + 10)
    assert price(resolved, 19).decode.dense == by_hand


def test_a_decoded_token_of_latent_attention_never_expands_the_cache() -> None:
    spec = tiny_architecture(
        "deepseek-v3", {"feed_forward.n_dense_layers": 4, "feed_forward.every": 1, "n_layers": 5}
    )
    short, long = (price(resolve(spec), length).decode.dense for length in (12, 13))
    assert long - short == 5 * 2 * 6 * (
        11 + 4 + 11
    )  # per layer and head: the score and the mix, in the latent


def test_cached_bytes_are_counted_by_hand() -> None:
    assert (
        price(resolve(tiny_architecture("gpt2")), bytes_per_value=4).kv_bytes_per_token
        == 4 * 2 * 6 * 6 * 4
    )
    assert price(resolve(tiny_architecture("mixtral"))).kv_bytes_per_token == 4 * 2 * 2 * 6 * 2
    assert price(resolve(tiny_architecture("deepseek-v3"))).kv_bytes_per_token == 4 * (11 + 4) * 2
    assert price(resolve(tiny_architecture("t5"))).kv_bytes_per_source_token == 4 * 2 * 6 * 6 * 2
    assert price(resolve(tiny_architecture("bert"))).kv_bytes_per_source_token == 0


def test_the_reference_path_gives_the_same_logits_as_the_fast_one() -> None:
    for preset in PRESETS:
        spec = tiny_architecture(preset)
        fast, plain = build(spec), build(spec, kernel="dense", compute="gathered")
        torch.testing.assert_close(
            fast(tiny_batch(spec)).logits_BTV,
            plain(tiny_batch(spec)).logits_BTV,
            atol=1e-4,
            rtol=1e-4,
        )
