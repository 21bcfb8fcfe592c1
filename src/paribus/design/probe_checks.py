"""Probes of a design: whether all arms are looked at with the same documents."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from paribus.design.quantities import PlannedArm
from paribus.errors import SpecError
from paribus.probe.descent_items import episode_prompts
from paribus.probe.subject import laid_text, text_layout
from paribus.probe.texts import ProbeTexts, held_out_texts
from paribus.spec import resolve
from paribus.spec.probes import DescentProbe
from paribus.spec.stages import stage_architectures
from paribus.spec.yardstick import ProbeYardstick


def require_same_texts(measure: ProbeYardstick, arms: Sequence[PlannedArm]) -> None:
    """SpecError where arms would be looked at with other documents, or with too short ones."""
    fingerprints = {arm.name: _texts(measure, arm).fingerprint for arm in arms}
    first = next(iter(fingerprints))
    others = [name for name, own in fingerprints.items() if own != fingerprints[first]]
    if others:
        raise SpecError(
            f"corpus: {', '.join(others)} would be looked at with other documents than {first};"
            " hold out the same text in every arm, and set the length of the probe"
        )


def _texts(measure: ProbeYardstick, arm: PlannedArm) -> ProbeTexts:
    stage, spec = arm.run.last, resolve(stage_architectures(arm.run)[-1])
    layout = text_layout(stage.objective, spec, arm.dataset.vocabulary)
    length = measure.probe.length or min(stage.training.length, spec.max_length)
    encode = partial(laid_text, layout, arm.dataset.tokenizer)
    if isinstance(measure.probe, DescentProbe):
        return episode_prompts(encode, arm.dataset, measure.probe, length).texts
    return held_out_texts(encode, arm.dataset, measure.probe.n_texts, length, measure.split)
