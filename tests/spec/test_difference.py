import pytest

from paribus.spec import Architecture, Difference, architecture_fingerprint, difference, resolve

SMALL = {
    "n_vocab": 11,
    "max_length": 7,
    "d_model": 6,
    "n_layers": 6,
    "attention": {"kind": "multi_head", "n_heads": 3},
}


def _resolved(**changes):
    return resolve(Architecture.model_validate({**SMALL, **changes}))


def test_a_spec_does_not_differ_from_itself():
    assert difference(_resolved(), _resolved()) == ()


def test_a_changed_value_is_named_by_its_path():
    assert difference(_resolved(), _resolved(dropout=0.1)) == (Difference("dropout", 0.0, 0.1),)
    found = difference(_resolved(), _resolved(head={"tied": False}, n_vocab=13))
    assert found == (Difference("n_vocab", 11, 13), Difference("head.tied", True, False))


def test_the_same_change_in_neighbouring_layers_is_one_entry():
    assert difference(_resolved(), _resolved(mask="full")) == (
        Difference("stack.layers.0-5.mask", "causal", "full"),
    )
    assert difference(_resolved(), _resolved(mask="by_layer(full, causal)")) == (
        Difference("stack.layers.0-2.mask", "causal", "full"),
    )


def test_layers_that_are_not_neighbours_are_listed():
    assert difference(_resolved(), _resolved(mask="alternate(causal, full)")) == (
        Difference("stack.layers.1,3,5.mask", "causal", "full"),
    )
    found = difference(
        _resolved(), _resolved(mask="by_layer(full, full, causal, full, full, full)")
    )
    assert found == (Difference("stack.layers.0-1,3-5.mask", "causal", "full"),)


def test_different_changes_are_kept_apart():
    assert difference(_resolved(), _resolved(mask="by_layer(full, window(2), causal)")) == (
        Difference("stack.layers.0-1.mask", "causal", "full"),
        Difference("stack.layers.2-3.mask", "causal", "window(2)"),
    )


def test_layers_only_one_has_are_absent_in_the_other():
    (found,) = difference(_resolved(), _resolved(n_layers=4))
    assert (found.path, found.right) == ("stack.layers.4-5", "absent")
    assert found.left["mask"] == "causal"
    (found,) = difference(_resolved(n_layers=4), _resolved())
    assert (found.path, found.left) == ("stack.layers.4-5", "absent")


def test_a_table_of_another_kind_is_one_entry():
    found = difference(_resolved(norm="layer"), _resolved(norm="rms"))
    assert found == (
        Difference(
            "norm", {"kind": "layer", "eps": 1e-5, "bias": True}, {"kind": "rms", "eps": 1e-6}
        ),
    )


def test_an_encoder_is_there_or_not():
    found = {
        entry.path: entry for entry in difference(_resolved(), _resolved(encoder={"n_layers": 5}))
    }
    assert set(found) == {"stack.layers.0-5.cross", "encoder"}
    assert found["stack.layers.0-5.cross"].left is None
    assert found["encoder"].left is None


def test_the_same_change_in_encoder_and_stack_is_two_entries():
    without = _resolved(encoder={"n_layers": 6})
    with_bias = _resolved(
        encoder={"n_layers": 6}, attention={"kind": "multi_head", "n_heads": 3, "bias": True}
    )
    assert difference(without, with_bias) == (
        Difference("stack.layers.0-5.attention.bias", False, True),
        Difference("encoder.layers.0-5.attention.bias", False, True),
    )


SAME = [
    ({}, {}),
    ({"mask": "by_layer(causal, causal)"}, {"mask": "causal"}),
    ({"mask": "by_head(causal, causal, causal)"}, {"mask": "causal"}),
    (
        {"mask": "by_layer(full, causal)"},
        {"mask": "by_layer(full, full, full, causal, causal, causal)"},
    ),
    ({"mask": "causal & (window(2) & padding)"}, {"mask": "(causal & window(2)) & padding"}),
    ({"attention": {"kind": "multi_head", "n_heads": 3, "n_kv_heads": 3}}, {}),
    ({"attention": {"kind": "multi_head", "n_heads": 3, "d_head": 2}}, {}),
    ({"attention": {"kind": "multi_head", "n_heads": 3, "score_scale": 2**-0.5}}, {}),
    ({"feed_forward": {"kind": "dense", "d_ff": 24}}, {}),
    ({"positions": {"kind": "rotary", "theta": 10000}}, {"positions": "rotary"}),
    ({"embedding": {"scale": "sqrt_d_model"}}, {"embedding": {"scale": 6**0.5}}),
]


@pytest.mark.parametrize(("left", "right"), SAME)
def test_two_ways_to_say_one_model_have_one_fingerprint(left, right):
    assert architecture_fingerprint(_resolved(**left)) == architecture_fingerprint(
        _resolved(**right)
    )
    assert difference(_resolved(**left), _resolved(**right)) == ()


def test_different_models_have_different_fingerprints():
    changes = [
        {},
        {"n_vocab": 13},
        {"max_length": 11},
        {"d_model": 12},
        {"n_layers": 5},
        {"mask": "window(2)"},
        {"attention": {"kind": "multi_head", "n_heads": 3, "n_kv_heads": 1}},
        {"feed_forward": {"kind": "dense", "activation": "relu"}},
        {"positions": "learned"},
        {"norm": "rms"},
        {"placement": "post"},
        {"dropout": 0.1},
        {"init": "fan_in"},
        {"encoder": {"n_layers": 6}},
        {"encoder": {"n_layers": 6, "shared": True}},
    ]
    specs = [_resolved(**change) for change in changes]
    assert len({architecture_fingerprint(spec) for spec in specs}) == len(specs)
    assert all(difference(specs[0], other) for other in specs[1:])


def test_a_fingerprint_is_64_hex_digits_and_lasts():
    assert len(architecture_fingerprint(_resolved())) == 64
    assert set(architecture_fingerprint(_resolved())) <= set("0123456789abcdef")
