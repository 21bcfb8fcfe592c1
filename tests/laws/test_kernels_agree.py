"""Kernels agree: every mask × kernel × (full, prefill, decode) against dense, forward and
gradient.
"""

from itertools import product

import pytest
import torch
from torch import Tensor

from paribus.batch import BatchLayout
from paribus.errors import UnsupportedError
from paribus.masks import parse_rule
from paribus.model.kernels import AttentionMask, Kernel, ScoreChange, attend, choose_kernel
from paribus.model.kernels.centred_keys import centred_keys

MASKS = (
    "full",
    "causal",
    "reverse",
    "prefix",
    "same_side",
    "window(5)",
    "strided(3)",
    "same_document",
    "documents_so_far",
    "padding",
    "causal & padding",
    "prefix & padding",
    "causal & same_side",
    "causal & same_side & padding",
    "causal & same_document",
    "prefix & same_document & padding",
    "causal & (window(3) | strided(4))",
    "by_head(causal, reverse)",
    "by_head(reverse, causal, reverse)",
    "by_head(full, causal)",
    "by_head(causal, reverse) & padding",
    "by_head(prefix, window(4), strided(2))",
    "by_head(causal & same_side, prefix)",
)
CASES = ("full", "prefill", "decode")
PREFIXES = (0, 7, "by sequence")
PREFIXED = [
    (mask, prefix)
    for mask in MASKS
    for prefix in (PREFIXES if "prefix" in mask or "part" in mask else (0,))
]


