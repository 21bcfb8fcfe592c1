"""Do held-out items stand in the training text of some arms, and not of others?

Held-out text is dealt out in each corpus by itself. So the items of the last stage may stand in the
training text of an earlier stage, of another source, or of what an arm begins from: where that
reads the same text in another form, with another share held out, or cut elsewhere. The items of all
yardsticks are looked for in every text that an arm trains on, however little of it is read.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from paribus.analyse import column_of
from paribus.corpus import TokenisedCorpus, document_text, document_turns
from paribus.corpus.labelled_rows import LabelledCorpus
from paribus.corpus.languages.questions import question_source
from paribus.corpus.tasks.items import iterate_parts
from paribus.corpus.text_overlap import SeenHashes, SoughtItem, SoughtTexts, Text, are_drawn
from paribus.design.arms import Arm
from paribus.design.begin_differences import BEGIN_PATH
from paribus.design.control import NOT_COMPARED, is_inside
from paribus.design.item_checks import PRIMARY, asked_measures, compared_shares
from paribus.design.quantities import PlannedArm
from paribus.errors import ParibusError
from paribus.evaluate import select_items
from paribus.evaluate.tasks.run import PreparedTask
from paribus.record import ControlLine, Mark
from paribus.record.control_table import TRAINED_ITEMS, TRAINED_TOLERANCE
from paribus.spec.begin import BeginFrom
from paribus.spec.begin_reading import BeginOpener
from paribus.spec.corpus import Corpus, TokenizerFile
from paribus.spec.design import Design, is_swept, sweep_yardstick
from paribus.spec.languages import Language, TranslationLanguage
from paribus.spec.objectives import TextLabels, WordTags
from paribus.spec.probe_variants import DRAWN
from paribus.spec.stages import stage_corpus
from paribus.spec.yardstick import (
    HeadYardstick,
    HeldOutSplit,
    OtherYardstick,
    ProbeYardstick,
    TaskYardstick,
)

N_DOCUMENTS = 200  # of a split, where documents are looked at and no items are made
MAX_TOKENS = 4096  # of such a document
DRAWN_BITS = 28  # of a source: by chance, one of a million others is the same in 4 cases of 1,000
ItemTexts = list[tuple[Text, ...]]  # of each item the texts that are looked for
TextOpener = Callable[[Corpus, str], TokenisedCorpus]  # by its fingerprint, if it is there


@dataclass(frozen=True)
class TrainedItems:
    """How many items stand in the training text of one arm."""

    n_items: int
    n_trained: int

    @property
    def share(self) -> float:
        """The share of the items that stand there."""
        return self.n_trained / max(self.n_items, 1)

    def __str__(self) -> str:
        return f"{self.n_trained} of {self.n_items}"


def trained_item_lines(
    design: Design,
    arms: Sequence[Arm],
    ready: Sequence[PlannedArm],
    tasks: Mapping[str, PreparedTask],
    open_begin: BeginOpener,
    open_text: TextOpener,
) -> tuple[ControlLine, ...]:
    """A control line for each yardstick of which some arm has trained on items, or may have."""
    sought = _SoughtItems(design, ready, tasks)
    seen_by_text: dict[Path, SeenHashes] = {}
    counts: dict[str, dict[str, TrainedItems]] = {path: {} for path in sought.paths}
    unknown: dict[str, list[str]] = {}
    for arm, own in zip(arms, ready, strict=True):
        begun, faults = _begun_texts(arm, open_begin, open_text)
        texts = [*own.texts, *begun]
        for fault in faults:
            unknown.setdefault(fault, []).append(own.name)
        for text in texts:
            if text.folder not in seen_by_text:
                seen_by_text[text.folder] = sought.texts.seen_in(text)
        seen = [seen_by_text[text.folder] for text in texts]
        for path, count in sought.count(own, seen):
            counts[path][own.name] = count
    lines = []
    for path, by_arm in counts.items():
        may_be_more = unknown if path == TRAINED_ITEMS else {}
        if may_be_more or any(count.n_trained for count in by_arm.values()):
            lines.append(_line(path, design, by_arm, may_be_more))
    return tuple(lines)


def describe_trained_confounds(lines: Iterable[ControlLine]) -> tuple[str, ...]:
    """Items on which one arm has trained more than another and is not allowed to, in three
    beats.
    """
    problems = []
    for line in lines:
        is_confound = line.mark == Mark.CONFOUND and line.allowed is None
        if is_inside(line.path, TRAINED_ITEMS) and is_confound:
            counts = ", ".join(f"{value} in {arm}" for arm, value in line.values.items())
            problems.append(
                f"{line.path}: {counts}, so some arms would be asked what they have trained on"
                f" ({line.note}); hold out the same documents in every text of every arm (one form,"
                f" one cut, one share), train on other text, or list {TRAINED_ITEMS!r} under allow"
                " with a reason"
            )
    return tuple(problems)


class _SoughtItems:
    """The items of all yardsticks, for every text that they are taken from."""

    def __init__(
        self, design: Design, arms: Sequence[PlannedArm], tasks: Mapping[str, PreparedTask]
    ) -> None:
        self._places: dict[tuple[str, str], slice] = {}
        items: list[SoughtItem] = []
        for path, measure in _measures(design):
            for arm in arms:
                key = (path, arm.dataset.fingerprint)
                if key not in self._places:
                    own = _item_texts(measure, arm, tasks)
                    self._places[key] = slice(len(items), len(items) + len(own))
                    is_drawn = are_drawn(own)
                    items += [SoughtItem(texts, is_drawn) for texts in own]
        self.texts = SoughtTexts(items)

    @property
    def paths(self) -> list[str]:
        """The paths of all lines that there may be."""
        return list(dict.fromkeys(path for path, _ in self._places))

    def count(
        self, arm: PlannedArm, seen: Sequence[SeenHashes]
    ) -> Iterator[tuple[str, TrainedItems]]:
        """For each path, how many items of an arm stand in texts of which this was seen."""
        stands = self.texts.standing(seen)
        for (path, text), place in self._places.items():
            if text == arm.dataset.fingerprint:
                yield path, TrainedItems(len(stands[place]), sum(stands[place]))


def _measures(design: Design) -> Iterator[tuple[str, OtherYardstick | None]]:
    """What an arm is asked, and the path of its line; None is the loss on held-out text, by which
    rates are tuned.
    """
    for where, measure in asked_measures(design):
        if isinstance(measure, ProbeYardstick) and measure.probe.kind in DRAWN:
            continue
        if where == PRIMARY:
            yield TRAINED_ITEMS, measure
        elif where.startswith("others."):
            yield f"{TRAINED_ITEMS}.{where}", measure
        else:
            yield f"{TRAINED_ITEMS}.tune", measure
    if is_swept(design) and sweep_yardstick(design) is None:
        yield f"{TRAINED_ITEMS}.tune", None


def _item_texts(
    measure: OtherYardstick | None, arm: PlannedArm, tasks: Mapping[str, PreparedTask]
) -> ItemTexts:
    """The texts of each item as a training text would have them."""
    match measure:
        case None:
            return list(_document_texts(arm.dataset, "valid"))
        case TaskYardstick():
            prepared = tasks[column_of(measure.model_dump(mode="json"))]
            return list(iterate_parts(prepared.originals))
        case HeadYardstick():
            objective = arm.run.last.objective
            assert isinstance(objective, TextLabels | WordTags)
            labelled = LabelledCorpus(arm.dataset, objective)
            return [((one.text,),) for one in labelled.documents(measure.split)]
        case ProbeYardstick():
            return list(_document_texts(arm.dataset, measure.split))
        case _:
            items: ItemTexts = []
            questions = list[str]()
            for item in select_items(arm.dataset, measure):
                turns = "".join(turn.content for turn in item.turns)
                items.append(((turns or item.context, item.target),))
                questions.append(item.turns[0].content if item.turns else item.context)
            sources = _drawn_sources(arm.dataset.spec, questions)
            return [(*own, *more) for own, more in zip(items, sources, strict=True)]


def _drawn_sources(corpus: Corpus, questions: Sequence[str]) -> list[list[Text]]:
    """Of each question its source alone, as other phrasings would have it, where an invented
    language drew it from so many that it is not drawn twice by chance.
    """
    sources: list[list[Text]] = [[] for _ in questions]
    for language in corpus.sources:
        if not isinstance(language, Language) or isinstance(language, TranslationLanguage):
            continue
        own: dict[int, str] = {}
        for number, question in enumerate(questions):
            with contextlib.suppress(ValueError):
                own[number] = question_source(language, question)
        n_symbols = len(set("".join(own.values())))
        for number, source in own.items():
            if len(source) * math.log2(max(n_symbols, 1)) >= DRAWN_BITS:
                sources[number].append((source,))
    return sources


def _document_texts(dataset: TokenisedCorpus, split: HeldOutSplit) -> Iterator[tuple[Text, ...]]:
    """Held-out documents, evenly from each source."""
    readers = dataset.readers[split]
    for source, reader in enumerate(readers):
        n_documents = reader.shard.n_documents
        n_chosen = min(n_documents, -(-N_DOCUMENTS // len(readers)))
        for number in np.linspace(0, n_documents - 1, n_chosen).astype(int).tolist():
            first, *others = document_text(dataset, split, source, number, MAX_TOKENS)
            turns = document_turns(dataset, split, source, number)
            first = "".join(turn.content for turn in turns) or first
            yield ((first, *others[:1]),)


def _begun_texts(
    arm: Arm, open_begin: BeginOpener, open_text: TextOpener
) -> tuple[list[TokenisedCorpus], list[str]]:
    """The texts that trained the weights which an arm begins with, stage by stage; and of what is
    not known, or not there any more, why.
    """
    begin, texts, faults = arm.run.begin, [], []
    if begin is None:
        return texts, faults
    history = open_begin(BeginFrom(name=arm.table[BEGIN_PATH])).open_history()
    if history.unknown:
        faults.append(history.unknown)
    tokenizer = arm.run.stages[0].corpus.tokenizer
    assert isinstance(tokenizer, TokenizerFile)  # as every run that begins with weights has
    for number, trained in enumerate(history.stages):
        corpus = _placed_corpus(trained.stage.corpus, history.stages[0].stage.corpus, tokenizer)
        lost = f"the text of stage {number} that trained {begin.name} is not found again"
        try:
            text = open_text(corpus, trained.text)
        except ParibusError as fault:
            faults.append(f"{lost} ({fault})")
            continue
        texts.append(text)
        if text.fingerprint != trained.text:
            faults.append(f"{lost} (another text is there now, in which they were looked for)")
    return texts, faults


def _placed_corpus(corpus: Corpus, first: Corpus, tokenizer: TokenizerFile) -> Corpus:
    """The corpus of a stage as it was tokenised, with the tokenizer where that lies now."""
    placed = stage_corpus(corpus, first, Path(tokenizer.path))
    if not isinstance(placed.tokenizer, TokenizerFile):
        return placed
    file = placed.tokenizer.model_copy(update={"path": tokenizer.path})
    return placed.model_copy(update={"tokenizer": file})


def _line(
    path: str,
    design: Design,
    counts: Mapping[str, TrainedItems],
    unknown: Mapping[str, Sequence[str]],
) -> ControlLine:
    values = {arm: str(count) for arm, count in counts.items()}
    notes = [f"there may be more in {', '.join(names)}: {why}" for why, names in unknown.items()]
    shares = {arm: own.share for arm, own in counts.items()}
    largest, differences = compared_shares(design, shares, TRAINED_TOLERANCE, "items")
    if differences:
        return ControlLine(
            path=path,
            mark=Mark.CONFOUND,
            values=values,
            note="; ".join((*differences, *notes)),
            allowed=design.allow.get(path, design.allow.get(TRAINED_ITEMS)),
        )
    if any(count.share > TRAINED_TOLERANCE for count in counts.values()):
        notes.insert(0, "these items are not new to the arms that have trained on them")
    if largest:
        notes.insert(0, f"differs by {largest:.2%} of the items at most")
    elif len(set(values.values())) > 1:
        notes.insert(0, NOT_COMPARED)
    mark = Mark.FOLLOWS if largest else Mark.EQUAL
    return ControlLine(path=path, mark=mark, values=values, note="; ".join(notes))
