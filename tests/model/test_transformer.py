import math

import pytest
import torch
import torch.nn.functional as F
from tiny_model import random_tokens, tiny_architecture

from paribus.batch import Batch, BatchLayout
from paribus.errors import SpecError, UnsupportedError
from paribus.model import DropoutKey, build
from paribus.spec import load, parse_architecture, presets

SMALL = {
    "n_vocab": 13,
    "max_length": 11,
    "d_model": 6,
    "n_layers": 2,
    "attention": {"kind": "multi_head", "n_heads": 3},
}
TOKENS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
SOURCE = torch.tensor([[2, 7, 1, 8, 2, 8, 1], [3, 1, 4, 1, 5, 9, 2]])


def _model(seed=3, **changes):
    """A model whose every parameter is drawn anew, biases and gains too, so that each one
    matters.
    """
    model = build(parse_architecture({**SMALL, **changes}), seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
    return model


def _weights(model):
    return dict(model.named_parameters())


def _norm(w, path, x):
    return F.layer_norm(x, x.shape[-1:], w[f"{path}.weight"], w[f"{path}.bias"], 1e-5)


def _branch(w, path, x, read_from, visible):
    heads = []
    for h in range(3):
        q, k, v = (
            rows @ w[f"{path}.{name}.weight"][2 * h : 2 * h + 2].T
            for name, rows in (("query", x), ("key", read_from), ("value", read_from))
        )
        scores = (q @ k.transpose(-1, -2) / math.sqrt(2)).masked_fill(~visible, -math.inf)
        heads.append(scores.softmax(-1) @ v)
    return torch.cat(heads, -1) @ w[f"{path}.output.weight"].T


def _feed(w, path, x):
    inside = x @ w[f"{path}.up.weight"].T
    inside = inside * 0.5 * (1 + torch.erf(inside / math.sqrt(2)))
    return inside @ w[f"{path}.down.weight"].T


def _stacked(w, path, x, visible, blocks, source=None):
    for n in range(2):
        here = f"{blocks}.layers.{n}"
        normed = _norm(w, f"{here}.attention_norm", x)
        x = x + _branch(w, f"{here}.attention", normed, normed, visible)
        if source is not None:
            everything = torch.ones(x.shape[1], source.shape[1]).bool()
            x = x + _branch(
                w, f"{here}.cross", _norm(w, f"{here}.cross_norm", x), source, everything
            )
        x = x + _feed(w, f"{here}.feed_forward", _norm(w, f"{here}.feed_forward_norm", x))
    return _norm(w, f"{path}.final_norm", x)


def _triangle(n):
    return torch.ones(n, n).bool().tril()


# Whole models by formula


def test_a_decoder_equals_the_formula():
    model = _model(positions="learned")
    w = _weights(model)
    x = w["embedding.weight"][TOKENS] + w["stack.positions.weight"][:5]
    expected = _stacked(w, "stack", x, _triangle(5), "stack") @ w["embedding.weight"].T
    torch.testing.assert_close(model(TOKENS).logits_BTV, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("shared", [False, True])
def test_an_encoder_decoder_equals_the_formula(shared):
    model = _model(positions="learned", encoder={"n_layers": 2, "shared": shared})
    w = _weights(model)
    x = w["embedding.weight"][SOURCE] + w["encoder.positions.weight"][:7]
    source = _stacked(w, "encoder", x, torch.ones(7, 7).bool(), "stack" if shared else "encoder")
    x = w["embedding.weight"][TOKENS] + w["stack.positions.weight"][:5]
    expected = _stacked(w, "stack", x, _triangle(5), "stack", source) @ w["embedding.weight"].T
    out = model(Batch.of(TOKENS, source=SOURCE)).logits_BTV
    torch.testing.assert_close(out, expected, atol=1e-4, rtol=1e-4)


def test_shared_blocks_collect_the_gradients_of_both_stacks():
    shared = _model(encoder={"n_layers": 2, "shared": True})
    apart = _model(encoder={"n_layers": 2})
    ours, theirs = _weights(shared), _weights(apart)
    with torch.no_grad():
        for name, parameter in theirs.items():
            parameter.copy_(ours[name.replace("encoder.layers", "stack.layers")])
    for model in (shared, apart):
        model(Batch.of(TOKENS, source=SOURCE)).logits_BTV.square().sum().backward()
    assert not any(name.startswith("encoder.layers") for name in ours)
    for name, parameter in ours.items():
        twin = theirs.get(name.replace("stack.layers", "encoder.layers"))
        expected = theirs[name].grad
        if twin is not None and twin is not theirs[name]:
            expected = expected + twin.grad
        torch.testing.assert_close(parameter.grad, expected, atol=2e-3, rtol=1e-4)


# Embedding and head


def _around(model, tokens=TOKENS, **given):
    """The states a model's blocks leave, and its weights."""
    return model.hidden_states(Batch.of(tokens, **given)).states_BTD, _weights(model)


def test_a_tied_head_reads_the_words_table():
    model = _model()
    states, w = _around(model)
    assert "head.weight" not in w
    torch.testing.assert_close(model(TOKENS).logits_BTV, states @ w["embedding.weight"].T)


def test_an_untied_head_has_its_own_table_scale_and_bias():
    model = _model(head={"tied": False, "bias": True, "scale": 0.25})
    states, w = _around(model)
    expected = 0.25 * states @ w["head.weight"].T + w["head.bias"]
    torch.testing.assert_close(model(TOKENS).logits_BTV, expected)


def test_a_head_may_transform_the_states_first():
    model = _model(head={"transform": "relu", "bias": True, "scale": "rsqrt_d_model"})
    states, w = _around(model)
    inside = (states @ w["head.transform.weight"].T + w["head.transform.bias"]).clamp(min=0)
    normed = _norm(w, "head.norm", inside)
    expected = normed / math.sqrt(6) @ w["embedding.weight"].T + w["head.bias"]
    torch.testing.assert_close(model(TOKENS).logits_BTV, expected)


def _entered(model, segments=None, **given):
    """What a model's first block is given."""
    seen = []
    handle = model.stack.layers[0].register_forward_pre_hook(
        lambda module, inputs: seen.append(inputs[0])
    )
    model(Batch.of(TOKENS, **given).with_segments(segments))
    handle.remove()
    return seen[0], _weights(model)


def test_embeddings_are_scaled_before_anything_is_added():
    model = _model(
        embedding={"scale": "sqrt_d_model", "n_segments": 2, "norm": True}, positions="learned"
    )
    segments = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])
    entered, w = _entered(model, segments)
    added = w["segments.weight"][segments] + w["stack.positions.weight"][:5]
    whole = math.sqrt(6) * w["embedding.weight"][TOKENS] + added
    torch.testing.assert_close(entered, _norm(w, "stack.embedding_norm", whole))