def layouts(
    case: str, mask: str, prefix: int | str, length: int, device: str
) -> tuple[BatchLayout, BatchLayout]:
    """Queries and keys: the same positions; the last few after a cache; the newest alone."""
    n_sequences = 3
    stops = torch.tensor([[length // 2], [length], [3]], device=device)
    place = torch.arange(length, device=device)
    documents = (
        (place >= torch.tensor([[5], [length], [9]], device=device)).long()
        if "document" in mask
        else None
    )
    real = place < stops if "padding" in mask else None
    if real is not None:
        # left padding too: some causal rows see nothing
        real = real & (place != 0) | (stops == length)
    where = torch.tensor([4, 0, length], device=device) if prefix == "by sequence" else prefix
    assert not isinstance(where, str)
    start = {"full": 0, "prefill": length - 6, "decode": length - 1}[case]
    cut = slice(start, None)
    queries = BatchLayout(
        n_sequences,
        length - start,
        start,
        where,
        None if documents is None else documents[:, cut],
        None if real is None else real[:, cut],
    )
    keys = BatchLayout(n_sequences, length, 0, where, documents, real)
    return (keys, keys) if case == "full" else (queries, keys)


def answer(
    inputs: list[Tensor], upstream: Tensor, view: AttentionMask, kernel: Kernel, bias: Tensor | None
) -> list[Tensor]:
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    out = attend(*leaves, view, ScoreChange(0.31, bias), kernel)
    return [out, *torch.autograd.grad(out, leaves, upstream)]


def agree(
    mask: str,
    kernel: Kernel,
    case: str,
    prefix: int | str,
    length: int,
    d_head: int,
    device: str,
    dtype: torch.dtype,
) -> None:
    n_heads, n_kv_heads = 6, 2
    queries, keys = layouts(case, mask, prefix, length, device)
    view = AttentionMask.of(parse_rule(mask), queries, keys, n_heads, torch.device(device))
    generator = torch.Generator().manual_seed(length)
    shapes = [
        (3, n_heads, queries.length, d_head),
        *[(3, n_kv_heads, length, d_head)] * 2,
        (3, n_heads, queries.length, d_head),
    ]
    *inputs, upstream = (
        torch.randn(shape, generator=generator).to(device, dtype) for shape in shapes
    )
    # Laid out as projections give them: heads next to channels.
    inputs = [tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in inputs]
    try:
        assert choose_kernel(view, dtype, d_head, False, kernel) == kernel
    except UnsupportedError:
        with pytest.raises(UnsupportedError, match=f"kernel '{kernel}' does not support the mask"):
            answer(inputs, upstream, view, kernel, None)
        return
    got = answer(inputs, upstream, view, kernel, None)
    truth = answer([t.double() for t in inputs], upstream.double(), view, "dense", None)
    tolerance = 2e-5 if dtype == torch.float32 else 4e-2
    for mine, true in zip(got, truth, strict=True):
        assert mine.isfinite().all()
        assert (mine.double() - true).abs().max() <= tolerance * true.abs().max().clamp(min=1)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kernel", ["dense", "masked", "fused"])
@pytest.mark.parametrize(("mask", "prefix"), PREFIXED)
def test_every_kernel_agrees_with_dense(
    mask: str, kernel: Kernel, case: str, prefix: int | str
) -> None:
    agree(mask, kernel, case, prefix, length=13, d_head=5, device="cpu", dtype=torch.float32)


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kernel", ["dense", "masked", "fused", "flex"])
@pytest.mark.parametrize(("mask", "prefix"), PREFIXED)
def test_every_kernel_agrees_with_dense_on_cuda(
    mask: str, kernel: Kernel, case: str, prefix: int | str
) -> None:
    agree(mask, kernel, case, prefix, length=200, d_head=16, device="cuda", dtype=torch.bfloat16)


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ["masked", "fused", "flex"])
@pytest.mark.parametrize(
    "mask",
    [
        "causal",
        "prefix",
        "causal & same_side",
        "by_head(causal, reverse)",
        "causal & same_document",
    ],
)
def test_every_kernel_agrees_with_dense_on_cuda_in_float32(mask: str, kernel: Kernel) -> None:
    agree(mask, kernel, "full", 7, length=131, d_head=16, device="cuda", dtype=torch.float32)


FAR_BELOW = [
    *product(["full", "causal", "prefix", "by_head(causal, reverse)"], ["masked", "fused", "flex"]),
    *product(["causal & same_side"], ["masked", "flex"]),
]


@pytest.mark.gpu
@pytest.mark.parametrize("length", [96, 192, 200, 256])
@pytest.mark.parametrize(("mask", "kernel"), FAR_BELOW)
def test_gradients_are_finite_where_all_scores_are_far_below_zero(
    mask: str, length: int, kernel: Kernel
) -> None:
    queries, keys = layouts("full", mask, 64, length, "cuda")
    view = AttentionMask.of(parse_rule(mask), queries, keys, 6, torch.device("cuda"))
    *inputs, upstream = (
        torch.randn(3, 6, length, 64, device="cuda", dtype=torch.bfloat16) for _ in range(4)
    )
    inputs[0][..., 0], inputs[1][..., 0] = 1.0, -120 / 0.31
    got = answer(inputs, upstream, view, kernel, None)
    truth = answer([t.double() for t in inputs], upstream.double(), view, "dense", None)
    # The slope of a query's channel 0 is a sum of terms 400 times as large that cancel: bf16 leaves
    # nothing of it.
    got[1][..., 0] = got[1][..., 0].where(~got[1][..., 0].isfinite(), truth[1][..., 0].bfloat16())
    for mine, true in zip(got, truth, strict=True):
        assert mine.isfinite().all()
        assert (mine.double() - true).abs().max() <= 4e-2 * true.abs().max().clamp(min=1)


def test_centred_keys_give_the_same_answers_and_slopes() -> None:
    queries, keys = layouts("full", "prefix", 7, 13, "cpu")
    view = AttentionMask.of(parse_rule("prefix"), queries, keys, 6, torch.device("cpu"))
    *inputs, upstream = (torch.randn(3, 6, 13, 5, dtype=torch.float64) for _ in range(4))
    leaves = [tensor.requires_grad_() for tensor in inputs]
    out = attend(
        leaves[0], centred_keys(leaves[1] + 50.0, 7), leaves[2], view, ScoreChange(0.31), "dense"
    )
    got = [out, *torch.autograd.grad(out, leaves, upstream)]
    for mine, true in zip(got, answer(inputs, upstream, view, "dense", None), strict=True):
        torch.testing.assert_close(mine, true, atol=1e-12, rtol=1e-12)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "mask",
    [
        "causal",
        "prefix",
        "causal & same_side",
        "by_head(causal, reverse)",
        "window(5)",
        "causal & same_document",
    ],
)
def test_the_chosen_kernel_agrees_under_compilation(mask: str) -> None:
    queries, keys = layouts("full", mask, 64, 256, "cuda")
    view = AttentionMask.of(parse_rule(mask), queries, keys, 6, torch.device("cuda"))
    *inputs, upstream = (
        torch.randn(3, 6, 256, 64, device="cuda", dtype=torch.bfloat16) for _ in range(4)
    )

    def loss(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return attend(query, key, value, view, ScoreChange(0.125))

    leaves = [tensor.requires_grad_() for tensor in inputs]
    got = torch.compile(loss, dynamic=False)(*leaves)
    grads = torch.autograd.grad(got, leaves, upstream)
    true_leaves = [tensor.detach().double().requires_grad_() for tensor in inputs]
    true = attend(*true_leaves, view, ScoreChange(0.125), "dense")
    truth = [true, *torch.autograd.grad(true, true_leaves, upstream.double())]
    for mine, exact in zip([got, *grads], truth, strict=True):
        assert (mine.double() - exact).abs().max() <= 4e-2 * exact.abs().max().clamp(min=1)


@pytest.mark.parametrize("mask", ["causal", "full", "prefix & padding", "by_head(causal, reverse)"])
def test_masked_agrees_with_dense_under_a_score_bias(mask: str) -> None:
    queries, keys = layouts("full", mask, 7, 13, "cpu")
    view = AttentionMask.of(parse_rule(mask), queries, keys, 6, torch.device("cpu"))
    *inputs, upstream = (torch.randn(3, 6, 13, 5) for _ in range(4))
    bias = torch.randn(1, 6, 13, 13)
    for mine, true in zip(
        *(answer(inputs, upstream, view, kernel, bias) for kernel in ("masked", "dense")),
        strict=True,
    ):
        torch.testing.assert_close(mine, true, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("kernel", ["dense", "masked", pytest.param("flex", marks=pytest.mark.gpu)])
def test_a_row_that_sees_nothing_gives_zeros(kernel: Kernel) -> None:
    device = "cuda" if kernel == "flex" else "cpu"
    real = torch.tensor([[False, False, True, True, True]], device=device)
    layout = BatchLayout(1, 5, real_BT=real)
    view = AttentionMask.of(parse_rule("causal & padding"), layout, layout, 2, torch.device(device))
    inputs = [torch.randn(1, 2, 5, 16, device=device) for _ in range(3)]
    out, *grads = answer(inputs, torch.ones(1, 2, 5, 16, device=device), view, kernel, None)
    assert (out[:, :, :2] == 0).all()
    assert (out[:, :, 2:] != 0).all()
    assert all(grad.isfinite().all() for grad in grads)
    assert (grads[0][:, :, :2] == 0).all()
    assert (grads[2][:, :, :2] == 0).all()
