"""What stands beside a judged comparison though it is no factor: totals that a budget, or one that
is not there, leaves unequal; what is not alike in how its arms are asked and tuned; and that its
runs are compared already, under other names.

Whoever makes one total equal leaves others unequal, and the effect is of these as well: of more
text, of more updates, of a first stage that is longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from paribus.analyse.text_read import LARGE_DIFFERENCE
from paribus.design.asked_forms import asking_notes
from paribus.design.quantities import PlannedArm
from paribus.record import JudgedDifference
from paribus.spec.contrasts import Weights, default_contrasts, opposed_arms
from paribus.spec.design import ArmPair, Design, arm_levels, declared_contrasts
from paribus.train.parent import name_of_run

PADDED = ("positions_computed", "training_flops")
# totals of a run, and what an arm does with more or less of it
TOTALS = {
    "bytes_read": "reads {:.3g} × the bytes of text",
    "tokens_scored": "is scored on {:.3g} × the tokens",
}


def note_judged(
    judged: Sequence[JudgedDifference], design: Design, arms: Sequence[PlannedArm]
) -> tuple[JudgedDifference, ...]:
    """Each with the totals that differ between its arms by more than 2 %, with what is not alike
    in how they are asked and tuned, and with the pair that its runs are compared in already; an
    encoder with what padding makes of its work.
    """
    by_name = {arm.name: arm for arm in arms}
    contrasts = default_contrasts(arm_levels(design), design.baseline) | declared_contrasts(design)
    runs = {arm.name: name_of_run(arm.run, arm.texts) for arm in arms}
    noted, earlier = list[JudgedDifference](), dict[tuple[str, str], str]()
    for one in judged:
        notes, details = dict[str, None](), dict.fromkeys(one.details)
        for pair in _pairs(one, contrasts):
            first, second = by_name[pair[0]], by_name[pair[1]]
            of = "" if one.contrast is None else f"{first.name} "
            against = "" if one.contrast is None else f" of {second.name}"
            for text in _unequal_totals(first, second):
                notes[f"{of}{text}{against}"] = None
            notes |= dict.fromkeys(
                [f"{of}{text}" for text in asking_notes(design, arms, first, second)]
            )
            details |= dict.fromkeys([f"{text}{against}" for text in _padding(first, second)])
            if one.contrast is None:
                own = f"{first.name} against {second.name}"
                same = earlier.setdefault((runs[first.name], runs[second.name]), own)
                if same != own:
                    notes[f"the same runs as {same}"] = None
        noted.append(replace(one, notes=tuple(notes), details=tuple(details)))
    return tuple(noted)


def _pairs(one: JudgedDifference, contrasts: Mapping[str, Weights]) -> list[ArmPair]:
    if one.contrast is not None:
        return list(opposed_arms(contrasts[one.contrast]))
    assert one.arm is not None
    assert one.against is not None
    return [(one.arm, one.against)]


def _padding(first: PlannedArm, second: PlannedArm) -> Iterator[str]:
    """That an encoder and a decoder compute more positions than one stack, which packs its rows."""
    encoders = [arm.run.architecture.encoder for arm in (first, second)]
    positions, flops = [first.total(name) / second.total(name) for name in PADDED]
    if (encoders[0] is None) != (encoders[1] is None) and abs(positions - 1) > LARGE_DIFFERENCE:
        yield f"{flops:.3g} × the FLOPs in all, for {positions:.3g} × the positions with padding"


def _unequal_totals(first: PlannedArm, second: PlannedArm) -> Iterator[str]:
    for name, words in TOTALS.items():
        ratio = first.total(name) / second.total(name)
        if abs(ratio - 1) > LARGE_DIFFERENCE:
            yield words.format(ratio)
    stages = zip(first.run.stages, second.run.stages, strict=False)  # one more is a factor
    for number, (own, other) in enumerate(stages):
        ratio = own.training.n_steps / other.training.n_steps
        if abs(ratio - 1) > LARGE_DIFFERENCE:
            where = f" in stage {number}" if len(first.run.stages) > 1 else ""
            yield f"takes {own.training.n_steps:,} steps{where} for {other.training.n_steps:,}"