def test_without_segments_every_token_is_of_the_first():
    model = _model(embedding={"n_segments": 3})
    entered, w = _entered(model)
    torch.testing.assert_close(entered, w["embedding.weight"][TOKENS] + w["segments.weight"][0])


def test_post_norm_stacks_have_no_final_norm():
    model = _model(placement="post")
    assert model.stack.final_norm is None
    assert "stack.final_norm.weight" not in _weights(model)


# Layout


def test_given_positions_are_read_in_place_of_the_order():
    model = _model(positions="learned", mask="full")
    order = torch.tensor([4, 2, 0, 1, 3])
    shuffled = model(Batch.of(TOKENS[:, order], positions_BT=order.expand(2, 5))).logits_BTV
    torch.testing.assert_close(shuffled, model(TOKENS).logits_BTV[:, order], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["rotary", "alibi", "relative_bias", "sinusoidal"])
def test_every_kind_of_position_reads_given_positions(kind):
    model = _model(positions=kind, mask="full")
    order = torch.tensor([4, 2, 0, 1, 3])
    shuffled = model(Batch.of(TOKENS[:, order], positions_BT=order.expand(2, 5))).logits_BTV
    torch.testing.assert_close(shuffled, model(TOKENS).logits_BTV[:, order], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(model(TOKENS[:, order]).logits_BTV, shuffled, atol=1e-3)


def test_a_batch_may_start_later():
    model = _model(positions="learned")
    later = Batch(TOKENS, BatchLayout(2, 5, start=4))
    given = Batch.of(TOKENS, positions_BT=torch.arange(4, 9).expand(2, 5))
    torch.testing.assert_close(model(later).logits_BTV, model(given).logits_BTV)


def test_a_prefix_is_counted_from_place_0_wherever_the_batch_starts():
    model, reference = (
        build(parse_architecture({**SMALL, "mask": "prefix"}), kernel=kernel)
        for kernel in ("auto", "dense")
    )
    batch = Batch(TOKENS, BatchLayout(2, 5, start=2, prefix=4))
    torch.testing.assert_close(model(batch).logits_BTV, reference(batch).logits_BTV)
    seeing = Batch.of(TOKENS, prefix=2)  # of places 2–6 those below 4 are the prefix
    torch.testing.assert_close(model(batch).logits_BTV, model(seeing).logits_BTV)


def test_padding_changes_nothing_for_real_tokens():
    model = _model(mask="full", positions="learned")
    padded = torch.cat([TOKENS, torch.full((2, 2), 12)], 1)
    real = torch.arange(7).expand(2, 7) < 5
    out = model(Batch.of(padded, real_BT=real)).logits_BTV
    torch.testing.assert_close(out[:, :5], model(TOKENS).logits_BTV, atol=1e-5, rtol=1e-5)


def test_packed_documents_do_not_see_each_other():
    model = _model(mask="causal & same_document", positions="learned")
    documents = torch.tensor([[0, 0, 1, 1, 1]] * 2)
    positions = torch.tensor([[0, 1, 0, 1, 2]] * 2)
    packed = model(Batch.of(TOKENS, documents_BT=documents, positions_BT=positions)).logits_BTV
    apart = torch.cat([model(TOKENS[:, :2]).logits_BTV, model(TOKENS[:, 2:]).logits_BTV], 1)
    torch.testing.assert_close(packed, apart, atol=1e-5, rtol=1e-5)


def test_packed_documents_read_their_own_source():
    model = _model(
        mask="causal & same_document", encoder={"n_layers": 2, "mask": "full & same_document"}
    )
    source = Batch.of(SOURCE, documents_BT=torch.tensor([[0, 0, 0, 1, 1, 1, 1]] * 2))
    documents = torch.tensor([[0, 0, 1, 1, 1]] * 2)
    packed = model(Batch.of(TOKENS, documents_BT=documents, source=source)).logits_BTV
    apart = [
        model(Batch.of(TOKENS[:, :2], source=SOURCE[:, :3])).logits_BTV,
        model(Batch.of(TOKENS[:, 2:], source=SOURCE[:, 3:])).logits_BTV,
    ]
    torch.testing.assert_close(packed, torch.cat(apart, 1), atol=1e-5, rtol=1e-5)


def test_source_padding_is_not_read():
    model = _model(encoder={"n_layers": 2})
    source = Batch.of(SOURCE, real_BT=torch.arange(7).expand(2, 7) < 4)
    out = model(Batch.of(TOKENS, source=source)).logits_BTV
    short = model(Batch.of(TOKENS, source=SOURCE[:, :4])).logits_BTV
    torch.testing.assert_close(out, short, atol=1e-5, rtol=1e-5)


# Refusals


def test_a_missing_or_needless_source_is_refused():
    with pytest.raises(
        SpecError,
        match=r"^batch.source is missing, but the model has an encoder; give Batch.of\(tok",
    ):
        _model(encoder={"n_layers": 2})(TOKENS)
    with pytest.raises(
        SpecError, match=r"^batch.source is given, but the model has no encoder; leave it out$"
    ):
        _model()(Batch.of(TOKENS, source=SOURCE))


@pytest.mark.parametrize("positions", ["none", "learned", "rotary"])
def test_nothing_is_read_past_max_length(positions):
    model = _model(positions=positions)
    model(torch.zeros(1, 11, dtype=torch.long))
    with pytest.raises(
        UnsupportedError, match=r"^the batch reaches position 12, past max_length 11; cut it there$"
    ):
        model(torch.zeros(1, 12, dtype=torch.long))
    with pytest.raises(UnsupportedError, match=r"reaches position 12, past max_length 11"):
        model(Batch(TOKENS, BatchLayout(2, 5, start=7)))


def test_a_source_past_max_length_is_refused_too():
    with pytest.raises(UnsupportedError, match=r"reaches position 12, past max_length 11"):
        _model(encoder={"n_layers": 2})(
            Batch.of(TOKENS[:1], source=torch.zeros(1, 12, dtype=torch.long))
        )


def test_segments_are_refused_where_there_are_none():
    with pytest.raises(
        SpecError,
        match=r"^batch.segments_BT is given, but embedding.n_segments is 0; leave it out$",
    ):
        _model()(Batch.of(TOKENS).with_segments(torch.zeros_like(TOKENS)))


def test_a_kernel_that_cannot_do_the_mask_is_refused():
    model = build(parse_architecture({**SMALL, "mask": "window(3)"}), kernel="fused")
    with pytest.raises(
        UnsupportedError, match=r"^kernel 'fused' does not support the mask window\(3\) on cpu: "
    ):
        model(TOKENS)


# Loads and state


EXPERTS = {
    "kind": "experts",
    "n_experts": 5,
    "n_active": 2,
    "d_expert": 7,
    "router": {"bias_rate": 0.01},
}


def test_loads_are_named_by_their_layer():
    model = _model(feed_forward={**EXPERTS, "n_dense_layers": 1}, encoder={"n_layers": 2})
    loads = model(Batch.of(TOKENS, source=SOURCE)).loads
    assert set(loads) == {"encoder.layers.1", "stack.layers.1"}
    assert loads["encoder.layers.1"].tokens_B.tolist() == [7, 7]
    assert loads["stack.layers.1"].tokens_B.tolist() == [5, 5]
    assert _model()(TOKENS).loads == {}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("changes", [{}, {"feed_forward": EXPERTS}, {"encoder": {"n_layers": 2}}])
def test_a_forward_pass_changes_no_state(changes, training):
    model = _model(dropout=0.5, **changes).train(training)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    generator = torch.random.get_rng_state()
    batch = Batch.of(TOKENS, source=SOURCE if "encoder" in changes else None)
    first = model(batch, DropoutKey(1, 2)).logits_BTV
    assert torch.equal(model(batch, DropoutKey(1, 2)).logits_BTV, first)
    assert torch.equal(torch.random.get_rng_state(), generator)
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    "changes", [{}, {"feed_forward": EXPERTS}, {"mask": "by_head(causal, reverse, full)"}]
)
def test_several_models_run_at_once_by_stacking_their_parameters(changes):
    models = [
        build(
            parse_architecture({**SMALL, **changes}), seed=seed, kernel="dense", compute="gathered"
        )
        for seed in (1, 2, 3)
    ]
    parameters, buffers = torch.func.stack_module_state(models)

    def one(p, b):
        return torch.func.functional_call(models[0], (p, b), (TOKENS,)).logits_BTV

    together = torch.vmap(one)(parameters, buffers)
    for model, out in zip(models, together, strict=True):
        torch.testing.assert_close(out, model(TOKENS).logits_BTV, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", presets())
def test_every_preset_runs_forward_and_back_at_a_small_size(name):
    spec = load(name)
    changes = {"encoder.n_layers": 2} if spec.encoder else {}
    if spec.feed_forward.kind == "experts":
        changes |= {"feed_forward.d_expert": 11, "feed_forward.n_experts": 8}
    if name == "deepseek-v3":
        changes |= {
            "feed_forward.n_dense_layers": 1,
            "feed_forward.n_active": 3,
            "feed_forward.d_ff": 13,
        }
        changes |= {
            "attention.d_latent": 5,
            "attention.d_query_latent": 7,
            "attention.d_content": 3,
        }
        changes |= {"attention.d_rotary": 2, "attention.d_value": 5}
    if name == "mixtral":
        changes |= {"n_kv_heads": 2}
    model = build(
        load(name, n_vocab=13, max_length=11, d_model=24, n_layers=2, n_heads=4, changes=changes)
    )
    out = model(Batch.of(TOKENS, source=SOURCE if spec.encoder else None))
    assert out.logits_BTV.shape == (2, 5, 13)
    out.logits_BTV.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_documents_on_one_side_alone_are_refused():
    spec = tiny_architecture("t5", {"mask": "causal & same_document"})
    given = Batch.of(
        random_tokens(1, 3),
        documents_BT=torch.zeros(1, 3, dtype=torch.long),
        source=random_tokens(1, 5),
    )
    with pytest.raises(SpecError, match="must both have documents_BT, or neither"):
        build(spec)(given)


def test_a_wanted_kernel_serves_cross_attention_too():
    spec = tiny_architecture("t5", {"positions": "none"})
    real = torch.ones(1, 5, dtype=torch.bool)
    given = Batch.of(random_tokens(1, 3), source=Batch.of(random_tokens(1, 5), real_BT=real))
    with pytest.raises(UnsupportedError, match="kernel 'fused' does not support the mask padding"):
        build(spec, kernel="fused")(given)


def test_documents_no_mask_asks_about_are_refused():
    given = Batch.of(random_tokens(1, 3), documents_BT=torch.zeros(1, 3, dtype=torch.long))
    with pytest.raises(
        SpecError, match="the mask causal does not keep documents apart; add '& same_document'"
    ):
        build(tiny_architecture("gpt2"))(given)
