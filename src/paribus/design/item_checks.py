"""Whether every arm can be asked what the design asks: the same items, each with room to answer,
and as much of their contexts as the arms that it is compared with.

A decoder reads a context and its target in one window, an encoder-decoder reads each in its own.
So a text may be too long for the one and not for the other, and what is compared then is how much
each arm was shown. This is counted before anything is trained. Tasks need no such count: their
items are cut for all arms alike when they are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from paribus.analyse import column_of
from paribus.canonical import canonical_hash
from paribus.corpus import TokenisedCorpus
from paribus.corpus.labelled_rows import LabelledCorpus
from paribus.design.control import NOT_COMPARED, is_inside
from paribus.design.probe_checks import require_same_texts
from paribus.design.quantities import PlannedArm
from paribus.errors import SpecError, UnsupportedError
from paribus.evaluate import Item, answering_component, items_fingerprint, select_items
from paribus.evaluate.head_answers import labelled_items
from paribus.evaluate.likelihood import context_ids, target_ids
from paribus.evaluate.tasks.run import PreparedTask
from paribus.objectives.framing import ItemLayout, NoRoomError, item_layout, lay_item
from paribus.record import ControlLine, Mark
from paribus.record.control_table import CUT_CONTEXTS, CUT_TOLERANCE
from paribus.spec import resolve
from paribus.spec.design import Design, compared_pairs, sweep_yardstick
from paribus.spec.objectives import TextLabels, WordTags
from paribus.spec.yardstick import (
    DesignYardstick,
    DocumentHalves,
    HeadYardstick,
    OtherYardstick,
    ProbeYardstick,
    PseudoHalves,
    TaskYardstick,
    Yardstick,
)
from paribus.vocabulary import Vocabulary

PRIMARY = "primary.measure"


class ItemTokens(NamedTuple):
    """An item as the tokenizer of an arm reads it."""

    name: str
    context: list[int]
    target: list[int]


@dataclass(frozen=True)
class CutContexts:
    """How many items lose a part of their context in one arm, and how much of it."""

    n_items: int
    n_cut: int
    n_bytes: int  # of all contexts
    n_cut_bytes: int

    @property
    def share(self) -> float:
        """The share of the contexts' bytes that is lost."""
        return self.n_cut_bytes / max(self.n_bytes, 1)

    def __str__(self) -> str:
        if not self.n_cut:
            return f"0 of {self.n_items}"
        return f"{self.n_cut} of {self.n_items}, {self.n_cut_bytes} bytes ({self.share:.1%})"


def item_lines(design: Design, arms: Sequence[PlannedArm]) -> tuple[ControlLine, ...]:
    """A control line for each yardstick: how much of its contexts each arm loses.

    SpecError where arms would be asked different things, nothing at all, or what does not fit
    them.
    """
    lines = []
    for where, measure in asked_measures(design):
        if isinstance(measure, TaskYardstick):
            continue  # its items are made to fit every arm
        if isinstance(measure, ProbeYardstick):
            require_same_texts(measure, arms)
            continue
        if isinstance(measure, HeadYardstick):
            _require_same_labels(measure, arms)
            cuts = {arm.name: _cut_texts(measure, arm) for arm in arms}
        else:
            cuts = _cut_items(where, measure, arms)
        if where == PRIMARY:
            lines.append(_cut_line(CUT_CONTEXTS, design, measure, arms, cuts))
        elif where.startswith("others."):
            lines.append(_cut_line(f"{CUT_CONTEXTS}.{where}", design, measure, arms, cuts))
    return tuple(lines)


def asked_measures(design: Design) -> Iterator[tuple[str, OtherYardstick]]:
    """Every yardstick an arm is asked, and where it is written."""
    yield PRIMARY, design.primary.measure
    for place, measure in enumerate(design.others):
        yield f"others.{place}", measure
    swept = sweep_yardstick(design)
    if swept is not None:
        yield f"{PRIMARY}, on which rates are tuned,", swept


def item_counts(
    design: Design, arms: Sequence[PlannedArm], tasks: Mapping[str, PreparedTask]
) -> dict[str, int]:
    """How many items each yardstick asks every arm, by its column, the primary first; a probe
    asks none.
    """
    counts = {}
    for _, measure in asked_measures(design):
        if isinstance(measure, ProbeYardstick):
            continue
        column = column_of(measure.model_dump(mode="json"))
        if isinstance(measure, TaskYardstick):
            counts[column] = len(tasks[column].prepared.items)
        elif isinstance(measure, HeadYardstick):
            labelled = LabelledCorpus(arms[0].dataset, _head_objective(arms[0]))
            counts[column] = sum(1 for _ in labelled.documents(measure.split))
        else:
            counts[column] = len(select_items(arms[0].dataset, measure))
    return counts


