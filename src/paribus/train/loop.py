"""A run from its first step to its last, however often it is interrupted."""

from __future__ import annotations

import math
import signal
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from paribus.corpus import TokenisedCorpus
from paribus.corpus.labelled_rows import LabelledCorpus
from paribus.corpus.own_pairs import with_own_pairs
from paribus.errors import DivergedError, RecordError, SpecError
from paribus.model import Transformer, build
from paribus.model.label_head import build_label_head
from paribus.objectives import Problem, reads_on, require_permitted, separates_documents
from paribus.record import RowWriter, Run, current_environment, named_folder, open_run_folder
from paribus.runtime import cudnn_version, deferred_signals, device_kind, select_device
from paribus.spec import Flops, resolve
from paribus.spec.conversation import encodes_turns
from paribus.spec.objectives import Preference, TextLabels, WordTags
from paribus.spec.run import RunSpec, addressed_stages
from paribus.train import training_state
from paribus.train.counters import RowSums, Totals, mean_loss, nats_per_target, preference_numbers
from paribus.train.determinism import deterministic_algorithms
from paribus.train.learner import Learner
from paribus.train.loader import ProblemLoader
from paribus.train.memory import require_training_memory
from paribus.train.model_loss import ParentComparison
from paribus.train.optimizers import launch_notes
from paribus.train.own_pairs import DrawPairs, describe_own_pairs, draw_with, own_pairs_of_run
from paribus.train.parent import (
    Texts,
    begin_checkpoint,
    name_of_run,
    parent_checkpoint,
    parent_folder,
    require_finished_parent,
    require_parent_environment,
    take_over_weights,
    with_carried_files,
    with_own_draws,
)
from paribus.train.problem_flops import ProblemShape, problem_shape, row_flops
from paribus.train.ranks import SINGLE_RANK, Ranks
from paribus.train.resume import ResumePoint, find_resume_point
from paribus.train.schedule import learning_rate_at
from paribus.train.sharding import require_shardable
from paribus.train.training_state import text_files
from paribus.watcher import Watcher
from paribus.workspace import Workspace


@dataclass(frozen=True)
class TrainOutcome:
    """Where a run is kept and how far it got."""

    folder: Path
    step: int
    # what a person should be told, and the watcher was: checkpoints skipped, rows cut, …
    notes: tuple[str, ...]


def train(
    spec: RunSpec,
    text: TokenisedCorpus | Texts,
    workspace: Workspace,
    *,
    name: str | None = None,
    ranks: Ranks = SINGLE_RANK,
    watcher: Watcher | None = None,
    draw_pairs: DrawPairs | None = None,
) -> TrainOutcome:
    """Train the last stage of a run, or go on training; a finished one is left as it is.

    `text` is that of the stage; of several stages, one for each. The stage before must be
    finished: `train_chain` trains all of them. Where it begins is noted before its first step. A
    signal saves the run after its step and leaves by SystemExit(128 + signal). Of several ranks
    the first one keeps the record and is watched; the others learn with it. `draw_pairs` gives
    the pairs of a stage that prefers between own responses (`generate.draw_own_pairs`).
    """
    texts = (text,) if isinstance(text, TokenisedCorpus) else text
    require_trainable(spec, texts[-1])
    if ranks.is_sharded:
        require_shardable(spec.last)
    device = select_device(workspace.device)
    require_training_memory(spec, device, n_shards=ranks.n_shards)
    parent = parent_folder(spec, texts, workspace.runs_folder)
    inputs = StageInputs(spec, texts[-1], parent, draw_pairs)
    if not ranks.is_leader:
        return _Loop(None, inputs, device, ranks, Watcher()).train()
    here = current_environment(
        torch.get_num_threads(),
        device_kind(device, ranks.world_size, ranks.is_sharded),
        cudnn_version(device),
    )
    if parent is not None:
        child = named_folder(workspace.runs_folder, name or name_of_run(spec, texts))
        require_parent_environment(parent, child, here, workspace.accept_environment)
    with open_run_folder(
        workspace.runs_folder,
        addressed_stages(spec, [own.fingerprint for own in texts]),
        here,
        name,
        workspace.accept_environment,
    ) as run:
        return _Loop(run, inputs, device, ranks, watcher or Watcher()).train()


