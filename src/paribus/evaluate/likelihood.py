"""log p(target | context) of texts, in nats, of any architecture, framed as it was trained.

The tokens of the target are scored and nothing else: no `end`, no sentinel. So the bytes that nats are divided by are
those of the text, in every arm. Where each token is asked by itself (`last_token`), the chain rule adds them up; where
each is asked with all others in sight (`masked`), their sum is a pseudo-log-likelihood and no probability of anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor

from paribus.batch import Vocabulary
from paribus.corpus import Tokenizer
from paribus.corpus.built import vocabulary_of
from paribus.errors import SpecError, UnsupportedError
from paribus.evaluate.frames import Frame, Framed, fitted, frame, problems
from paribus.evaluate.items import Item
from paribus.evaluate.joining import joined
from paribus.evaluate.parts import answering, only
from paribus.masks import looks_ahead
from paribus.model import Transformer
from paribus.objectives import Problem, nats, permit, require_unseen
from paribus.record import Answer
from paribus.spec.objectives import Objective
from paribus.spec.yardstick import Measure

N_SEQUENCES = 16
POSITIONS = 512  # whose words are held at a time
PERMITTED = 256  # positions of the example that is asked first; then each length that items have is


def likelihoods(
    model: Transformer,
    objective: Objective,
    tokenizer: Tokenizer,
    items: Sequence[Item],
    label: Measure = "likelihood",
    *,
    n_sequences: int = N_SEQUENCES,
    window: int | None = None,
    vocabulary: Vocabulary | None = None,
) -> tuple[Answer, ...]:
    """An answer to each item, in their order; `window` is at most the model's max_length, and by default that.

    `vocabulary` says which ids are special tokens where they are not ours after the tokenizer's text.
    Labelled `pseudo-likelihood` they are those of a model that fills masks, to be compared with its like alone.
    """
    assert n_sequences >= 1
    part, vocabulary = answering(objective, label), vocabulary or vocabulary_of(tokenizer)
    window = min(window or model.spec.max_length, model.spec.max_length)
    _check(model, vocabulary)
    permit(only(part), model.spec, min(window, PERMITTED))
    laid = frame(part, model.spec, vocabulary, window)
    framed = [_framed(laid, tokenizer, item) for item in items]
    _require_unseen(model, laid, framed)
    sums = _summed(model, laid, framed, n_sequences)
    return tuple(
        Answer(item.name, total, len(one.target), len(item.target.encode()), one.n_cut, item.document)
        for item, one, total in zip(items, framed, sums, strict=True)
    )


def _check(model: Transformer, vocabulary: Vocabulary) -> None:
    if vocabulary.size > model.spec.n_vocab:
        raise SpecError(
            f"the model has n_vocab {model.spec.n_vocab}, but the tokenizer and our signs need {vocabulary.size}; "
            f"give the tokenizer it was trained with"
        )


def _require_unseen(model: Transformer, laid: Frame, framed: Sequence[Framed]) -> None:
    """SpecError where an item is so laid that its answer is seen; one item stands for all of its lengths."""
    if laid.framing == "in place" or not looks_ahead(model.spec.stack.masks):
        return
    for one in {(len(one.question), len(one.target)): one for one in framed}.values():
        for problem in problems(laid, one):
            require_unseen(laid.part.objective, problem, model.spec)


def _framed(laid: Frame, tokenizer: Tokenizer, item: Item) -> Framed:
    return fitted(laid, item.name, tokenizer.ids(item.context), target_ids(tokenizer, item))


def target_ids(tokenizer: Tokenizer, item: Item) -> list[int]:
    """The tokens of an item's target; UnsupportedError if they do not give back its text.

    Held-out text may have been lost before it came here: what is unknown is written as such, and given back as such.
    """
    target = tokenizer.ids(item.target)
    unknown = tokenizer.unknown in target
    if unknown or tokenizer.text(target).strip() != item.target.strip():
        lost = "in which the tokenizer does not know a word" if unknown else "which the tokenizer does not give back"
        raise UnsupportedError(
            f"item {item.name} has the target {item.target[:40]!r}, {lost}, so its bytes are not those that are "
            f"predicted; use a tokenizer that loses nothing, such as byte-level BPE"
        )
    return target


@torch.no_grad()
def _summed(model: Transformer, laid: Frame, framed: Sequence[Framed], n_sequences: int) -> list[float]:
    """Nats of each, computed in batches of rows of about one length."""
    sums = [0.0] * len(framed)
    asked = _asked(laid, framed)
    while batch := list(islice(asked, n_sequences)):
        problem = joined([problem for _, problem in batch], laid.vocabulary.pad)
        found = _nats(model, problem.to(model.embedding.weight.device)).tolist()
        for (number, _), one in zip(batch, found, strict=True):
            sums[number] += one
    return sums


def _asked(laid: Frame, framed: Sequence[Framed]) -> Iterator[tuple[int, Problem]]:
    """Every question and whose it is, short ones first; made as they are needed, since there may be one a token."""
    for number in sorted(range(len(framed)), key=lambda number: _length(framed[number])):
        for problem in problems(laid, framed[number]):
            yield number, problem


def _length(framed: Framed) -> tuple[int, int]:
    return len(framed.question) + len(framed.target), len(framed.target)


def _nats(model: Transformer, problem: Problem) -> Tensor:
    """Of each row, [B], summed in float64; words are held for a few of the asked positions at a time."""
    asked = problem.weights_BM > 0
    states = problem.states(model.hidden(problem.inputs).states_BTD)[asked]
    targets = problem.targets_BM[asked]
    pieces = zip(states.split(POSITIONS), targets.split(POSITIONS), strict=True)
    found = torch.cat([nats(model.words(few), told) for few, told in pieces]).cpu().double()
    rows = asked.nonzero()[:, 0].cpu()
    return torch.zeros(len(asked), dtype=torch.float64).index_add_(0, rows, found)
