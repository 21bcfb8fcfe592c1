"""What a checkpoint says where the answers of items stand: log-probabilities of tokens, in any
architecture, laid out as in its training.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from paribus.errors import UnsupportedError
from paribus.interop.loaded_checkpoint import LoadedCheckpoint
from paribus.model import Transformer
from paribus.objectives import require_permitted
from paribus.objectives.answering import answering_component, mixture_of_one
from paribus.objectives.batching import batch_problems
from paribus.objectives.framing import ItemLayout, LaidItem, item_layout, item_problems, lay_item
from paribus.objectives.problem import Problem

N_SEQUENCES = 64
CHECK_LENGTH = 256  # positions of the example by which it is seen whether answers are hidden


@dataclass(frozen=True, eq=False)
class ItemReader:
    """A model with its tokenizer and the layout of its training."""

    checkpoint: LoadedCheckpoint
    model: Transformer
    layout: ItemLayout

    @staticmethod
    def of(checkpoint: LoadedCheckpoint, model: Transformer) -> ItemReader:
        """SpecError where a model gives no likelihood of a target after its context."""
        component = answering_component(checkpoint.objective(), "likelihood")
        window = checkpoint.spec.max_length
        if checkpoint.stage is not None:
            window = min(window, checkpoint.stage.training.length)
        require_permitted(mixture_of_one(component), checkpoint.spec, min(window, CHECK_LENGTH))
        layout = item_layout(component, checkpoint.spec, checkpoint.vocabulary, window)
        return ItemReader(checkpoint, model, layout)

    def lay(self, context: str, target: str) -> LaidItem:
        """The tokens of an item; UnsupportedError where its context is too long for the model."""
        context_ids = self.checkpoint.encode_prompt(context)
        target_ids = self.checkpoint.tokenizer.encode(target)
        item = lay_item(self.layout, repr(context[-20:]), context_ids, target_ids)
        if item.n_truncated:
            raise UnsupportedError(
                f"a context of {len(context_ids)} tokens does not fit the window of"
                f" {self.layout.window}; ask for shorter ones"
            )
        return item


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
    problems = _problems(reader.layout, items)
    while batch := list(islice(problems, n_sequences)):
        problem = batch_problems([one for _, one in batch], reader.layout.vocabulary.pad)
        yield from _row_answers(reader.model, problem.to(device), [number for number, _ in batch])


def _problems(layout: ItemLayout, items: Sequence[LaidItem]) -> Iterator[tuple[int, Problem]]:
    def n_tokens(number: int) -> tuple[int, int]:
        return len(items[number].inputs), len(items[number].target)

    for number in sorted(range(len(items)), key=n_tokens):
        for problem in item_problems(layout, items[number]):
            yield number, problem


def _row_answers(
    model: Transformer, problem: Problem, numbers: Sequence[int]
) -> Iterator[TokenAnswers]:
    states = problem.gather_states(model.hidden_states(problem.inputs).states_BTD)
    for row, number in enumerate(numbers):
        is_scored = problem.weights_BM[row] > 0
        logits_MV = model.logits(states[row][is_scored]).float()
        yield TokenAnswers(
            item=number,
            log_probabilities_MV=logits_MV.log_softmax(-1).cpu(),
            targets_M=problem.targets_BM[row][is_scored].cpu(),
        )
