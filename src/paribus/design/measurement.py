"""A finished run measured with a yardstick of its design, whatever that asks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from paribus.analyse import column_of
from paribus.corpus.labelled_rows import LabelledCorpus
from paribus.design.asked_tasks import AskedTasks, read_asked_task
from paribus.errors import RecordError
from paribus.evaluate import evaluate
from paribus.evaluate.head_answers import evaluate_head
from paribus.evaluate.tasks.parent_difference import evaluate_minus_parent
from paribus.evaluate.tasks.run import evaluate_prepared
from paribus.evaluate.tasks.subject import TaskSubject
from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.probe.kept_rows import evaluate_probe
from paribus.record import CHECKPOINTS, latest_checkpoint
from paribus.spec.objectives import TextLabels, WordTags
from paribus.spec.run import RunSpec
from paribus.spec.yardstick import (
    HeadYardstick,
    OtherYardstick,
    ProbeYardstick,
    TaskYardstick,
)
from paribus.train.parent import Texts, parent_checkpoint, parent_folder


def measure_run(
    folder: Path,
    run: RunSpec,
    texts: Texts,
    yardstick: OtherYardstick,
    device: torch.device,
    asked_tasks: AskedTasks,
) -> None:
    """Ask a run's last checkpoint, and keep what it says; what was asked before is not asked
    again.
    """
    if isinstance(yardstick, HeadYardstick):
        objective = run.last.objective
        assert isinstance(objective, TextLabels | WordTags)
        evaluate_head(folder, LabelledCorpus(texts[-1], objective), device, yardstick.split)
    elif isinstance(yardstick, ProbeYardstick):
        evaluate_probe(folder, texts[-1], yardstick, device)
    elif isinstance(yardstick, TaskYardstick):
        column = column_of(yardstick.model_dump(mode="json"))
        # Tasks that differ in their measure alone have one file of items.
        prepared = replace(read_asked_task(*asked_tasks[column]), task=yardstick.task)
        checkpoint = latest_checkpoint(folder / CHECKPOINTS).checkpoint
        if checkpoint is None:
            raise RecordError(f"{folder} has no complete checkpoint; train it further")
        # Which items overlap with the training text is the same for every run: it is not asked.
        subject = TaskSubject(load_checkpoint(checkpoint.folder))
        evaluation = evaluate_prepared(subject, prepared, device)
        if yardstick.minus_parent:
            parent = TaskSubject(load_checkpoint(_parent_checkpoint(folder, run, texts)))
            evaluate_minus_parent(folder, evaluation, parent, prepared, device)
    else:
        n_sequences = run.last.training.n_sequences
        evaluate(folder, yardstick, texts[-1], device=device, n_sequences=n_sequences)


def _parent_checkpoint(folder: Path, run: RunSpec, texts: Texts) -> Path:
    """The last checkpoint of the stage that a run's last stage begins with."""
    parent = parent_folder(run, texts, folder.parent)
    assert parent is not None
    return parent_checkpoint(parent, run)
