"""A run from its first step to its last, however often it is interrupted."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paribus.corpus import Built
from paribus.errors import RecordError, SpecError
from paribus.model import build
from paribus.objectives import keeps_documents, permit
from paribus.record import Rows, Run, environment, opened
from paribus.spec import Flops, price, resolve
from paribus.spec.run import RunSpec, Stage
from paribus.train import checkpoint
from paribus.train.learner import Learner, Sums
from paribus.train.lesson import Lessons
from paribus.train.schedule import rate_at

OnRow = Callable[[dict[str, Any]], None]
OnStep = Callable[[int], None]


@dataclass(frozen=True)
class Outcome:
    """Where a run is kept and how far it got."""

    folder: Path
    step: int
    notes: tuple[str, ...]  # what a person should be told: leftovers removed, checkpoints skipped, rows cut


@dataclass
class _Open:
    """Sums since the last row, on the device."""

    device: torch.device
    sums: dict[str, Tensor] = field(default_factory=dict)

    def add(self, seen: Sums) -> None:
        for name in ("nats_sum", "target_count", "byte_count"):
            value = getattr(seen, name).double()
            self.sums[name] = self.sums[name] + value if name in self.sums else value

    def taken(self) -> dict[str, float]:
        numbers = {name: value.item() for name, value in self.sums.items()}
        self.sums = {}
        return numbers


def train(
    spec: RunSpec,
    built: Built,
    root: Path,
    *,
    device: torch.device,
    name: str | None = None,
    accept_environment: bool = False,
    on_row: OnRow | None = None,
    on_step: OnStep | None = None,
) -> Outcome:
    """Train, or go on training; a finished run is left as it is.

    A signal saves the run after its step and leaves by SystemExit(128 + signal).
    """
    (stage,) = spec.stages
    _check(spec, stage, built)
    chain = [{"architecture": spec.architecture.model_dump(mode="json"), "text": built.fingerprint,
              **stage.model_dump(mode="json")}]  # fmt: skip
    here = environment(torch.get_num_threads(), _device_kind(device))
    with opened(root, chain, here, name, accept_environment) as run:
        if run.before is not None and run.before.word == "finished":
            return Outcome(run.folder, stage.training.n_steps, ("it was finished before; nothing was done",))
        return _Loop(run, spec, stage, built, device, on_row, on_step).go()


def _check(spec: RunSpec, stage: Stage, built: Built) -> None:
    permit(stage.objective, resolve(spec.architecture), stage.training.length)
    if built.vocabulary.size > spec.architecture.n_vocab:
        raise SpecError(
            f"architecture.n_vocab is {spec.architecture.n_vocab}, but the tokenizer and our signs need "
            f"{built.vocabulary.size}; use that or more, or leave it out"
        )


def _device_kind(device: torch.device) -> str:
    return f"cuda {torch.cuda.get_device_name(device)}" if device.type == "cuda" else device.type


class _Loop:
    """The moving parts of one run."""

    def __init__(
        self, run: Run, spec: RunSpec, stage: Stage, built: Built, device: torch.device,
        on_row: OnRow | None, on_step: OnStep | None,
    ):  # fmt: skip
        self.run, self.training, self.device = run, stage.training, device
        self.on_row, self.on_step, self.tokenizer = on_row, on_step, built.tokenizer.json
        model = build(spec.architecture, seed=stage.training.seed, device=device)
        self.learner = Learner(model, stage.training, built.vocabulary)
        self.lessons = Lessons(built, stage, model.encoder is not None, keeps_documents(model.spec))
        self.open, self.seconds = _Open(device), 0.0
        self.read, self.flops, self.scored, self.n_bytes = 0, 0.0, 0.0, 0.0
        self.valid: float | None = None  # nats at the last visit to the held-out text
        self.prices: dict[tuple[int, int], Flops] = {}

    def go(self) -> Outcome:
        first, notes = self._resume()
        rows, cut = self.run.rows(first - 1)
        if cut.n_dropped or cut.torn:
            notes.append(f"{cut.n_dropped} rows after the checkpoint were cut")
        with rows, _signals() as caught:
            self._steps(first, rows, caught)
        self.run.finish()
        return Outcome(self.run.folder, self.training.n_steps, tuple(notes))

    def _steps(self, first: int, rows: Rows, caught: list[int]) -> None:
        n_steps = self.training.n_steps
        begin = time.monotonic()
        for step, parts in enumerate(self.lessons.ahead(first, n_steps), first):
            self.open.add(self.learner.step(step, parts))
            self._count(parts)
            last = step == n_steps - 1
            if (step + 1) % self.training.row_every == 0 or last or caught:
                self.seconds, begin = self.seconds + time.monotonic() - begin, time.monotonic()
            if (step + 1) % self.training.row_every == 0 or last:
                self._row(step, rows, valid=(step + 1) % self.training.valid_every == 0 or last)
            due = (step + 1) % self.training.checkpoint_every == 0 or last or caught
            if due and not self.learner.bad.item():
                self._save(step)
            if caught and not last:
                raise SystemExit(128 + caught[0])
            if self.on_step is not None:
                self.on_step(step)

    def _resume(self) -> tuple[int, list[str]]:
        notes = [f"{leftover} was left by a killed process and removed" for leftover in self.run.leftovers]
        found = self.run.latest()
        notes += [f"{skipped.folder.name} is skipped: {skipped.reason}" for skipped in found.skipped]
        if found.checkpoint is None:
            return 0, notes
        pending = checkpoint.read(found.checkpoint.folder, self.learner)
        counters = pending.pop("counters").tolist()
        self.read, self.flops, self.scored, self.n_bytes, self.seconds = int(counters[0]), *counters[1:]
        self.open.sums = {name: tensor.to(self.device) for name, tensor in pending.items()}
        return found.checkpoint.step + 1, notes

    def _save(self, step: int) -> None:
        counters = torch.tensor([self.read, self.flops, self.scored, self.n_bytes, self.seconds], dtype=torch.float64)
        pending = {**self.open.sums, "counters": counters}

        def fill(folder: Path) -> None:
            checkpoint.write(folder, self.learner, self.tokenizer, pending)

        self.run.save(step, fill, self.valid, self.training.keep_last)

    def _count(self, parts: list[Any]) -> None:
        """Tokens read and FLOPs spent, from the shapes alone."""
        for part in parts:
            layout, source = part.inputs.layout, part.inputs.source
            lengths = (layout.length, 0 if source is None else source.layout.length)
            if lengths not in self.prices:
                spec = self.learner.model.spec
                self.prices[lengths] = price(spec, lengths[0], lengths[1] or None, 0).training
            n = layout.n_sequences
            self.read += n * sum(lengths)
            self.flops += n * self.prices[lengths].dense

    def _row(self, step: int, rows: Rows, valid: bool) -> None:
        """One line of the record; the only place where the device is asked anything."""
        sums = self.open.taken()
        self.scored, self.n_bytes = self.scored + sums["target_count"], self.n_bytes + sums["byte_count"]
        row: dict[str, Any] = {
            "step": step, "tokens_read": self.read, "tokens_scored": int(self.scored),
            "bytes_scored": int(self.n_bytes), "dense_flops": self.flops, "seconds": round(self.seconds, 3),
            "nats": sums["nats_sum"] / sums["target_count"], "rate": rate_at(step, self.training),
            "gradient_norm": self.learner.norm.item(),
        }  # fmt: skip
        if self.learner.bad.item():
            self._stop(rows, row)
        if valid:
            row["valid_nats"] = self._valid()
            row["gap"] = row["valid_nats"] - row["nats"]
            self.valid = row["valid_nats"]
        written = rows.write(row)
        if self.on_row is not None:
            self.on_row(written)

    @torch.no_grad()
    def _valid(self) -> float:
        scores = [self.learner.score(problem) for problem in self.lessons.held_out()]
        return sum(nats for nats, _ in scores) / sum(count for _, count in scores)

    def _stop(self, rows: Rows, row: dict[str, Any]) -> None:
        """Nothing has moved since the bad step: weights are saved as before it, counters as of this row."""
        bad = int(self.learner.bad_step.item())
        rows.write(row)
        if bad > 0:
            self._save(bad - 1)
        kept = "the state before it is saved" if bad > 0 else "it is the first, so there is nothing to save"
        raise RecordError(
            f"{self.run.folder}: the gradient of step {bad} is not finite, on global batch {bad}; {kept}; "
            f"lower the rate, or look at that batch"
        )


@contextmanager
def _signals() -> Iterator[list[int]]:
    """SIGTERM and Ctrl-C are noted and acted on after the step."""
    caught: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, lambda given, _: caught.append(given))
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
