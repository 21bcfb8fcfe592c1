"""Prices against published counts, and against formulas written out here."""

import re

import numpy as np
import pytest

from paribus.errors import SpecError
from paribus.masks import SequenceLayout, parse_rule
from paribus.spec import (
    Architecture,
    Dense,
    Flops,
    MultiHead,
    NoPositions,
    Stack,
    load,
    parameters,
    price,
    resolve,
    visible_share,
)
from paribus.spec.flops import _feed_forward_work
from paribus.spec.price import _kv_values


def _count(name, **sizes):
    return price(resolve(load(name, **sizes)), length=3).parameters


# Published sizes


@pytest.mark.parametrize(
    ("n_layers", "d_model", "n_heads", "published"),
    [
        (12, 768, 12, 124_439_808),
        (24, 1024, 16, 354_823_168),
        (36, 1280, 20, 774_030_080),
        (48, 1600, 25, 1_557_611_200),
    ],
)
def test_gpt2_has_its_published_count(n_layers, d_model, n_heads, published):
    assert _count("gpt2", n_layers=n_layers, d_model=d_model, n_heads=n_heads) == published


@pytest.mark.parametrize(
    ("n_layers", "d_model", "n_heads", "masked_lm", "paper"),
    [(12, 768, 12, 109_514_298, 110e6), (24, 1024, 16, 335_174_458, 340e6)],
)
def test_bert_has_its_published_count(n_layers, d_model, n_heads, masked_lm, paper):
    # We count what predicts masked words, with its transform and word biases (transformers'
    # BertForMaskedLM). The
    # paper's 110M and 340M are rounded, and count the pooler of the next-sentence task, which we do
    # not have.
    count = _count("bert", n_layers=n_layers, d_model=d_model, n_heads=n_heads)
    assert count == masked_lm
    pooler = d_model**2 + d_model
    assert count + pooler == pytest.approx(paper, rel=0.012)


@pytest.mark.parametrize(
    ("n_layers", "d_model", "n_heads", "d_head", "d_ff", "published"),
    [
        (6, 512, 8, 64, 2048, 60_506_624),
        (12, 768, 12, 64, 3072, 222_903_552),
        (24, 1024, 16, 64, 4096, 737_668_096),
        (24, 1024, 32, 128, 16384, 2_851_598_336),
        (24, 1024, 128, 128, 65536, 11_307_321_344),
    ],
    ids=["small", "base", "large", "3B", "11B"],
)
def test_t5_has_its_published_count(n_layers, d_model, n_heads, d_head, d_ff, published):
    changes = {"encoder.n_layers": n_layers}
    sizes = {
        "n_layers": n_layers,
        "d_model": d_model,
        "n_heads": n_heads,
        "d_head": d_head,
        "d_ff": d_ff,
    }
    assert _count("t5", **sizes, changes=changes) == published


def test_t5_v1_1_base_has_its_published_count():
    assert _count("t5-v1.1") == 247_577_856


def test_llama_2_7b_has_its_published_count():
    assert _count("llama") == 6_738_415_616


@pytest.mark.parametrize(
    ("n_layers", "d_model", "n_heads", "billions"),
    [(32, 4096, 16, 8.63), (64, 8192, 32, 62.50), (118, 18432, 48, 540.35)],
)
def test_palm_has_its_published_count(n_layers, d_model, n_heads, billions):
    # Table 1 of the paper gives two digits; 540.356 is cut there, not rounded.
    count = _count("palm", n_layers=n_layers, d_model=d_model, n_heads=n_heads)
    assert count / 1e9 == pytest.approx(billions, abs=0.0075)


def test_mixtral_has_its_published_counts():
    cost = price(resolve(load("mixtral")), length=3)
    assert cost.parameters == 46_702_792_704
    assert round(cost.active_parameters / 1e9, 1) == 12.9


def test_deepseek_v3_has_its_published_counts():
    # The main model without the multi-token-prediction module. "37B activated" holds with and
    # without the word
    # table that a token only looks up: 37.55B with it, 36.63B without.
    cost = price(resolve(load("deepseek-v3")), length=3)
    assert round(cost.parameters / 1e9) == 671
    assert cost.active_parameters // 10**9 == 37
    assert round((cost.active_parameters - 129280 * 7168) / 1e9) == 37


def test_other_presets_have_their_published_counts():
    assert _count("gpt1") == 116_534_784
    # transformers keeps BART's word biases as a buffer and does not count their 50265.
    assert _count("bart") == 139_420_416 + 50_265


# Counts


SMALL = {
    "n_vocab": 13,
    "max_length": 11,
    "d_model": 6,
    "n_layers": 2,
    "attention": {"kind": "multi_head", "n_heads": 3, "d_head": 5},
    "feed_forward": {"kind": "dense", "d_ff": 17},
}
V, D, L, H, E, F = 13, 6, 2, 3, 5, 17


