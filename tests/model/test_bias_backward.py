import pytest
import torch

from paribus.batch import BatchLayout
from paribus.masks import parse_rule
from paribus.model.kernels import AttentionMask, ScoreChange, attend, bias_backward


@pytest.mark.parametrize("scores", [1, 700, 2**20])
@pytest.mark.parametrize(
    ("mask", "n_biases"), [("full", 1), ("causal", 1), ("causal & padding", 1), ("full", 3)]
)
def test_a_bias_that_learns_has_the_gradient_of_the_definition(
    mask: str, n_biases: int, scores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bias_backward, "MAX_SCORES", scores)
    real = torch.arange(13) < torch.tensor([[13], [5], [1]]) if "padding" in mask else None
    layout = BatchLayout(3, 13, real_BT=real)
    view = AttentionMask.of(parse_rule(mask), layout, layout, 2, torch.device("cpu"))
    drawn = torch.Generator().manual_seed(scores)
    shapes = [(3, 2, 13, 5)] * 3 + [(n_biases, 2, 13, 13)]
    leaves = [
        torch.randn(shape, generator=drawn, dtype=torch.float64).requires_grad_()
        for shape in shapes
    ]
    query, key, value, bias = leaves
    upstream = torch.randn(3, 2, 13, 5, generator=drawn, dtype=torch.float64)
    wanted, got = (
        attend(query, key, value, view, ScoreChange(0.31, bias), kernel)
        for kernel in ("dense", "masked")
    )
    torch.testing.assert_close(got, wanted)
    for mine, theirs in zip(
        torch.autograd.grad(got, leaves, upstream),
        torch.autograd.grad(wanted, leaves, upstream),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs)


def test_scores_are_not_kept_for_a_bias_that_learns() -> None:
    kept: list[int] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.numel())
        return tensor

    layout = BatchLayout(7, 29)
    view = AttentionMask.of(parse_rule("full"), layout, layout, 2, torch.device("cpu"))
    query, key, value = (torch.randn(7, 2, 29, 3, requires_grad=True) for _ in range(3))
    bias = torch.randn(1, 2, 29, 29, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        attend(query, key, value, view, ScoreChange(1.0, bias))
    assert kept
    assert max(kept) < 7 * 2 * 29 * 29
