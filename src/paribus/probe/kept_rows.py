"""Rows of probes that are kept with a run, and what a design shows of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

import torch

from paribus.corpus import TokenisedCorpus
from paribus.errors import RecordError
from paribus.interop.loaded_checkpoint import load_checkpoint
from paribus.probe.demonstrations import (
    DEMONSTRATIONS,
    drawn_questions,
    questions_fingerprint,
    taught_episodes,
)
from paribus.probe.item_answers import ItemReader
from paribus.probe.run import probe_examples, probe_model, probe_texts
from paribus.probe.subject import ProbedModel
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
from paribus.spec.probe_variants import (
    PERHAPS_MISSING,
    read_examples,
    tells_branches_apart,
    tells_stacks_apart,
)
from paribus.spec.probes import InContextProbe, Probe
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
    shown = _shown_documents(subject, corpus, yardstick)
    value = shown_value(_rows_of_run(run_folder, shown, yardstick.probe, weights), yardstick)
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
        window=shown.window,
        items=shown.fingerprint,
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
    """The one number of a run: the mean over layers and heads, or the last of a curve over depth or
    over examples; RecordError where there is none. What cannot be told is not a number.
    """
    found = [row for row in rows if _is_shown(row, yardstick)]
    if not found and yardstick.quantity in PERHAPS_MISSING:
        return math.nan
    if not found:
        variants = sorted({row.variant for row in rows if row.quantity == yardstick.quantity})
        raise RecordError(
            f"the probe {yardstick.probe.kind!r} found no {yardstick.quantity!r} in"
            f" {yardstick.stack}, {yardstick.branch}, variant {yardstick.variant!r}; variants are"
            f" {', '.join(map(repr, variants))}"
        )
    places = [row.x for row in found if row.x is not None]
    if places:
        found = [row for row in found if row.x == max(places)]
    return fmean(row.value for row in found)


def _is_shown(row: ProbeRow, yardstick: ProbeYardstick) -> bool:
    kind, quantity = yardstick.probe.kind, yardstick.quantity
    if tells_stacks_apart(kind, quantity) and row.stack not in ("", yardstick.stack):
        return False
    if tells_branches_apart(kind, quantity) and row.branch not in ("", yardstick.branch):
        return False
    variant, n_examples = yardstick.variant, None
    if isinstance(yardstick.probe, InContextProbe):
        variant, n_examples = read_examples(variant)
    is_there = n_examples is None or row.x == n_examples
    is_it = (row.quantity, row.variant) == (quantity, variant)
    return is_it and is_there and row.x_name in ("", DEPTH, DEMONSTRATIONS)


@dataclass(frozen=True, eq=False)
class _ShownDocuments:
    """What a model is looked at with: which documents, how long they may be, and what a probe finds
    with them.
    """

    fingerprint: str
    window: int
    rows: Callable[[], Iterator[ProbeRow]]


def _shown_documents(
    subject: ProbedModel, corpus: TokenisedCorpus, yardstick: ProbeYardstick
) -> _ShownDocuments:
    probe = yardstick.probe
    if isinstance(probe, InContextProbe):
        language = taught_episodes(subject.checkpoint)
        questions = drawn_questions(language, probe.n_texts)
        window = ItemReader.of(subject.checkpoint, subject.model).layout.window
        rows = partial(probe_examples, subject, probe, Watcher())
        return _ShownDocuments(questions_fingerprint(language, questions), window, rows)
    texts = probe_texts(subject, corpus, probe, yardstick.split)
    rows = partial(probe_model, subject, texts, probe, Watcher())
    return _ShownDocuments(texts.fingerprint, texts.length, rows)


def _rows_of_run(
    run_folder: Path, shown: _ShownDocuments, probe: Probe, weights: str
) -> list[ProbeRow]:
    """All rows of a probe, kept with the run: several quantities may be shown."""
    table = probe.model_dump(mode="json")
    path = probe_rows_path(run_folder, table, shown.fingerprint, weights)
    if path.exists():
        return read_probe_rows(path)
    rows = list(shown.rows())
    path.parent.mkdir(exist_ok=True)
    write_probe_rows(path, rows)
    return rows
