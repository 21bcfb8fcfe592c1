import math

import pytest
import torch
import torch.nn.functional as F

from paribus.model.norm import Norm
from paribus.spec import LayerNorm, RMSNorm


def _filled(norm):
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.copy_(
                torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3))
            )
    return norm


@pytest.mark.parametrize("bias", [True, False])
def test_layer_norm_takes_off_the_mean_and_divides_by_the_deviation(bias):
    norm = _filled(Norm(7, LayerNorm(eps=0.1, bias=bias)))
    rows = torch.randn(2, 3, 7, generator=torch.Generator().manual_seed(5))
    out = norm(rows)
    for row, got in zip(rows.view(-1, 7).tolist(), out.view(-1, 7).tolist(), strict=True):
        mean = sum(row) / 7
        deviation = math.sqrt(sum((x - mean) ** 2 for x in row) / 7 + 0.1)
        gains = norm.weight.tolist()
        biases = norm.bias.tolist() if bias else [0.0] * 7
        expected = [
            (x - mean) / deviation * g + b for x, g, b in zip(row, gains, biases, strict=True)
        ]
        assert got == pytest.approx(expected, abs=1e-5)


def test_rms_norm_divides_by_the_root_mean_square():
    norm = _filled(Norm(7, RMSNorm(eps=0.1)))
    assert norm.bias is None
    rows = torch.randn(2, 3, 7, generator=torch.Generator().manual_seed(5))
    out = norm(rows)
    for row, got in zip(rows.view(-1, 7).tolist(), out.view(-1, 7).tolist(), strict=True):
        size = math.sqrt(sum(x * x for x in row) / 7 + 0.1)
        expected = [x / size * g for x, g in zip(row, norm.weight.tolist(), strict=True)]
        assert got == pytest.approx(expected, abs=1e-5)
    with torch.no_grad():
        assert norm(rows).equal(out)


@pytest.mark.parametrize("spec", [LayerNorm(eps=0.1), RMSNorm(eps=0.1)])
def test_a_norm_without_a_gain_is_one_whose_gains_stay_one(spec):
    fixed, learned = Norm(7, spec, has_gain=False), Norm(7, spec)
    assert not list(fixed.parameters())
    with torch.no_grad():
        learned.weight.fill_(1.0)
        if learned.bias is not None:
            learned.bias.zero_()
    rows = torch.randn(2, 3, 7, generator=torch.Generator().manual_seed(5))
    torch.testing.assert_close(fixed(rows), learned(rows))
    assert fixed(rows.bfloat16()).dtype == torch.bfloat16


def test_rms_norm_has_torchs_own_gradient():
    norm = _filled(Norm(7, RMSNorm(eps=0.1))).double()
    rows = torch.randn(
        2, 3, 7, generator=torch.Generator().manual_seed(5), dtype=torch.float64, requires_grad=True
    )
    upstream = torch.randn(2, 3, 7, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    ours, torchs = norm(rows), F.rms_norm(rows, (7,), norm.weight, 0.1)
    torch.testing.assert_close(ours, torchs)
    leaves = (rows, norm.weight)
    for got, wanted in zip(
        torch.autograd.grad(ours, leaves, upstream),
        torch.autograd.grad(torchs, leaves, upstream),
        strict=True,
    ):
        torch.testing.assert_close(got, wanted)


def test_rms_norm_has_a_second_derivative():
    norm = _filled(Norm(7, RMSNorm(eps=0.1))).double()
    rows = torch.randn(2, 3, 7, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    rows.requires_grad_()
    assert torch.autograd.gradgradcheck(norm, (rows,))
