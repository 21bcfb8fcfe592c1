"""From a problem to its loss: the part of a step that has a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from paribus.batch import Batch, Vocabulary
from paribus.model import Draws, Transformer, balance_loss
from paribus.model.dropout import keys_of
from paribus.model.lookup import look_up
from paribus.model.transformer import Hidden
from paribus.objectives import Problem
from paribus.spec import Experts
from paribus.spec.training import Training
from paribus.train.loss import nats_sum

# Compiled forms kept, of all models of a process; beyond its defaults dynamo would go back to the slow form in silence.
_MOST_FORMS = {"recompile_limit": 1024, "accumulated_recompile_limit": 4096}
_SPLIT = "L['batch'].layout.prefix"  # as the compiler calls it


class Seen(NamedTuple):
    """What one part saw; `choices` counts how often each expert of each layer was chosen."""

    loss: Tensor
    counts: Tensor  # nats, targets, bytes
    choices: dict[str, Tensor]


class Work(nn.Module):
    """A model with its loss, compiled on CUDA up to the words."""

    def __init__(self, model: Transformer, training: Training, vocabulary: Vocabulary):
        super().__init__()
        self.model, self.asked = model, training
        self.device = model.embedding.weight.device
        self.bytes_V = vocabulary.bytes_V.to(self.device)
        self.precise = torch.float32 if self.device.type == "mps" else torch.float64
        compiles = self.device.type == "cuda"
        self.hidden = _fast(model.hidden) if compiles else model.hidden
        places = model.places if compiles and model.spec.dropout else ()
        self.keys = keys_of(training.seed, places, self.device) if places else None

    def forward(self, problem: Problem, step: Tensor, total: Tensor) -> Seen:
        """`total` counts the targets of the whole global batch, so that losses of parts add up to its mean."""
        nats, loss, hidden = self._answered(problem, Draws(self.asked.seed, step, keys=self.keys))
        loss = loss / total
        experts = self.model.architecture.feed_forward
        if isinstance(experts, Experts) and hidden.loads:
            balance = balance_loss(list(hidden.loads.values()), experts)
            share = len(problem.targets_BM) / self.asked.n_sequences
            loss = loss if balance is None else loss + balance * share
        n_bytes = (self.bytes_V[problem.targets_BM] * problem.weights_BM.to(torch.int64)).sum()
        counts = [nats.detach(), problem.weights_BM.sum(), n_bytes]
        choices = {place: load.choices_BN.detach().sum(0) for place, load in hidden.loads.items()}
        return Seen(loss, torch.stack([count.to(self.precise) for count in counts]), choices)

    @torch.no_grad()
    def scored(self, problem: Problem) -> tuple[float, float]:
        """Nats and number of targets, without dropout."""
        nats, _, _ = self._answered(problem, None)
        return nats.item(), problem.weights_BM.sum().item()

    def _answered(self, problem: Problem, draws: Draws | None) -> tuple[Tensor, Tensor, Hidden]:
        """Nats of the answers, what is trained on, and the states they came from."""
        # bf16 on CUDA; elsewhere full precision, since bf16 may be hundreds of times slower there.
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            hidden = self.hidden(problem.inputs, draws)
            states, table, bias = self.model.words_from(_asked_states(problem, hidden.states_BTD))
        targets, weights = problem.targets_BM.flatten(), problem.weights_BM.flatten()
        nats, loss = nats_sum(states.flatten(0, 1), table, bias, targets, weights, self.asked.z_loss)
        return nats, loss, hidden


def _asked_states(problem: Problem, states_BTD: Tensor) -> Tensor:
    """The rows that are asked for; on CUDA the gradient of a lookup is cheap in a fixed order, a gather's is not."""
    n_sequences, length, _ = states_BTD.shape
    in_order = states_BTD.device.type == "cuda" and torch.are_deterministic_algorithms_enabled()
    if not in_order or problem.at_BM.shape[1] == length:
        return problem.states(states_BTD)
    first_B1 = torch.arange(n_sequences, device=states_BTD.device)[:, None] * length
    return look_up(problem.at_BM + first_B1, states_BTD.flatten(0, 1))


def _fast(hidden: Callable[[Batch, Draws | None], Hidden]) -> Callable[[Batch, Draws | None], Hidden]:
    """Compiled at the first call; a length or split that changes from step to step becomes a variable of the code.

    Where determinism is asked each length has code of its own: code for any length would round as the lengths that came
    first made it, and a resumed run meets others first. A split alone may vary there: no sum depends on it.
    """
    compiled = torch.compile(hidden)

    def call(batch: Batch, draws: Draws | None) -> Hidden:
        fixed = torch.are_deterministic_algorithms_enabled()
        split = _SPLIT if fixed else ""
        with (
            torch._dynamo.config.patch({**_MOST_FORMS, "automatic_dynamic_shapes": not fixed}),
            torch.compiler.config.patch(dynamic_sources=split),  # pyright: ignore[reportAttributeAccessIssue]
        ):
            return compiled(batch, draws)

    return call
