"""Targets after their contexts as batches of problems: what every loss and every answer of an item
is read from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from paribus.model import Transformer
from paribus.objectives import Problem
from paribus.objectives.batching import batch_problems
from paribus.objectives.framing import ItemLayout, LaidItem, item_problems

N_SEQUENCES = 16
NumberedProblem = tuple[int, Problem]  # and the number of the item that it is of


@dataclass(frozen=True)
class TargetAfterContext:
    """Tokens to predict after others, laid as a layout says."""

    layout: ItemLayout
    item: LaidItem


def numbered_problems(items: Sequence[TargetAfterContext]) -> Iterator[NumberedProblem]:
    """Every problem of the items, those of short items first. Where a model is asked for one token
    at a time, an item has several.
    """

    def n_tokens(number: int) -> tuple[int, int]:
        return len(items[number].item.inputs), len(items[number].item.target)

    for number in sorted(range(len(items)), key=n_tokens):
        for problem in item_problems(items[number].layout, items[number].item):
            yield number, problem


def problem_batches(
    numbered: Iterable[NumberedProblem],
    pad: int,
    device: torch.device,
    n_sequences: int = N_SEQUENCES,
) -> Iterator[tuple[list[int], Problem]]:
    """Problems of one row each, some at a time, and the numbers of their rows."""
    rest = iter(numbered)
    while batch := list(islice(rest, n_sequences)):
        problem = batch_problems([one for _, one in batch], pad)
        yield [number for number, _ in batch], problem.to(device)


def scored_states(model: Transformer, problem: Problem) -> Tensor:
    """The states that predict each target, [B, M, D]."""
    return problem.gather_states(model.hidden_states(problem.inputs).states_BTD)
