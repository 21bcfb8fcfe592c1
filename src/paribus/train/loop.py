"""A run from its first step to its last, however often it is interrupted."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from paribus.corpus import Built
from paribus.errors import DivergedError, RecordError, SpecError
from paribus.masks import Layout
from paribus.model import build
from paribus.objectives import Problem, keeps_documents, permit
from paribus.record import Rows, Run, environment, opened
from paribus.runtime import cudnn_version, device_kind, prepare_cuda
from paribus.spec import Flops, resolve
from paribus.spec.price import training_flops
from paribus.spec.run import RunSpec, Stage, addressed_stages
from paribus.train import checkpoint
from paribus.train.beginning import Beginning, beginning
from paribus.train.determinism import deterministic_algorithms
from paribus.train.learner import Learner
from paribus.train.lesson import Lessons
from paribus.train.memory import require_training_memory
from paribus.train.ranks import ALONE, Ranks
from paribus.train.schedule import rate_at
from paribus.train.signals import heeded
from paribus.train.tally import Open, Spent, mean

OnRow = Callable[[dict[str, Any]], None]
OnStep = Callable[[int], None]
OnNote = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """Where a run is kept and how far it got."""

    folder: Path
    step: int
    notes: tuple[str, ...]  # what a person should be told, and `on_note` was: checkpoints skipped, rows cut, …


def train(
    spec: RunSpec,
    built: Built,
    root: Path,
    *,
    device: torch.device,
    name: str | None = None,
    accept_environment: bool = False,
    ranks: Ranks = ALONE,
    on_row: OnRow | None = None,
    on_step: OnStep | None = None,
    on_note: OnNote | None = None,
) -> Outcome:
    """Train, or go on training; a finished run is left as it is.

    Where it begins is noted before its first step. A signal saves the run after its step and leaves by
    SystemExit(128 + signal). Of several ranks the first one keeps the record and calls back; the others learn with it.
    """
    (stage,) = spec.stages
    _check(spec, stage, built)
    require_training_memory(spec, device)
    prepare_cuda(device)
    if not ranks.leads:
        return _Loop(None, spec, stage, built, device, ranks, None, None, None).go()
    here = environment(torch.get_num_threads(), device_kind(device, ranks.size), cudnn_version(device))
    with opened(root, addressed_stages(spec, built.fingerprint), here, name, accept_environment) as run:
        return _Loop(run, spec, stage, built, device, ranks, on_row, on_step, on_note).go()


def _check(spec: RunSpec, stage: Stage, built: Built) -> None:
    permit(stage.objective, resolve(spec.architecture), stage.training.length)
    for split in ("train", "valid"):
        built.require(split, stage.training.length)
    if built.vocabulary.size > spec.architecture.n_vocab:
        raise SpecError(
            f"architecture.n_vocab is {spec.architecture.n_vocab}, but the tokenizer and our signs need "
            f"{built.vocabulary.size}; use that or more, or leave it out"
        )


class _Loop:
    """The moving parts of one run; only the rank that leads has its record."""

    def __init__(
        self, run: Run | None, spec: RunSpec, stage: Stage, built: Built, device: torch.device, ranks: Ranks,
        on_row: OnRow | None, on_step: OnStep | None, on_note: OnNote | None,
    ):  # fmt: skip
        self.run, self.training, self.device, self.ranks = run, stage.training, device, ranks
        self.on_row, self.on_step, self.on_note, self.tokenizer = on_row, on_step, on_note, built.tokenizer.json
        model = build(spec.architecture, seed=stage.training.seed, device=device)
        self.learner = Learner(model, stage.training, built.vocabulary, ranks)
        has_encoder, documents = model.encoder is not None, keeps_documents(model.spec)
        self.lessons = Lessons(built, stage, has_encoder, documents, ranks, pinned=device.type == "cuda")
        self.open, self.seconds, self.since = Open(torch.zeros(())), 0.0, 0.0
        self.spent: dict[int, Spent] = {-1: Spent()}  # after each step since the last row
        self.scored, self.n_bytes = 0.0, 0.0
        self.notes: list[str] = []
        self.valid: float | None = None  # nats of held-out text at this step, if it was visited
        self.prices: dict[tuple[int, int, int], Flops] = {}  # by length, source length and words asked for

    def go(self) -> Outcome:
        start: Beginning = self.ranks.told(None if self.run is None else beginning(self.run, self.training))
        for note in start.notes:
            self._note(note)
        if not start.finished:
            with deterministic_algorithms(self.training.deterministic):
                self._go_on(start)
        return Outcome(start.folder, self.training.n_steps, tuple(self.notes))

    def _go_on(self, start: Beginning) -> None:
        if start.checkpoint is not None:
            self._resume(start.checkpoint, start.step)
        rows, cut = (None, None) if self.run is None else self.run.rows(start.step)
        if cut is not None and cut.said:
            self._note(cut.said)
        with rows or nullcontext(), heeded() as caught:
            self._steps(start.step + 1, rows, caught)
        if self.run is not None:
            self.run.finish()

    def _note(self, said: str) -> None:
        self.notes.append(said)
        if self.on_note is not None:
            self.on_note(said)

    def _resume(self, folder: Path, step: int) -> None:
        pending = checkpoint.read(folder, self.learner)
        read, flops, self.scored, self.n_bytes, self.seconds, *more = pending.pop("counters").tolist()
        if not more and self.lessons.pads:
            raise RecordError(
                f"{folder} was saved when tokens_read still counted padding, and the rows of one run have one count; "
                f"train it from its start, in another folder by --runs or under another --name"
            )
        self.spent = {step: Spent(int(read), flops, int(more[0] if more else read))}
        self.open.sums = {name: tensor.to(self.device) for name, tensor in pending.items()}

    def _steps(self, first: int, rows: Rows | None, caught: list[int]) -> None:
        n_steps = self.training.n_steps
        self.since = time.monotonic()
        for step, parts in enumerate(self.lessons.ahead(first, n_steps), first):
            self.valid = None  # a score is of one state and no other
            own = sum(float(part.weights_BM.sum()) for part in parts)
            n_tokens = sum(part.inputs.n_tokens for part in parts)
            total, signals, read = self.ranks.added(own, float(bool(caught)), n_tokens)
            self.open.add(self.learner.step(step, parts, total))
            self._count(step, parts, int(read))
            last = step == n_steps - 1
            held_out = (step + 1) % self.training.valid_every == 0 or last
            if (step + 1) % self.training.row_every == 0 or held_out:
                self._row(step, rows, held_out)
            # Ranks stop at the same step: the one after a signal, which all of them were told of.
            stopping = bool(caught) if self.ranks.size == 1 else signals > 0
            if (step + 1) % self.training.checkpoint_every == 0 or last or stopping:
                self._save(step)
            if stopping and not last:
                self._note(f"interrupted: step {step + 1} of {n_steps} is saved; the same command goes on")
                raise SystemExit(128 + (caught[0] if caught else signal.SIGTERM))
            if self.on_step is not None:
                self.on_step(step)

    def _tick(self) -> None:
        """Time up to here is training; validation and saving are not, and start the clock anew when done."""
        now = time.monotonic()
        self.seconds, self.since = self.seconds + now - self.since, now

    def _save(self, step: int) -> None:
        """A checkpoint; where a gradient or a weight is not finite there is none, and the run ends."""
        if self.learner.bad.item() and step >= self.learner.bad_step.item():
            self._stop()
        self._require_finite(step)
        if self.run is None:
            return
        self._tick()
        spent = self.spent[step]
        counters = [spent.tokens_read, spent.dense_flops, self.scored, self.n_bytes, self.seconds]
        counters.append(spent.positions_computed)
        pending = {**self.open.sums, "counters": torch.tensor(counters, dtype=torch.float64)}

        def fill(folder: Path) -> None:
            checkpoint.write(folder, self.learner, self.tokenizer, pending)

        self.run.save(step, fill, self.valid, self.training.keep_last)
        self.since = time.monotonic()

    def _judge(self, step: int) -> None:
        """A held-out loss that is not finite ends the run on every rank; the one that leads knows it."""
        self.valid = self.ranks.told(self.valid)
        if self.valid is not None and not math.isfinite(self.valid):
            self._require_finite(step)
            said = f"the held-out loss after step {step} is not finite: {self.valid}"
            raise self._diverged(f"{said}; {self._kept()}; lower the rate")

    def _require_finite(self, step: int) -> None:
        """DivergedError where a weight is not finite: such a state is of no use to anybody."""
        broken = self.learner.broken()
        if broken is not None:
            raise self._diverged(f"the weight {broken} is not finite after step {step}; {self._kept()}; lower the rate")

    def _kept(self) -> str:
        """Which state there is to go back to."""
        if self.run is None:
            return "the rank that leads says what is kept"
        found = self.run.latest().checkpoint
        return "there is no checkpoint" if found is None else f"the newest good checkpoint is {found.folder.name}"

    def _diverged(self, said: str) -> DivergedError:
        return DivergedError(said if self.run is None else f"{self.run.folder}: {said}")

    def _count(self, step: int, parts: list[Problem], read: int) -> None:
        """Tokens read by all ranks; positions computed and FLOPs spent, from the shapes alone."""
        before = self.spent[step - 1]
        positions, flops = 0, 0.0
        for part in parts:
            layout, source = part.inputs.layout, part.inputs.source
            shape = (layout.length, 0 if source is None else source.layout.length, part.at_BM.shape[1])
            if shape not in self.prices:
                self.prices[shape] = training_flops(self.learner.model.spec, Layout(shape[0]), *shape[1:])
            positions += part.inputs.n_positions
            flops += layout.n_sequences * self.prices[shape].dense
        size = self.ranks.size  # every rank has as many rows of the same lengths
        self.spent[step] = Spent(
            before.tokens_read + read,
            before.dense_flops + flops * size,
            before.positions_computed + positions * size,
        )

    def _row(self, step: int, rows: Rows | None, valid: bool) -> None:
        """One line of the record; but for checkpoints the only place where the device is asked anything."""
        if self.learner.bad.item():
            self._stop()
        self._tick()
        sums = self.open.taken()
        self.scored, self.n_bytes = self.scored + sums["target_count"], self.n_bytes + sums["byte_count"]
        spent = self.spent[step]
        self.spent = {step: spent}
        if rows is not None:
            self._write(step, rows, sums, spent, valid)
        if valid:
            self._judge(step)

    def _write(self, step: int, rows: Rows, sums: dict[str, float], spent: Spent, valid: bool) -> None:
        row: dict[str, Any] = {
            "step": step, "tokens_read": spent.tokens_read, "positions_computed": spent.positions_computed,
            "tokens_scored": int(self.scored),
            "bytes_scored": int(self.n_bytes), "dense_flops": spent.dense_flops, "seconds": round(self.seconds, 3),
            "nats": mean(sums["nats_sum"], sums["target_count"]), "rate": rate_at(step, self.training),
            "gradient_norm": self.open.norm.item(),
        }  # fmt: skip
        if valid:
            self.valid = row["valid_nats"] = self._valid()
            row["gap"] = None if self.valid is None or row["nats"] is None else self.valid - row["nats"]
            self.since = time.monotonic()
        written = rows.write(row)
        if self.on_row is not None:
            self.on_row(written)

    def _valid(self) -> float | None:
        scores = [self.learner.score(problem) for problem in self.lessons.held_out()]
        return mean(sum(nats for nats, _ in scores), sum(count for _, count in scores))

    def _stop(self) -> None:
        """Nothing has moved or been counted since the bad step: what is saved is the state before it."""
        bad = int(self.learner.bad_step.item())
        if bad > 0:
            self._save(bad - 1)
        kept = "the state before it is saved" if bad > 0 else "it is the first, so there is nothing to save"
        raise self._diverged(
            f"the gradient of step {bad} is not finite, on global batch {bad}; {kept}; "
            f"lower the rate, or look at that batch"
        )