def _spec(**changes):
    return resolve(Architecture.model_validate({**SMALL, **changes}))


def test_tables_of_words_positions_and_outputs_are_embedding():
    changes = {
        "positions": "learned",
        "embedding": {"n_segments": 2},
        "head": {"tied": False, "bias": True},
    }
    cost = price(_spec(**changes))
    assert cost.parameters - cost.non_embedding_parameters == V * D + 11 * D + 2 * D + V * D
    blocks = L * (4 * D * H * E + 2 * D * F + 2 * 2 * D)
    assert cost.non_embedding_parameters == blocks + 2 * D + V
    assert cost.active_parameters == cost.parameters


def test_a_token_uses_its_own_experts_alone():
    experts = {"kind": "experts", "n_experts": 7, "n_active": 2, "n_shared": 1, "d_expert": 5}
    cost = price(_spec(feed_forward=experts))
    assert cost.parameters - cost.active_parameters == L * (7 - 2) * 3 * D * 5


def test_shared_blocks_are_counted_once():
    own, shared = (
        price(_spec(encoder={"n_layers": 2, "shared": shared})).parameters
        for shared in (False, True)
    )
    assert own - shared == L * (4 * D * H * E + 2 * D * F + 2 * 2 * D)
    assert sum(p.count for p in parameters(_spec(encoder={"n_layers": 2})).values()) == own


def test_the_cache_holds_keys_and_values_of_each_layer():
    assert price(_spec()).kv_bytes_per_token == 2 * L * 2 * H * E
    grouped = {"kind": "multi_head", "n_heads": 3, "d_head": 5, "n_kv_heads": 1}
    assert price(_spec(attention=grouped), bytes_per_value=4).kv_bytes_per_token == 4 * L * 2 * E
    assert price(_spec()).kv_bytes_per_source_token == 0
    cost = price(_spec(encoder={"n_layers": 5}))
    assert (cost.kv_bytes_per_token, cost.kv_bytes_per_source_token) == (
        2 * L * 2 * H * E,
        2 * L * 2 * H * E,
    )


def test_an_encoder_keeps_keys_of_its_own_where_they_stay_valid():
    causal = price(_spec(encoder={"n_layers": 5, "mask": "causal"}))
    assert causal.encoder_kv_bytes_per_source_token == 2 * 5 * 2 * H * E
    assert price(_spec(encoder={"n_layers": 5})).encoder_kv_bytes_per_source_token == 0
    assert price(_spec()).encoder_kv_bytes_per_source_token == 0


LATENT = {
    "kind": "latent",
    "n_heads": 3,
    "d_latent": 5,
    "d_query_latent": 7,
    "d_content": 11,
    "d_rotary": 2,
    "d_value": 13,
}


def test_latent_attention_caches_the_latent_and_one_rotary_key():
    assert price(_spec(attention=LATENT, positions="rotary")).kv_bytes_per_token == 2 * L * (5 + 2)


# FLOPs


def _matmul(rows, inner, columns):
    return 2 * rows * inner * columns


def _attention_flops(queries, keys, pairs, groups=H):
    into = (
        _matmul(queries, D, H * E) + 2 * _matmul(keys, D, groups * E) + _matmul(queries, H * E, D)
    )
    return into + 2 * H * 2 * E * pairs  # scores and values, each E multiply-adds a pair and head


def _feed_forward_flops(rows):
    return _matmul(rows, D, F) + _matmul(rows, F, D)


def test_flops_of_a_decoder_are_those_of_its_products():
    n, pairs = 7, 7 * 8 // 2
    cost = price(_spec(), length=n)
    layers = L * (_attention_flops(n, n, n * n) + _feed_forward_flops(n))
    visible = L * (_attention_flops(n, n, pairs) + _feed_forward_flops(n))
    words = _matmul(n, D, V)
    assert cost.training == Flops(3 * (layers + words), 3 * (visible + words))
    assert cost.prefill == Flops(layers + _matmul(1, D, V), visible + _matmul(1, D, V))
    assert cost.visible_share == pairs / n**2


def test_one_more_token_of_a_decoder_costs_one_row():
    n = 7
    cost = price(_spec(), length=n)
    expected = L * (_attention_flops(1, 1, n) + _feed_forward_flops(1)) + _matmul(1, D, V)
    assert cost.decode == Flops(expected, expected)
    assert cost.appendable


def test_a_window_leaves_less_visible():
    n, pairs = 7, 3 * 7 - 3
    cost = price(_spec(mask="window(3)"), length=n)
    layers = L * (_attention_flops(n, n, pairs) + _feed_forward_flops(n))
    assert cost.prefill.visible == layers + _matmul(1, D, V)
    assert cost.decode.visible == L * (
        _attention_flops(1, 1, 3) + _feed_forward_flops(1)
    ) + _matmul(1, D, V)


