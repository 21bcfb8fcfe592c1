"""Whether every arm can be asked what the design asks: the same items, none of them lost, each with room to answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paribus.corpus import Built
from paribus.design.quantities import Planned
from paribus.errors import SpecError, UnsupportedError
from paribus.evaluate import Item, answering, fingerprint, items
from paribus.evaluate.frames import fitted, frame
from paribus.evaluate.likelihood import target_ids
from paribus.spec import resolve
from paribus.spec.design import Design
from paribus.spec.yardstick import Yardstick, measures

Tokens = tuple[str, list[int], list[int]]  # an item's name, context and target


def require_askable(design: Design, arms: Sequence[Planned]) -> None:
    """SpecError where arms would be asked different things, nothing at all, or what does not fit them."""
    for where, measure in _measures(design):
        asked = {arm.built.fingerprint: items(arm.built, measure) for arm in _apart(arms)}
        _require_same(measure, arms, {text: fingerprint(own) for text, own in asked.items()})
        tokens = {arm.built.fingerprint: _tokens(arm.built, asked[arm.built.fingerprint]) for arm in _apart(arms)}
        problems: dict[str, list[str]] = {}
        for arm in arms:
            problem = _unfit(arm, measure, tokens[arm.built.fingerprint])
            if problem is not None:
                problems.setdefault(problem, []).append(arm.name)
        if problems:
            raise SpecError([f"{where} in {', '.join(names)}: {problem}" for problem, names in problems.items()])


def _measures(design: Design) -> Iterator[tuple[str, Yardstick]]:
    """Every yardstick an arm is asked, and where it is written."""
    primary = design.primary.measure
    yield "primary.measure", primary
    yield from ((f"others.{place}", measure) for place, measure in enumerate(design.others))
    if design.tune is not None:
        yield "primary.measure, on which rates are tuned,", primary.model_copy(update={"split": design.tune.split})


def _apart(arms: Sequence[Planned]) -> list[Planned]:
    """One arm for each text."""
    return list({arm.built.fingerprint: arm for arm in arms}.values())


def _require_same(measure: Yardstick, arms: Sequence[Planned], asked: dict[str, str]) -> None:
    first = asked[arms[0].built.fingerprint]
    apart = [arm.name for arm in arms if asked[arm.built.fingerprint] != first]
    if apart:
        raise SpecError(
            f"corpus: {', '.join(apart)} would be asked other {measure.kind!r} items than {arms[0].name}, as what "
            f"is held out differs; let every arm hold out the same text"
        )


def _tokens(built: Built, asked: Sequence[Item]) -> list[Tokens] | str:
    """Items as the tokenizer of a text reads them; where it loses one, why."""
    tokenizer = built.tokenizer
    try:
        return [(item.name, tokenizer.ids(item.context), target_ids(tokenizer, item)) for item in asked]
    except UnsupportedError as fault:
        return str(fault)


def _unfit(arm: Planned, measure: Yardstick, asked: Sequence[Tokens] | str) -> str | None:
    """Why an item cannot be laid before an arm as its evaluation would; None where all can."""
    if isinstance(asked, str):
        return asked
    stage, spec = arm.run.stages[-1], resolve(arm.run.architecture)
    window = min(stage.training.length, spec.max_length)
    laid = frame(answering(stage.objective, measures(measure)), spec, arm.built.vocabulary, window)
    try:
        for name, context, target in asked:
            fitted(laid, name, context, target)
    except (SpecError, UnsupportedError) as fault:
        return str(fault)
    return None
