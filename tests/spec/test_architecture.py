import pytest
from pydantic import ValidationError

from paribus.masks import And, Causal, Full, Window
from paribus.spec import (
    Architecture,
    Dense,
    Encoder,
    Experts,
    LayerNorm,
    LearnedPositions,
    MultiHead,
    NoPositions,
    RotaryPositions,
)

SMALL = {
    "n_vocab": 11,
    "max_length": 7,
    "d_model": 6,
    "n_layers": 5,
    "attention": {"kind": "multi_head", "n_heads": 3},
}


def test_defaults_are_a_plain_causal_decoder():
    spec = Architecture.model_validate(SMALL)
    assert spec.attention == MultiHead(n_heads=3)
    assert spec.feed_forward == Dense(d_ff=None, activation="gelu", gated=False, bias=False)
    assert (spec.mask, spec.positions, spec.norm) == (
        Causal(),
        NoPositions(),
        LayerNorm(eps=1e-5, bias=True),
    )
    assert (spec.placement, spec.dropout, spec.encoder) == ("pre", 0.0, None)
    assert (spec.head.tied, spec.head.bias, spec.head.scale, spec.head.transform) == (
        True,
        False,
        1.0,
        None,
    )


def test_a_spec_cannot_be_changed():
    spec = Architecture.model_validate(SMALL)
    with pytest.raises(ValidationError, match="frozen"):
        spec.d_model = 13  # pyright: ignore[reportAttributeAccessIssue]


def test_a_kind_may_stand_for_its_table():
    spec = Architecture.model_validate({**SMALL, "positions": "rotary", "norm": "rms"})
    assert spec.positions == RotaryPositions(theta=10000.0)
    assert spec.norm.eps == 1e-6
    assert Architecture.model_validate(
        {**SMALL, "positions": {"kind": "learned"}}
    ).positions == LearnedPositions(offset=0)


def test_a_mask_is_read_from_text_and_written_as_text():
    spec = Architecture.model_validate({**SMALL, "mask": "causal & window(3)"})
    assert spec.mask == And(Causal(), Window(3))
    assert spec.model_dump(mode="json")["mask"] == "causal & window(3)"
    assert Architecture(**SMALL, mask=Window(3)).mask == Window(3)  # pyright: ignore[reportArgumentType]
    assert Encoder(n_layers=2).mask == Full()


def test_a_spec_written_as_json_is_read_back_equal():
    experts = Experts(n_experts=5, n_active=2, balance={"kind": "batch"})  # pyright: ignore[reportArgumentType]
    given = {
        **SMALL,
        "mask": "by_head(causal, window(2) | prefix)",
        "feed_forward": experts.model_dump(mode="json"),
    }
    spec = Architecture.model_validate(given)
    assert Architecture.model_validate(spec.model_dump(mode="json")) == spec


def test_whole_numbers_do_for_real_ones_but_not_the_other_way_round():
    assert Architecture.model_validate({**SMALL, "dropout": 0}).dropout == 0.0
    with pytest.raises(ValidationError, match="valid integer"):
        Architecture.model_validate({**SMALL, "n_layers": 5.0})


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 0.0, -1.0])
def test_scales_are_finite_and_positive(value):
    with pytest.raises(ValidationError, match=r"finite|greater than 0"):
        LayerNorm(eps=value)
