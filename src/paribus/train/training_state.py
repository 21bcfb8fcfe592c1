"""What a run must hold to go on as if nothing had happened: weights, the optimizer's memory,
and open sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from paribus.corpus import TokenisedCorpus
from paribus.corpus.conversations import CHAT_TEMPLATE
from paribus.model.label_head import fill_label_head, label_head_tensors, write_label_head
from paribus.model.shards import fill_rows, gather_tensors
from paribus.model.weights import read_tensors, require_tensors, write_json, write_tensors
from paribus.record.file_names import (
    CHAT_TEMPLATE_FILE,
    LEARNING_FILE,
    SPEC_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
)
from paribus.spec.stages import RunSpec, reads_conversations
from paribus.train.learner import Learner


def text_files(spec: RunSpec, dataset: TokenisedCorpus) -> dict[str, bytes]:
    """How text becomes what a model reads: a tokenizer.json, and a template of conversations
    where it was trained on any.
    """
    files = {TOKENIZER_FILE: dataset.tokenizer.json.encode()}
    if reads_conversations(spec):
        files[CHAT_TEMPLATE_FILE] = CHAT_TEMPLATE.encode()
    return files


@dataclass(frozen=True, eq=False)
class TrainingTensors:
    """All tensors of a learner, each of them whole."""

    weights: Mapping[str, Tensor]
    label_head: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]


def collect_training_tensors(learner: Learner) -> TrainingTensors:
    """All tensors of a learner. Of sharded ones every rank calls it, and the one that leads gets
    them.
    """
    weights = learner.model.state_dict()
    head = {} if learner.head is None else label_head_tensors(learner.head)
    memory = learner.optimizer.state_tensors()
    if learner.ranks.is_sharded:
        keeps = learner.ranks.is_leader
        weights, head, memory = (
            gather_tensors(tensors, keeps) for tensors in (weights, head, memory)
        )
    return TrainingTensors(weights, head, memory)


def save_training_state(
    folder: Path,
    learner: Learner,
    tensors: TrainingTensors,
    files: Mapping[str, bytes],
    pending: Mapping[str, Tensor],
) -> None:
    """Fill a checkpoint's folder; its spec and weights are a native checkpoint by themselves.

    `files` are written as they are: the tokenizer, and what goes along with imported weights.
    """
    for name, content in files.items():
        (folder / name).write_bytes(content)
    write_json(folder / SPEC_FILE, learner.model.architecture.model_dump(mode="json"))
    write_tensors(folder / WEIGHTS_FILE, tensors.weights)
    if learner.head is not None:
        write_label_head(folder, learner.head.names, tensors.label_head)
    memory = dict(tensors.optimizer)
    for name, tensor in pending.items():
        memory[f"pending.{name}"] = tensor
    write_tensors(folder / LEARNING_FILE, memory)


@torch.no_grad()
def load_training_state(folder: Path, learner: Learner) -> dict[str, Tensor]:
    """Put a checkpoint into a learner; the sums that were open when it was written."""
    weights = read_tensors(folder / WEIGHTS_FILE)
    state = learner.model.state_dict()
    require_tensors(
        weights,
        {name: tuple(tensor.shape) for name, tensor in state.items()},
        folder / WEIGHTS_FILE,
    )
    for name, tensor in state.items():
        fill_rows(tensor, weights[name])
    if learner.head is not None:
        fill_label_head(learner.head, folder)
    memory = read_tensors(folder / LEARNING_FILE)
    learner.optimizer.load_state(memory, learner.device)
    pending: dict[str, Tensor] = {}
    for name, tensor in memory.items():
        if name.startswith("pending."):
            pending[name.removeprefix("pending.")] = tensor
    return pending
