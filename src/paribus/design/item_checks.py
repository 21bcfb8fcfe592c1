"""Whether every arm can be asked what the design asks: the same items, none of them lost, each
with room to answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from paribus.canonical import canonical_hash
from paribus.corpus import TokenisedCorpus
from paribus.corpus.labelled_rows import LabelledCorpus
from paribus.design.probe_checks import require_same_texts
from paribus.design.quantities import PlannedArm
from paribus.errors import SpecError, UnsupportedError
from paribus.evaluate import Item, answering_component, items_fingerprint, select_items
from paribus.evaluate.head_answers import labelled_items
from paribus.evaluate.likelihood import context_ids, target_ids
from paribus.objectives.framing import item_layout, lay_item
from paribus.spec import resolve
from paribus.spec.design import Design, sweep_yardstick
from paribus.spec.objectives import TextLabels, WordTags
from paribus.spec.yardstick import (
    DesignYardstick,
    HeadYardstick,
    OtherYardstick,
    ProbeYardstick,
    TaskYardstick,
    Yardstick,
)

ItemTokens = tuple[str, list[int], list[int]]  # an item's name, context and target


def require_items_fit(design: Design, arms: Sequence[PlannedArm]) -> None:
    """SpecError where arms would be asked different things, nothing at all, or what does not
    fit them.
    """
    for where, measure in _measures(design):
        if isinstance(measure, TaskYardstick):
            continue  # its items are made to fit every arm
        if isinstance(measure, HeadYardstick):
            _require_same_labels(measure, arms)
            continue
        if isinstance(measure, ProbeYardstick):
            require_same_texts(measure, arms)
            continue
        problems = []
        for problem, names in _misfits(measure, arms).items():
            problems.append(f"{where} in {', '.join(names)}: {problem}")
        if problems:
            raise SpecError(problems)


def _misfits(measure: Yardstick, arms: Sequence[PlannedArm]) -> dict[str, list[str]]:
    """Why items of a yardstick do not fit, and in which arms; SpecError where arms have other
    items.
    """
    texts = {arm.dataset.fingerprint: arm.dataset for arm in arms}
    items, fingerprints = {}, {}
    for text, dataset in texts.items():
        items[text] = select_items(dataset, measure)
        fingerprints[text] = items_fingerprint(items[text])
    _require_same_items(measure, arms, fingerprints)
    tokens = {text: _item_tokens(dataset, items[text]) for text, dataset in texts.items()}
    problems: dict[str, list[str]] = {}
    for arm in arms:
        problem = _misfit_reason(arm, measure, tokens[arm.dataset.fingerprint])
        if problem is not None:
            problems.setdefault(problem, []).append(arm.name)
    return problems


def _measures(design: Design) -> Iterator[tuple[str, OtherYardstick]]:
    """Every yardstick an arm is asked, and where it is written."""
    primary = design.primary.measure
    yield "primary.measure", primary
    for place, measure in enumerate(design.others):
        yield f"others.{place}", measure
    swept = sweep_yardstick(design)
    if swept is not None:
        yield "primary.measure, on which rates are tuned,", swept


def _require_same_labels(measure: HeadYardstick, arms: Sequence[PlannedArm]) -> None:
    """SpecError where the heads of some arms would be asked other texts, or for other labels."""
    fingerprints = {}
    for arm in arms:
        objective = arm.run.last.objective
        assert isinstance(objective, TextLabels | WordTags)
        labelled = LabelledCorpus(arm.dataset, objective)
        items = labelled_items(labelled, measure.split)
        fingerprints[arm.dataset.fingerprint] = canonical_hash(
            [list(labelled.names), *map(asdict, items)]
        )
    _require_same_items(measure, arms, fingerprints)


def _require_same_items(
    measure: DesignYardstick, arms: Sequence[PlannedArm], item_fingerprints: dict[str, str]
) -> None:
    first = item_fingerprints[arms[0].dataset.fingerprint]
    others = []
    for arm in arms:
        if item_fingerprints[arm.dataset.fingerprint] != first:
            others.append(arm.name)
    if others:
        raise SpecError(
            f"corpus: {', '.join(others)} would be measured on other {measure.kind!r} items than"
            f" {arms[0].name}, because the held-out text differs; hold out the same text in"
            " every arm"
        )


def _item_tokens(dataset: TokenisedCorpus, dataset_items: Sequence[Item]) -> list[ItemTokens] | str:
    """Items as the tokenizer of a text reads them; where it loses one, why."""
    tokenizer, item_tokens = dataset.tokenizer, []
    try:
        for item in dataset_items:
            context = context_ids(tokenizer, dataset.vocabulary, item)
            target = target_ids(tokenizer, item)
            item_tokens.append((item.name, context, target))
    except UnsupportedError as fault:
        return str(fault)
    return item_tokens


def _misfit_reason(
    arm: PlannedArm, measure: Yardstick, item_tokens: Sequence[ItemTokens] | str
) -> str | None:
    """Why an item cannot be laid before an arm as its evaluation would; None where all can."""
    if isinstance(item_tokens, str):
        return item_tokens
    stage, spec = arm.run.last, resolve(arm.run.last_architecture)
    window = min(stage.training.length, spec.max_length)
    layout = item_layout(
        answering_component(stage.objective, measure.label),
        spec,
        arm.dataset.vocabulary,
        window,
    )
    try:
        for name, context, target in item_tokens:
            lay_item(layout, name, context, target)
    except (SpecError, UnsupportedError) as fault:
        return str(fault)
    return None
