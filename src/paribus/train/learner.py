"""A model, its optimizer, and one step of learning that never asks the device a question."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from paribus.batch import Vocabulary
from paribus.errors import SpecError
from paribus.model import Transformer, moved_bias
from paribus.model.experts import RoutedExperts
from paribus.objectives import Problem
from paribus.spec import BatchBalance, Experts, parameters
from paribus.spec.training import Training
from paribus.train.determinism import deterministic_algorithms, require_determinism
from paribus.train.ranks import ALONE, Ranks
from paribus.train.replay import Replay
from paribus.train.schedule import rate_at
from paribus.train.work import Seen, Work

DECAYING = ("word", "query", "inward", "residual", "router", "head")


@dataclass(frozen=True, eq=False)
class Sums:
    """What a step saw, on the device: sums over the whole batch; nothing of a step that went wrong, or after it."""

    nats_sum: Tensor
    target_count: Tensor
    byte_count: Tensor
    gradient_norm: Tensor


class Learner:
    """What moves: weights, the optimizer's memory, the experts' biases, and whether anything went wrong."""

    def __init__(self, model: Transformer, training: Training, vocabulary: Vocabulary, ranks: Ranks = ALONE):
        _agree(model, training, ranks)
        self.model, self.training, self.ranks = model, training, ranks
        self.device = model.embedding.weight.device
        if training.deterministic:
            require_determinism(self.device)
        self.work = Work(model, training, vocabulary)
        self.shared = ranks.shared(self.work)
        self.optimizer = _optimizer(model, training, self.device)
        # Written in place: a replayed step reads and writes these very tensors.
        self.clock = torch.zeros((), dtype=torch.int64, device=self.device)  # the step at hand
        self.total = torch.ones((), device=self.device)  # targets of its whole batch, at least 1
        self.idle = torch.zeros((), device=self.device)  # 1 where that has none: then nothing moves
        self.scale = torch.ones((), device=self.device)  # what its gradient is divided by, to clip it
        # 1 from the first gradient that is not finite: nothing moves from then on
        self.bad = torch.zeros((), device=self.device)
        self.bad_step = torch.full((), -1, dtype=torch.int64, device=self.device)
        self.held = torch.zeros((), device=self.device)  # 1 where it is idle, or bad
        self.optimizer.found_inf = self.held  # pyright: ignore[reportAttributeAccessIssue]
        self.optimizer.grad_scale = self.scale  # pyright: ignore[reportAttributeAccessIssue]
        self.replay = Replay[Sums](self.device, captures=self.device.type == "cuda" and ranks.size == 1)

    def step(self, step: int, parts: Sequence[Problem], total: float | None = None) -> Sums:
        """One step over this rank's parts of a global batch; `total` counts the targets of all ranks."""
        total = sum(float(part.weights_BM.sum()) for part in parts) if total is None else total
        self.clock.fill_(step)
        self.total.fill_(max(total, 1.0))
        self.idle.fill_(total == 0)
        self._set_rate(rate_at(step, self.training))
        return self.replay(self._in_mode, parts)

    @torch.no_grad()
    def score(self, problem: Problem) -> tuple[float, float]:
        """Nats and number of targets of a held-out problem."""
        with deterministic_algorithms(self.training.deterministic):
            return self.work.scored(problem.to(self.device))

    @torch.no_grad()
    def broken(self) -> str | None:
        """The first weight that is not finite, if there is one; the device is asked once."""
        state = self.model.state_dict()
        whole = torch.stack([torch.isfinite(tensor).all() for tensor in state.values()]).tolist()
        return next((name for name, finite in zip(state, whole, strict=True) if not finite), None)

    def _set_rate(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def _in_mode(self, parts: Sequence[Problem]) -> Sums:
        """A step launched or captured, in the mode that was asked for; one that is replayed has it in its kernels."""
        with deterministic_algorithms(self.training.deterministic):
            return self._step(parts)

    def _step(self, parts: Sequence[Problem]) -> Sums:
        seen = [self._part(part, number == len(parts) - 1) for number, part in enumerate(parts)]
        norm = self._move()
        self._balance(seen)
        counts = torch.stack([part.counts for part in seen]).sum(0)
        nats, targets, n_bytes = self.ranks.add_(torch.where(self.bad > 0, 0.0, counts)).unbind()
        return Sums(nats, targets, n_bytes, norm)

    def _part(self, problem: Problem, last: bool) -> Seen:
        """One part's gradient added to the others'; with the last one it is summed over the ranks."""
        parallel = self.shared if isinstance(self.shared, DistributedDataParallel) else None
        with nullcontext() if parallel is None or last else parallel.no_sync():
            seen = self.shared(problem, self.clock, self.total)
            seen.loss.backward()
        return seen

    @torch.no_grad()
    def _move(self) -> Tensor:
        """The optimizer's step, held back on the device itself if the gradient is not finite, and ever after.

        A step that asks nothing is held back too: no gradient is no reason to decay.
        """
        clip = self.training.optimizer.clip
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.model.parameters() if p.grad is not None])
        bad = ~torch.isfinite(norm)
        self.bad_step.copy_(torch.where(bad & (self.bad == 0), self.clock, self.bad_step))
        self.bad.copy_(torch.maximum(self.bad, bad.float()))
        self.held.copy_(torch.maximum(self.bad, self.idle))
        if clip is not None:
            self.scale.copy_((norm / clip).clamp(min=1.0))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    @torch.no_grad()
    def _balance(self, seen: Sequence[Seen]) -> None:
        """The experts' selection biases, moved by the counts of the whole global batch."""
        experts = self.model.architecture.feed_forward
        if not isinstance(experts, Experts) or experts.router.bias_rate is None:
            return
        for place in seen[0].choices:
            chosen = self.ranks.add_(torch.stack([part.choices[place] for part in seen]).sum(0))
            layer = self.model.get_submodule(place).get_submodule("feed_forward")
            assert isinstance(layer, RoutedExperts)
            bias = layer.router.selection_bias
            assert bias is not None
            bias.copy_(torch.where(self.held > 0, bias, moved_bias(bias, chosen, experts.router.bias_rate)))


def _agree(model: Transformer, training: Training, ranks: Ranks) -> None:
    experts, rows = model.architecture.feed_forward, training.n_sequences
    if rows % training.n_parts:
        raise SpecError(
            f"training.n_parts is {training.n_parts}, which does not divide n_sequences {rows}; use a divisor of it"
        )
    if isinstance(experts, Experts) and isinstance(experts.balance, BatchBalance) and ranks.n_parts(training) > 1:
        on_ranks = f" on {ranks.size} ranks" if ranks.size > 1 else ""
        raise SpecError(
            f"training.n_parts is {training.n_parts}{on_ranks} with a balance loss over the batch, which parts cannot "
            f"share; use 1 on one rank, or feed_forward.balance = 'sequence'"
        )


def _optimizer(model: Transformer, training: Training, device: torch.device) -> torch.optim.AdamW:
    roles = {name: parameter.role for name, parameter in parameters(model.spec).items()}
    decaying = [p for name, p in model.named_parameters() if roles[name] in DECAYING]
    others = [p for name, p in model.named_parameters() if roles[name] not in DECAYING]
    given, on_cuda = training.optimizer, device.type == "cuda"
    groups = [{"params": decaying, "weight_decay": given.decay}, {"params": others, "weight_decay": 0.0}]
    for group in groups:
        group["lr"] = torch.tensor(given.rate, device=device) if on_cuda else given.rate
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        betas=(given.beta1, given.beta2), eps=given.eps, fused=True, capturable=on_cuda,
    )  # fmt: skip
