"""A model, its optimizer, and one step of learning that never asks the device a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from paribus.batch import Vocabulary
from paribus.errors import SpecError
from paribus.model import Draws, Transformer, balance_loss, moved_bias
from paribus.model.experts import RoutedExperts
from paribus.objectives import Problem
from paribus.spec import BatchBalance, Experts, parameters
from paribus.spec.training import Training
from paribus.train.loss import nats_sum
from paribus.train.schedule import rate_at

DECAYING = ("word", "query", "inward", "residual", "router", "head")


@dataclass(frozen=True, eq=False)
class Sums:
    """What a step saw, on the device: sums and counts over the whole batch."""

    nats_sum: Tensor
    target_count: Tensor
    byte_count: Tensor
    gradient_norm: Tensor


class Seen(NamedTuple):
    """What one part saw; `choices` counts how often each expert of each layer was chosen."""

    nats_sum: Tensor
    target_count: Tensor
    byte_count: Tensor
    choices: dict[str, Tensor]


class Learner:
    """What moves: weights, the optimizer's memory, the experts' biases, and whether anything went wrong."""

    def __init__(self, model: Transformer, training: Training, vocabulary: Vocabulary):
        _agree(model, training)
        self.model, self.training = model, training
        self.device = model.embedding.weight.device
        self.bytes_V = vocabulary.bytes_V.to(self.device)
        self.optimizer = _optimizer(model, training)
        self.norm = torch.zeros((), device=self.device)  # of the last gradient, before clipping
        # 1 from the first gradient that is not finite: nothing moves from then on
        self.bad = torch.zeros((), device=self.device)
        self.bad_step = torch.full((), -1, dtype=torch.int64, device=self.device)

    def step(self, step: int, parts: Sequence[Problem]) -> Sums:
        """One step over the parts of a global batch; their targets are counted before any of them is read."""
        total = sum(float(part.weights_BM.sum()) for part in parts)
        n_rows = sum(len(part.targets_BM) for part in parts)
        seen = [self._part(step, part, total, n_rows) for part in parts]
        norm = self.norm = self._move(step)
        self._balance([part.choices for part in seen])
        nats, targets, n_bytes = (
            torch.stack(column).sum(0) for column in zip(*(part[:3] for part in seen), strict=True)
        )
        return Sums(nats, targets, n_bytes, norm)

    def _part(self, step: int, problem: Problem, total: float, n_rows: int) -> Seen:
        problem = problem.to(self.device)
        with _precision(self.device):
            hidden = self.model.hidden(problem.inputs, Draws(self.training.seed, step))
            states, table, bias = self.model.words_from(problem.states(hidden.states_BTD))
            targets, weights = problem.targets_BM.flatten(), problem.weights_BM.flatten()
            nats, loss = nats_sum(states.flatten(0, 1), table, bias, targets, weights, self.training.z_loss)
        loss = loss / total
        experts = self.model.architecture.feed_forward
        if isinstance(experts, Experts) and hidden.loads:
            balance = balance_loss(list(hidden.loads.values()), experts)
            loss = loss if balance is None else loss + balance * len(problem.targets_BM) / n_rows
        loss.backward()
        n_bytes = (self.bytes_V[targets] * weights.to(torch.int64)).sum()
        choices = {place: load.choices_BN.detach().sum(0) for place, load in hidden.loads.items()}
        return Seen(nats.detach(), weights.sum(), n_bytes, choices)

    @torch.no_grad()
    def score(self, problem: Problem) -> tuple[float, float]:
        """Nats and number of targets of a held-out problem."""
        problem = problem.to(self.device)
        with _precision(self.device):
            states, table, bias = self.model.words_from(problem.states(self.model.hidden(problem.inputs).states_BTD))
            targets, weights = problem.targets_BM.flatten(), problem.weights_BM.flatten()
            nats, _ = nats_sum(states.flatten(0, 1), table, bias, targets, weights, 0.0)
        return nats.item(), weights.sum().item()

    @torch.no_grad()
    def _move(self, step: int) -> Tensor:
        """The optimizer's step, held back on the device itself if the gradient is not finite, and ever after."""
        clip = self.training.optimizer.clip
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.model.parameters() if p.grad is not None])
        bad = (~torch.isfinite(norm)).float()
        self.bad_step = torch.where((bad > 0) & (self.bad == 0), step, self.bad_step)
        self.bad = torch.maximum(self.bad, bad)
        if clip is not None:
            torch.nn.utils.clip_grads_with_norm_(self.model.parameters(), clip, norm)
        for group in self.optimizer.param_groups:
            group["lr"] = rate_at(step, self.training)
        self.optimizer.found_inf = self.bad  # pyright: ignore[reportAttributeAccessIssue]
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    @torch.no_grad()
    def _balance(self, choices: Sequence[dict[str, Tensor]]) -> None:
        """The experts' selection biases, moved by the counts of the whole global batch."""
        experts = self.model.architecture.feed_forward
        if not isinstance(experts, Experts) or experts.router.bias_rate is None:
            return
        for place in choices[0]:
            chosen = torch.stack([part[place] for part in choices]).sum(0)
            layer = self.model.get_submodule(place).get_submodule("feed_forward")
            assert isinstance(layer, RoutedExperts)
            bias = layer.router.selection_bias
            assert bias is not None
            bias.copy_(torch.where(self.bad > 0, bias, moved_bias(bias, chosen, experts.router.bias_rate)))


def _agree(model: Transformer, training: Training) -> None:
    experts = model.architecture.feed_forward
    if training.n_sequences % training.n_parts:
        raise SpecError(
            f"training.n_parts is {training.n_parts}, which does not divide n_sequences {training.n_sequences}; "
            f"use a divisor of it"
        )
    if isinstance(experts, Experts) and isinstance(experts.balance, BatchBalance) and training.n_parts > 1:
        raise SpecError(
            f"training.n_parts is {training.n_parts} with a balance loss over the batch, which parts cannot share; "
            f"use 1, or feed_forward.balance = 'sequence'"
        )


def _optimizer(model: Transformer, training: Training) -> torch.optim.AdamW:
    roles = {name: parameter.role for name, parameter in parameters(model.spec).items()}
    decaying = [p for name, p in model.named_parameters() if roles[name] in DECAYING]
    others = [p for name, p in model.named_parameters() if roles[name] not in DECAYING]
    given = training.optimizer
    groups = [{"params": decaying, "weight_decay": given.decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=given.rate, betas=(given.beta1, given.beta2), eps=given.eps, fused=True,
    )  # fmt: skip


def _precision(device: torch.device) -> torch.autocast:
    """bf16 on CUDA; elsewhere full precision, since bf16 may be hundreds of times slower there."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
