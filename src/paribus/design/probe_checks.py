"""Probes of a design: whether all arms are looked at with the same documents, and keep the
checkpoints that are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from paribus.design.quantities import PlannedArm
from paribus.errors import ParibusError, SpecError
from paribus.probe.context_probe import ContextSplit
from paribus.probe.demonstrations import (
    drawn_questions,
    episode_language,
    questions_fingerprint,
)
from paribus.probe.descent_items import descent_items, episode_prompts
from paribus.probe.item_encoder import ItemEncoder
from paribus.probe.subject import laid_text, text_layout
from paribus.probe.texts import held_out_texts
from paribus.spec import ResolvedArchitecture, resolve
from paribus.spec.design import Design
from paribus.spec.probe_variants import (
    AS_IS,
    LAST_UPDATE,
    RANK_CORRELATION,
    UNTRAINED,
    after_steps,
    describe_variants,
)
from paribus.spec.probes import (
    ContextProbe,
    DescentProbe,
    GradientsProbe,
    HeldOutProbe,
    InContextProbe,
)
from paribus.spec.stages import stage_architectures
from paribus.spec.training import Training
from paribus.spec.yardstick import ProbeYardstick


def require_same_texts(measure: ProbeYardstick, arms: Sequence[PlannedArm]) -> None:
    """SpecError where arms would be looked at with other documents, or with too short ones."""
    fingerprints = {arm.name: _text_fingerprint(measure, arm) for arm in arms}
    first = next(iter(fingerprints))
    others = [name for name, own in fingerprints.items() if own != fingerprints[first]]
    if others:
        raise SpecError(
            f"corpus: {', '.join(others)} would be looked at with other documents than {first};"
            " hold out the same text in every arm, and set the length of the probe"
        )


def require_kept_checkpoints(design: Design, arms: Sequence[PlannedArm]) -> None:
    """SpecError where the gradients of a checkpoint are asked for that an arm does not keep."""
    problems = []
    for place, measure in enumerate(design.others):
        if isinstance(measure, ProbeYardstick) and isinstance(measure.probe, GradientsProbe):
            for arm in arms:
                fault = _checkpoint_fault(measure, arm.run.last.training)
                if fault is not None:
                    problems.append(f"others.{place} in {arm.name}: {fault}")
    if problems:
        raise SpecError(problems)


def kept_steps(training: Training) -> tuple[int, ...]:
    """How many steps were done at each checkpoint before the last that a run is sure to keep."""
    n_written = (training.n_steps - 1) // training.checkpoint_every  # and one after the last step
    first = max(1, n_written - training.keep_last + 2)
    return tuple(number * training.checkpoint_every for number in range(first, n_written + 1))


def _checkpoint_fault(measure: ProbeYardstick, training: Training) -> str | None:
    steps = kept_steps(training)
    if measure.quantity == LAST_UPDATE and not steps:
        return (
            f"quantity is {LAST_UPDATE!r}, but no checkpoint before the last is kept; set"
            " training.checkpoint_every below n_steps, and training.keep_last to 2 or more"
        )
    known = [AS_IS, UNTRAINED, *map(after_steps, steps)]
    if measure.variant in known:
        return None
    return (
        f"{describe_variants(measure.variant, known)}; training.checkpoint_every and"
        " training.keep_last say which checkpoints there are"
    )


def _text_fingerprint(measure: ProbeYardstick, arm: PlannedArm) -> str:
    try:
        if isinstance(measure.probe, InContextProbe):
            return _drawn_fingerprint(measure.probe, arm)
        return _read_fingerprint(measure.probe, measure, arm)
    except ParibusError as fault:
        raise SpecError(f"the probe {measure.probe.kind!r} in {arm.name}: {fault}") from None


def _read_fingerprint(probe: HeldOutProbe, measure: ProbeYardstick, arm: PlannedArm) -> str:
    stage, spec = arm.run.last, _last_architecture(arm)
    layout = text_layout(stage.objective, spec, arm.dataset.vocabulary)
    length = probe.length or min(stage.training.length, spec.max_length)
    encode = partial(laid_text, layout, arm.dataset.tokenizer)
    if isinstance(probe, ContextProbe):
        ContextSplit.of(layout, length)
    if not isinstance(probe, DescentProbe):
        texts = held_out_texts(encode, arm.dataset, probe.n_texts, length, measure.split)
        return texts.fingerprint
    prompts = episode_prompts(encode, arm.dataset, probe, length)
    encoder = _encoder(arm)
    items = descent_items(encoder, prompts)
    has_ranks = items[0].is_tuned_on_its_prompt and encoder.layout.framing != "apart"
    if measure.quantity == RANK_CORRELATION and not has_ranks:
        raise SpecError(
            f"quantity is {RANK_CORRELATION!r}, which compares attention to demonstrations with"
            " that to the same tokens in tuning, and they differ here; use 'SimAOU' or 'SimAM'"
        )
    return prompts.texts.fingerprint


def _drawn_fingerprint(probe: InContextProbe, arm: PlannedArm) -> str:
    """Which documents are drawn; ParibusError where the longest of them is too long, or a symbol
    is no token.
    """
    language = episode_language(arm.run.last.corpus)
    assert language is not None
    questions = drawn_questions(language, probe.n_texts)
    encoder = _encoder(arm)
    encoder.require_symbols([question.question for question in questions])
    for question in questions:
        encoder.lay(question.question, question.answer)
    return questions_fingerprint(language, questions)


def _encoder(arm: PlannedArm) -> ItemEncoder:
    return ItemEncoder.of_run(arm.run, arm.dataset, _last_architecture(arm))


def _last_architecture(arm: PlannedArm) -> ResolvedArchitecture:
    return resolve(stage_architectures(arm.run)[-1])