def test_one_more_token_of_an_encoder_computes_everything_again():
    n = 7
    cost = price(_spec(mask="full"), length=n)
    # embeddings of old tokens keep their keys
    lower = _attention_flops(n, 1, n * n) + _feed_forward_flops(n)
    # of the last layer one row is asked for
    upper = _attention_flops(1, n, n) + _feed_forward_flops(1)
    assert cost.decode.dense == cost.decode.visible == lower + upper + _matmul(1, D, V)
    assert not cost.appendable


def test_half_of_the_length_is_a_prefix_unless_told():
    pairs = 7 * 8 // 2 + 3 * 2 // 2
    cost = price(_spec(mask="prefix"), length=7)
    assert (cost.prefix, cost.visible_share) == (3, pairs / 49)
    assert price(_spec(mask="prefix"), length=7, prefix=0).visible_share == 28 / 49
    assert price(_spec(mask="prefix"), length=7, prefix=7).visible_share == 1
    assert cost.appendable


def test_lengths_are_max_length_unless_told():
    cost = price(_spec())
    assert (cost.length, cost.source_length, cost.bytes_per_value) == (11, 0, 2)
    assert price(_spec(encoder={"n_layers": 2})).source_length == 11


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ({"length": 12}, "length is 12, but max_length is 11; use 1 to 11, or set max_length"),
        ({"length": 0}, "length is 0, but max_length is 11; use 1 to 11, or set max_length"),
        ({"length": 5, "prefix": 6}, "prefix is 6 of length 5; use 0 to 5"),
        ({"prefix": -1}, "prefix is -1 of length 11; use 0 to 11"),
        (
            {"source_length": 5},
            "source_length is 5, but there is no encoder to read a source; leave it out",
        ),
        ({"bytes_per_value": 0}, "bytes_per_value is 0; use 1 or more"),
        ({"length": 5, "n_scored": 6}, "n_scored is 6 of length 5; use 1 to 5"),
        ({"n_scored": 0}, "n_scored is 0 of length 11; use 1 to 11"),
    ],
)
def test_lengths_that_cannot_be_are_refused(lengths, message):
    with pytest.raises(SpecError, match=f"^{re.escape(message)}$"):
        price(_spec(), **lengths)


def test_a_source_may_not_be_longer_than_can_be_read():
    with pytest.raises(
        SpecError,
        match=r"^source_length is 13, but max_length is 11; use 1 to 11, or set max_length$",
    ):
        price(_spec(encoder={"n_layers": 2}), source_length=13)


def test_grouped_heads_save_projections_but_no_pairs():
    n = 7
    grouped = {"kind": "multi_head", "n_heads": 3, "d_head": 5, "n_kv_heads": 1}
    cost = price(_spec(attention=grouped), length=n)
    layers = L * (_attention_flops(n, n, n * n, groups=1) + _feed_forward_flops(n))
    assert cost.prefill.dense == layers + _matmul(1, D, V)


def test_flops_of_an_encoder_decoder_count_both_sequences():
    n, m = 7, 5
    cost = price(_spec(encoder={"n_layers": 3}), length=n, source_length=m)
    encoder = 3 * (_attention_flops(m, m, m * m) + _feed_forward_flops(m))
    own = L * (_attention_flops(n, n, n * n) + _feed_forward_flops(n))
    cross = L * _attention_flops(n, m, n * m)
    assert cost.prefill.dense == encoder + own + cross + _matmul(1, D, V)
    # One more token reads the source's keys from the cache.
    step = L * (_attention_flops(1, 1, n) + _attention_flops(1, 0, m) + _feed_forward_flops(1))
    assert cost.decode.dense == step + _matmul(1, D, V)


def test_flops_of_experts_are_those_of_the_active_ones():
    n = 7
    experts = {"kind": "experts", "n_experts": 11, "n_active": 2, "n_shared": 1, "d_expert": 5}
    cost = price(_spec(feed_forward=experts), length=n)
    fed = _matmul(n, D, 11) + 3 * 3 * _matmul(n, D, 5)
    assert cost.prefill.dense == L * (_attention_flops(n, n, n * n) + fed) + _matmul(1, D, V)


def test_a_head_with_a_transform_costs_one_product_more():
    cost, plain = price(_spec(head={"transform": "gelu"}), length=7), price(_spec(), length=7)
    assert cost.training.dense - plain.training.dense == 3 * _matmul(7, D, D)


