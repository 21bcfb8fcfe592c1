"""A model, its optimizer, and one step of learning that never asks the device a question, unless
the optimizer does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from paribus.batch import Vocabulary
from paribus.errors import SpecError
from paribus.model import Transformer, updated_selection_bias
from paribus.model.experts import RoutedExperts
from paribus.model.initialise import initialise
from paribus.model.label_head import LABEL_HEAD, LabelHead, initialise_label_head
from paribus.model.shards import own_rows
from paribus.objectives import Problem
from paribus.spec import Architecture, BatchBalance, Experts, parameters, text_parameters
from paribus.spec.parameters import label_head_parameters
from paribus.spec.role_rates import adam_eps_factor, rate_share
from paribus.spec.training import Training
from paribus.train.compile_turns import CompileTurns
from paribus.train.cuda_graph import CUDAGraphRunner, code_key
from paribus.train.determinism import deterministic_algorithms, require_determinism
from paribus.train.model_loss import MicroBatchLoss, ModelWithLoss, ParentComparison
from paribus.train.optimizers import LearnedParameter, build_optimizers
from paribus.train.preference import PREFERENCE_SUMS
from paribus.train.ranks import SINGLE_RANK, Ranks
from paribus.train.schedule import learning_rate_at
from paribus.train.sharding import release_weights, set_gradient_sync


@dataclass(frozen=True, eq=False)
class StepSums:
    """What a step saw, on the device: sums over the whole batch; nothing of a step that went
    wrong, or after it.
    """

    nats_sum: Tensor
    target_count: Tensor
    byte_count: Tensor
    gradient_norm: Tensor
    preference_sums: Mapping[str, Tensor] = field(default_factory=dict)


class Learner:
    """What moves: weights, the optimizer's memory, the experts' biases, and whether anything
    went wrong.

    Where the ranks share out the weights, a model may be of shapes alone; `initialise` then gives
    it its starting values.
    """

    def __init__(
        self,
        model: Transformer,
        training: Training,
        vocabulary: Vocabulary,
        ranks: Ranks = SINGLE_RANK,
        head: LabelHead | None = None,
        comparison: ParentComparison | None = None,
    ):
        require_divisible(model.architecture, training, ranks)
        self.model, self.training, self.ranks, self.head = model, training, ranks, head
        if head is not None:
            _freeze_unused(model)
        self.device = ranks.shard_device or model.embedding.weight.device
        if training.deterministic:
            require_determinism(self.device)
        self.model_loss = ModelWithLoss(
            model, training, vocabulary, head, comparison, ranks.shard_device
        )
        self.data_parallel = ranks.data_parallel(self.model_loss)
        self.optimizer = build_optimizers(
            self._learned_parameters(),
            training,
            self.device,
            adam_eps_factor(model.spec),
            captures=not ranks.is_sharded,
        )
        # Written in place: a replayed step reads and writes these very tensors. the step at hand
        self.step_number = torch.zeros((), dtype=torch.int64, device=self.device)
        # targets of its whole batch, at least 1
        self.n_targets = torch.ones((), device=self.device)
        # 1 where that has none: then nothing moves
        self.has_no_targets = torch.zeros((), device=self.device)
        # what its gradient is divided by, to clip it
        self.clip_scale = torch.ones((), device=self.device)
        # 1 from the first gradient that is not finite: nothing moves from then on
        self.diverged = torch.zeros((), device=self.device)
        self.diverged_step = torch.full((), -1, dtype=torch.int64, device=self.device)
        self.withheld = torch.zeros((), device=self.device)  # 1 where it is idle, or bad
        self.optimizer.read_on_device(self.withheld, self.clip_scale)
        is_alone = ranks.world_size == 1 and not ranks.is_sharded
        can_capture = self.optimizer.can_be_captured and is_alone
        compiled = (model.spec, head is not None, comparison is not None, training.deterministic)
        self.turns = CompileTurns(repr(compiled))
        self.graph_runner = CUDAGraphRunner[StepSums](
            self.device, self.device.type == "cuda" and can_capture, self.turns
        )

    @property
    def compile_seconds(self) -> float:
        """Seconds in which the code of steps was compiled; that of scoring is not among it."""
        return self.graph_runner.clock.seconds

    @property
    def compile_wait_seconds(self) -> float:
        """Seconds that steps have waited for another process that compiled the same code."""
        return self.graph_runner.clock.wait_seconds

    def initialise(self, seed: int) -> None:
        """Give model and head their starting values, drawn whole and one by one."""
        initialise(self.model, self.model.spec, seed)
        if self.head is not None:
            initialise_label_head(self.head, self.model.spec, seed)

    def named_parameters(self) -> dict[str, Tensor]:
        """Every parameter that learns, by its name: those of the model and of a head."""
        named = dict(self.model.named_parameters())
        if self.head is not None:
            for name, parameter in self.head.named_parameters():
                named[f"{LABEL_HEAD}.{name}"] = parameter
        return {name: parameter for name, parameter in named.items() if parameter.requires_grad}

    def _learned_parameters(self) -> list[LearnedParameter]:
        """Every parameter that learns, with what a spec says of it."""
        table = parameters(self.model.spec)
        if self.head is not None:
            table |= label_head_parameters(self.model.spec, len(self.head.names))
        learned: list[LearnedParameter] = []
        for name, tensor in self.named_parameters().items():
            share = rate_share(table[name], self.model.spec)
            learned.append(LearnedParameter(name, tensor, table[name].role, share))
        return learned

    def step(
        self, step: int, micro_batches: Sequence[Problem], n_targets: float | None = None
    ) -> StepSums:
        """One step over this rank's micro-batches of a global batch; `n_targets` counts the
        targets of all ranks, or their pairs of responses.
        """
        if n_targets is None:
            n_targets = sum(float(micro_batch.n_terms) for micro_batch in micro_batches)
        self.step_number.fill_(step)
        self.n_targets.fill_(max(n_targets, 1.0))
        self.has_no_targets.fill_(n_targets == 0)
        self.optimizer.set_learning_rate(learning_rate_at(step, self.training))
        return self.graph_runner(self._step_in_mode, micro_batches)

    def score_sums(self, problem: Problem) -> dict[str, float]:
        """The sums of a held-out problem, those of preferences among them. Where weights are
        sharded, every rank scores a problem at the same time.
        """
        with self._scoring(problem):
            sums = self.model_loss.score_sums(problem.to(self.device))
        if self.ranks.is_sharded:
            release_weights(self.model_loss)
        return sums

    @contextmanager
    def _scoring(self, problem: Problem) -> Iterator[None]:
        """In the mode that was asked for; a forward pass without gradients has code of its own."""
        code = ("score", tuple(problem.targets_BM.shape), code_key([problem]))
        turn = self.turns.take(code) if self.graph_runner.captures else nullcontext()
        with deterministic_algorithms(self.training.deterministic), turn:
            yield

    @torch.no_grad()
    def first_nonfinite(self) -> str | None:
        """The first weight that is not finite, if there is one; the device is asked once."""
        state = {**self.model.state_dict(), **self.named_parameters()}
        finite = [torch.isfinite(own_rows(tensor)).all() for tensor in state.values()]
        n_faults = (~torch.stack(finite)).float()
        if self.ranks.is_sharded:
            self.ranks.all_reduce_(n_faults)
        for name, n in zip(state, n_faults.tolist(), strict=True):
            if n > 0:
                return name
        return None

    def _step_in_mode(self, micro_batches: Sequence[Problem]) -> StepSums:
        """A step launched or captured, in the mode that was asked for; one that is replayed has
        it in its kernels.
        """
        with deterministic_algorithms(self.training.deterministic):
            return self._step(micro_batches)

    def _step(self, micro_batches: Sequence[Problem]) -> StepSums:
        losses: list[MicroBatchLoss] = []
        for number, micro_batch in enumerate(micro_batches, 1):
            losses.append(self._backward_micro_batch(micro_batch, number == len(micro_batches)))
        norm = self._step_optimizer()
        self._update_selection_biases(losses)
        counts = torch.stack([loss.counts for loss in losses]).sum(0)
        nats, targets, n_bytes, *others = self.ranks.all_reduce_(
            torch.where(self.diverged > 0, 0.0, counts)
        ).unbind()
        preference_sums: dict[str, Tensor] = dict(zip(PREFERENCE_SUMS, others, strict=False))
        return StepSums(nats, targets, n_bytes, norm, preference_sums)

    def _backward_micro_batch(self, problem: Problem, is_last: bool) -> MicroBatchLoss:
        """The gradient of one micro-batch added to the others'; with the last one it is summed
        over the ranks.
        """
        if isinstance(self.data_parallel, DistributedDataParallel):
            parallel = self.data_parallel
        else:
            parallel = None
        if self.ranks.is_sharded:
            set_gradient_sync(self.data_parallel, is_last)
        with nullcontext() if parallel is None or is_last else parallel.no_sync():
            micro_batch_loss = self.data_parallel(problem, self.step_number, self.n_targets)
            micro_batch_loss.loss.backward()
        return micro_batch_loss

    @torch.no_grad()
    def _step_optimizer(self) -> Tensor:
        """The optimizer's step, held back on the device itself if the gradient is not finite,
        and ever after.

        A step that asks nothing is held back too: no gradient is no reason to decay.
        """
        clip = self.training.optimizer.clip
        norm = self._gradient_norm()
        bad = ~torch.isfinite(norm)
        self.diverged_step.copy_(
            torch.where(bad & (self.diverged == 0), self.step_number, self.diverged_step)
        )
        self.diverged.copy_(torch.maximum(self.diverged, bad.float()))
        self.withheld.copy_(torch.maximum(self.diverged, self.has_no_targets))
        if clip is not None:
            self.clip_scale.copy_((norm / clip).clamp(min=1.0))
        self.optimizer.step()
        return norm

    def _gradient_norm(self) -> Tensor:
        """The norm of the whole gradient, whoever holds it."""
        gradients: list[Tensor] = []
        for parameter in self.named_parameters().values():
            if parameter.grad is not None:
                gradients.append(own_rows(parameter.grad))
        own = torch.nn.utils.get_total_norm(gradients)
        if not self.ranks.is_sharded:
            return own
        return self.ranks.all_reduce_(own.double().square()).sqrt().to(own.dtype)

    @torch.no_grad()
    def _update_selection_biases(self, losses: Sequence[MicroBatchLoss]) -> None:
        """The experts' selection biases, moved by the counts of the whole global batch."""
        experts = self.model.architecture.feed_forward
        if not isinstance(experts, Experts) or experts.router.bias_rate is None:
            return
        for place in losses[0].choices:
            choice_counts = self.ranks.all_reduce_(
                torch.stack([loss.choices[place] for loss in losses]).sum(0)
            )
            layer = self.model.get_submodule(place).get_submodule("feed_forward")
            assert isinstance(layer, RoutedExperts)
            bias = layer.router.selection_bias
            assert bias is not None
            bias.copy_(
                torch.where(
                    self.withheld > 0,
                    bias,
                    updated_selection_bias(bias, choice_counts, experts.router.bias_rate),
                )
            )


def require_divisible(
    architecture: Architecture, training: Training, ranks: Ranks = SINGLE_RANK
) -> None:
    """SpecError where a batch cannot be learnt from in its micro-batches."""
    experts, rows = architecture.feed_forward, training.n_sequences
    if rows % training.n_micro_batches:
        raise SpecError(
            f"training.n_micro_batches is {training.n_micro_batches}, which does not divide"
            f" n_sequences {rows}; use a divisor of it"
        )
    if (
        isinstance(experts, Experts)
        and isinstance(experts.balance, BatchBalance)
        and ranks.n_micro_batches(training) > 1
    ):
        if ranks.world_size > 1:
            on_ranks = f" on {ranks.world_size} ranks"
        else:
            on_ranks = ""
        raise SpecError(
            f"training.n_micro_batches is {training.n_micro_batches}{on_ranks} with a balance loss"
            " over the batch, which micro-batches cannot share; use 1 on one rank, or"
            " feed_forward.balance = 'sequence'"
        )


def _freeze_unused(model: Transformer) -> None:
    """Leave out of learning what the states of a text do not depend on: a decoder beside an
    encoder, and the output head.
    """
    used = text_parameters(model.spec)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in used)
