"""Gradients of the training objective by layer, and the curvature of its loss, on held-out text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

import torch
from torch import Tensor, nn
from torch.func import functional_call

from paribus.model import Transformer
from paribus.objectives import Problem, target_nats
from paribus.probe.curvature import (
    Loss,
    Parameters,
    curvature_along,
    curvature_by_differences,
    gradient_norms,
)
from paribus.probe.posed_texts import posed_texts, require_running_text
from paribus.probe.subject import ProbedModel, steps_done
from paribus.probe.texts import ProbeTexts
from paribus.record.probe_rows import ProbeRow
from paribus.spec.probe_variants import GRADIENT_NORM, UNTRAINED
from paribus.spec.probes import GradientsProbe
from paribus.watcher import Watcher

# how far parameters are moved, over their norm: losses bend on a smaller scale than rounding asks
DIFFERENCE_STEP = 1e-5


def probe_gradients(
    subject: ProbedModel, texts: ProbeTexts, spec: GradientsProbe, watcher: Watcher
) -> Iterator[ProbeRow]:
    """Gradient norms and curvature of the model, of the kept checkpoints before it, and of its
    start.
    """
    objective = subject.checkpoint.objective()
    require_running_text(objective)
    problems = []
    for k, text in enumerate(texts.chunks(1)):
        problems.append(posed_texts(subject, text, objective, spec.seed, k))
    # two derivatives are taken, which only this kernel has
    subject = subject.with_kernel("dense")
    for variant, state in _states(subject, spec):
        loss = _PosedLoss(state.model, problems, watcher)
        gradient, rows = loss.mean_gradient()
        if spec.curvature:
            rows += loss.curvature_rows("gradient", gradient)
        if spec.curvature and not variant and subject.earlier_checkpoints:
            before = subject.at_checkpoint(subject.earlier_checkpoints[-1])
            rows += loss.curvature_rows("last update", _update(before.model, state.model))
        for row in rows:
            yield replace(row, variant=variant)


def n_derivatives(subject: ProbedModel, texts: ProbeTexts, spec: GradientsProbe) -> int:
    """How often the loss of a text is differentiated, once or twice."""
    n_earlier = len(subject.earlier_checkpoints)
    n_states = 1 + n_earlier + spec.start
    n_each = n_states
    if spec.curvature:
        n_each += 2 * n_states + 2 * bool(n_earlier)
    return n_each * len(texts.texts)


def _states(subject: ProbedModel, spec: GradientsProbe) -> Iterator[tuple[str, ProbedModel]]:
    """The model, and what it was before; one is held at a time beside the first."""
    yield "", subject
    if spec.start:
        yield UNTRAINED, subject.at_start()
    for checkpoint in subject.earlier_checkpoints:
        yield steps_done(checkpoint), subject.at_checkpoint(checkpoint)


def _update(before: Transformer, after: Transformer) -> Parameters:
    """What training added to the parameters."""
    old = dict(before.named_parameters())
    return {name: (new - old[name]).detach() for name, new in after.named_parameters()}


@dataclass(frozen=True, eq=False)
class _PosedLoss:
    """The loss of a model on posed texts: the mean over texts of nats per target."""

    model: Transformer
    problems: Sequence[Problem]
    watcher: Watcher

    @property
    def parameters(self) -> dict[str, Tensor]:
        return {name: value.detach() for name, value in self.model.named_parameters()}

    def mean_gradient(self) -> tuple[Parameters, list[ProbeRow]]:
        """The gradient, and rows of its norms."""
        total = {name: torch.zeros_like(value) for name, value in self.parameters.items()}
        norms, n_targets, n_tokens = [], 0.0, 0
        for problem in self.problems:
            own = self._gradient(problem)
            norms.append(_norm(own.values()))
            for name, value in own.items():
                total[name].add_(value, alpha=1 / len(self.problems))
            n_targets += problem.n_terms.item()
            n_tokens += problem.inputs.n_tokens
            self.watcher.advance(1)
        row = partial(ProbeRow, probe="gradients", n=len(self.problems))
        whole, rows = _norm(total.values()), []
        for (stack, layer), norm in gradient_norms(total).items():
            if layer is not None:
                rows.append(row(quantity=GRADIENT_NORM, value=norm, stack=stack, layer=layer))
        found = {
            "gradient norm per target": whole,
            "gradient norm per token": whole * n_targets / n_tokens,
            "gradient norm of one text": fmean(norms),
            "targets per text": n_targets / len(self.problems),
            "targets per token": n_targets / n_tokens,
        }
        rows += [row(quantity=quantity, value=value) for quantity, value in found.items()]
        return total, rows

    def curvature_rows(self, direction: str, update: Parameters) -> list[ProbeRow]:
        """Curvature along an update, by two derivatives and by differences: the mean over texts,
        for it is linear in the loss.
        """
        methods = {
            f"curvature along the {direction}": curvature_along,
            f"curvature along the {direction}, by differences": partial(
                curvature_by_differences, step=DIFFERENCE_STEP
            ),
        }
        row = partial(ProbeRow, probe="gradients", n=len(self.problems))
        rows = []
        for quantity, method in methods.items():
            values = []
            for problem in self.problems:
                values.append(method(self._loss(problem), self.parameters, update))
                self.watcher.advance(1)
            rows.append(row(quantity=quantity, value=fmean(values)))
        return rows

    def _gradient(self, problem: Problem) -> dict[str, Tensor]:
        named = dict(self.model.named_parameters())
        loss = _MeanNats(self.model)(problem)
        gradients = torch.autograd.grad(loss, list(named.values()), materialize_grads=True)
        return dict(zip(named, gradients, strict=True))

    def _loss(self, problem: Problem) -> Loss:
        module = _MeanNats(self.model)

        def loss(parameters: Parameters) -> Tensor:
            own = {f"model.{name}": value for name, value in parameters.items()}
            return functional_call(module, own, (problem,))

        return loss


class _MeanNats(nn.Module):
    """A model with its loss: nats per target, without dropout and without a loss of balance."""

    def __init__(self, model: Transformer):
        super().__init__()
        self.model = model

    def forward(self, problem: Problem) -> Tensor:
        states_BTD = self.model.hidden_states(problem.inputs).states_BTD
        logits_BMV = self.model.logits(problem.gather_states(states_BTD))
        nats_BM = target_nats(logits_BMV.flatten(0, 1), problem.targets_BM.flatten())
        weights_BM = problem.weights_BM
        return (nats_BM.view_as(weights_BM) * weights_BM).sum() / weights_BM.sum()


def _norm(gradients: Iterable[Tensor]) -> float:
    norms = [torch.linalg.vector_norm(one, dtype=torch.float64) for one in gradients]
    return torch.linalg.vector_norm(torch.stack(norms)).item()
