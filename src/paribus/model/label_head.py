"""A linear head from states to labels: it belongs to one stage of training, and lies beside the
weights of the transformer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paribus.errors import RecordError
from paribus.model.initialise import initial_values
from paribus.model.shards import fill_rows
from paribus.model.weights import (
    read_json,
    read_tensors,
    require_tensors,
    write_json,
    write_tensors,
)
from paribus.record.file_names import LABEL_HEAD_FILE, LABELS_FILE
from paribus.spec import ResolvedArchitecture
from paribus.spec.parameters import label_head_parameters

LABEL_HEAD = "label_head"  # before the names of its parameters


class LabelHead(nn.Module):
    """Logits of labels, linear in a state."""

    def __init__(self, names: Sequence[str], d_model: int):
        super().__init__()
        self.names = tuple(names)
        self.weight = nn.Parameter(torch.empty(len(self.names), d_model))
        self.bias = nn.Parameter(torch.empty(len(self.names)))

    def forward(self, states: Tensor) -> Tensor:
        return F.linear(states, self.weight, self.bias)


@torch.no_grad()
def build_label_head(
    names: Sequence[str], spec: ResolvedArchitecture, seed: int, device: torch.device
) -> LabelHead:
    """A head with its starting values, the same on every device."""
    head = LabelHead(names, spec.d_model)
    initialise_label_head(head, spec, seed)
    return head.to(device)


@torch.no_grad()
def initialise_label_head(head: LabelHead, spec: ResolvedArchitecture, seed: int) -> None:
    """Give a head its starting values."""
    table = label_head_parameters(spec, len(head.names))
    for name, tensor in head.named_parameters():
        path = f"{LABEL_HEAD}.{name}"
        fill_rows(tensor, initial_values(path, table[path], spec, seed))


def label_head_tensors(head: LabelHead) -> dict[str, Tensor]:
    """The tensors of a head by the names of a checkpoint."""
    return {f"{LABEL_HEAD}.{name}": tensor for name, tensor in head.state_dict().items()}


def write_label_head(folder: Path, names: Sequence[str], tensors: Mapping[str, Tensor]) -> None:
    """The files of a head, written into the folder of a checkpoint."""
    write_json(folder / LABELS_FILE, {"labels": list(names)})
    write_tensors(folder / LABEL_HEAD_FILE, tensors)


@torch.no_grad()
def read_label_head(folder: Path, d_model: int, device: torch.device | str = "cpu") -> LabelHead:
    """The head of a checkpoint; RecordError where there is none, or it is another's."""
    if not (folder / LABELS_FILE).is_file():
        raise RecordError(
            f"{folder} has no head for labels; give a run whose last stage has the objective"
            " 'labels' or 'tags'"
        )
    names = read_json(folder / LABELS_FILE).get("labels")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RecordError(f"{folder / LABELS_FILE} names no labels; train the stage again")
    head = LabelHead(names, d_model)
    fill_label_head(head, folder)
    return head.to(device)


@torch.no_grad()
def fill_label_head(head: LabelHead, folder: Path) -> None:
    """Put the saved values of a head into one of the same shape."""
    path = folder / LABEL_HEAD_FILE
    tensors = read_tensors(path)
    places = label_head_tensors(head)
    require_tensors(tensors, {name: tuple(place.shape) for name, place in places.items()}, path)
    for name, place in places.items():
        fill_rows(place, tensors[name])
