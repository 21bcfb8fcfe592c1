"""Whether every arm can be asked what the design asks: the same items, none of them lost, each
with room to answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paribus.corpus import TokenisedCorpus
from paribus.design.quantities import PlannedArm
from paribus.errors import SpecError, UnsupportedError
from paribus.evaluate import Item, answering_component, items_fingerprint, select_items
from paribus.evaluate.item_layout import item_layout, lay_item
from paribus.evaluate.likelihood import target_ids
from paribus.spec import resolve
from paribus.spec.design import Design
from paribus.spec.yardstick import Yardstick

ItemTokens = tuple[str, list[int], list[int]]  # an item's name, context and target


def require_items_fit(design: Design, arms: Sequence[PlannedArm]) -> None:
    """SpecError where arms would be asked different things, nothing at all, or what does not
    fit them.
    """
    for where, measure in _measures(design):
        asked = {
            arm.dataset.fingerprint: select_items(arm.dataset, measure)
            for arm in _one_arm_per_text(arms)
        }
        _require_same_items(
            measure, arms, {text: items_fingerprint(own) for text, own in asked.items()}
        )
        tokens = {
            arm.dataset.fingerprint: _item_tokens(arm.dataset, asked[arm.dataset.fingerprint])
            for arm in _one_arm_per_text(arms)
        }
        problems: dict[str, list[str]] = {}
        for arm in arms:
            problem = _misfit_reason(arm, measure, tokens[arm.dataset.fingerprint])
            if problem is not None:
                problems.setdefault(problem, []).append(arm.name)
        if problems:
            raise SpecError(
                [f"{where} in {', '.join(names)}: {problem}" for problem, names in problems.items()]
            )


def _measures(design: Design) -> Iterator[tuple[str, Yardstick]]:
    """Every yardstick an arm is asked, and where it is written."""
    primary = design.primary.measure
    yield "primary.measure", primary
    yield from ((f"others.{place}", measure) for place, measure in enumerate(design.others))
    if design.tune is not None:
        yield (
            "primary.measure, on which rates are tuned,",
            primary.model_copy(update={"split": design.tune.split}),
        )


def _one_arm_per_text(arms: Sequence[PlannedArm]) -> list[PlannedArm]:
    """One arm for each text."""
    return list({arm.dataset.fingerprint: arm for arm in arms}.values())


def _require_same_items(
    measure: Yardstick, arms: Sequence[PlannedArm], item_fingerprints: dict[str, str]
) -> None:
    first = item_fingerprints[arms[0].dataset.fingerprint]
    apart = [arm.name for arm in arms if item_fingerprints[arm.dataset.fingerprint] != first]
    if apart:
        raise SpecError(
            f"corpus: {', '.join(apart)} would be asked other {measure.kind!r} items than"
            f" {arms[0].name}, as what is held out differs; let every arm hold out the same text"
        )


def _item_tokens(dataset: TokenisedCorpus, dataset_items: Sequence[Item]) -> list[ItemTokens] | str:
    """Items as the tokenizer of a text reads them; where it loses one, why."""
    tokenizer = dataset.tokenizer
    try:
        return [
            (item.name, tokenizer.encode(item.context), target_ids(tokenizer, item))
            for item in dataset_items
        ]
    except UnsupportedError as fault:
        return str(fault)


def _misfit_reason(
    arm: PlannedArm, measure: Yardstick, item_tokens: Sequence[ItemTokens] | str
) -> str | None:
    """Why an item cannot be laid before an arm as its evaluation would; None where all can."""
    if isinstance(item_tokens, str):
        return item_tokens
    stage, spec = arm.run.stages[-1], resolve(arm.run.architecture)
    window = min(stage.training.length, spec.max_length)
    laid = item_layout(
        answering_component(stage.objective, measure.scores.kind),
        spec,
        arm.dataset.vocabulary,
        window,
    )
    try:
        for name, context, target in item_tokens:
            lay_item(laid, name, context, target)
    except (SpecError, UnsupportedError) as fault:
        return str(fault)
    return None
