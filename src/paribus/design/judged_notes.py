"""What stands beside a judged comparison though it is no factor: totals that a budget, or one that
is not there, leaves unequal; what is not alike in how its arms are asked and tuned; and that its
runs are compared already, under other names.

Whoever makes one total equal leaves others unequal, and the effect is of these as well: of more
text, of more updates, of a first stage that is longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import log

from paribus.analyse.text_read import LARGE_DIFFERENCE
from paribus.design.asked_forms import asking_notes
from paribus.design.attention_views import view_details
from paribus.design.pair_sizes import size_ratios
from paribus.design.quantities import PlannedArm
from paribus.record import JudgedDifference
from paribus.spec.contrasts import Weights, default_contrasts
from paribus.spec.design import ArmPair, Design, arm_levels, declared_contrasts, leaves_of
from paribus.train.parent import name_of_run

PADDED = ("positions_computed", "training_flops")
FAIR_SHARE = 0.1  # of the largest weight of its side, that an arm of a contrast has at least
# totals of a run, and what an arm does with more or less of it
TOTALS = {
    "bytes_read": "reads {:.3g} × the bytes of text",
    "tokens_scored": "is scored on {:.3g} × the tokens",
}


def note_judged(
    judged: Sequence[JudgedDifference],
    design: Design,
    arms: Sequence[PlannedArm],
    contrast_pairs: Mapping[str, Sequence[ArmPair]],
) -> tuple[JudgedDifference, ...]:
    """Each with what stands beside it: totals that differ between its arms by more than 2 %, what
    is not alike in how they are asked and tuned and in what they see, fields that a match moved,
    what padding makes of an encoder's work, and the pair that its runs are compared in already; a
    contrast with these of the pairs that it is made of, and with the arms that it hardly counts.
    """
    by_name = {arm.name: arm for arm in arms}
    contrasts = default_contrasts(arm_levels(design), design.baseline) | declared_contrasts(design)
    runs = {arm.name: name_of_run(arm.run, arm.texts) for arm in arms}
    noted, earlier = list[JudgedDifference](), dict[tuple[str, str], str]()
    for one in judged:
        notes, details = dict[str, None](), dict.fromkeys(one.details)
        if one.contrast is not None:
            notes |= dict.fromkeys(_faint_weights(contrasts[one.contrast]))
        for pair in _pairs(one, contrast_pairs):
            first, second = by_name[pair[0]], by_name[pair[1]]
            of = "" if one.contrast is None else f"{first.name} "
            against = "" if one.contrast is None else f" of {second.name}"
            for text in _unequal_totals(first, second):
                notes[f"{of}{text}{against}"] = None
            notes |= dict.fromkeys(
                [f"{of}{text}" for text in asking_notes(design, arms, first, second)]
            )
            details |= dict.fromkeys([f"{text}{against}" for text in _padding(first, second)])
            views = view_details(first, second, is_named=_names_mask(one))
            details |= dict.fromkeys(views)
            details |= dict.fromkeys(
                [f"{of}{text}{against}" for text in _matched_fields(first, second)]
            )
            if one.contrast is None:
                own = f"{first.name} against {second.name}"
                same = earlier.setdefault((runs[first.name], runs[second.name]), own)
                if same != own:
                    notes[f"the same runs as {same}"] = None
        noted.append(replace(one, notes=tuple(notes), details=tuple(details)))
    return tuple(noted)


def _pairs(
    one: JudgedDifference, contrast_pairs: Mapping[str, Sequence[ArmPair]]
) -> Sequence[ArmPair]:
    if one.contrast is not None:
        return contrast_pairs[one.contrast]
    assert one.arm is not None
    assert one.against is not None
    return [(one.arm, one.against)]


def _names_mask(one: JudgedDifference) -> bool:
    """Is a mask among the factors?"""
    names = [factor.partition(" (")[0] for factor in one.factors]
    return any(name.endswith("mask") for name in names)


def _faint_weights(weights: Weights) -> Iterator[str]:
    """That an arm has less than a tenth of the largest weight of its side: what a contrast finds is
    hardly of that arm.
    """
    for arm, weight in weights.items():
        side = {name: own for name, own in weights.items() if own * weight > 0}
        largest = max(side, key=lambda name: abs(side[name]))
        if abs(weight) < FAIR_SHARE * abs(side[largest]):
            yield f"hardly counts {arm}, by {weight:g} beside {side[largest]:g} of {largest}"


def _padding(first: PlannedArm, second: PlannedArm) -> Iterator[str]:
    """That an encoder and a decoder compute more positions than one stack, which packs its rows."""
    encoders = [arm.run.architecture.encoder for arm in (first, second)]
    positions, flops = [first.total(name) / second.total(name) for name in PADDED]
    if (encoders[0] is None) != (encoders[1] is None) and abs(positions - 1) > LARGE_DIFFERENCE:
        yield f"{flops:.3g} × the FLOPs in all, for {positions:.3g} × the positions with padding"


def _matched_fields(first: PlannedArm, second: PlannedArm) -> Iterator[str]:
    """Each field that a match has moved in one of two arms and in which they then differ."""
    tables, paths = [], dict[str, None]()
    for arm in (first, second):
        tables.append(leaves_of(arm.run.architecture.model_dump(mode="json")))
        if arm.size_match is not None:
            paths |= dict.fromkeys(arm.size_match.moved_fields)
    for path in paths:
        own, other = [table.get(path) for table in tables]
        if own != other:
            yield f"{path} {own or 'none'} for {other or 'none'} by the match"


def _unequal_totals(first: PlannedArm, second: PlannedArm) -> Iterator[str]:
    for name, words in TOTALS.items():
        ratio = first.total(name) / second.total(name)
        if _is_unequal(ratio):
            yield words.format(ratio)
    stages = zip(first.run.stages, second.run.stages, strict=False)  # one more is a factor
    for number, (own, other) in enumerate(stages):
        ratio = own.training.n_steps / other.training.n_steps
        if abs(ratio - 1) > LARGE_DIFFERENCE:
            where = f" in stage {number}" if len(first.run.stages) > 1 else ""
            yield f"takes {own.training.n_steps:,} steps{where} for {other.training.n_steps:,}"
    yield from _unequal_epochs(first, second)
    yield from _unequal_work(first, second)


def _unequal_epochs(first: PlannedArm, second: PlannedArm) -> Iterator[str]:
    """How often each reads its text, of several sources the one in which that differs most; not
    what more bytes of it explain.
    """
    more_text = first.total("bytes_read") / second.total("bytes_read")
    sources = list(zip(first.epochs, second.epochs, strict=False))
    if len(first.epochs) != len(second.epochs):
        sources = [(max(first.epochs), max(second.epochs))]
    sources = [one for one in sources if all(one)]
    own, other = max(sources, key=lambda one: abs(log(one[0] / one[1])), default=(1.0, 1.0))
    if _is_unequal(own / other) and _is_unequal(own / other / more_text):
        text = "its text" if len(sources) == 1 else "a source"
        yield f"reads {text} {own:.3g} times, for {other:.3g}"


def _unequal_work(first: PlannedArm, second: PlannedArm) -> Iterator[str]:
    """The FLOPs of two trainings, where neither padding nor the sizes that stand beside every pair
    explain them.
    """
    work = first.total("training_flops") / second.total("training_flops")
    architectures = first.run.last_architecture, second.run.last_architecture
    sizes = size_ratios(*architectures, first.run.last.training.length)
    is_said = any(_padding(first, second)) or _is_unequal(sizes.flops)
    if _is_unequal(work) and not is_said:
        yield f"takes {work:.3g} × the training FLOPs"


def _is_unequal(ratio: float) -> bool:
    return abs(ratio - 1) > LARGE_DIFFERENCE
