import re
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32

from paribus.batch import BatchLayout
from paribus.errors import SpecError, UnsupportedError
from paribus.masks import Window, parse_rule
from paribus.model.kernels import AttentionMask, ScoreChange, attend, choose_kernel, parse_kernel
from paribus.model.kernels import dispatch as choice_module
from paribus.model.kernels.fused import fused
from paribus.model.kernels.materialised_mask import dense, masked
from paribus.model.kernels.prefix_join import _join

B, H, T, E = 2, 4, 7, 5
WHOLE = BatchLayout(B, T, prefix=3)
RAGGED = BatchLayout(B, T, prefix=torch.tensor([2, 3]))
PADDED = BatchLayout(B, T, prefix=3, real_BT=torch.arange(T)[None] < torch.tensor([[3], [7]]))
PACKED = BatchLayout(B, T, documents_BT=torch.arange(T).expand(B, T) // 4)
LATER = BatchLayout(B, T, start=2, prefix=3)
NEWEST, SOME = BatchLayout(B, 1, start=T - 1), BatchLayout(B, 2, start=T - 2)


def _view(rule, queries=WHOLE, keys=None, device="cpu"):
    return AttentionMask.of(parse_rule(rule), queries, keys or queries, H, torch.device(device))


CHOICES = [
    # rule, queries, keys: on the CPU; on CUDA in float32 and in bfloat16 with heads of 64
    ("full", WHOLE, None, "fused", "fused", "fused"),
    ("causal", WHOLE, None, "fused", "fused", "fused"),
    ("causal & padding", WHOLE, None, "fused", "fused", "fused"),
    ("reverse", WHOLE, None, "fused", "fused", "fused"),
    ("prefix", WHOLE, None, "fused", "flex", "fused"),
    ("prefix", BatchLayout(B, T), None, "fused", "fused", "fused"),  # no prefix: causal
    ("prefix", RAGGED, None, "masked", "flex", "flex"),
    ("prefix", LATER, None, "masked", "flex", "flex"),
    ("causal", LATER, None, "fused", "fused", "fused"),
    ("same_side", WHOLE, None, "masked", "flex", "flex"),
    ("causal & same_side", WHOLE, None, "masked", "flex", "flex"),
    ("causal & same_side", BatchLayout(B, T), None, "fused", "fused", "fused"),  # no prefix: causal
    ("causal & same_side", RAGGED, None, "masked", "flex", "flex"),
    ("causal & same_side", LATER, None, "masked", "flex", "flex"),
    ("causal & same_side & padding", PADDED, None, "masked", "flex", "flex"),
    (
        "causal & same_side",
        BatchLayout(B, 1, start=T - 1, prefix=3),
        WHOLE,
        "masked",
        "flex",
        "flex",
    ),
    ("window(3)", WHOLE, None, "masked", "flex", "flex"),
    ("causal & window(3)", WHOLE, None, "masked", "flex", "flex"),
    ("strided(2)", WHOLE, None, "masked", "flex", "flex"),
    ("causal | strided(2)", WHOLE, None, "masked", "flex", "flex"),
    ("causal & padding", PADDED, None, "masked", "flex", "flex"),
    ("causal & same_document", PACKED, None, "masked", "flex", "flex"),
    ("by_head(causal, reverse)", WHOLE, None, "fused", "fused", "fused"),
    (
        "by_head(causal, full)",
        WHOLE,
        None,
        "fused",
        "flex",
        "flex",
    ),  # on CUDA heads are never cut apart
    ("by_head(causal, reverse, reverse, causal)", WHOLE, None, "fused", "fused", "fused"),
    ("by_head(causal, prefix)", WHOLE, None, "fused", "flex", "flex"),
    ("by_head(causal, window(3))", WHOLE, None, "masked", "flex", "flex"),
    ("causal", NEWEST, WHOLE, "fused", "fused", "fused"),  # a single newest query sees all
    ("causal", SOME, WHOLE, "masked", "fused", "fused"),
    ("full", SOME, WHOLE, "fused", "fused", "fused"),
    ("reverse", NEWEST, WHOLE, "masked", "flex", "flex"),
    ("prefix", NEWEST, WHOLE, "fused", "fused", "fused"),
    ("by_head(causal, full)", NEWEST, WHOLE, "fused", "flex", "flex"),
]


@pytest.mark.parametrize(("rule", "queries", "keys", "on_cpu", "in_single", "in_half"), CHOICES)
def test_the_kernel_follows_from_rule_shape_precision_and_device(
    rule, queries, keys, on_cpu, in_single, in_half
):
    assert choose_kernel(_view(rule, queries, keys), float32, 64, has_bias=False) == on_cpu
    on_cuda = _view(rule, queries, keys, "cuda")
    assert choose_kernel(on_cuda, float32, 64, has_bias=False) == in_single
    assert (
        choose_kernel(on_cuda, bfloat16, 64, has_bias=False)
        == choose_kernel(on_cuda, float16, 64, has_bias=False)
        == in_half
    )


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(
    "rule", ["full", "causal", "prefix", "window(3)", "by_head(causal, reverse)"]
)
def test_a_bias_needs_the_whole_mask(rule, device):
    assert choose_kernel(_view(rule, device=device), bfloat16, 64, has_bias=True) == "masked"


def test_a_prefix_is_joined_on_cuda_only_for_heads_of_a_multiple_of_8():
    assert choose_kernel(_view("prefix", device="cuda"), bfloat16, 72, has_bias=False) == "fused"
    assert choose_kernel(_view("prefix", device="cuda"), bfloat16, 60, has_bias=False) == "flex"


def test_a_text_that_grows_waits_for_no_compiler_unless_that_is_asked_for():
    growing = replace(_view("window(3)", SOME, WHOLE, "cuda"), is_passing=True)
    assert choose_kernel(growing, bfloat16, 64, has_bias=False) == "masked"
    assert choose_kernel(growing, bfloat16, 64, has_bias=False, kernel="flex") == "flex"


def test_the_last_queries_after_a_prefix_are_fused_on_cuda():
    after, before = BatchLayout(B, 4, start=3, prefix=3), BatchLayout(B, 5, start=2, prefix=3)
    assert choose_kernel(_view("prefix", after, WHOLE, "cuda"), float32, 64, False) == "fused"
    assert choose_kernel(_view("prefix", before, WHOLE, "cuda"), float32, 64, False) == "flex"


def test_without_cuda_or_cpu_a_prefix_is_masked():
    assert choose_kernel(_view("prefix", device="mps"), float32, 64, has_bias=False) == "masked"
    assert choose_kernel(_view("causal", device="mps"), float32, 64, has_bias=False) == "fused"


@pytest.mark.parametrize("wanted", ["dense", "masked", "fused"])
def test_a_wanted_kernel_is_used_where_it_can(wanted):
    assert choose_kernel(_view("causal"), float32, 64, has_bias=False, kernel=wanted) == wanted


REFUSED = [
    (
        "window(3)",
        WHOLE,
        "cpu",
        False,
        "fused",
        (
            "kernel 'fused' does not support the mask window(3) on cpu: it is not made of full"
            " and causal"
            " attention over the same positions; use dense, masked or auto"
        ),
    ),
    (
        "causal",
        WHOLE,
        "cpu",
        True,
        "fused",
        (
            "kernel 'fused' does not support the mask causal on cpu: it adds no bias to the"
            " scores; use"
            " dense, masked or auto"
        ),
    ),
    (
        "causal",
        WHOLE,
        "cpu",
        False,
        "flex",
        (
            "kernel 'flex' does not support the mask causal on cpu: it trains on CUDA alone; use"
            " dense,"
            " masked, fused or auto"
        ),
    ),
    (
        "causal",
        WHOLE,
        "cuda",
        True,
        "flex",
        (
            "kernel 'flex' does not support the mask causal on cuda: it adds no bias to the"
            " scores; use"
            " dense, masked or auto"
        ),
    ),
    (
        "by_head(causal, full)",
        NEWEST,
        "cuda",
        False,
        "fused",
        (
            "kernel 'fused' does not support the mask by_head(causal, full) on cuda: it would"
            " cut the"
            " heads apart, which cuDNN does not do right; use dense, masked, flex or auto"
        ),
    ),
]


@pytest.mark.parametrize(("rule", "queries", "device", "biased", "wanted", "message"), REFUSED)
def test_a_wanted_kernel_that_cannot_is_refused_with_those_that_can(
    rule, queries, device, biased, wanted, message
):
    view = _view(rule, queries, WHOLE, device)
    with pytest.raises(UnsupportedError, match=f"^{re.escape(message)}$"):
        choose_kernel(view, bfloat16, 64, biased, wanted)


def test_kernels_are_known_by_name():
    assert [parse_kernel(name) for name in ("auto", "dense", "masked", "fused", "flex")]
    with pytest.raises(
        SpecError, match=r"^kernel is 'flash'; use one of auto, dense, masked, fused, flex$"
    ):
        parse_kernel("flash")


# What runs is what was chosen, and it is attention


def _inputs(queries, keys, n_kv_heads=H):
    generator = torch.Generator().manual_seed(3)
    return (
        torch.randn(B, H, queries.length, E, generator=generator),
        torch.randn(B, n_kv_heads, keys.length, E, generator=generator),
        torch.randn(B, n_kv_heads, keys.length, E, generator=generator),
    )


def _plainly(query, key, value, visible, scale, bias=None):
    """Softmax over the visible keys alone, one query at a time; zeros where there are none."""
    out = torch.zeros(*query.shape[:3], value.shape[-1])
    visible = visible.expand(*query.shape[:3], key.shape[2])
    for b in range(query.shape[0]):
        for h in range(query.shape[1]):
            for t in range(query.shape[2]):
                seen = visible[b, h, t].nonzero().flatten()
                if len(seen):
                    scores = key[b, h, seen] @ query[b, h, t] * scale
                    scores = scores if bias is None else scores + bias[0, h, t, seen]
                    out[b, h, t] = scores.softmax(0) @ value[b, h, seen]
    return out


@pytest.mark.parametrize(("rule", "queries", "keys", "on_cpu"), [choice[:4] for choice in CHOICES])
def test_on_the_cpu_the_chosen_kernel_runs_and_equals_the_formula(
    rule, queries, keys, on_cpu, monkeypatch
):
    ran = []
    for name in ("dense", "masked", "fused", "flex"):
        true = getattr(choice_module, name)
        monkeypatch.setattr(
            choice_module,
            name,
            lambda *given, name=name, true=true: ran.append(name) or true(*given),
        )
    view = _view(rule, queries, keys)
    query, key, value = _inputs(queries, keys or queries)
    expected = _plainly(query, key, value, view.dense_mask, 0.3)
    for wanted in ("auto", "dense", "masked"):
        torch.testing.assert_close(
            attend(query, key, value, view, ScoreChange(0.3), wanted), expected
        )
    assert ran == [on_cpu, "dense", "masked"]


@pytest.mark.parametrize("kernel", ["dense", "masked"])
def test_a_bias_is_added_to_the_scores(kernel):
    view = _view("causal & padding", PADDED)
    query, key, value = _inputs(PADDED, PADDED)
    bias = torch.randn(1, H, T, T, generator=torch.Generator().manual_seed(5))
    expected = _plainly(query, key, value, view.dense_mask, 0.3, bias)
    torch.testing.assert_close(
        attend(query, key, value, view, ScoreChange(0.3, bias), kernel), expected
    )


def test_key_value_heads_serve_neighbouring_query_heads():
    view = _view("causal")
    query, key, value = _inputs(WHOLE, WHOLE, n_kv_heads=2)
    spread = [0, 0, 1, 1]
    expected = _plainly(query, key[:, spread], value[:, spread], view.dense_mask, 0.3)
    for kernel in ("dense", "masked", "fused"):
        torch.testing.assert_close(
            attend(query, key, value, view, ScoreChange(0.3), kernel), expected
        )


BLIND = BatchLayout(B, T, real_BT=torch.stack([torch.zeros(T).bool(), torch.arange(T) >= 3]))


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("kernel", [dense, masked])
def test_a_query_that_sees_nothing_gives_zeros_and_no_gradient(kernel, biased):
    view = _view("causal & padding", BLIND)
    query, key, value = (tensor.requires_grad_() for tensor in _inputs(BLIND, BLIND))
    bias = torch.randn(1, H, T, T, generator=torch.Generator().manual_seed(5)) if biased else None
    out = kernel(query, key, value, view, 0.3, bias)
    assert torch.equal(out[0], torch.zeros(H, T, E))
    assert torch.equal(out[1, :, :3], torch.zeros(H, 3, E))
    assert (out[1, :, 3:] != 0).all()
    gradients = torch.autograd.grad(out.square().sum(), (query, key, value))
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert all(torch.equal(gradient[0], torch.zeros(H, T, E)) for gradient in gradients)


@pytest.mark.parametrize("biased", [False, True])
def test_no_blind_row_reaches_sdpa_whose_backends_disagree_on_it(biased, monkeypatch):
    masks = []
    true = F.scaled_dot_product_attention

    def spy(*given, attn_mask, scale):
        masks.append(attn_mask if attn_mask.dtype == torch.bool else attn_mask.isfinite())
        return true(*given, attn_mask=attn_mask, scale=scale)

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    bias = torch.zeros(1, H, T, T) if biased else None
    masked(*_inputs(BLIND, BLIND), _view("causal & padding", BLIND), 0.3, bias)
    assert [bool(mask.any(-1).all()) for mask in masks] == [True]


def test_queries_beyond_the_keys_give_zeros_where_they_see_none():
    queries, keys = BatchLayout(B, 3, start=T), BatchLayout(B, T)
    view = _view("window(2)", queries, keys)
    query, key, value = _inputs(queries, keys)
    for kernel in (dense, masked):
        out = kernel(query, key, value, view, 0.3, None)
        torch.testing.assert_close(out, _plainly(query, key, value, view.dense_mask, 0.3))
        assert torch.equal(out[:, :, 1:], torch.zeros(B, H, 2, E))


def test_the_whole_sequence_may_be_the_prefix():
    layout = BatchLayout(B, T, prefix=T)
    view = _view("prefix", layout)
    query, key, value = _inputs(layout, layout)
    everything = torch.ones(T, T).bool()[None, None]
    torch.testing.assert_close(
        fused(query, key, value, view, 0.3), _plainly(query, key, value, everything, 0.3)
    )


def test_fused_cannot_be_asked_for_what_is_not_made_of_triangles():
    view = _view("window(3)")
    with pytest.raises(AssertionError, match=r"^window\(3\) is not fusible$"):
        fused(*_inputs(WHOLE, WHOLE), view, 0.3)
    assert view.head_rules == (Window(3),)


def test_two_answers_are_joined_by_their_log_sum_exp():
    """Attention over keys 0–2 joined with attention over 3–6 is attention over all: the brick
    of the CUDA prefix.
    """
    query, key, value = _inputs(WHOLE, WHOLE)

    def part(queries, keys):
        scores = query[:, :, queries] @ key[:, :, keys].transpose(-1, -2) * 0.3
        return scores.softmax(-1) @ value[:, :, keys], scores.logsumexp(-1, keepdim=True)

    out, logsumexp = part(slice(None), slice(0, 3))
    rest, rest_logsumexp = part(slice(3, None), slice(3, None))
    _join(out, logsumexp, rest, rest_logsumexp, 3)
    whole, whole_logsumexp = part(slice(None), slice(None))
    torch.testing.assert_close(out[:, :, 3:], whole[:, :, 3:])
    torch.testing.assert_close(logsumexp[:, :, 3:], whole_logsumexp[:, :, 3:])
    torch.testing.assert_close(out[:, :, :3], part(slice(0, 3), slice(0, 3))[0])


def test_narrow_heads_are_too_narrow_for_flex():
    view = _view("window(3)", WHOLE, WHOLE, "cuda")
    assert choose_kernel(view, bfloat16, 16, has_bias=False) == "flex"
    assert choose_kernel(view, bfloat16, 8, has_bias=False) == "masked"
    with pytest.raises(UnsupportedError, match="it needs heads of 16 or more, not 8"):
        choose_kernel(view, bfloat16, 8, has_bias=False, kernel="flex")
