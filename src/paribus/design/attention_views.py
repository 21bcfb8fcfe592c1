"""What the tokens of two arms see, where no field that differs says so.

A field may be equal as it is written and show something else: `prefix` shows the input in both
directions under one objective and not under another, `alternate` shows other shares to other
numbers of layers, and cross-attention follows the mask of the decoder where nobody writes it. So
what is seen is read off the resolved masks over the rows that an arm trains on, and stands beside
the pair. A pair of which a mask is the factor says so itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from paribus.analyse.text_read import LARGE_DIFFERENCE
from paribus.design.added_tables import picture_length
from paribus.design.quantities import PlannedArm, run_price
from paribus.masks import (
    Rule,
    SequenceLayout,
    count_visible_keys,
    mean_picture,
    simplify_rule,
)
from paribus.spec import Price, ResolvedArchitecture, resolve, visible_share
from paribus.spec.architecture import Architecture
from paribus.spec.conversation import encodes_turns
from paribus.spec.corpus import document_form, gives_pairs
from paribus.spec.stages import Stage, stage_architectures

DIRECTIONS = {  # by whether a token sees tokens before it, and after it
    (True, True): "in both directions",
    (True, False): "from left to right",
    (False, True): "from right to left",
    (False, False): "each token alone",
}


@dataclass(frozen=True, eq=False)
class StageView:
    """An arm in one of its stages: its masks, and the rows that they lie over."""

    arm: str
    stage: Stage
    written: Architecture
    price: Price  # which has the lengths

    @staticmethod
    def of(arm: PlannedArm, number: int) -> StageView:
        run = arm.run.first_stages(number + 1)
        price = run_price(run, arm.step_costs[number])
        return StageView(arm.name, run.last, run.last_architecture, price)

    @cached_property
    def spec(self) -> ResolvedArchitecture:
        return resolve(self.written)

    @property
    def has_encoder(self) -> bool:
        return self.spec.encoder is not None

    @property
    def has_documents(self) -> bool:
        """Are its rows cut from running text, and so across documents?"""
        return not all(map(gives_pairs, self.stage.corpus.sources))

    @property
    def input_mask(self) -> Rule:
        """The mask under which the input is read, as it is written."""
        encoder = self.written.encoder
        return self.written.mask if encoder is None else encoder.mask

    @property
    def direction(self) -> str:
        """In which direction the input is read; without an input, all of the text."""
        stack, length = self.spec.encoder or self.spec.stack, self.price.source_length
        if not self.has_encoder:
            length = self.price.prefix or self.price.length
        n = picture_length(stack.masks, length)
        is_prefix = self.has_encoder or self.price.prefix > 0
        picture = mean_picture(stack.masks, SequenceLayout(n, n if is_prefix else 0))
        return DIRECTIONS[bool(np.tril(picture, -1).any()), bool(np.triu(picture, 1).any())]

    @property
    def cross_rules(self) -> tuple[Rule, ...]:
        """What cross-attention sees of the source, layer by layer."""
        return tuple(block.cross for block in self.spec.stack.layers if block.cross is not None)

    @property
    def cross_description(self) -> str:
        """What cross-attention sees of such a source, each rule once."""
        rules = [simplify_rule(rule, self.has_documents, False, True) for rule in self.cross_rules]
        return " and ".join(dict.fromkeys(map(str, rules)))

    @property
    def encodes_turns(self) -> bool:
        """Does the encoder read each turn of the conversations of this stage alone?"""
        forms = map(document_form, self.stage.corpus.sources)
        return "conversations" in forms and encodes_turns(self.spec)

    def own_share(self, length: int) -> float:
        """The visible part of all pairs of positions of the main stack, at some length."""
        prefix = round(self.price.prefix * length / self.price.length)
        return visible_share(self.spec.stack.masks, SequenceLayout(length, prefix))

    def input_share(self, n_documents: int) -> float | None:
        """The visible part of an input of equal documents, seen from the output, which goes on with
        the last; None where no output is apart.
        """
        length, n_input = self.price.length, self.price.source_length or self.price.prefix
        if not self.has_encoder and not 0 < n_input < length:
            return None
        documents = np.arange(n_input) * n_documents // n_input
        n_output = length if self.has_encoder else length - n_input
        last = np.full(n_output, n_documents - 1)
        if self.has_encoder:
            text, source = (
                SequenceLayout(length, 0, last),
                SequenceLayout(n_input, n_input, documents),
            )
            is_output, rules = np.ones(length, bool), self.cross_rules
        else:
            text = SequenceLayout(length, n_input, np.concatenate([documents, last]))
            is_output, rules = np.arange(length) >= n_input, self.spec.stack.masks
            source = replace(text, real=~is_output)
        n_seen = sum(count_visible_keys(rule, text, is_output, source) for rule in rules)
        return n_seen / (len(rules) * n_input * n_output)


def view_details(first: PlannedArm, second: PlannedArm, *, is_named: bool) -> Iterator[str]:
    """What two arms see otherwise, stage by stage, and which stages take over what an earlier one
    changes; in words that follow "with". `is_named` says that masks which differ
    as they are written are a factor, which speaks for itself.
    """
    yield from _inherited_changes(first, second)
    counts = len(first.run.stages), len(second.run.stages)
    stages = [(number, number, f" in stage {number}") for number in range(min(counts))]
    if counts[0] != counts[1]:
        stages.append((counts[0] - 1, counts[1] - 1, " in the last stage"))
    written = stage_architectures(first.run), stage_architectures(second.run)
    for number, beside, where in stages:
        own, other = first.run.stages[number], second.run.stages[beside]
        lengths = own.training.length, other.training.length
        is_same_model = written[0][number] == written[1][beside]
        if is_same_model and own.objective == other.objective and lengths[0] == lengths[1]:
            continue
        views = StageView.of(first, number), StageView.of(second, beside)
        for text in _differences(*views, is_named=is_named):
            yield text if max(counts) == 1 else f"{text}{where}"


def _differences(first: StageView, second: StageView, *, is_named: bool) -> Iterator[str]:
    """What is seen otherwise in one stage, as far as no mask that differs is named."""
    one, other = first.arm, second.arm
    is_encoder_added = first.has_encoder != second.has_encoder
    if is_encoder_added or first.input_mask == second.input_mask or not is_named:
        directions = first.direction, second.direction
        if directions[0] != directions[1]:
            yield f"{one} reading its input {directions[0]} and {other} {directions[1]}"
    if first.written.mask == second.written.mask or not (is_named or is_encoder_added):
        length = max(first.price.length, second.price.length)
        shares = first.own_share(length), second.own_share(length)
        if _differ(*shares):
            yield (
                f"{one} seeing {shares[0]:.3g} of the pairs of positions and {other}"
                f" {shares[1]:.3g}"
            )
    if is_encoder_added:
        yield from _input_differences(first, second)
    elif first.has_encoder:
        yield from _encoder_differences(first, second)


def _input_differences(first: StageView, second: StageView) -> Iterator[str]:
    """That an output sees less of its input than that of the other arm, or of several documents
    fewer.
    """
    of_documents = {1: "its input"}
    if first.has_documents and second.has_documents:
        of_documents[2] = "an input of two documents"
    for n_documents, what in of_documents.items():
        own, other = first.input_share(n_documents), second.input_share(n_documents)
        if own is not None and other is not None and _differ(own, other):
            yield (
                f"the output of {first.arm} seeing {own:.3g} of {what} and that of {second.arm}"
                f" {other:.3g}"
            )
            return


def _encoder_differences(first: StageView, second: StageView) -> Iterator[str]:
    """What two encoders see otherwise, and two decoders of them."""
    encoders, one, other = (first.written.encoder, second.written.encoder), first.arm, second.arm
    assert encoders[0] is not None
    assert encoders[1] is not None
    stacks = first.spec.encoder, second.spec.encoder
    if encoders[0].mask == encoders[1].mask and stacks[0] and stacks[1]:
        length = max(first.price.source_length, second.price.source_length)
        source = SequenceLayout(length, length)
        shares = [visible_share(stack.masks, source) for stack in stacks if stack]
        if _differ(*shares):
            yield (
                f"the encoder of {one} seeing {shares[0]:.3g} of the pairs of positions and that of"
                f" {other} {shares[1]:.3g}"
            )
    crosses = first.cross_description, second.cross_description
    if encoders[0].cross == encoders[1].cross and crosses[0] != crosses[1]:
        yield f"cross-attention seeing {crosses[0]} in {one} and {crosses[1]} in {other}"
    if first.encodes_turns != second.encodes_turns:
        alone, so_far = (one, other) if first.encodes_turns else (other, one)
        yield f"{alone} encoding each turn alone and {so_far} the conversation so far"


def _differ(one: float, other: float) -> bool:
    return abs(one - other) > LARGE_DIFFERENCE * max(one, other)


def _inherited_changes(first: PlannedArm, second: PlannedArm) -> Iterator[str]:
    """The later stages that a field of an earlier one changes besides, for nothing is written
    there.
    """
    pairs = list(zip(first.run.stages, second.run.stages, strict=False))
    changes = [(_written_changes(own), _written_changes(other)) for own, other in pairs]
    for number, (own, other) in enumerate(changes):
        for name in own | other:
            if number == 0 or own.get(name) == other.get(name):
                continue
            later = []
            for beside in range(number + 1, len(changes)):
                if name in changes[beside][0] | changes[beside][1]:
                    break
                later.append(str(beside))
            if later:
                stages = f"stage {later[0]}" if len(later) == 1 else f"stages {', '.join(later)}"
                yield f"stages.{number}.architecture.{name} also changing {stages}"


def _written_changes(stage: Stage) -> dict[str, object]:
    """What a stage changes of the architecture, by path."""
    table = stage.architecture.model_dump(mode="json")
    encoder = table.pop("encoder", None) or {}
    return table | {f"encoder.{name}": value for name, value in encoder.items()}
