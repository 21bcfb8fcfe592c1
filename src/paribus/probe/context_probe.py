"""Effective context: the loss of the same targets as their context is cut, or put out of order,
and the loss of a text by position.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from paribus.errors import SpecError
from paribus.objectives.answering import answering_component, why_no_likelihood
from paribus.objectives.framing import Ids, ItemLayout, lay_item
from paribus.probe.position_loss import position_losses
from paribus.probe.problem_batches import TargetAfterContext
from paribus.probe.subject import ProbedModel
from paribus.probe.target_loss import NOTHING, TextLoss, item_losses
from paribus.probe.texts import ProbeText, ProbeTexts
from paribus.record.probe_rows import ProbeRow
from paribus.runtime import numpy_generator
from paribus.spec.objectives import Objective
from paribus.spec.probes import ContextProbe
from paribus.watcher import Watcher

SHUFFLED = "context shuffled"
IN_SIGHT, IN_ORDER, POSITION = "tokens of context", "tokens in order", "position"
LOSS = "loss"
FEWEST = 4  # tokens of context
TOLERANCE = 0.01  # of the loss: what is lost beyond the effective context


def require_likelihood(objective: Objective) -> None:
    """SpecError where an objective gives no likelihood of a target after its context."""
    try:
        answering_component(objective, "likelihood")
    except SpecError:
        raise SpecError(
            f"{why_no_likelihood(objective)}; probe a run of another objective, such as 'causal'"
            " or 'prefix'"
        ) from None


@dataclass(frozen=True)
class ContextCut:
    """How much of a context is there: its last tokens alone, or all of it with those alone in
    order.
    """

    n_tokens: int
    shuffles: bool = False

    @property
    def x_name(self) -> str:
        return IN_ORDER if self.shuffles else IN_SIGHT

    @property
    def variant(self) -> str:
        return SHUFFLED if self.shuffles else ""


def probe_context(
    subject: ProbedModel, texts: ProbeTexts, spec: ContextProbe, watcher: Watcher
) -> Iterator[ProbeRow]:
    """The loss of the last quarter of each text as its context changes, what these curves say, and
    the loss by position.
    """
    require_likelihood(subject.checkpoint.objective())
    split = ContextSplit.of(subject.layout, texts.length)
    found: dict[ContextCut, TextLoss] = {}
    for cut in context_cuts(split.n_context):
        items = [_laid_target(subject, text, split, cut, spec.seed) for text in texts.texts]
        found[cut] = sum(item_losses(subject, items), NOTHING)
        watcher.advance(len(items))
        yield ProbeRow(
            probe="context",
            quantity=LOSS,
            value=found[cut].bits_per_byte,
            n=len(items),
            variant=cut.variant,
            x=cut.n_tokens,
            x_name=cut.x_name,
        )
    for quantity, value in _summary(found, split.n_context).items():
        yield ProbeRow(probe="context", quantity=quantity, value=value, n=len(texts.texts))
    for position, loss in position_losses(subject, texts):
        yield ProbeRow(
            probe="context",
            quantity=LOSS,
            value=loss.bits_per_byte,
            n=len(texts.texts),
            x=position,
            x_name=POSITION,
        )
    watcher.advance(len(texts.texts))


def n_targets(subject: ProbedModel, texts: ProbeTexts) -> int:
    """How many targets are read in all, with a context each."""
    split = ContextSplit.of(subject.layout, texts.length)
    return len(texts.texts) * (len(context_cuts(split.n_context)) + 1)


def context_cuts(n_context: int) -> list[ContextCut]:
    """4, 8, 16 … tokens and all of them; in order also none."""
    numbers = [FEWEST]
    while numbers[-1] * 2 < n_context:
        numbers.append(numbers[-1] * 2)
    cuts = [ContextCut(number) for number in (*numbers, n_context)]
    return cuts + [ContextCut(number, shuffles=True) for number in (0, *numbers)]


def _summary(losses: dict[ContextCut, TextLoss], n_context: int) -> dict[str, float]:
    in_sight = {cut: loss.bits_per_byte for cut, loss in losses.items() if not cut.shuffles}
    whole = in_sight[ContextCut(n_context)]
    enough = [cut.n_tokens for cut, loss in in_sight.items() if loss <= whole * (1 + TOLERANCE)]
    shuffled = losses[ContextCut(0, shuffles=True)].bits_per_byte
    return {
        "gain of context": in_sight[ContextCut(FEWEST)] - whole,
        "gain of order": shuffled - whole,
        "effective context": min(enough),
    }


@dataclass(frozen=True)
class ContextSplit:
    """Where the context of a text begins and ends; its targets are the rest."""

    begin: int
    end: int

    @staticmethod
    def of(layout: ItemLayout, length: int) -> ContextSplit:
        """SpecError where a length leaves too short a context."""
        begin = len(layout.question_begin) + len(layout.document_prefix)
        end = length - length // 4
        begin = max(begin, end - layout.context_room(length - end))
        if end - begin <= FEWEST:
            raise SpecError(
                f"length is {length}, which leaves {max(end - begin, 0)} tokens of context before"
                f" the last quarter; use {2 * (begin + FEWEST + 1)} or more"
            )
        return ContextSplit(begin, end)

    @property
    def n_context(self) -> int:
        return self.end - self.begin


def _laid_target(
    subject: ProbedModel, text: ProbeText, split: ContextSplit, cut: ContextCut, seed: int
) -> TargetAfterContext:
    context, target = text.tokens[split.begin : split.end], text.tokens[split.end :]
    layout = subject.layout
    if cut.shuffles:
        context = _shuffled(context, cut.n_tokens, seed, text.name)
    elif cut.n_tokens < len(context):
        context = context[-cut.n_tokens :]
        layout = replace(layout, document_prefix=())  # no document begins here
    return TargetAfterContext(layout, lay_item(layout, text.name, context, target))


def _shuffled(context: Ids, n_in_order: int, seed: int, name: str) -> Ids:
    """The last tokens stay in order, those before them are permuted."""
    n_moved = len(context) - n_in_order
    order = numpy_generator(seed, "shuffled context", name).permutation(n_moved).tolist()
    return (*(context[place] for place in order), *context[n_moved:])
