"""A run measured with a yardstick: its last checkpoint, its own tokenizer, its own framing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from pydantic import ValidationError

from paribus.corpus import Built
from paribus.corpus.tokenizer import opened
from paribus.errors import RecordError
from paribus.evaluate.items import Item, fingerprint, items
from paribus.evaluate.likelihood import N_SEQUENCES, likelihoods
from paribus.evaluate.parts import answering
from paribus.evaluate.unigram import unigram_nats
from paribus.interop.tokenizer import TOKENIZER_FILE
from paribus.model import restore
from paribus.model.weights import WEIGHTS_FILE
from paribus.record import (
    CHECKPOINTS,
    Checkpoint,
    Evaluation,
    Head,
    answers_path,
    environment,
    latest,
    read_answers,
    require_unchanged_answers,
    stages_of,
    write_answers,
)
from paribus.record.disk import digest
from paribus.spec.run import Stage
from paribus.spec.yardstick import Yardstick, measures


def evaluate(
    run_folder: Path, yardstick: Yardstick, built: Built, *, device: torch.device, n_sequences: int = N_SEQUENCES
) -> Evaluation:
    """The answers of a run's last whole checkpoint to items of `built`; those there are already are read.

    The tokenizer of `built` does not matter: the run has its own. No row is longer than those it was trained on.
    """
    found = latest(run_folder / CHECKPOINTS).checkpoint
    if found is None:
        raise RecordError(f"{run_folder} has no whole checkpoint; train it further")
    asked = items(built, yardstick)
    path = answers_path(run_folder, yardstick.model_dump(mode="json"), fingerprint(asked))
    weights = digest(found.folder / WEIGHTS_FILE)
    if path.exists():
        require_unchanged_answers(path)
        done = read_answers(path)
        if done.head.weights == weights:
            return done
    made = _measured(found, weights, stage_of(run_folder), yardstick, built, asked, device, n_sequences)
    write_answers(path, made)
    return made


def stage_of(run_folder: Path) -> Stage:
    """What a run was last trained on, and how."""
    table = stages_of(run_folder)[-1]
    try:
        return Stage.model_validate_json(json.dumps({name: table.get(name) for name in Stage.model_fields}))
    except ValidationError as fault:
        raise RecordError(
            f"{run_folder} was trained by a spec that this version cannot read: {fault.errors()[0]['msg']}; "
            f"use the version it was made with"
        ) from fault


def _measured(
    checkpoint: Checkpoint,
    weights: str,
    stage: Stage,
    yardstick: Yardstick,
    built: Built,
    asked: Sequence[Item],
    device: torch.device,
    n_sequences: int,
) -> Evaluation:
    label = measures(yardstick)
    # Batches differ in length: what would have to be compiled anew for each is not used.
    model = restore(checkpoint.folder, device, kernel="masked" if device.type == "cuda" else "auto")
    window = min(stage.training.length, model.spec.max_length)
    told = likelihoods(
        model,
        stage.objective,
        opened(checkpoint.folder / TOKENIZER_FILE),
        asked,
        label,
        n_sequences=n_sequences,
        window=window,
    )
    head = Head(
        yardstick=yardstick.model_dump(mode="json"),
        label=label,
        part=answering(stage.objective, label).model_dump(mode="json"),
        step=checkpoint.step,
        weights=weights,
        window=window,
        items=fingerprint(asked),
        n_items=len(told),
        n_cut=sum(answer.n_cut > 0 for answer in told),
        text=built.fingerprint,
        unigram_nats=sum(unigram_nats(built, asked)),
        environment=environment(torch.get_num_threads(), device.type),
    )
    return Evaluation(head, told)