def require_trainable(spec: RunSpec, dataset: TokenisedCorpus) -> None:
    """SpecError where the last stage of a run cannot be trained on its text."""
    stage = spec.last
    require_permitted(stage.objective, resolve(spec.last_architecture), stage.training.length)
    if isinstance(stage.objective, TextLabels | WordTags):
        LabelledCorpus(dataset, stage.objective).require_labels()
    else:
        for split in ("train", "valid"):
            dataset.require_rows(split, stage.training.length)
    n_vocab = spec.last_architecture.n_vocab
    if dataset.vocabulary.size > n_vocab:
        raise SpecError(
            f"architecture.n_vocab is {n_vocab}, but the tokenizer and our"
            f" special tokens need {dataset.vocabulary.size}; use that or more, or leave it out"
        )


@dataclass(frozen=True, eq=False)
class StageInputs:
    """What the last stage of a run begins with."""

    spec: RunSpec
    dataset: TokenisedCorpus
    parent: Path | None  # the folder of the stage before; None: it starts from initial weights
    draw_pairs: DrawPairs | None = None


class _Loop:
    """The moving parts of one run; only the rank that leads has its record."""

    def __init__(
        self,
        run: Run | None,
        inputs: StageInputs,
        device: torch.device,
        ranks: Ranks,
        watcher: Watcher,
    ):
        spec, dataset = inputs.spec, inputs.dataset
        stage = with_own_draws(spec.last, len(spec.stages) - 1)
        self.run, self.training, self.device, self.ranks = run, stage.training, device, ranks
        self.watcher, self.inputs = watcher, inputs
        # what each checkpoint holds beside weights and the optimizer's memory
        self.files = text_files(spec, dataset)
        # sharded weights are never whole on a device: shapes alone, until they are cut
        built_on = torch.device("meta") if ranks.is_sharded else device
        model = build(spec.last_architecture, seed=stage.training.seed, device=built_on)
        has_encoder, documents = model.encoder is not None, separates_documents(model.spec)
        self.loader = ProblemLoader(
            dataset=dataset,
            stage=stage,
            has_encoder=has_encoder,
            separates_documents=documents,
            reads_on=reads_on(model.spec),
            encodes_turns=encodes_turns(model.spec),
            ranks=ranks,
            pin_memory=device.type == "cuda",
        )
        head = None
        if self.loader.labelled is not None:
            names = self.loader.labelled.names
            head = build_label_head(names, model.spec, stage.training.seed, built_on)
        self.comparison = None
        if isinstance(stage.objective, Preference):
            reference = build(spec.last_architecture, device=device).requires_grad_(False)
            self.comparison = ParentComparison(reference, stage.objective.beta)
        self.learner = Learner(
            model, stage.training, dataset.vocabulary, ranks, head, self.comparison
        )
        if ranks.is_sharded:
            self.learner.initialise(stage.training.seed)
        self.row_sums, self.seconds, self.timer_start = RowSums(torch.zeros(())), 0.0, 0.0
        # of the processes before a resume
        self.earlier_compile_seconds, self.earlier_compile_wait_seconds = 0.0, 0.0
        self.totals: dict[int, Totals] = {-1: Totals()}  # after each step since the last row
        self.tokens_scored, self.bytes_scored = 0.0, 0.0
        self.notes: list[str] = []
        # nats of held-out text at this step, if it was visited
        self.valid_nats: float | None = None
        self.flops_by_shape: dict[ProblemShape, Flops] = {}

    def train(self) -> TrainOutcome:
        start: ResumePoint = self.ranks.broadcast(
            None if self.run is None else find_resume_point(self.run, self.training)
        )
        for note in start.notes:
            self._note(note)
        if not start.finished:
            for note in launch_notes(self.training.optimizer, self.device, self.ranks.is_sharded):
                self._note(note)
            with deterministic_algorithms(self.training.deterministic):
                self._train_from(start)
        return TrainOutcome(start.folder, self.training.n_steps, tuple(self.notes))

    def _train_from(self, resume_point: ResumePoint) -> None:
        checkpoint = resume_point.checkpoint
        if checkpoint is not None:
            self._restore_state(checkpoint, resume_point.step)
        else:
            checkpoint = self._first_checkpoint()
            self._take_over(self.learner.model, checkpoint)
        if checkpoint is not None:
            self.files = with_carried_files(self.files, checkpoint)
        if self.comparison is not None:
            self._take_over(self.comparison.reference, self._first_checkpoint())
            self._prepare_own_pairs(self.comparison.reference, resume_point)
        if self.run is None:
            rows, cut = (None, None)
        else:
            rows, cut = self.run.open_rows(resume_point.step)
        if cut is not None and cut.description:
            self._note(cut.description)
        with rows or nullcontext(), deferred_signals() as caught_signals:
            self._train_steps(resume_point.step + 1, rows, caught_signals)
        if self.run is not None:
            self.run.finish()

    def _first_checkpoint(self) -> Path | None:
        """The checkpoint whose weights the stage begins with; None for initial weights."""
        spec, parent = self.inputs.spec, self.inputs.parent
        if parent is not None:
            require_finished_parent(parent)
            return parent_checkpoint(parent, spec)
        if spec.begin is not None:
            return begin_checkpoint(spec.begin)
        return None

    def _take_over(self, model: Transformer, checkpoint: Path | None) -> None:
        """Give a model the weights that the stage begins with."""
        if checkpoint is not None:
            take_over_weights(model, checkpoint, self.training.seed)

    def _prepare_own_pairs(self, reference: Transformer, resume_point: ResumePoint) -> None:
        """Read pairs of own responses where the stage asks for them: those that were drawn when it
        began, or drawn now by the rank that leads.
        """
        stage, dataset = self.loader.stage, self.inputs.dataset
        if not isinstance(stage.objective, Preference) or stage.objective.own_samples is None:
            return
        own = None
        if self.run is not None:
            own = own_pairs_of_run(
                self.run.folder,
                lambda: draw_with(self.inputs.draw_pairs, reference, dataset, stage),
                is_resumed=resume_point.checkpoint is not None,
            )
            self._note(describe_own_pairs(own, self.run.folder))
        own = self.ranks.broadcast(own)
        self.loader = replace(self.loader, dataset=with_own_pairs(dataset, own))

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self.watcher.note(text)

    def _restore_state(self, folder: Path, step: int) -> None:
        pending = training_state.load_training_state(folder, self.learner)
        tokens_read, flops, self.tokens_scored, self.bytes_scored, self.seconds, *more = (
            pending.pop("counters").tolist()
        )
        if not more and self.loader.has_padding:
            raise RecordError(
                f"{folder} was saved when tokens_read still counted padding, and the rows of one"
                " run have one count; train it from its start, in another folder by --runs or"
                " under another --name"
            )
        self.totals = {step: Totals(int(tokens_read), flops, int(more[0] if more else tokens_read))}
        self.earlier_compile_seconds = more[1] if len(more) > 1 else 0.0
        self.earlier_compile_wait_seconds = more[2] if len(more) > 2 else 0.0
        self.row_sums.sums = {name: tensor.to(self.device) for name, tensor in pending.items()}

    def _train_steps(self, first: int, rows: RowWriter | None, caught_signals: list[int]) -> None:
        n_steps = self.training.n_steps
        self.timer_start = time.monotonic()
        for step, micro_batches in enumerate(self.loader.prefetch(first, n_steps), first):
            self.valid_nats = None  # a score is of one state and no other
            own_targets = sum(float(problem.n_terms) for problem in micro_batches)
            n_tokens = sum(problem.inputs.n_tokens for problem in micro_batches)
            n_targets, signals, tokens_read = self.ranks.summed(
                own_targets, float(bool(caught_signals)), n_tokens
            )
            self.row_sums.add(self.learner.step(step, micro_batches, n_targets))
            self._add_totals(step, micro_batches, int(tokens_read))
            last = step == n_steps - 1
            with_validation = (step + 1) % self.training.valid_every == 0 or last
            if (step + 1) % self.training.row_every == 0 or with_validation:
                self._finish_row(step, rows, with_validation)
            # Ranks stop at the same step: the one after a signal, which all of them were told of.
            if self.ranks.world_size == 1:
                stopping = bool(caught_signals)
            else:
                stopping = signals > 0
            is_planned = (step + 1) % self.training.checkpoint_every == 0 or last
            if is_planned or stopping:
                self._save_checkpoint(step, is_interruption=not is_planned)
            if stopping and not last:
                self._note(
                    f"interrupted: step {step + 1} of {n_steps} is saved; the same command resumes"
                )
                raise SystemExit(128 + (caught_signals[0] if caught_signals else signal.SIGTERM))
            self.watcher.step(step)

    def _update_timer(self) -> None:
        """Time up to here is training; validation and saving are not, and start the clock anew
        when done.
        """
        now = time.monotonic()
        self.seconds, self.timer_start = self.seconds + now - self.timer_start, now

    @property
    def _compile_seconds(self) -> float:
        """Seconds of the run, among those of training, in which its code was compiled."""
        return self.earlier_compile_seconds + self.learner.compile_seconds

    @property
    def _compile_wait_seconds(self) -> float:
        """Seconds of the run, among those of training, in which another process compiled its
        code.
        """
        return self.earlier_compile_wait_seconds + self.learner.compile_wait_seconds

    def _save_checkpoint(self, step: int, *, is_interruption: bool = False) -> None:
        """A checkpoint; where a gradient or a weight is not finite there is none, and the run
        ends.
        """
        if self.learner.diverged.item() and step >= self.learner.diverged_step.item():
            self._stop_diverged()
        self._require_finite(step)
        if self.run is None and not self.ranks.is_sharded:
            return
        self._update_timer()
        tensors = training_state.collect_training_tensors(self.learner)
        if self.run is None:
            self.timer_start = time.monotonic()
            return
        totals = self.totals[step]
        counters = [
            totals.tokens_read,
            totals.dense_flops,
            self.tokens_scored,
            self.bytes_scored,
            self.seconds,
        ]
        counters += [totals.positions_computed, self._compile_seconds, self._compile_wait_seconds]
        pending = {**self.row_sums.sums, "counters": torch.tensor(counters, dtype=torch.float64)}

        def fill(folder: Path) -> None:
            training_state.save_training_state(folder, self.learner, tensors, self.files, pending)

        self.run.commit_checkpoint(
            step, fill, self.valid_nats, self.training.keep_last, is_interruption
        )
        self.timer_start = time.monotonic()

    def _require_finite_valid_loss(self, step: int) -> None:
        """A held-out loss that is not finite ends the run on every rank; the one that leads
        knows it.
        """
        self.valid_nats = self.ranks.broadcast(self.valid_nats)
        if self.valid_nats is not None and not math.isfinite(self.valid_nats):
            self._require_finite(step)
            fault = f"the held-out loss after step {step} is not finite: {self.valid_nats}"
            raise self._diverged_error(
                f"{fault}; {self._describe_newest_checkpoint()}; lower the rate"
            )

    def _require_finite(self, step: int) -> None:
        """DivergedError where a weight is not finite: such a state is of no use to anybody."""
        weight_name = self.learner.first_nonfinite()
        if weight_name is not None:
            raise self._diverged_error(
                f"the weight {weight_name} is not finite after step {step};"
                f" {self._describe_newest_checkpoint()}; lower the rate"
            )

    def _describe_newest_checkpoint(self) -> str:
        """Which state there is to go back to."""
        if self.run is None:
            return "the rank that leads says what is kept"
        checkpoint = self.run.latest_checkpoint().checkpoint
        if checkpoint is None:
            return "there is no checkpoint"
        return f"the newest good checkpoint is {checkpoint.folder.name}"

    def _diverged_error(self, message: str) -> DivergedError:
        return DivergedError(message if self.run is None else f"{self.run.folder}: {message}")

    def _add_totals(self, step: int, micro_batches: list[Problem], n_tokens: int) -> None:
        """Tokens read by all ranks; positions computed and FLOPs spent, from the shapes alone."""
        before = self.totals[step - 1]
        positions, flops = 0, 0.0
        for problem in micro_batches:
            shape = problem_shape(problem)
            if shape not in self.flops_by_shape:
                self.flops_by_shape[shape] = row_flops(
                    self.learner.model.spec, self.inputs.spec.last.objective, shape
                )
            positions += problem.inputs.n_positions
            flops += problem.inputs.layout.n_sequences * self.flops_by_shape[shape].dense
        size = self.ranks.world_size  # every rank has as many rows of the same lengths
        self.totals[step] = Totals(
            before.tokens_read + n_tokens,
            before.dense_flops + flops * size,
            before.positions_computed + positions * size,
        )

    def _finish_row(self, step: int, rows: RowWriter | None, with_validation: bool) -> None:
        """One line of the record; but for checkpoints the only place where the device is asked
        anything.
        """
        if self.learner.diverged.item():
            self._stop_diverged()
        self._update_timer()
        sums = self.row_sums.take()
        self.tokens_scored, self.bytes_scored = (
            self.tokens_scored + sums["target_count"],
            self.bytes_scored + sums["byte_count"],
        )
        totals = self.totals[step]
        self.totals = {step: totals}
        # where weights are sharded every rank takes part, elsewhere the one that leads
        takes_part = rows is not None or self.ranks.is_sharded
        valid_sums = self._validation_sums() if with_validation and takes_part else None
        if rows is not None:
            self._write_row(step, rows, sums, totals, valid_sums)
        if with_validation:
            self.timer_start = time.monotonic()
            self._require_finite_valid_loss(step)

    def _write_row(
        self,
        step: int,
        rows: RowWriter,
        sums: dict[str, float],
        totals: Totals,
        valid_sums: dict[str, float] | None,
    ) -> None:
        row: dict[str, Any] = {
            "step": step,
            "tokens_read": totals.tokens_read,
            "positions_computed": totals.positions_computed,
            "tokens_scored": int(self.tokens_scored),
            "bytes_scored": int(self.bytes_scored),
            "dense_flops": totals.dense_flops,
            "seconds": round(self.seconds, 3),
            "nats": mean_loss(sums),
            "rate": learning_rate_at(step, self.training),
            "gradient_norm": self.row_sums.gradient_norm.item(),
            **preference_numbers(sums),
        }
        if self._compile_seconds > 0:
            row["compile_seconds"] = round(self._compile_seconds, 3)
        if round(self._compile_wait_seconds, 3) > 0:
            row["compile_wait_seconds"] = round(self._compile_wait_seconds, 3)
        if valid_sums is not None:
            valid_nats = nats_per_target(valid_sums["nats_sum"], valid_sums["target_count"])
            self.valid_nats = row["valid_nats"] = valid_nats
            for name, value in preference_numbers(valid_sums).items():
                row[f"valid_{name}"] = value
            if self.valid_nats is None or row["nats"] is None:
                row["gap"] = None
            else:
                row["gap"] = self.valid_nats - row["nats"]
        self.watcher.row(rows.write(row))

    def _validation_sums(self) -> dict[str, float]:
        """Sums over the validation problems; where weights are sharded, each rank scores its
        share.
        """
        sums = {"nats_sum": 0.0, "target_count": 0.0}
        for problem in self.loader.validation_problems():
            for name, value in self.learner.score_sums(problem).items():
                sums[name] = sums.get(name, 0.0) + value
        if self.ranks.is_sharded:
            sums = dict(zip(sums, self.ranks.summed(*sums.values()), strict=True))
        return sums

    def _stop_diverged(self) -> None:
        """Nothing has moved or been counted since the bad step: what is saved is the state
        before it.
        """
        bad_step = int(self.learner.diverged_step.item())
        if bad_step > 0:
            self._save_checkpoint(bad_step - 1)
            state_text = "the state before it is saved"
        else:
            state_text = "it is the first, so there is nothing to save"
        raise self._diverged_error(
            f"the gradient of step {bad_step} is not finite, on global batch {bad_step};"
            f" {state_text}; lower the rate, or look at that batch"
        )
