"""The loss of direct preference optimisation, and its gradient, without holding all logits of all
responses at once.

Of a pair with chosen response c and rejected response r to a prompt x (Rafailov et al. 2023),

    margin = β [(log π(c|x) − log ref(c|x)) − (log π(r|x) − log ref(r|x))]
    loss   = −log σ(margin)

where log p of a response is the sum over its tokens. The loss of a pair depends on its own logits
alone, so pairs are worked through a few at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from paribus.train.cross_entropy import Targets, cross_entropy_
from paribus.train.loss import HeadGradients, max_chunk_rows, to_bf16_on_cuda

PREFERENCE_SUMS = ("pair_count", "margin_sum", "preferred_count", "kl_sum")


class HeadInputs(NamedTuple):
    """What the logits of responses are computed from: states [2P · M, D], and the output head."""

    states_MD: Tensor
    table_VD: Tensor
    bias_V: Tensor | None


class Responses(NamedTuple):
    """The targets of responses, rows 2i and 2i + 1 a pair; pairs without any target do not
    count.
    """

    targets_BM: Tensor
    weights_BM: Tensor
    scored_P: Tensor


class PreferenceResult(NamedTuple):
    """The sum of the loss over pairs, and PREFERENCE_SUMS."""

    loss_sum: Tensor
    sums: Tensor


def preference_loss(
    policy: HeadInputs, reference: HeadInputs, responses: Responses, beta: float
) -> PreferenceResult:
    """The loss of every pair, summed, and what is reported of them; only the policy learns."""
    learning = torch.is_grad_enabled() and policy.states_MD.requires_grad
    spec = _PreferenceSpec(reference, responses, beta, learning)
    loss_sum, sums = _ChunkedPreference.apply(  # pyright: ignore[reportGeneralTypeIssues]
        policy.states_MD, policy.table_VD, policy.bias_V, spec
    )
    return PreferenceResult(loss_sum, sums)


class _PreferenceSpec(NamedTuple):
    """What the loss is of, beside its inputs that have a gradient."""

    reference: HeadInputs
    responses: Responses
    beta: float
    with_gradient: bool


class _ChunkedPreference(torch.autograd.Function):
    """Each chunk's gradient is taken in the forward pass, while its logits are at hand."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, table: Tensor, bias: Tensor | None, spec: _PreferenceSpec
    ) -> tuple[Tensor, Tensor]:
        policy, reference = _prepared(HeadInputs(states, table, bias)), _prepared(spec.reference)
        gradients = None
        if spec.with_gradient:
            gradients = HeadGradients(policy.states_MD, policy.table_VD, policy.bias_V)
        losses, sums = [], []
        for first, last in _pair_chunks(spec.responses, policy):
            part = _slice(spec.responses, first, last)
            rows = slice(first * part.n_positions, last * part.n_positions)
            logits = _logits(policy, rows)
            result = _pair_result(logits, _logits(reference, rows), part, spec.beta)
            losses.append(result.loss_sum)
            sums.append(result.sums)
            if gradients is not None:
                cross_entropy_(logits, Targets(part.targets_M, result.factors_M), 0.0, True)
                gradients.add(rows, logits)
            del logits  # before the next chunk's are made
        ctx.gradients = gradients
        total = torch.stack(sums).sum(0)
        ctx.mark_non_differentiable(total)
        return torch.stack(losses).sum(), total

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, grad: Tensor, _: Tensor
    ) -> tuple[Tensor | None, ...]:
        return *ctx.gradients.scale_by(grad), None


class _PairPart(NamedTuple):
    """Some pairs: their targets and weights position by position, [n · 2M]."""

    targets_M: Tensor
    weights_M: Tensor
    scored_P: Tensor
    n_positions: int  # of a pair


class _PairResult(NamedTuple):
    loss_sum: Tensor
    sums: Tensor
    factors_M: Tensor  # how much the nats of each position count in the loss


def _pair_result(
    logits_MV: Tensor, reference_MV: Tensor, part: _PairPart, beta: float
) -> _PairResult:
    wide = torch.promote_types(logits_MV.dtype, torch.float32)
    log_p, log_reference = logits_MV.to(wide), reference_MV.to(wide)
    log_p = log_p - log_p.logsumexp(-1, keepdim=True)
    log_reference = log_reference - log_reference.logsumexp(-1, keepdim=True)
    weights_M = part.weights_M.to(wide)
    ratios_M = (log_p - log_reference).gather(-1, part.targets_M[:, None])[:, 0] * weights_M
    ratios_P2 = ratios_M.view(len(part.scored_P), 2, -1).sum(-1)
    margin_P = beta * (ratios_P2[:, 0] - ratios_P2[:, 1])
    scored_P = part.scored_P.to(wide)
    # d loss / d nats: β σ(−margin) for the chosen response, and minus that for the rejected one
    pull_P = beta * torch.sigmoid(-margin_P) * scored_P
    pulls_M = torch.stack([pull_P, -pull_P], 1).repeat_interleave(part.n_positions // 2, 1)
    kl_M = (log_p.exp() * (log_p - log_reference)).sum(-1) * weights_M
    kl_P = kl_M.view(len(part.scored_P), -1).sum(-1)
    sums = [
        scored_P.sum(),
        (margin_P * scored_P).sum(),
        ((margin_P > 0) * scored_P).sum(),
        (kl_P * scored_P).sum(),
    ]
    return _PairResult(
        loss_sum=(F.softplus(-margin_P) * scored_P).sum(),
        sums=torch.stack(sums),
        factors_M=pulls_M.flatten() * weights_M,
    )


def _prepared(inputs: HeadInputs) -> HeadInputs:
    states, table = to_bf16_on_cuda(inputs.states_MD), to_bf16_on_cuda(inputs.table_VD)
    bias = None if inputs.bias_V is None else inputs.bias_V.to(states.dtype)
    return HeadInputs(states, table, bias)


def _logits(inputs: HeadInputs, rows: slice) -> Tensor:
    if inputs.bias_V is None:
        return inputs.states_MD[rows] @ inputs.table_VD.T
    return torch.addmm(inputs.bias_V, inputs.states_MD[rows], inputs.table_VD.T)


def _pair_chunks(responses: Responses, policy: HeadInputs) -> list[tuple[int, int]]:
    """Pairs whose logits are held at a time, at least one."""
    n_pairs, n_positions = len(responses.scored_P), 2 * responses.targets_BM.shape[1]
    most = max_chunk_rows(len(policy.table_VD), policy.table_VD.device)
    size = max(most // n_positions, 1)
    return [(first, min(first + size, n_pairs)) for first in range(0, n_pairs, size)]


def _slice(responses: Responses, first: int, last: int) -> _PairPart:
    return _PairPart(
        targets_M=responses.targets_BM[2 * first : 2 * last].flatten(),
        weights_M=responses.weights_BM[2 * first : 2 * last].flatten(),
        scored_P=responses.scored_P[first:last],
        n_positions=2 * responses.targets_BM.shape[1],
    )
