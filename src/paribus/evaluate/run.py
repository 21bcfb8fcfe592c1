"""A run measured with a yardstick: its last checkpoint, its own tokenizer, its own framing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from paribus.corpus import TokenisedCorpus
from paribus.errors import RecordError
from paribus.evaluate.items import Item, items_fingerprint, select_items
from paribus.evaluate.likelihood import N_SEQUENCES, AskedModel, likelihoods
from paribus.evaluate.unigram import unigram_nats
from paribus.interop.loaded_checkpoint import LoadedCheckpoint, load_checkpoint
from paribus.interop.loaded_checkpoint import last_stage_of as last_stage_of
from paribus.objectives.answering import answering_component
from paribus.record import (
    CHECKPOINTS,
    Evaluation,
    EvaluationHead,
    current_environment,
    evaluation_path,
    latest_checkpoint,
    read_evaluation,
    require_checkpoint_rows,
    require_unchanged_evaluation,
    verify_checkpoint,
    write_evaluation,
)
from paribus.record.disk import file_sha256
from paribus.record.file_names import ROWS_FILE, WEIGHTS_FILE
from paribus.runtime import cudnn_version
from paribus.spec.yardstick import Yardstick


def evaluate(
    run_folder: Path,
    yardstick: Yardstick,
    dataset: TokenisedCorpus,
    *,
    device: torch.device,
    n_sequences: int = N_SEQUENCES,
) -> Evaluation:
    """The answers of a run's last whole checkpoint to items of `dataset`; those there are already
    are read.

    The tokenizer of `dataset` does not matter: the run has its own. No row is longer than those it
    was trained on.
    """
    checkpoint = latest_checkpoint(run_folder / CHECKPOINTS).checkpoint
    if checkpoint is None:
        raise RecordError(f"{run_folder} has no complete checkpoint; train it further")
    if (
        run_folder / ROWS_FILE
    ).exists():  # a run of which only the checkpoints were kept may be measured too
        require_checkpoint_rows(run_folder, checkpoint.step)
    measurement = _Measurement(
        checkpoint=load_checkpoint(checkpoint.folder),
        step=checkpoint.step,
        yardstick=yardstick,
        dataset=dataset,
        device=device,
        n_sequences=n_sequences,
    )
    return _evaluate_in_folder(run_folder, measurement)


def evaluate_checkpoint(
    checkpoint: LoadedCheckpoint,
    yardstick: Yardstick,
    dataset: TokenisedCorpus,
    *,
    device: torch.device,
    n_sequences: int = N_SEQUENCES,
) -> Evaluation:
    """The answers of any checkpoint to items of `dataset`.

    Those of a run's newest checkpoint are kept with the run, those of one that lies by itself
    beside it. Those of an earlier checkpoint of a run are not kept: they would take the place of
    the newest one's.
    """
    measurement = _Measurement(
        checkpoint=checkpoint,
        step=0,
        yardstick=yardstick,
        dataset=dataset,
        device=device,
        n_sequences=n_sequences,
    )
    if checkpoint.run is None:
        return _evaluate_in_folder(checkpoint.folder, measurement)
    newest = latest_checkpoint(checkpoint.run / CHECKPOINTS).checkpoint
    if newest is not None and newest.folder.samefile(checkpoint.folder):
        return evaluate(checkpoint.run, yardstick, dataset, device=device, n_sequences=n_sequences)
    weights = file_sha256(checkpoint.folder / WEIGHTS_FILE)
    measurement = replace(measurement, step=verify_checkpoint(checkpoint.folder).step)
    return _measure_checkpoint(measurement, weights, select_items(dataset, yardstick))


def trained_window(checkpoint: LoadedCheckpoint) -> int:
    """How many positions a model is asked to read at most: no more than in its training."""
    if checkpoint.stage is None:
        return checkpoint.spec.max_length
    return min(checkpoint.stage.training.length, checkpoint.spec.max_length)


@dataclass(frozen=True, eq=False)
class _Measurement:
    """A checkpoint of a step, and what it is measured with."""

    checkpoint: LoadedCheckpoint
    step: int
    yardstick: Yardstick
    dataset: TokenisedCorpus
    device: torch.device
    n_sequences: int


def _evaluate_in_folder(folder: Path, measurement: _Measurement) -> Evaluation:
    """The answers kept in a folder where they are of these weights and unchanged; else made,
    and kept there.
    """
    yardstick = measurement.yardstick
    items = select_items(measurement.dataset, yardstick)
    weights = file_sha256(measurement.checkpoint.folder / WEIGHTS_FILE)
    path = evaluation_path(folder, yardstick.model_dump(mode="json"), items_fingerprint(items))
    if path.exists():
        require_unchanged_evaluation(path)
        previous = read_evaluation(path)
        if previous.head.weights == weights and _is_asked_alike(measurement, previous):
            return previous
    evaluation = _measure_checkpoint(measurement, weights, items)
    write_evaluation(path, evaluation)
    return evaluation


def _is_asked_alike(measurement: _Measurement, previous: Evaluation) -> bool:
    """Were answers given to the question that would be asked now, and is the unigram model beside
    them over the checkpoint's own tokens? What an import was trained to predict lies in a file of
    its own, and so does its tokenizer; a run has both for good.
    """
    checkpoint, label = measurement.checkpoint, measurement.yardstick.label
    if checkpoint.run is not None:
        return True
    component = answering_component(checkpoint.objective(), label)
    items = select_items(measurement.dataset, measurement.yardstick)
    unigram = sum(unigram_nats(measurement.dataset, items, checkpoint.tokenizer))
    is_same_unigram = math.isclose(previous.head.unigram_nats or 0.0, unigram)
    return previous.head.component == component.model_dump(mode="json") and is_same_unigram


def _measure_checkpoint(
    measurement: _Measurement, weights: str, items: Sequence[Item]
) -> Evaluation:
    checkpoint, yardstick = measurement.checkpoint, measurement.yardstick
    dataset, device = measurement.dataset, measurement.device
    label, objective, vocabulary = (
        yardstick.label,
        checkpoint.objective(),
        checkpoint.vocabulary,
    )
    # Batches differ in length: what would have to be compiled anew for each is not used.
    model = checkpoint.restore(device, kernel="masked" if device.type == "cuda" else "auto")
    window = trained_window(checkpoint)
    asked_model = AskedModel(
        model=model,
        objective=objective,
        tokenizer=checkpoint.tokenizer,
        vocabulary=vocabulary,
        window=window,
    )
    answers = likelihoods(asked_model, items, label, n_sequences=measurement.n_sequences)
    head = EvaluationHead(
        yardstick=yardstick.model_dump(mode="json"),
        label=label,
        component=answering_component(objective, label).model_dump(mode="json"),
        step=measurement.step,
        weights=weights,
        window=window,
        items=items_fingerprint(items),
        n_items=len(answers),
        n_truncated=sum(answer.n_truncated_tokens > 0 for answer in answers),
        text=dataset.fingerprint,
        unigram_nats=sum(unigram_nats(dataset, items, checkpoint.tokenizer)),
        environment=current_environment(
            torch.get_num_threads(), device.type, cudnn_version(device)
        ),
    )
    return Evaluation(head, answers)
