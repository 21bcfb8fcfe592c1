"""The feed-forward branch with experts: a router in float32, grouped matrix products, nothing
dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paribus.model.feed_forward import FeedForward, apply_activation
from paribus.model.forward import PLAIN_FORWARD, Forward
from paribus.model.lookup import inverse_permutation
from paribus.model.routing import chosen_scores, multi_hot, permute_tokens, unpermute_outputs
from paribus.spec import BatchBalance, Experts, NoBalance, SequenceBalance


class ExpertLoad(NamedTuple):
    """What one layer's router did, summed per sequence: enough for every balance loss and for
    moving the bias.
    """

    choices_BN: Tensor  # how often each expert was chosen
    scores_BN: Tensor  # sum of the tokens' normalised scores, differentiable
    tokens_B: Tensor  # real tokens routed


class ExpertChoice(NamedTuple):
    """Each token's experts and the weight of their answers, [tokens, K]."""

    experts: Tensor
    gates: Tensor


class ExpertRouter(nn.Module):
    """Scores in float32; `selection_bias` moves the choice and never the gates."""

    def __init__(self, d_model: int, spec: Experts):
        super().__init__()
        self.spec = spec
        self.weight = nn.Parameter(torch.empty(spec.n_experts, d_model))
        self.selection_bias: Tensor | None
        biased = spec.router.bias_rate is not None
        self.register_buffer("selection_bias", torch.empty(spec.n_experts) if biased else None)

    def forward(self, tokens_MD: Tensor) -> tuple[ExpertChoice, Tensor]:
        """The choice, and every token's scores normalised to sum 1."""
        router = self.spec.router
        with _without_autocast(tokens_MD.device.type):
            precise = torch.promote_types(tokens_MD.dtype, torch.float32)
            logits = F.linear(tokens_MD.to(precise), self.weight.to(precise))
            if router.scores == "softmax":
                scores = logits.softmax(-1)
            else:
                scores = logits.sigmoid()
            experts = self._top_experts(scores.detach())
            gates = chosen_scores(scores, experts)
            if router.normalise:
                gates = gates / (gates.sum(-1, keepdim=True) + 1e-20)
            if router.scores == "softmax":
                probabilities = scores
            else:
                probabilities = scores / scores.sum(-1, keepdim=True)
        return ExpertChoice(experts, gates * router.scale), probabilities

    def _top_experts(self, scores: Tensor) -> Tensor:
        router, n_experts = self.spec.router, self.spec.n_experts
        if self.selection_bias is None:
            rank = scores
        else:
            rank = scores + self.selection_bias
        if router.n_active_groups < router.n_groups:
            size = n_experts // router.n_groups
            grouped = rank.view(-1, router.n_groups, size)
            merit = grouped.topk(min(2, size), -1).values.sum(-1)
            chosen_groups = multi_hot(merit, merit.topk(router.n_active_groups, -1).indices)
            rank = grouped.masked_fill(chosen_groups[..., None] == 0, float("-inf")).flatten(1)
        return rank.topk(self.spec.n_active, -1).indices


def _without_autocast(device_type: str) -> AbstractContextManager[object]:
    """Full precision inside; the meta device has no autocast to switch off."""
    if device_type == "meta":
        return nullcontext()
    return torch.autocast(device_type, enabled=False)