def test_training_computes_words_only_where_an_answer_is_asked():
    everywhere, somewhere = price(_spec(), length=7), price(_spec(), length=7, n_scored=3)
    assert everywhere.training.dense - somewhere.training.dense == 3 * _matmul(7 - 3, D, V)
    assert everywhere.training == price(_spec(), length=7, n_scored=7).training
    assert (everywhere.prefill, everywhere.decode) == (somewhere.prefill, somewhere.decode)


def test_flops_of_latent_attention_are_those_of_its_products():
    n = 7
    cost = price(_spec(attention=LATENT, positions="rotary"), length=n)
    query = _matmul(n, D, 7) + _matmul(n, 7, 3 * 13) + _matmul(n, 3 * 13, D)
    key = _matmul(n, D, 5 + 2) + _matmul(n, 5, 3 * (11 + 13))
    pairs = 2 * n * n * 3 * (13 + 13)
    assert cost.prefill.dense == L * (query + key + pairs + _feed_forward_flops(n)) + _matmul(
        1, D, V
    )
    # One more token: its query is moved into the latent (11 → 5 a head) and met there with latent
    # and rotary key;
    # the mean latent is unfolded into its values (5 → 13 a head).
    query = _matmul(1, D, 7) + _matmul(1, 7, 3 * 13) + 3 * _matmul(1, 11, 5)
    attended = 3 * (_matmul(1, 5 + 2, n) + _matmul(1, n, 5))
    out = 3 * _matmul(1, 5, 13) + _matmul(1, 3 * 13, D)
    step = query + _matmul(1, D, 5 + 2) + attended + out + _feed_forward_flops(1)
    assert cost.decode.dense == L * step + _matmul(1, D, V)


def test_the_visible_share_is_the_mean_over_layers_and_heads():
    masks = [parse_rule("full"), parse_rule("by_head(causal, window(1))")]
    assert visible_share(masks, SequenceLayout(5)) == pytest.approx((25 + (15 + 5) / 2) / 50)
    layout = SequenceLayout(4, documents=np.array([0, 0, 1, 1]))
    assert visible_share([parse_rule("same_document")], layout) == 8 / 16
    assert (
        visible_share([parse_rule("causal & same_side")], SequenceLayout(5, prefix=2))
        == (3 + 6) / 25
    )


def test_a_block_that_was_not_resolved_has_no_price():
    block = _spec().stack.layers[0]
    without_width = block.model_copy(update={"feed_forward": Dense()})
    with pytest.raises(AssertionError, match=r"^a resolved block knows its width$"):
        _feed_forward_work(without_width, D)
    without_heads = block.model_copy(update={"attention": MultiHead(n_heads=3)})
    with pytest.raises(AssertionError, match=r"^a resolved block knows its heads$"):
        _kv_values(Stack(layers=(without_heads,), positions=NoPositions()))


def test_flops_add_and_multiply():
    assert Flops(2, 3) + Flops(5, 7) == Flops(7, 10)
    assert Flops(2, 3) * 5 == Flops(10, 15)


def test_a_latent_cache_unfolds_whole_where_rows_are_computed_again():
    spec = load(
        "deepseek-v3",
        n_layers=2,
        mask="full",
        changes={"feed_forward": {"kind": "dense", "d_ff": 100}},
    )
    length, d, h, dq, dl, c, r, v = 1000, 7168, 128, 1536, 512, 128, 64, 128
    query = d * dq + dq * h * (c + r) + h * v * d + 2 * d * 100
    down, up, pair = d * (dl + r), dl * h * (c + v), h * (c + r + v)
    first = query * length + down * 1 + up * length + pair * length**2
    second = query * 1 + (down + up) * length + pair * length
    words = d * 129280
    assert price(resolve(spec), length).decode.dense == 2 * (first + second + words)


def test_a_cache_is_kept_across_turns_as_its_masks_say() -> None:
    words = {}
    encoders = ("t5", "encdec-causal-encoder", "encdec-turns")
    for preset in ("gpt2", "unilm", "bert", *encoders, "mixed-heads"):
        cost = price(resolve(load(preset)))
        words[preset] = (cost.appendable, cost.across_turns)
    assert words == {
        "gpt2": (True, "yes"),
        "unilm": (True, "if the prefix stays"),
        "bert": (False, "no"),
        "t5": (True, "no"),
        "encdec-causal-encoder": (True, "encoder only"),
        "encdec-turns": (True, "if a turn is a document"),
        "mixed-heads": (False, "no"),
    }
    # the last layer looks ahead: keys below it stay, but what the decoder reads changes
    ahead = load("t5", changes={"encoder.mask": "by_layer(causal, full)"})
    assert price(resolve(ahead)).across_turns == "no"
    shown = load("encdec-turns", changes={"encoder.cross": "full"})
    assert price(resolve(shown)).across_turns == "no"
