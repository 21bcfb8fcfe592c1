import pytest
import torch

from paribus.batch import BatchLayout
from paribus.model.attention import AttentionContext
from paribus.model.block import CrossSource, TransformerBlock
from paribus.model.experts import RoutedExperts
from paribus.model.forward import Forward
from paribus.model.kernels import AttentionMask
from paribus.spec import parse_architecture, resolve

B, T, D = 2, 5, 6
CPU = torch.device("cpu")


def _block(placement, encoder=False, **changes):
    given = {
        "n_vocab": 13,
        "max_length": 11,
        "d_model": D,
        "n_layers": 1,
        "placement": placement,
        "attention": {"kind": "multi_head", "n_heads": 3},
        **changes,
    }
    spec = resolve(parse_architecture({**given, "encoder": {"n_layers": 1}} if encoder else given))
    block = TransformerBlock(spec, spec.stack.layers[0])
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
    return spec.stack.layers[0], block


def _sight(rule, keys=None):
    layout = BatchLayout(B, T)
    return AttentionContext(AttentionMask.of(rule, layout, keys or layout, 3, CPU), None, None)


def _rows(length, seed):
    return torch.randn(B, length, D, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("encoder", [False, True])
@pytest.mark.parametrize("placement", ["pre", "post", "parallel"])
def test_norms_and_branches_stand_where_the_placement_says(placement, encoder):
    spec, block = _block(placement, encoder)
    sight, x = _sight(spec.mask), _rows(T, 5)
    source = _rows(7, 11) if encoder else None
    cross_sight = _sight(spec.cross, BatchLayout(B, 7)) if encoder else None
    crossed = CrossSource(cross_sight, source) if encoder else None

    def attention(h):
        return block.attention(h, sight, Forward())

    def cross(h):
        return block.cross(h, cross_sight, Forward(), source)

    if placement == "pre":
        expected = x + attention(block.attention_norm(x))
        expected = expected + cross(block.cross_norm(expected)) if encoder else expected
        expected = expected + block.feed_forward(block.feed_forward_norm(expected))
    elif placement == "post":
        expected = block.attention_norm(x + attention(x))
        expected = block.cross_norm(expected + cross(expected)) if encoder else expected
        expected = block.feed_forward_norm(expected + block.feed_forward(expected))
    else:
        n = block.attention_norm(x)
        expected = x + attention(n) + block.feed_forward(n) + (cross(n) if encoder else 0.0)
        assert block.feed_forward_norm is block.cross_norm is None
    out, load = block(x, sight, crossed, Forward())
    torch.testing.assert_close(out, expected)
    assert load is None


def test_a_block_without_source_leaves_its_cross_attention_out():
    # So a shared block serves the encoder too.
    spec, block = _block("pre", encoder=True)
    sight, x = _sight(spec.mask), _rows(T, 5)
    middle = x + block.attention(block.attention_norm(x), sight, Forward())
    expected = middle + block.feed_forward(block.feed_forward_norm(middle))
    torch.testing.assert_close(block(x, sight, None, Forward())[0], expected)


@pytest.mark.parametrize("compute", ["grouped", "gathered"])
def test_experts_take_the_feed_forwards_place_and_tell_their_load(compute, monkeypatch):
    spec, block = _block(
        "pre", feed_forward={"kind": "experts", "n_experts": 5, "n_active": 2, "d_expert": 7}
    )
    ran = []
    for name in ("_grouped", "_gathered"):
        true = getattr(RoutedExperts, name)
        monkeypatch.setattr(
            RoutedExperts,
            name,
            lambda *given, name=name, true=true: ran.append(name) or true(*given),
        )
    sight, x = _sight(spec.mask), _rows(T, 5)
    out, load = block(x, sight, None, Forward(compute=compute))
    assert ran == [f"_{compute}"]
    middle = x + block.attention(block.attention_norm(x), sight, Forward())
    answers, expected_load = block.feed_forward(block.feed_forward_norm(middle), None)
    torch.testing.assert_close(out, middle + answers)
    assert torch.equal(load.choices_BN, expected_load.choices_BN)


def test_padding_is_not_counted_in_the_load():
    spec, block = _block(
        "pre", feed_forward={"kind": "experts", "n_experts": 5, "n_active": 2, "d_expert": 7}
    )
    layout = BatchLayout(B, T, real_BT=torch.arange(T)[None] < torch.tensor([[3], [5]]))
    sight = AttentionContext(AttentionMask.of(spec.mask, layout, layout, 3, CPU), None, None)
    load = block(_rows(T, 5), sight, None, Forward())[1]
    assert load.tokens_B.tolist() == [3, 5]
    assert load.choices_BN.sum(1).tolist() == [6, 10]
