import re

import pytest

from paribus.errors import SpecError
from paribus.masks import ByHead, Causal, Full, Reverse, SameDocument, parse_rule
from paribus.spec import Architecture, Dense, Experts, Latent, is_bidirectional, resolve

SMALL = {
    "n_vocab": 11,
    "max_length": 7,
    "d_model": 6,
    "n_layers": 4,
    "attention": {"kind": "multi_head", "n_heads": 3},
}
LATENT = {
    "kind": "latent",
    "n_heads": 3,
    "d_latent": 5,
    "d_content": 7,
    "d_rotary": 0,
    "d_value": 11,
}
EXPERTS = {"kind": "experts", "n_experts": 6, "n_active": 2}


def _resolved(**changes):
    return resolve(Architecture.model_validate({**SMALL, **changes}))


def _problems(**changes):
    with pytest.raises(SpecError) as caught:
        _resolved(**changes)
    return caught.value.problems


def test_what_follows_from_the_sizes_is_written_out():
    block = _resolved().stack.layers[3]
    assert (block.attention.n_kv_heads, block.attention.d_head, block.attention.score_scale) == (
        3,
        2,
        2**-0.5,
    )
    assert block.feed_forward == Dense(d_ff=24)
    assert block.cross is None


def test_what_was_given_is_kept():
    attention = {
        "kind": "multi_head",
        "n_heads": 6,
        "n_kv_heads": 2,
        "d_head": 5,
        "score_scale": 1.0,
    }
    block = _resolved(attention=attention, feed_forward={"kind": "dense", "d_ff": 13}).stack.layers[
        0
    ]
    assert (block.attention.n_kv_heads, block.attention.d_head, block.attention.score_scale) == (
        2,
        5,
        1.0,
    )
    assert block.feed_forward.d_ff == 13
    assert _resolved(attention=LATENT).stack.layers[0].attention == Latent(**LATENT)


def test_each_layer_has_its_own_mask():
    spec = _resolved(mask="by_layer(full, causal)")
    assert spec.stack.masks == (Full(), Full(), Causal(), Causal())
    spec = _resolved(mask="alternate(by_head(causal, reverse, full), causal)")
    assert spec.stack.masks[0] == ByHead((Causal(), Reverse(), Full()))


def test_scales_by_width_become_numbers():
    spec = _resolved(embedding={"scale": "sqrt_d_model"}, head={"scale": "rsqrt_d_model"})
    assert spec.embedding.scale == pytest.approx(6**0.5)
    assert spec.head.scale == pytest.approx(6**-0.5)
    assert _resolved(head={"scale": 3.0}).head.scale == 3.0


def test_experts_follow_the_dense_layers_and_come_every_so_often():
    given = {
        **EXPERTS,
        "n_dense_layers": 1,
        "every": 2,
        "d_ff": 13,
        "d_expert": 5,
        "activation": "relu",
    }
    kinds = [block.feed_forward for block in _resolved(n_layers=7, feed_forward=given).stack.layers]
    dense = Dense(d_ff=13, activation="relu", gated=True)
    assert [kind == dense for kind in kinds] == [True, True, False, True, False, True, False]
    assert kinds[2] == Experts(n_experts=6, n_active=2, d_expert=5, activation="relu")


def test_experts_are_four_times_as_wide_as_the_model_by_default():
    assert _resolved(feed_forward=EXPERTS).stack.layers[0].feed_forward.d_expert == 24


def test_an_encoder_adds_cross_attention_to_every_layer_but_its_own():
    spec = _resolved(encoder={"n_layers": 3, "mask": "causal"})
    assert [block.cross for block in spec.stack.layers] == [Full()] * 4
    assert [block.cross for block in spec.encoder.layers] == [None] * 3
    assert spec.encoder.masks == (Causal(),) * 3
    assert spec.stacks == (spec.stack, spec.encoder)
    assert not spec.shared


def test_documents_kept_apart_in_the_stack_are_kept_apart_in_the_source():
    spec = _resolved(mask="causal & same_document", encoder={"n_layers": 3})
    assert spec.stack.layers[0].cross == SameDocument()


def test_a_model_without_encoder_has_one_stack():
    spec = _resolved()
    assert spec.encoder is None
    assert spec.stacks == (spec.stack,)


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        ("causal", False),
        ("window(3) & padding", False),
        ("prefix", True),
        ("causal & same_side", False),
        ("same_side", True),
        ("full", True),
        ("by_layer(causal, full)", True),
        ("by_head(causal, causal & window(2), reverse)", True),
        ("reverse & causal", False),
    ],
)
def test_a_stack_is_bidirectional_if_anything_in_it_looks_ahead(mask, expected):
    assert is_bidirectional(_resolved(mask=mask).stack) is expected
    assert parse_rule(mask) == Architecture.model_validate({**SMALL, "mask": mask}).mask


