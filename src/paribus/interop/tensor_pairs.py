"""Which of their tensors holds the numbers of which of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Conversion = Callable[[Sequence[Tensor]], Sequence[Tensor]]


@dataclass(frozen=True)
class TensorPair:
    """Tensors of ours and of theirs with the same numbers, and the way from one to the other."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    read: Conversion  # theirs → ours
    write: Conversion  # ours → theirs


TensorPairs = Iterator[TensorPair]


def same_tensor(ours: str, theirs: str) -> TensorPair:
    """One tensor under two names."""
    return TensorPair((ours,), (theirs,), lambda tensors: tensors, lambda tensors: tensors)


def linear_pairs(ours: str, theirs: str, bias: bool) -> TensorPairs:
    """A matrix, and its bias where it has one; also the two vectors of a norm."""
    yield same_tensor(f"{ours}.weight", f"{theirs}.weight")
    if bias:
        yield same_tensor(f"{ours}.bias", f"{theirs}.bias")


def conv1d_pairs(ours: Sequence[str], theirs: str) -> TensorPairs:
    """transformers' Conv1D holds (inputs, outputs); several of our matrices may lie side by
    side in one of theirs.
    """
    n = len(ours)
    yield TensorPair(
        tuple(f"{name}.weight" for name in ours),
        (f"{theirs}.weight",),
        lambda tensors: tensors[0].T.chunk(n),
        lambda tensors: [torch.cat(list(tensors)).T],
    )
    yield TensorPair(
        tuple(f"{name}.bias" for name in ours),
        (f"{theirs}.bias",),
        lambda tensors: tensors[0].chunk(n),
        lambda tensors: [torch.cat(list(tensors))],
    )


def stacked_experts(ours: str, theirs: Sequence[str]) -> TensorPair:
    """One tensor of ours with an expert in each layer, and one of theirs for each expert."""
    return TensorPair(
        (ours,),
        tuple(theirs),
        lambda tensors: [torch.stack(list(tensors))],
        lambda tensors: tensors[0].unbind(),
    )


def single_row(ours: str, theirs: str) -> TensorPair:
    """A vector of ours, a matrix of one row of theirs."""
    return TensorPair(
        (ours,), (theirs,), lambda tensors: [tensors[0][0]], lambda tensors: [tensors[0][None]]
    )


def reordered_rows(ours: str, theirs: str, order: Sequence[int]) -> TensorPair:
    """Row i of ours is row order[i] of theirs."""
    there = torch.tensor(order)
    back = there.argsort()
    return TensorPair(
        (ours,),
        (theirs,),
        lambda tensors: [tensors[0].index_select(0, there.to(tensors[0].device))],
        lambda tensors: [tensors[0].index_select(0, back.to(tensors[0].device))],
    )
