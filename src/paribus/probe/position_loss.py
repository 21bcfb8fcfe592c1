"""Loss by position: how well a model predicts a text, by how much of it came before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from paribus.objectives.framing import lay_item
from paribus.probe.problem_batches import TargetAfterContext, numbered_problems, problem_batches
from paribus.probe.subject import ProbedModel
from paribus.probe.target_loss import TextLoss, scored_nats
from paribus.probe.texts import ProbeTexts

MAX_GROUPS = 32  # of neighbouring positions


def position_losses(subject: ProbedModel, texts: ProbeTexts) -> Iterator[tuple[float, TextLoss]]:
    """The loss of all texts beyond their first quarter, which is the context: of groups of
    neighbouring tokens, each with the mean number of tokens before them.
    """
    layout, end = subject.layout, _first_target(subject, texts.length)
    begin = max(_n_marks(subject), end - layout.context_room(texts.length - end))
    items = []
    for text in texts.texts:
        item = lay_item(layout, text.name, text.tokens[begin:end], text.tokens[end:])
        items.append(TargetAfterContext(layout, item))
    nats_KM, n_bytes_KM = _token_losses(subject, items, texts.length - end)
    for places in np.array_split(np.arange(texts.length - end), MAX_GROUPS):
        loss = TextLoss(float(nats_KM[:, places].sum()), int(n_bytes_KM[:, places].sum()))
        if loss.n_bytes:  # none in an empty group, or in one of special tokens alone
            yield end + float(places.mean()), loss


def _n_marks(subject: ProbedModel) -> int:
    """Tokens before a document begins."""
    return len(subject.layout.question_begin) + len(subject.layout.document_prefix)


def _first_target(subject: ProbedModel, length: int) -> int:
    """Where the context ends: one token of text is in it at least."""
    return max(length // 4, _n_marks(subject) + 1)


@torch.no_grad()
def _token_losses(
    subject: ProbedModel, items: list[TargetAfterContext], n_targets: int
) -> tuple[np.ndarray, np.ndarray]:
    """Nats and bytes of every token of K targets, [K, M]. Special tokens have no bytes, and are not
    counted.
    """
    vocabulary = subject.layout.vocabulary
    nats_KM = np.zeros((len(items), n_targets))
    n_bytes_KM = np.zeros((len(items), n_targets), dtype=np.int64)
    n_read = [0] * len(items)  # a model that is asked for one token at a time has them in turn
    for numbers, problem in problem_batches(
        numbered_problems(items), vocabulary.pad, subject.device
    ):
        bytes_BM = vocabulary.bytes_V.to(subject.device)[problem.targets_BM]
        is_target_BM = problem.weights_BM > 0
        nats_BM = scored_nats(subject.model, problem, is_target_BM)
        for row, number in enumerate(numbers):
            own_bytes = bytes_BM[row][is_target_BM[row]].cpu().numpy()
            places = slice(n_read[number], n_read[number] + len(own_bytes))
            n_read[number] += len(own_bytes)
            own_nats = nats_BM[row][is_target_BM[row]].cpu().numpy()
            nats_KM[number, places] = np.where(own_bytes > 0, own_nats, 0.0)
            n_bytes_KM[number, places] = own_bytes
    return nats_KM, n_bytes_KM