REFUSED = [
    (
        {"attention": {"kind": "multi_head", "n_heads": 6, "n_kv_heads": 4}},
        "attention.n_kv_heads is 4, which does not divide n_heads 6; use 1, 2, 3 or 6",
    ),
    (
        {"d_model": 7},
        (
            "attention.n_heads is 3, which does not divide d_model 7; use 1 or 7, or set"
            " attention.d_head"
        ),
    ),
    (
        {"d_model": 9, "positions": "rotary"},
        (
            "attention.d_head is 3 with rotary positions, which turn channels in pairs; use an even"
            " d_head"
        ),
    ),
    (
        {"attention": {"kind": "multi_head", "n_heads": 3, "d_head": 5}, "positions": "rotary"},
        (
            "attention.d_head is 5 with rotary positions, which turn channels in pairs; use an even"
            " d_head"
        ),
    ),
    (
        {"mask": "by_layer(full, causal, reverse)"},
        (
            "mask by_layer(full, causal, reverse) has 3 rules, so it needs a multiple of 3 layers,"
            " but n_layers is 4; use a number of rules among 1, 2, 4"
        ),
    ),
    (
        {"mask": "by_head(full, causal)"},
        (
            "mask by_head(full, causal) has 2 groups of heads, so it needs a multiple of 2 heads,"
            " but n_heads is 3; use a number of groups among 1, 3"
        ),
    ),
    (
        {"encoder": {"n_layers": 5, "mask": "by_layer(full, causal)"}},
        (
            "encoder.mask by_layer(full, causal) has 2 rules, so it needs a multiple of 2 layers,"
            " but n_layers is 5; use a number of rules among 1, 5"
        ),
    ),
    (
        {"encoder": {"n_layers": 5, "shared": True}},
        (
            "encoder.n_layers is 5 with shared blocks, but n_layers is 4; use 4, or encoder.shared"
            " = false"
        ),
    ),
    (
        {"positions": {"kind": "relative_bias", "n_buckets": 8, "max_distance": 4}},
        "positions.max_distance is 4, which leaves no room past the 4 exact buckets; use 5 or more",
    ),
    (
        {"attention": LATENT, "positions": "rotary"},
        "attention.d_rotary is 0 with rotary positions; use an even number from 2 up",
    ),
    (
        {"attention": {**LATENT, "d_rotary": 3}, "positions": "rotary"},
        "attention.d_rotary is 3 with rotary positions; use an even number from 2 up",
    ),
    (
        {"attention": {**LATENT, "d_rotary": 2}},
        "attention.d_rotary is 2 but positions are none; use 0, or positions = 'rotary'",
    ),
    *(
        (
            {"attention": LATENT, "positions": kind},
            f"positions.kind is '{kind}' with latent attention; use 'rotary' or 'none'",
        )
        for kind in ("learned", "sinusoidal", "relative_bias", "alibi")
    ),
    (
        {"attention": LATENT, "encoder": {"n_layers": 3}},
        (
            "attention.kind is 'latent' with an encoder, which has no cross-attention form; use"
            " 'multi_head'"
        ),
    ),
    (
        {"feed_forward": {**EXPERTS, "n_active": 7}},
        "feed_forward.n_active is 7 of n_experts 6; use 1 to 6",
    ),
    (
        {"feed_forward": {**EXPERTS, "router": {"n_groups": 4}}},
        "feed_forward.router.n_groups is 4, which does not divide n_experts 6; use 1, 2, 3 or 6",
    ),
    (
        {"feed_forward": {**EXPERTS, "router": {"n_groups": 3, "n_active_groups": 5}}},
        "feed_forward.router.n_active_groups is 5 of n_groups 3; use 1 to 3",
    ),
    (
        {
            "feed_forward": {
                **EXPERTS,
                "n_active": 3,
                "router": {"n_groups": 3, "n_active_groups": 1},
            }
        },
        (
            "feed_forward.n_active is 3, more than the 1 active groups of 2 experts hold; use at"
            " most 2"
        ),
    ),
    (
        {"feed_forward": {**EXPERTS, "n_dense_layers": 2, "every": 3}},
        (
            "feed_forward.n_dense_layers 2 and every 3 leave none of n_layers 4 with experts; lower"
            " one of them"
        ),
    ),
]


@pytest.mark.parametrize(
    ("changes", "message"), REFUSED, ids=[message[:50] for _, message in REFUSED]
)
def test_what_cannot_be_is_refused_with_what_would_do(changes, message):
    with pytest.raises(SpecError, match=re.escape(message)):
        _resolved(**changes)


def test_all_that_is_wrong_is_said_at_once():
    problems = _problems(
        mask="by_head(full, causal)",
        d_model=7,
        feed_forward={**EXPERTS, "n_active": 7},
        encoder={"n_layers": 5, "shared": True},
    )
    assert [problem.split()[0] for problem in problems] == [
        "mask",
        "attention.n_heads",
        "feed_forward.n_active",
        "feed_forward.n_active",
        "encoder.n_layers",
    ]


def test_a_dense_width_without_dense_layers_is_refused():
    with pytest.raises(
        SpecError, match=r"feed_forward\.d_ff is 13, the width of dense layers, but every layer has"
    ):
        _resolved(feed_forward={**EXPERTS, "d_ff": 13})


def test_padding_in_a_mask_makes_no_other_model():
    assert _resolved(mask="causal & padding") == _resolved(mask="causal")


def test_the_source_is_seen_by_document_where_a_cross_rule_asks():
    spec = _resolved(encoder={"n_layers": 3, "cross": "by_layer(documents_so_far, full & padding)"})
    crosses = [str(block.cross) for block in spec.stack.layers]
    assert crosses == ["documents_so_far"] * (len(crosses) // 2) + ["full"] * (len(crosses) // 2)
    assert spec.asks_for_documents
    assert not _resolved(encoder={"n_layers": 3}).asks_for_documents


def test_a_cross_rule_that_compares_places_is_refused():
    with pytest.raises(SpecError, match=r"encoder.cross is 'causal & same_document', but 'causal'"):
        _resolved(encoder={"n_layers": 3, "cross": "causal & same_document"})
