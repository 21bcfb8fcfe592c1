"""What a checkpoint says where the answers of items stand: log-probabilities of tokens, in any
architecture, laid out as in its training.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from paribus.interop.loaded_checkpoint import LoadedCheckpoint
from paribus.model import Transformer
from paribus.objectives.framing import ItemLayout, LaidItem
from paribus.objectives.problem import Problem
from paribus.probe.item_encoder import ItemEncoder, answer_layout
from paribus.probe.problem_batches import (
    TargetAfterContext,
    numbered_problems,
    problem_batches,
    scored_states,
)

N_SEQUENCES = 64


@dataclass(frozen=True, eq=False)
class ItemReader:
    """A model with its tokenizer and the layout of its training."""

    checkpoint: LoadedCheckpoint
    model: Transformer
    encoder: ItemEncoder

    @staticmethod
    def of(checkpoint: LoadedCheckpoint, model: Transformer) -> ItemReader:
        """SpecError where a model gives no likelihood of a target after its context."""
        spec, window = checkpoint.spec, checkpoint.spec.max_length
        if checkpoint.stage is not None:
            window = min(window, checkpoint.stage.training.length)
        layout = answer_layout(checkpoint.objective(), spec, checkpoint.vocabulary, window)
        in_turns = checkpoint.chat_template is not None
        encoder = ItemEncoder(str(checkpoint.folder), checkpoint.tokenizer, layout, in_turns)
        return ItemReader(checkpoint, model, encoder)

    @property
    def layout(self) -> ItemLayout:
        return self.encoder.layout

    def lay(self, context: str, target: str) -> LaidItem:
        """The tokens of an item; UnsupportedError where its context is too long for the model."""
        return self.encoder.lay(context, target)


@dataclass(frozen=True, eq=False)
class TokenAnswers:
    """For M tokens of one item's target: log p of every token of the vocabulary, and the ids."""

    item: int  # its number
    log_probabilities_MV: Tensor
    targets_M: Tensor

    @property
    def nats_M(self) -> Tensor:
        return -self.log_probabilities_MV.gather(1, self.targets_M[:, None])[:, 0]


@torch.no_grad()
def token_answers(
    reader: ItemReader, items: Sequence[LaidItem], n_sequences: int = N_SEQUENCES
) -> Iterator[TokenAnswers]:
    """The answers to all items, on the host, those of short items first. Where a model is asked
    for one token at a time, an item has several.
    """
    device = reader.model.embedding.weight.device
    laid = [TargetAfterContext(reader.layout, item) for item in items]
    pad = reader.layout.vocabulary.pad
    batches = problem_batches(numbered_problems(laid), pad, device, n_sequences)
    for numbers, problem in batches:
        yield from _row_answers(reader.model, problem, numbers)


def _row_answers(
    model: Transformer, problem: Problem, numbers: Sequence[int]
) -> Iterator[TokenAnswers]:
    states = scored_states(model, problem)
    for row, number in enumerate(numbers):
        is_scored = problem.weights_BM[row] > 0
        logits_MV = model.logits(states[row][is_scored]).float()
        yield TokenAnswers(
            item=number,
            log_probabilities_MV=logits_MV.log_softmax(-1).cpu(),
            targets_M=problem.targets_BM[row][is_scored].cpu(),
        )
