"""Which of their tensors holds the numbers of which of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Change = Callable[[Sequence[Tensor]], Sequence[Tensor]]


@dataclass(frozen=True)
class Pair:
    """Tensors of ours and of theirs with the same numbers, and the way from one to the other."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    read: Change  # theirs → ours
    write: Change  # ours → theirs


Pairs = Iterator[Pair]


def same(ours: str, theirs: str) -> Pair:
    """The same tensor under two names."""
    return Pair((ours,), (theirs,), lambda tensors: tensors, lambda tensors: tensors)


def linear(ours: str, theirs: str, bias: bool) -> Pairs:
    """A matrix, and its bias where it has one; also the two vectors of a norm."""
    yield same(f"{ours}.weight", f"{theirs}.weight")
    if bias:
        yield same(f"{ours}.bias", f"{theirs}.bias")


def conv1d(ours: Sequence[str], theirs: str) -> Pairs:
    """transformers' Conv1D holds (inputs, outputs); several of our matrices may lie side by side in one of theirs."""
    n = len(ours)
    yield Pair(
        tuple(f"{name}.weight" for name in ours),
        (f"{theirs}.weight",),
        lambda tensors: tensors[0].T.chunk(n),
        lambda tensors: [torch.cat(list(tensors)).T],
    )
    yield Pair(
        tuple(f"{name}.bias" for name in ours),
        (f"{theirs}.bias",),
        lambda tensors: tensors[0].chunk(n),
        lambda tensors: [torch.cat(list(tensors))],
    )


def stacked(ours: str, theirs: Sequence[str]) -> Pair:
    """One tensor of ours with an expert in each layer, and one of theirs for each expert."""
    return Pair(
        (ours,), tuple(theirs), lambda tensors: [torch.stack(list(tensors))], lambda tensors: tensors[0].unbind()
    )


def row(ours: str, theirs: str) -> Pair:
    """A vector of ours, a matrix of one row of theirs."""
    return Pair((ours,), (theirs,), lambda tensors: [tensors[0][0]], lambda tensors: [tensors[0][None]])


def reordered(ours: str, theirs: str, order: Sequence[int]) -> Pair:
    """Row i of ours is row order[i] of theirs."""
    there = torch.tensor(order)
    back = there.argsort()
    return Pair(
        (ours,),
        (theirs,),
        lambda tensors: [tensors[0].index_select(0, there.to(tensors[0].device))],
        lambda tensors: [tensors[0].index_select(0, back.to(tensors[0].device))],
    )