def describe_cut_confounds(lines: Iterable[ControlLine]) -> tuple[str, ...]:
    """Contexts of which one arm loses more than another and is not allowed to, in three beats."""
    problems = []
    for line in lines:
        is_confound = line.mark == Mark.CONFOUND and line.allowed is None
        if is_inside(line.path, CUT_CONTEXTS) and is_confound:
            counts = "; ".join(f"{value} in {arm}" for arm, value in line.values.items())
            problems.append(
                f"{line.path}: {counts}, so arms would be asked with different contexts"
                f" ({line.note}); use that, or list {CUT_CONTEXTS!r} under allow with a reason"
            )
    return tuple(problems)


def compared_shares(
    design: Design, shares: Mapping[str, float], tolerance: float, things: str
) -> tuple[float, list[str]]:
    """The largest difference between two arms that are compared, and those above a tolerance in
    words.
    """
    largest, differences = 0.0, []
    for arm, against in compared_pairs(design):
        share = shares[arm] - shares[against]
        largest = max(largest, abs(share))
        if abs(share) > tolerance:
            differences.append(f"{arm} against {against} {share:+.1%} of the {things}")
    return largest, differences


def _cut_line(
    path: str,
    design: Design,
    measure: Yardstick | HeadYardstick,
    arms: Sequence[PlannedArm],
    cuts: Mapping[str, CutContexts],
) -> ControlLine:
    values = {arm: str(own) for arm, own in cuts.items()}
    if len(set(values.values())) == 1:
        return ControlLine(path=path, mark=Mark.EQUAL, values=values)
    shares = {arm: own.share for arm, own in cuts.items()}
    largest, differences = compared_shares(design, shares, CUT_TOLERANCE, "bytes")
    if differences:
        return ControlLine(
            path=path,
            mark=Mark.CONFOUND,
            values=values,
            note="; ".join((*differences, _describe_cure(measure, arms))),
            allowed=design.allow.get(path, design.allow.get(CUT_CONTEXTS)),
        )
    if largest:
        note = f"differs by {largest:.2%} of the bytes at most"
        return ControlLine(path=path, mark=Mark.FOLLOWS, values=values, note=note)
    return ControlLine(path=path, mark=Mark.EQUAL, values=values, note=NOT_COMPARED)


def _cut_items(
    where: str, measure: Yardstick, arms: Sequence[PlannedArm]
) -> dict[str, CutContexts]:
    """What each arm loses of the contexts of a yardstick; SpecError where arms have other items,
    or one does not fit.
    """
    texts = {arm.dataset.fingerprint: arm.dataset for arm in arms}
    items, fingerprints = {}, {}
    for text, dataset in texts.items():
        try:
            items[text] = select_items(dataset, measure)
        except SpecError as fault:
            names = [arm.name for arm in arms if arm.dataset.fingerprint == text]
            raise SpecError([f"{where}, in {', '.join(names)}: {fault}"]) from None
        fingerprints[text] = items_fingerprint(items[text])
    _require_same_items(measure, arms, fingerprints)
    tokens = {text: tokens_of_items(dataset, items[text]) for text, dataset in texts.items()}
    cuts: dict[str, CutContexts] = {}
    problems: dict[str, list[str]] = {}
    for arm in arms:
        own = tokens[arm.dataset.fingerprint]
        if isinstance(own, str):
            problems.setdefault(own, []).append(arm.name)
            continue
        try:
            cuts[arm.name] = _count_cut(layout_of_items(arm, measure), own)
        except NoRoomError as fault:
            problems.setdefault(f"{fault}: {_describe_cure(measure, arms)}", []).append(arm.name)
        except SpecError as fault:
            problems.setdefault(str(fault), []).append(arm.name)
    if problems:
        raise SpecError(
            [f"{where} in {', '.join(names)}: {fault}" for fault, names in problems.items()]
        )
    return cuts


def tokens_of_items(
    dataset: TokenisedCorpus, dataset_items: Sequence[Item]
) -> list[ItemTokens] | str:
    """Items as the tokenizer of a text reads them; where it loses one, why."""
    tokenizer, item_tokens = dataset.tokenizer, []
    try:
        for item in dataset_items:
            context = context_ids(tokenizer, dataset.vocabulary, item)
            target = target_ids(tokenizer, item)
            item_tokens.append(ItemTokens(item.name, context, target))
    except UnsupportedError as fault:
        return str(fault)
    return item_tokens


def layout_of_items(arm: PlannedArm, measure: Yardstick) -> ItemLayout:
    """How the evaluation of an arm will lay items before it."""
    component = answering_component(arm.run.last.objective, measure.label)
    spec = resolve(arm.run.last_architecture)
    return item_layout(component, spec, arm.dataset.vocabulary, item_window(arm))


def item_window(arm: PlannedArm) -> int:
    return min(arm.run.last.training.length, resolve(arm.run.last_architecture).max_length)


