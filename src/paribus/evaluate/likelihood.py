"""log p(target | context) of texts, in nats, of any architecture, framed as it was trained.

The tokens of the target are scored and nothing else: no `end`, no sentinel. So the bytes that nats
are divided by are those of the text, in every arm. Where each token is asked by itself
(`last_token`), the chain rule adds them up; where each is asked with all others in sight
(`masked`), their sum is a pseudo-log-likelihood and no probability of anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from paribus.batch import Vocabulary
from paribus.corpus import Tokenizer
from paribus.corpus.conversations import prompt_tokens
from paribus.corpus.dataset import vocabulary_of
from paribus.errors import SpecError, UnsupportedError
from paribus.evaluate.items import Item
from paribus.masks import looks_ahead
from paribus.model import Transformer
from paribus.objectives import Problem, require_no_leak, require_permitted, target_nats
from paribus.objectives.answering import answering_component, mixture_of_one
from paribus.objectives.batching import batch_problems
from paribus.objectives.framing import ItemLayout, LaidItem, item_layout, item_problems, lay_item
from paribus.record import Answer
from paribus.spec import ResolvedArchitecture
from paribus.spec.measure import LikelihoodKind
from paribus.spec.objectives import Objective

N_SEQUENCES = 16
MAX_POSITIONS = 512  # whose logits are held at a time
CHECK_LENGTH = (
    256  # positions of the example that is asked first; then each length that items have is
)


@dataclass(frozen=True, eq=False)
class AskedModel:
    """A model, what it was trained to do, and its tokens.

    `vocabulary` says which ids are special tokens where they are not ours after the tokenizer's
    text. `window` is at most the model's max_length, and by default that. A model that answers
    `in_turns` was trained on conversations: a task is asked as the turn of a user.
    """

    model: Transformer
    objective: Objective
    tokenizer: Tokenizer
    vocabulary: Vocabulary | None = None
    window: int | None = None
    in_turns: bool = False


def likelihoods(
    asked_model: AskedModel,
    items: Sequence[Item],
    label: LikelihoodKind = "likelihood",
    *,
    n_sequences: int = N_SEQUENCES,
) -> tuple[Answer, ...]:
    """An answer to each item, in their order.

    Labelled `pseudo-likelihood` they are those of a model that fills masks, to be compared with its
    like alone.
    """
    assert n_sequences >= 1
    model, tokenizer = asked_model.model, asked_model.tokenizer
    component = answering_component(asked_model.objective, label)
    vocabulary = asked_model.vocabulary or vocabulary_of(tokenizer)
    window = min(asked_model.window or model.spec.max_length, model.spec.max_length)
    require_vocabulary_fits(model.spec, vocabulary)
    require_permitted(mixture_of_one(component), model.spec, min(window, CHECK_LENGTH))
    layout = item_layout(component, model.spec, vocabulary, window)
    laid_items = [_lay_item(layout, tokenizer, item) for item in items]
    require_unseen(model, layout, laid_items)
    sums = _item_nats(model, layout, laid_items, n_sequences)
    answers = []
    for item, laid_item, total in zip(items, laid_items, sums, strict=True):
        answer = Answer(
            item=item.name,
            nats=total,
            n_tokens=len(laid_item.target),
            n_bytes=len(item.target.encode()),
            n_truncated_tokens=laid_item.n_truncated,
            document=item.document,
        )
        answers.append(answer)
    return tuple(answers)


def require_vocabulary_fits(spec: ResolvedArchitecture, vocabulary: Vocabulary) -> None:
    """SpecError where a tokenizer has more ids than the model."""
    if vocabulary.size > spec.n_vocab:
        raise SpecError(
            f"the model has n_vocab {spec.n_vocab}, but the tokenizer and our special tokens need"
            f" {vocabulary.size}; give the tokenizer it was trained with"
        )


def require_unseen(model: Transformer, layout: ItemLayout, laid_items: Sequence[LaidItem]) -> None:
    """SpecError where an item is so laid that its answer is seen; one item stands for all of
    its lengths.
    """
    if layout.framing == "in place" or not looks_ahead(model.spec.stack.masks):
        return
    for one in {(len(one.inputs), len(one.target)): one for one in laid_items}.values():
        for problem in item_problems(layout, one):
            require_no_leak(layout.component.objective, problem, model.spec)


def _lay_item(layout: ItemLayout, tokenizer: Tokenizer, item: Item) -> LaidItem:
    context = context_ids(tokenizer, layout.vocabulary, item)
    return lay_item(layout, item.name, context, target_ids(tokenizer, item))


def context_ids(tokenizer: Tokenizer, vocabulary: Vocabulary, item: Item) -> list[int]:
    """The tokens of an item's context; turns of a conversation have special tokens around them."""
    if item.turns:
        return prompt_tokens(item.turns, tokenizer, vocabulary)
    return tokenizer.encode(item.context)


def target_ids(tokenizer: Tokenizer, item: Item) -> list[int]:
    """The tokens of an item's target; UnsupportedError if they do not give back its text.

    Held-out text may have been lost before it came here: what is unknown is written as such, and
    given back as such.
    """
    target = tokenizer.encode(item.target)
    unknown = tokenizer.unknown_id in target
    if unknown or tokenizer.decode(target).strip() != item.target.strip():
        if unknown:
            reason = "in which the tokenizer does not know a word"
        else:
            reason = "which the tokenizer does not give back"
        raise UnsupportedError(
            f"item {item.name} has the target {item.target[:40]!r}, {reason}, so its bytes are not"
            " those that are predicted; use a tokenizer that loses nothing, such as byte-level BPE"
        )
    return target


@torch.no_grad()
def _item_nats(
    model: Transformer, layout: ItemLayout, laid_items: Sequence[LaidItem], n_sequences: int
) -> list[float]:
    """Nats of each, computed in batches of rows of about one length."""
    sums = [0.0] * len(laid_items)
    numbered_problems = _problems_by_length(layout, laid_items)
    while batch := list(islice(numbered_problems, n_sequences)):
        problem = batch_problems([problem for _, problem in batch], layout.vocabulary.pad)
        nats_B = _row_nats(model, problem.to(model.embedding.weight.device)).tolist()
        for (number, _), nats in zip(batch, nats_B, strict=True):
            sums[number] += nats
    return sums


def _problems_by_length(
    layout: ItemLayout, laid_items: Sequence[LaidItem]
) -> Iterator[tuple[int, Problem]]:
    """Every question and whose it is, short ones first; made as they are needed, since there
    may be one a token.
    """
    for number in sorted(
        range(len(laid_items)), key=lambda number: _sort_length(laid_items[number])
    ):
        for problem in item_problems(layout, laid_items[number]):
            yield number, problem


def _sort_length(item: LaidItem) -> tuple[int, int]:
    return len(item.inputs) + len(item.target), len(item.target)


def _row_nats(model: Transformer, problem: Problem) -> Tensor:
    """Of each row, [B], summed in float64; logits are held for a few of the scored positions at a
    time.
    """
    is_scored = problem.weights_BM > 0
    states = problem.gather_states(model.hidden_states(problem.inputs).states_BTD)[is_scored]
    targets = problem.targets_BM[is_scored]
    nats = []
    for some_states, some_targets in zip(
        states.split(MAX_POSITIONS), targets.split(MAX_POSITIONS), strict=True
    ):
        nats.append(target_nats(model.logits(some_states), some_targets))
    rows = is_scored.nonzero()[:, 0].cpu()
    sums = torch.zeros(len(is_scored), dtype=torch.float64)
    return sums.index_add_(0, rows, torch.cat(nats).cpu().double())