class RoutedExperts(nn.Module):
    """Shared experts for every token, and the K its router picks."""

    def __init__(self, d_model: int, spec: Experts):
        super().__init__()
        assert spec.d_expert
        self.spec = spec
        self.router = ExpertRouter(d_model, spec)
        wide, narrow = (
            (spec.n_experts, spec.d_expert, d_model),
            (spec.n_experts, d_model, spec.d_expert),
        )
        self.gate: nn.Parameter | None
        self.register_parameter("gate", nn.Parameter(torch.empty(wide)) if spec.gated else None)
        self.up = nn.Parameter(torch.empty(wide))
        self.down = nn.Parameter(torch.empty(narrow))
        self.shared = None
        if spec.n_shared:
            self.shared = FeedForward(
                d_model, spec.n_shared * spec.d_expert, spec.activation, spec.gated, bias=False
            )

    def forward(
        self, hidden_BTD: Tensor, real_BT: Tensor | None, forward: Forward = PLAIN_FORWARD
    ) -> tuple[Tensor, ExpertLoad]:
        tokens_MD = hidden_BTD.flatten(0, 1)
        choice, scores_MN = self.router(tokens_MD)
        for place, value in (
            ("router_scores", scores_MN),
            ("expert_choice", choice.experts),
            ("expert_gates", choice.gates),
        ):
            forward.observe(place, value.unflatten(0, hidden_BTD.shape[:2]))
        compute = self._gathered if forward.compute == "gathered" else self._grouped
        answers = compute(tokens_MD, choice)
        out = answers.view_as(hidden_BTD)
        if self.shared is not None:
            out = out + self.shared(hidden_BTD)
        return out, self._expert_load(choice, scores_MN, hidden_BTD, real_BT)

    def _expert_load(
        self, choice: ExpertChoice, scores_MN: Tensor, like_BTD: Tensor, real_BT: Tensor | None
    ) -> ExpertLoad:
        n_sequences, length, _ = like_BTD.shape
        if real_BT is None:
            real = torch.ones_like(like_BTD[..., 0])
        else:
            real = real_BT
        real = real.to(scores_MN.dtype)
        choices_MN = multi_hot(scores_MN, choice.experts)
        choices, scores = (
            t.view(n_sequences, length, -1) * real[..., None] for t in (choices_MN, scores_MN)
        )
        return ExpertLoad(choices.sum(1), scores.sum(1), real.sum(1))

    def _grouped(self, tokens_MD: Tensor, choice: ExpertChoice) -> Tensor:
        """Tokens sorted by expert, one grouped product per matrix, and back to their places."""
        flat = choice.experts.flatten()
        order = flat.argsort(stable=True)
        numbers = torch.arange(self.spec.n_experts, device=flat.device)
        ends = torch.searchsorted(flat[order], numbers, right=True).to(torch.int32)
        places = inverse_permutation(order)
        sorted_tokens = permute_tokens(tokens_MD, order, places, self.spec.n_active)
        answers = self._feed_forward(
            lambda rows, matrices: _grouped_matmul(rows, matrices, ends), sorted_tokens
        )
        return self._weighted_sum(unpermute_outputs(answers, order, places), choice)

    def _gathered(self, tokens_MD: Tensor, choice: ExpertChoice) -> Tensor:
        """Each token with copies of its experts' matrices: slow, plain, and free of
        data-dependent shapes.
        """
        flat = choice.experts.flatten()
        rows = tokens_MD.repeat_interleave(self.spec.n_active, 0)
        answers = self._feed_forward(
            lambda rows, matrices: (matrices[flat] @ rows[..., None]).squeeze(-1), rows
        )
        return self._weighted_sum(answers, choice)

    def _feed_forward(self, matmul: Callable[[Tensor, Tensor], Tensor], rows: Tensor) -> Tensor:
        inner = matmul(rows, self.up)
        if self.gate is None:
            return matmul(apply_activation(inner, self.spec.activation), self.down)
        return matmul(
            apply_activation(matmul(rows, self.gate), self.spec.activation) * inner, self.down
        )

    def _weighted_sum(self, outputs: Tensor, choice: ExpertChoice) -> Tensor:
        each = outputs.view(*choice.gates.shape, -1)
        return (each * choice.gates[..., None].to(each.dtype)).sum(1)


def _grouped_matmul(rows: Tensor, matrices_NOI: Tensor, ends_N: Tensor) -> Tensor:
    """Row blocks up to each end, each times its own matrix."""
    if rows.device.type != "meta" and torch.is_autocast_enabled(rows.device.type):
        dtype = torch.get_autocast_dtype(rows.device.type)
        rows, matrices_NOI = rows.to(dtype), matrices_NOI.to(dtype)
    if rows.device.type == "cuda" and rows.dtype == torch.bfloat16:
        n_out = matrices_NOI.shape[1]
        rows, matrices_NOI = (
            _pad_to_multiples_of_8(rows, 1),
            _pad_to_multiples_of_8(matrices_NOI, 2),
        )
        return F.grouped_mm(rows, matrices_NOI.transpose(-2, -1), offs=ends_N)[:, :n_out]
    aligned = all(width * rows.element_size() % 16 == 0 for width in matrices_NOI.shape[1:])
    if (
        aligned
        and rows.device.type != "cuda"
        and rows.dtype in (torch.float32, torch.bfloat16, torch.float16)
    ):
        return F.grouped_mm(rows, matrices_NOI.transpose(-2, -1), offs=ends_N)
    sizes = torch.diff(ends_N, prepend=ends_N.new_zeros(1)).tolist()
    parts = zip(rows.split(sizes), matrices_NOI.unbind(), strict=True)
    return torch.cat([part @ matrix.T for part, matrix in parts])


def _pad_to_multiples_of_8(tensor: Tensor, n_last: int) -> Tensor:
    """The last dimensions filled up with zeros to multiples of 8, as the grouped product on
    CUDA wants them.
    """
    padding = [-width % 8 for width in tensor.shape[-n_last:]]
    if any(padding):
        return F.pad(tensor, [side for amount in reversed(padding) for side in (0, amount)])
    return tensor


def balance_loss(loads: list[ExpertLoad], spec: Experts) -> Tensor | None:
    """The router's auxiliary loss over these layers, already weighted: a mean over sequences or
    over the batch.
    """
    match spec.balance:
        case NoBalance():
            return None
        case SequenceBalance(weight=weight):
            factor = weight * spec.n_experts / spec.n_active
            return torch.stack([factor * _sequence_balance(load) for load in loads]).sum()
        case BatchBalance(weight=weight):
            return torch.stack(
                [weight * spec.n_experts * _batch_balance(load) for load in loads]
            ).sum()


def _sequence_balance(load: ExpertLoad) -> Tensor:
    squared_counts = load.tokens_B.clamp(min=1) ** 2
    return ((load.choices_BN * load.scores_BN).sum(-1) / squared_counts).mean()


def _batch_balance(load: ExpertLoad) -> Tensor:
    return (load.choices_BN.sum(0) * load.scores_BN.sum(0)).sum() / load.tokens_B.sum().clamp(
        min=1
    ) ** 2


def updated_selection_bias(bias_N: Tensor, choices_N: Tensor, rate: float) -> Tensor:
    """The selection bias after a step: up where an expert had less than the global batch's
    mean, down where more.
    """
    return bias_N + rate * torch.sign(choices_N.mean() - choices_N)
