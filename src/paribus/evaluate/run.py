"""A run measured with a yardstick: its last checkpoint, its own tokenizer, its own framing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from paribus.corpus import Built
from paribus.errors import RecordError
from paribus.evaluate.items import Item, fingerprint, items
from paribus.evaluate.likelihood import N_SEQUENCES, likelihoods
from paribus.evaluate.parts import answering
from paribus.evaluate.unigram import unigram_nats
from paribus.interop.loaded import Loaded, load_checkpoint
from paribus.interop.loaded import stage_of as stage_of
from paribus.record import (
    CHECKPOINTS,
    Evaluation,
    Head,
    answers_path,
    checked,
    environment,
    latest,
    read_answers,
    require_rows_of,
    require_unchanged_answers,
    write_answers,
)
from paribus.record.disk import digest
from paribus.record.file_names import ROWS_FILE, WEIGHTS_FILE
from paribus.runtime import cudnn_version
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
    if (run_folder / ROWS_FILE).exists():  # a run of which only the checkpoints were kept may be measured too
        require_rows_of(run_folder, found.step)
    return _kept_in(run_folder, load_checkpoint(found.folder), found.step, yardstick, built, device, n_sequences)


def evaluate_checkpoint(
    loaded: Loaded, yardstick: Yardstick, built: Built, *, device: torch.device, n_sequences: int = N_SEQUENCES
) -> Evaluation:
    """The answers of any checkpoint to items of `built`.

    Those of a run's newest checkpoint are kept with the run, those of one that lies by itself beside it. Those of an
    earlier checkpoint of a run are not kept: they would take the place of the newest one's.
    """
    if loaded.run is None:
        return _kept_in(loaded.folder, loaded, 0, yardstick, built, device, n_sequences)
    newest = latest(loaded.run / CHECKPOINTS).checkpoint
    if newest is not None and newest.folder.samefile(loaded.folder):
        return evaluate(loaded.run, yardstick, built, device=device, n_sequences=n_sequences)
    weights, step = digest(loaded.folder / WEIGHTS_FILE), checked(loaded.folder).step
    return _measured(loaded, step, weights, yardstick, built, items(built, yardstick), device, n_sequences)


def _kept_in(
    folder: Path,
    loaded: Loaded,
    step: int,
    yardstick: Yardstick,
    built: Built,
    device: torch.device,
    n_sequences: int,
) -> Evaluation:
    """The answers kept in a folder where they are of these weights and unchanged; else made, and kept there."""
    asked, weights = items(built, yardstick), digest(loaded.folder / WEIGHTS_FILE)
    path = answers_path(folder, yardstick.model_dump(mode="json"), fingerprint(asked))
    if path.exists():
        require_unchanged_answers(path)
        done = read_answers(path)
        if done.head.weights == weights:
            return done
    made = _measured(loaded, step, weights, yardstick, built, asked, device, n_sequences)
    write_answers(path, made)
    return made


def _measured(
    loaded: Loaded,
    step: int,
    weights: str,
    yardstick: Yardstick,
    built: Built,
    asked: Sequence[Item],
    device: torch.device,
    n_sequences: int,
) -> Evaluation:
    label, objective, vocabulary = measures(yardstick), loaded.objective(), loaded.vocabulary
    # Batches differ in length: what would have to be compiled anew for each is not used.
    model = loaded.restore(device, kernel="masked" if device.type == "cuda" else "auto")
    most = model.spec.max_length
    window = most if loaded.stage is None else min(loaded.stage.training.length, most)
    told = likelihoods(
        model,
        objective,
        loaded.tokenizer,
        asked,
        label,
        n_sequences=n_sequences,
        window=window,
        vocabulary=vocabulary,
    )
    head = Head(
        yardstick=yardstick.model_dump(mode="json"),
        label=label,
        part=answering(objective, label).model_dump(mode="json"),
        step=step,
        weights=weights,
        window=window,
        items=fingerprint(asked),
        n_items=len(told),
        n_cut=sum(answer.n_cut > 0 for answer in told),
        text=built.fingerprint,
        unigram_nats=sum(unigram_nats(built, asked)),
        environment=environment(torch.get_num_threads(), device.type, cudnn_version(device)),
    )
    return Evaluation(head, told)
