"""Rows of probes that are kept with a run, and what a design shows of them."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import torch

from paribus.corpus import TokenisedCorpus
from paribus.errors import RecordError
from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.probe.run import probe_model, probe_texts
from paribus.probe.subject import ProbedModel
from paribus.probe.texts import ProbeTexts
from paribus.record import CHECKPOINTS, current_environment, latest_checkpoint
from paribus.record.disk import file_sha256
from paribus.record.file_names import WEIGHTS_FILE
from paribus.record.probe_rows import (
    ProbeRow,
    probe_rows_path,
    read_probe_rows,
    write_probe_rows,
)
from paribus.record.task_answers import (
    TaskAnswer,
    TaskEvaluation,
    TaskHead,
    read_task_evaluation,
    require_unchanged_task_evaluation,
    task_evaluation_path,
    write_task_evaluation,
)
from paribus.runtime import cudnn_version
from paribus.spec.yardstick import PROBE, ProbeYardstick
from paribus.watcher import Watcher

PROTOCOL = {"kind": PROBE}
ALL_TEXTS = "all texts"  # the one item of such an answer
DEPTH = "depth"


def evaluate_probe(
    run_folder: Path, corpus: TokenisedCorpus, yardstick: ProbeYardstick, device: torch.device
) -> TaskEvaluation:
    """What a run's last checkpoint has of a quantity, kept with the run beside the rows of the
    probe; what is there already is read.
    """
    checkpoint = latest_checkpoint(run_folder / CHECKPOINTS).checkpoint
    if checkpoint is None:
        raise RecordError(f"{run_folder} has no complete checkpoint; train it further")
    weights, table = (
        file_sha256(checkpoint.folder / WEIGHTS_FILE),
        yardstick.model_dump(mode="json"),
    )
    path = task_evaluation_path(run_folder, table, PROTOCOL, corpus.fingerprint)
    if path.exists():
        require_unchanged_task_evaluation(path)
        previous = read_task_evaluation(path)
        if previous.head.weights == weights:
            return previous
    subject = ProbedModel.of(load_checkpoint(checkpoint.folder), device)
    texts = probe_texts(subject, corpus, yardstick.probe, yardstick.split)
    value = shown_value(_rows_of_run(run_folder, subject, texts, yardstick, weights), yardstick)
    measure = yardstick.scores.kind
    head = TaskHead(
        task=table,
        name=measure,
        measure=measure,
        label=PROBE,
        protocol=PROTOCOL,
        component={},
        step=checkpoint.step,
        weights=weights,
        window=texts.length,
        items=texts.fingerprint,
        n_items=1,
        n_truncated=0,
        n_left_out=0,
        text=corpus.fingerprint,
        floors={},
        summary={measure: value},
        environment=current_environment(
            torch.get_num_threads(), device.type, cudnn_version(device)
        ),
    )
    answer = TaskAnswer(ALL_TEXTS, ALL_TEXTS, value, 1.0, "", "")
    evaluation = TaskEvaluation(head, (answer,))
    write_task_evaluation(path, evaluation)
    return evaluation


def shown_value(rows: list[ProbeRow], yardstick: ProbeYardstick) -> float:
    """The one number of a run: the mean over layers and heads, or the last of a curve over depth;
    RecordError where there is none.
    """
    found = [row for row in rows if _is_shown(row, yardstick)]
    if not found:
        variants = sorted({row.variant for row in rows if row.quantity == yardstick.quantity})
        raise RecordError(
            f"the probe {yardstick.probe.kind!r} found no {yardstick.quantity!r} in"
            f" {yardstick.stack}, {yardstick.branch}, variant {yardstick.variant!r}; variants are"
            f" {', '.join(map(repr, variants))}"
        )
    depths = [row.x for row in found if row.x_name == DEPTH and row.x is not None]
    if depths:
        found = [row for row in found if row.x == max(depths)]
    return fmean(row.value for row in found)


def _is_shown(row: ProbeRow, yardstick: ProbeYardstick) -> bool:
    is_here = row.stack in ("", yardstick.stack) and row.branch in ("", yardstick.branch)
    is_it = (row.quantity, row.variant) == (yardstick.quantity, yardstick.variant)
    return is_here and is_it and row.x_name in ("", DEPTH)


def _rows_of_run(
    run_folder: Path,
    subject: ProbedModel,
    texts: ProbeTexts,
    yardstick: ProbeYardstick,
    weights: str,
) -> list[ProbeRow]:
    """All rows of a probe, kept with the run: several quantities may be shown."""
    table = yardstick.probe.model_dump(mode="json")
    path = probe_rows_path(run_folder, table, texts.fingerprint, weights)
    if path.exists():
        return read_probe_rows(path)
    rows = list(probe_model(subject, texts, yardstick.probe, Watcher()))
    path.parent.mkdir(exist_ok=True)
    write_probe_rows(path, rows)
    return rows
