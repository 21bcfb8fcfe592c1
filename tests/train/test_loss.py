"""The chunked loss against the plain one."""

import pytest
import torch
import torch.nn.functional as F

from paribus.train import loss
from paribus.train.loss import nats_sum


@pytest.mark.parametrize("rows", [3, 7, 512])
@pytest.mark.parametrize("z_loss", [0.0, 0.01])
@pytest.mark.parametrize("biased", [True, False])
def test_chunks_give_the_nats_and_gradients_of_the_whole(
    rows: int, z_loss: float, biased: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss, "CPU_CHUNK_ROWS", rows)
    states, table = torch.randn(17, 5, dtype=torch.float64), torch.randn(11, 5, dtype=torch.float64)
    bias = torch.randn(11, dtype=torch.float64) if biased else None
    targets, weights = torch.randint(11, (17,)), torch.rand(17, dtype=torch.float64)
    leaves = [tensor.requires_grad_() for tensor in (states, table, bias) if tensor is not None]
    nats, trained = nats_sum(states, table, bias, targets, weights, z_loss)
    logits = F.linear(states, table, bias)
    exact = (F.cross_entropy(logits, targets, reduction="none") * weights).sum()
    penalty = z_loss * (logits.logsumexp(-1) ** 2 * weights).sum()
    torch.testing.assert_close(nats, exact)
    torch.testing.assert_close(trained, exact + penalty)
    for mine, true in zip(
        torch.autograd.grad(trained * 3, leaves),
        torch.autograd.grad((exact + penalty) * 3, leaves),
        strict=True,
    ):
        torch.testing.assert_close(mine, true)


def test_without_gradients_nothing_is_kept() -> None:
    states, table = torch.randn(5, 3, requires_grad=True), torch.randn(7, 3, requires_grad=True)
    with torch.no_grad():
        nats, trained = nats_sum(
            states, table, None, torch.zeros(5, dtype=torch.int64), torch.ones(5), 0.0
        )
    assert not trained.requires_grad
    assert nats.item() == pytest.approx(
        F.cross_entropy(states @ table.T, torch.zeros(5).long(), reduction="sum").item()
    )
