"""Training and use: the loss of the same targets in corrupted and in plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from paribus.objectives import Problem
from paribus.probe.corrupted_input import (
    corrupted_text,
    corrupting_components,
    describe_component,
)
from paribus.probe.subject import ProbedModel
from paribus.probe.target_loss import NOTHING, TextLoss, problem_losses
from paribus.probe.texts import ProbeTexts
from paribus.record.probe_rows import ProbeRow
from paribus.spec.probes import CorruptionProbe
from paribus.watcher import Watcher


def probe_corruption(
    subject: ProbedModel, texts: ProbeTexts, spec: CorruptionProbe, watcher: Watcher
) -> Iterator[ProbeRow]:
    """Losses over all components that corrupt, and of each where there are several."""
    components = corrupting_components(subject.checkpoint.objective())
    total = {True: NOTHING, False: NOTHING}
    for component in components:
        own = {True: NOTHING, False: NOTHING}
        for k, text in enumerate(texts.chunks(1)):
            found = corrupted_text(subject, text, component, spec.n_questions, spec.seed, k)
            own[True] += _loss(subject, [found.corrupted])
            own[False] += _loss(subject, found.plain)
            watcher.advance(1)
        for is_corrupted, loss in own.items():
            total[is_corrupted] += loss
        if len(components) > 1:
            for row in _rows(own[True], own[False], texts):
                yield replace(row, variant=describe_component(component))
    yield from _rows(total[True], total[False], texts)


def n_posed(subject: ProbedModel, texts: ProbeTexts) -> int:
    """How many texts are posed in all."""
    return len(texts.texts) * len(corrupting_components(subject.checkpoint.objective()))


def _loss(subject: ProbedModel, problems: Sequence[Problem]) -> TextLoss:
    """The loss of all targets of some problems of one row each."""
    losses = problem_losses(subject, enumerate(problems))
    return sum((loss for _, loss in losses), NOTHING)


def _rows(corrupted: TextLoss, plain: TextLoss, texts: ProbeTexts) -> Iterator[ProbeRow]:
    row = partial(ProbeRow, probe="corruption", n=len(texts.texts))
    yield row(quantity="loss, corrupted input", value=corrupted.bits_per_byte)
    yield row(quantity="loss, plain input", value=plain.bits_per_byte)
    difference = corrupted.bits_per_byte - plain.bits_per_byte
    yield row(quantity="cost of corruption", value=difference)
