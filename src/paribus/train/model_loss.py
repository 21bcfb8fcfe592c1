"""From a problem to its loss: the part of a step that has a gradient."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, ParamSpec, TypeVar

import torch
from torch import Tensor, nn
from torch._functorch import config as functorch_config

from paribus.batch import Vocabulary
from paribus.model import DropoutKey, Transformer, balance_loss
from paribus.model.block import TransformerBlock
from paribus.model.dropout import dropout_site_keys
from paribus.model.label_head import LabelHead
from paribus.model.lookup import look_up
from paribus.model.stack import HiddenStates
from paribus.objectives import Problem
from paribus.spec import Experts
from paribus.spec.training import Training
from paribus.train.loss import nats_sum
from paribus.train.preference import (
    PREFERENCE_SUMS,
    HeadInputs,
    PreferenceResult,
    Responses,
    preference_loss,
)

# Compiled forms kept, of all models of a process; beyond its defaults dynamo would go back to the
# slow form in silence.
_COMPILER_CONFIG: Any = torch.compiler.config  # its stubs lack what it has
_RECOMPILE_LIMITS = {"recompile_limit": 1024, "accumulated_recompile_limit": 4096}
# Code with our own gradients may be kept, too: what they do is part of the graph that it is found
# by. Torch leaves that out unless told, and every process would trace each graph again.
_KEEP_OWN_GRADIENTS = {"autograd_cache_allow_custom_autograd_functions": True}
# As the compiler calls the split of a batch and the seed of dropout, in the forward pass of a model
# and of a block: these numbers vary, and the code is the same for all.
_VARYING = "L['batch'].layout.prefix,L['dropout_key'].seed"
_VARYING_IN_BLOCK = (
    "L['context'].mask.queries.prefix,L['context'].mask.keys.prefix,L['forward'].dropout_key.seed"
)

P = ParamSpec("P")
T = TypeVar("T")


class MicroBatchLoss(NamedTuple):
    """The loss of one micro-batch; `choices` counts how often each expert was chosen."""

    loss: Tensor
    counts: Tensor  # nats, targets, bytes, and of preferences PREFERENCE_SUMS
    choices: dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class ParentComparison:
    """The model that responses are compared with, which does not learn, and how much a change of
    log-likelihood counts.
    """

    reference: Transformer
    beta: float


class LossOfStates(NamedTuple):
    """Nats that are reported, what is trained on, and the states they came from; of preferences
    their sums.
    """

    nats: Tensor
    loss: Tensor
    hidden: HiddenStates
    preference_sums: Tensor | None = None


class ModelWithLoss(nn.Module):
    """A model with its loss, compiled on CUDA up to the logits; a head gives labels in place of
    tokens, and a comparison makes it the loss of preferences.
    """

    def __init__(
        self,
        model: Transformer,
        training: Training,
        vocabulary: Vocabulary,
        head: LabelHead | None = None,
        comparison: ParentComparison | None = None,
        shard_device: torch.device | None = None,
    ):
        super().__init__()
        self.model, self.spec, self.head = model, training, head
        self.comparison = comparison
        self.device = shard_device or model.embedding.weight.device
        self.bytes_V = vocabulary.bytes_V.to(self.device)
        if self.device.type == "mps":
            self.sum_dtype = torch.float32
        else:
            self.sum_dtype = torch.float64
        compiles = self.device.type == "cuda"
        if head is None:
            self.hidden_states = model.hidden_states
        else:
            self.hidden_states = model.text_states
        if comparison is not None:
            self.reference_states = comparison.reference.hidden_states
        if compiles and (shard_device is not None or _compiles_by_block(model)):
            _compile_blocks(model, self)
        elif compiles:
            self.hidden_states = _compile(self.hidden_states, _VARYING)
        if compiles and comparison is not None:
            if _compiles_by_block(comparison.reference):
                _compile_blocks(comparison.reference, self)
            else:
                self.reference_states = _compile(self.reference_states, _VARYING)
        places = model.dropout_sites if compiles and model.spec.dropout else ()
        if places:
            self.site_keys = dropout_site_keys(training.seed, places, self.device)
        else:
            self.site_keys = None

    def forward(self, problem: Problem, step: Tensor, n_targets: Tensor) -> MicroBatchLoss:
        """`n_targets` counts the targets of the whole global batch, or its pairs of responses, so
        that the losses of micro-batches add up to its mean.
        """
        nats, loss, hidden, preference_sums = self._compute_loss(
            problem, DropoutKey(self.spec.seed, step, site_keys=self.site_keys)
        )
        loss = loss / n_targets
        experts = self.model.architecture.feed_forward
        if isinstance(experts, Experts) and hidden.loads:
            balance = balance_loss(list(hidden.loads.values()), experts)
            n_rows = self.spec.n_sequences * (2 if problem.in_pairs else 1)
            share = len(problem.targets_BM) / n_rows
            loss = loss if balance is None else loss + balance * share
        counts = [nats.detach(), problem.weights_BM.sum(), self._n_bytes(problem)]
        if preference_sums is not None:
            counts += preference_sums.unbind()
        choices = {place: load.choices_BN.detach().sum(0) for place, load in hidden.loads.items()}
        return MicroBatchLoss(
            loss, torch.stack([count.to(self.sum_dtype) for count in counts]), choices
        )

    def _n_bytes(self, problem: Problem) -> Tensor:
        """Bytes of the targets; labels are no text and have none."""
        if self.head is not None:
            return torch.zeros((), dtype=torch.int64, device=self.device)
        return (self.bytes_V[problem.targets_BM] * problem.weights_BM.to(torch.int64)).sum()

    @torch.no_grad()
    def score_sums(self, problem: Problem) -> dict[str, float]:
        """Nats and number of targets or pairs, and of preferences PREFERENCE_SUMS, without
        dropout.
        """
        result = self._compute_loss(problem, None)
        sums = {"nats_sum": result.nats.item(), "target_count": problem.n_terms.item()}
        if result.preference_sums is not None:
            values = result.preference_sums.tolist()
            sums |= dict(zip(PREFERENCE_SUMS, values, strict=True))
        return sums

    def _compute_loss(self, problem: Problem, dropout_key: DropoutKey | None) -> LossOfStates:
        """Nats of the answers, what is trained on, and the states they came from."""
        # bf16 on CUDA; elsewhere full precision, since bf16 may be hundreds of times slower there.
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            hidden = self.hidden_states(problem.inputs, dropout_key)
            scored = _scored_states(problem, hidden.states_BTD)
            if self.head is None:
                states, table, bias = self.model.head_inputs(scored)
            else:
                states, table, bias = scored, self.head.weight, self.head.bias
        if self.comparison is not None:
            policy = HeadInputs(states.flatten(0, 1), table, bias)
            result = self._compare(problem, policy, self.comparison)
            return LossOfStates(result.loss_sum, result.loss_sum, hidden, result.sums)
        targets, weights = problem.targets_BM.flatten(), problem.weights_BM.flatten()
        nats, loss = nats_sum(states.flatten(0, 1), table, bias, targets, weights, self.spec.z_loss)
        return LossOfStates(nats, loss, hidden)

    def _compare(
        self, problem: Problem, policy: HeadInputs, comparison: ParentComparison
    ) -> PreferenceResult:
        """The loss of pairs of responses, compared with the model that the stage began with."""
        with (
            torch.no_grad(),
            torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"),
        ):
            hidden = self.reference_states(problem.inputs, None)
            states, table, bias = comparison.reference.head_inputs(
                _scored_states(problem, hidden.states_BTD)
            )
        responses = Responses(problem.targets_BM, problem.weights_BM, problem.scored_pairs)
        reference = HeadInputs(states.flatten(0, 1), table, bias)
        return preference_loss(policy, reference, responses, comparison.beta)


def _scored_states(problem: Problem, states_BTD: Tensor) -> Tensor:
    """The rows that are asked for; on CUDA the gradient of a lookup is cheap in a fixed order,
    a gather's is not.
    """
    n_sequences, length, _ = states_BTD.shape
    in_order = states_BTD.device.type == "cuda" and torch.are_deterministic_algorithms_enabled()
    if (
        problem.pooled_BT is not None
        or not in_order
        or problem.scored_positions_BM.shape[1] == length
    ):
        return problem.gather_states(states_BTD)
    first_B1 = torch.arange(n_sequences, device=states_BTD.device)[:, None] * length
    return look_up(problem.scored_positions_BM + first_B1, states_BTD.flatten(0, 1))


def _compiles_by_block(model: Transformer) -> bool:
    """Is each block compiled by itself? Its code serves every layer, so it is made much sooner than
    that of the whole model; what is lost is that neighbouring blocks share kernels.

    An encoder-decoder needs code for each split of a text, its lengths. Dropout draws by the name
    of the layer, so that code would serve one layer alone.
    """
    return model.encoder is not None and not model.spec.dropout


def _compile_blocks(model: Transformer, owner: object) -> None:
    """Each block compiled by itself, for as long as an owner lives: what puts the weights of a
    sharded block together, before it is called, is no part of the code.
    """
    blocks = [block for block in model.modules() if isinstance(block, TransformerBlock)]
    for block in blocks:
        block.forward = _compile(block.forward, _VARYING_IN_BLOCK)
    # a block that holds its own compiled form would wait for the garbage collector
    weakref.finalize(owner, _forget_compiled, blocks)


def _forget_compiled(blocks: list[TransformerBlock]) -> None:
    for block in blocks:
        del block.forward


def _compile(function: Callable[P, T], varying: str) -> Callable[P, T]:
    """Compiled at the first call; a length or split that changes from step to step becomes a
    variable of the code.

    Where determinism is asked each length has code of its own: code for any length would round as
    the lengths that came first made it, and a resumed run meets others first. What is
    named as varying may do so there: no sum depends on it.
    """
    compiled = torch.compile(function)

    def call(*arguments: P.args, **named: P.kwargs) -> T:
        deterministic = torch.are_deterministic_algorithms_enabled()
        sources = varying if deterministic else ""
        with (
            torch._dynamo.config.patch(
                {**_RECOMPILE_LIMITS, "automatic_dynamic_shapes": not deterministic}
            ),
            functorch_config.patch(_KEEP_OWN_GRADIENTS),
            _COMPILER_CONFIG.patch(dynamic_sources=sources),
        ):
            return compiled(*arguments, **named)

    return call