def _count_cut(layout: ItemLayout, item_tokens: Sequence[ItemTokens]) -> CutContexts:
    n_cut = n_bytes = n_cut_bytes = 0
    for name, context, target in item_tokens:
        n_lost = lay_item(layout, name, context, target).n_truncated
        n_cut += n_lost > 0
        n_bytes += _n_bytes(layout.vocabulary, context)
        n_cut_bytes += _n_bytes(layout.vocabulary, context[:n_lost])
    return CutContexts(len(item_tokens), n_cut, n_bytes, n_cut_bytes)


def _n_bytes(vocabulary: Vocabulary, tokens: Sequence[int]) -> int:
    return int(vocabulary.bytes_V[list(tokens)].sum())


def _describe_cure(measure: Yardstick | HeadYardstick, arms: Sequence[PlannedArm]) -> str:
    """The `max_bytes` and the `length` with which no arm loses any context."""
    cures = []
    if isinstance(measure, DocumentHalves | PseudoHalves):
        max_bytes = _whole_max_bytes(measure, arms)
        if max_bytes is not None:
            cures.append(f"max_bytes = {max_bytes}")
    length = max(_needed_windows(measure, arms).values())
    limits = [resolve(arm.run.last_architecture).max_length for arm in arms if arm.run.begin]
    if length <= min(limits, default=length):
        cures.append(f"length = {length}")
    if not cures:
        return "no length would do, for weights that an arm begins with read no longer text"
    return f"none is cut with {' or '.join(cures)}"


def _whole_max_bytes(
    measure: DocumentHalves | PseudoHalves, arms: Sequence[PlannedArm]
) -> int | None:
    """A `max_bytes` with which every arm reads every context whole, and with one byte more does
    not; None where no document is short enough.
    """
    fits, cut = measure.min_bytes, measure.max_bytes
    if not _reads_whole(measure, fits, arms):
        return None
    while cut - fits > 1:
        middle = (fits + cut) // 2
        if _reads_whole(measure, middle, arms):
            fits = middle
        else:
            cut = middle
    return fits


def _reads_whole(
    measure: DocumentHalves | PseudoHalves, max_bytes: int, arms: Sequence[PlannedArm]
) -> bool:
    """Would no arm lose any context, were documents cut to so many bytes?"""
    windows = {arm.name: item_window(arm) for arm in arms}
    try:
        needed = _needed_windows(measure.model_copy(update={"max_bytes": max_bytes}), arms)
    except SpecError:  # no document is left
        return False
    return all(needed[name] <= window for name, window in windows.items())


def _needed_windows(
    measure: Yardstick | HeadYardstick, arms: Sequence[PlannedArm]
) -> dict[str, int]:
    """The shortest window in which each arm reads all that a yardstick asks it."""
    tokens: dict[str, list[ItemTokens] | str] = {}
    windows = {}
    for arm in arms:
        if isinstance(measure, HeadYardstick):
            windows[arm.name] = max(map(len, labelled_tokens(measure, arm))) + 1
            continue
        text, layout = arm.dataset.fingerprint, layout_of_items(arm, measure)
        if text not in tokens:
            tokens[text] = tokens_of_items(arm.dataset, select_items(arm.dataset, measure))
        own = tokens[text]
        assert not isinstance(own, str)  # was refused
        windows[arm.name] = max(layout.needed_window(len(one.target), one.context) for one in own)
    return windows


def _cut_texts(measure: HeadYardstick, arm: PlannedArm) -> CutContexts:
    """What a head does not read of the texts that it labels: their ends."""
    room, vocabulary = item_window(arm) - 1, arm.dataset.vocabulary  # as rows of them are cut
    texts = labelled_tokens(measure, arm)
    return CutContexts(
        n_items=len(texts),
        n_cut=sum(len(tokens) > room for tokens in texts),
        n_bytes=sum(_n_bytes(vocabulary, tokens) for tokens in texts),
        n_cut_bytes=sum(_n_bytes(vocabulary, tokens[room:]) for tokens in texts),
    )


def labelled_tokens(measure: HeadYardstick, arm: PlannedArm) -> list[list[int]]:
    """The tokens of each text that a head is asked about."""
    labelled = LabelledCorpus(arm.dataset, _head_objective(arm))
    return [arm.dataset.encode(one.text) for one in labelled.documents(measure.split)]


def _head_objective(arm: PlannedArm) -> TextLabels | WordTags:
    objective = arm.run.last.objective
    assert isinstance(objective, TextLabels | WordTags)
    return objective


def _require_same_labels(measure: HeadYardstick, arms: Sequence[PlannedArm]) -> None:
    """SpecError where the heads of some arms would be asked other texts, or for other labels."""
    fingerprints = {}
    for arm in arms:
        labelled = LabelledCorpus(arm.dataset, _head_objective(arm))
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
            " every arm: list the same sources in all, with a weight near 0 (such as 0.0001) of"
            " what an arm is not to read, or ask a 'task', which has items of its own"
        )
