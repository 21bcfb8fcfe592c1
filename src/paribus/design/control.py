"""The control table: every field of every arm, and whether it is equal, the factor, or a
confound.

Arms are held against each other in the pairs that a verdict compares. What could have been set
equal there and was not is a confound; what the factor forces follows from it. `trials` finds out
which is which.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from paribus.corpus import TokenisedCorpus
from paribus.corpus.cache import PATH_FIELDS, spec_table
from paribus.design.added_tables import ENCODER_PATH, added_encoder
from paribus.design.arms import Arm, arm_refusal
from paribus.design.begin_differences import begin_findings
from paribus.design.trials import (
    ABSENT,
    NO_VALUE_STARTS,
    FieldFinding,
    entry_paths,
    pair_findings,
)
from paribus.masks.rules import Causal, Full, Prefix
from paribus.record import ControlLine, Mark
from paribus.record.disk import file_sha256
from paribus.spec.begin_reading import BeginOpener
from paribus.spec.corpus import BPETokenizer, ByteTokenizer, Corpus
from paribus.spec.design import ArmPair, Design, compared_pairs, declared_paths
from paribus.spec.training import scaled_training

MARKS_WORST_FIRST = (
    Mark.CONFOUND,
    Mark.FACTOR,
    Mark.FOLLOWS,
    Mark.MATCHED,
)  # a line has the worst mark of its pairs
FOLLOWS_TEXT = "follows from the text and its length"
NOT_COMPARED = "equal in every pair that is compared"
MASK_PATH = "architecture.mask"
RATE_PATH = "training.optimizer.rate"
WARMUP_PATH = "training.warmup"
SCALED_NOTE = "in proportion to the steps"
SOURCES_PATH = "corpus.sources"
TOKENIZER_KIND = "corpus.tokenizer.kind"
OWN_TOKENIZERS = "each arm trains its own on its own text, and they are not the same"
TABLE_VALUE = "a table"  # stands for the value of a field that is nothing in another arm
MAX_VALUE_CHARACTERS = 60  # of a value in a message
FindingsByPair = Mapping[ArmPair, Mapping[str, FieldFinding]]  # of each compared pair, by path


def judge_pairs(
    design: Design,
    arms: Sequence[Arm],
    open_begin: BeginOpener | None = None,
    open_text: Callable[[Corpus], TokenisedCorpus] | None = None,
) -> FindingsByPair:
    """What is found out about every field in which two compared arms differ as written."""
    by_name = {arm.name: arm for arm in arms}
    paths = factor_paths(design, arms)
    refusal = partial(arm_refusal, design, open_begin=open_begin)
    findings = {}
    for one, other in compared_pairs(design):
        first, second = by_name[one], by_name[other]
        own = pair_findings(first, second, paths, refusal) | _equal_tokenizers(first, second)
        own |= _mask_of_added_encoder(first, second, own)
        own |= _equal_warmup_shares(first, second)
        if open_text is not None:
            own |= _equal_texts(first, second, own, open_text)
            own |= _own_tokenizers(first, second, open_text)
        findings[one, other] = begin_findings(first, second, paths, own)
    return findings


def _equal_tokenizers(first: Arm, second: Arm) -> dict[str, FieldFinding]:
    """One tokenizer under two names is no difference: what counts is what the files hold."""
    findings = {}
    for path, value in first.leaves.items():
        other = second.leaves.get(path, value)
        if value == other or path.split(".")[-2:] != ["tokenizer", "path"]:
            continue
        files = Path(value), Path(other)
        if all(file.is_file() for file in files) and len(set(map(file_sha256, files))) == 1:
            findings[path] = FieldFinding(Mark.FOLLOWS, "the same tokenizer under two names")
    return findings


def _mask_of_added_encoder(
    first: Arm, second: Arm, own: Mapping[str, FieldFinding]
) -> dict[str, FieldFinding]:
    """The mask of a decoder that reads a prefix in both directions, against one whose encoder, the
    factor, reads it so instead: what is left to the decoder is causal in both.
    """
    encoder = own.get(ENCODER_PATH)
    if MASK_PATH not in own or encoder is None or encoder.mark != Mark.FACTOR:
        return {}
    added = added_encoder(first, second)
    if added is None:
        return {}
    arm, other = added
    stack = arm.run.architecture
    assert stack.encoder is not None
    if (stack.mask, stack.encoder.mask, other.run.architecture.mask) != (
        Causal(),
        Full(),
        Prefix(),
    ):
        return {}
    note = f"the encoder of {arm.name} reads the input in both directions, as prefix does"
    return {MASK_PATH: FieldFinding(Mark.FOLLOWS, note, ENCODER_PATH)}


def _equal_warmup_shares(first: Arm, second: Arm) -> dict[str, FieldFinding]:
    """A warm-up that has the same share of other steps, to a whole step of the shorter run, is one
    recipe over another number of steps.
    """
    findings = {}
    for number, stages in enumerate(zip(first.run.stages, second.run.stages, strict=False)):
        short, long = sorted([stage.training for stage in stages], key=lambda one: one.n_steps)
        share = scaled_training(long, short.n_steps).warmup
        if short.n_steps == long.n_steps or short.warmup == long.warmup or short.warmup == 0:
            continue
        if short.warmup == share:
            path = f"stages.{number}.training.warmup" if first.numbers_stages else WARMUP_PATH
            findings[path] = FieldFinding(Mark.MATCHED, SCALED_NOTE)
    return findings


def _equal_texts(
    first: Arm,
    second: Arm,
    written: Collection[str],
    open_text: Callable[[Corpus], TokenisedCorpus],
) -> dict[str, FieldFinding]:
    """Sources that differ in nothing but their paths are no difference where the files hold the
    same text.
    """
    findings = {}
    for number, stages in enumerate(zip(first.run.stages, second.run.stages, strict=False)):
        path = f"stages.{number}.{SOURCES_PATH}" if first.numbers_stages else SOURCES_PATH
        corpora = [stage.corpus for stage in stages]
        spec, other_spec = [spec_table(corpus, PATH_FIELDS)["sources"] for corpus in corpora]
        if path not in written or spec != other_spec:
            continue
        digests = []
        for corpus in corpora:
            text = open_text(corpus.model_copy(update={"tokenizer": ByteTokenizer()}))
            digests.append([source.digest for source in text.index.sources])
        if digests[0] == digests[1]:
            findings[path] = FieldFinding(Mark.FOLLOWS, "the same text under two names")
    return findings


def _own_tokenizers(
    first: Arm, second: Arm, open_text: Callable[[Corpus], TokenisedCorpus]
) -> dict[str, FieldFinding]:
    """Tokenizers that each arm trains on the text of its own first stage, where that gives two: a
    factor beside the text.
    """
    corpora = [arm.run.stages[0].corpus for arm in (first, second)]
    if not all(isinstance(corpus.tokenizer, BPETokenizer) for corpus in corpora):
        return {}
    one, other = [corpus.model_dump(exclude={"tokenizer"}) for corpus in corpora]
    if one == other or len({open_text(corpus).tokenizer.json for corpus in corpora}) == 1:
        return {}
    place = "stages.0." if first.numbers_stages else ""
    return {f"{place}{TOKENIZER_KIND}": FieldFinding(Mark.FACTOR, OWN_TOKENIZERS)}


def factor_paths(design: Design, arms: Sequence[Arm]) -> tuple[str, ...]:
    """The paths that may differ. A level of a factorial that writes into a table which another
    arm lacks has that table as its factor: whether it is there.
    """
    if design.arms:
        return design.factor
    paths: dict[str, None] = {}
    for path in declared_paths(design):
        names = path.split(".")
        tables = [".".join(names[:depth]) for depth in range(1, len(names))]
        lacking = [table for table in tables if not _is_table_of_all(arms, table)]
        paths[lacking[0] if lacking else path] = None
    return tuple(paths)


def _is_table_of_all(arms: Sequence[Arm], path: str) -> bool:
    for arm in arms:
        inner: Any = arm.table
        for key in path.split("."):
            inner = inner.get(key) if isinstance(inner, Mapping) else None
        if not isinstance(inner, Mapping):
            return False
    return True


def field_lines(
    design: Design,
    arms: Sequence[Arm],
    findings: FindingsByPair,
    moved_notes: Mapping[str, Mapping[str, str]] | None = None,
    tuning_descriptions: Mapping[str, str] | None = None,
    unequal_pairs: Collection[ArmPair] = (),
) -> tuple[ControlLine, ...]:
    """A line for each field of a run.

    `moved_notes` say of each arm which paths a match or a budget moved, and for what;
    `tuning_descriptions` are the protocols of rates, by path; `unequal_pairs` are of unequal size
    on purpose, so that nothing in them is matched.
    """
    lines, paths = [], dict[str, None]()
    for arm in arms:
        paths |= dict.fromkeys(arm.leaves)
    for pair in findings.values():  # a table that only one arm has, such as one stage more
        paths |= dict.fromkeys(pair)
    for path in paths:
        notes = _notes_by_mark(path, arms, findings, moved_notes or {}, unequal_pairs)
        tuning = (tuning_descriptions or {}).get(path)
        line = _line(path, design, arms, notes, moved_notes or {}, tuning)
        lines.append(line)
    return tuple(lines)


def _notes_by_mark(
    path: str,
    arms: Sequence[Arm],
    findings: FindingsByPair,
    moved_notes: Mapping[str, Mapping[str, str]],
    unequal_pairs: Collection[ArmPair],
) -> dict[Mark, list[str]]:
    """What the compared pairs that differ in a field say of it."""
    values = {arm.name: _value(arm, path) for arm in arms}
    notes: dict[Mark, list[str]] = {}
    for (one, other), by_path in findings.items():
        is_moved = any(path in moved_notes.get(arm, {}) for arm in (one, other))
        if path in by_path:
            notes.setdefault(by_path[path].mark, []).append(by_path[path].note)
        elif values[one] == values[other]:
            continue
        elif is_moved and (one, other) not in unequal_pairs:
            notes.setdefault(Mark.MATCHED, [])
        elif is_moved:
            notes.setdefault(Mark.FOLLOWS, [])
        else:
            notes.setdefault(Mark.FOLLOWS, []).append(FOLLOWS_TEXT)
    return notes


def _line(
    path: str,
    design: Design,
    arms: Sequence[Arm],
    notes: Mapping[Mark, list[str]],
    moved_notes: Mapping[str, Mapping[str, str]],
    tuning_description: str | None,
) -> ControlLine:
    values = {arm.name: _value(arm, path) for arm in arms}
    mark = min(notes, key=MARKS_WORST_FIRST.index, default=None)
    if tuning_description and mark != Mark.CONFOUND:
        note = f"{_describe_written_rates(values)}{tuning_description}"
        return ControlLine(path=path, mark=Mark.TUNED, values=values, note=note)
    if mark is None:
        return _equal_line(path, values)
    note = next(filter(None, notes[mark]), "") or _moved_note(path, values, moved_notes)
    allowance = None
    if mark == Mark.CONFOUND:
        allowance = _allowance(path, design, values)
    return ControlLine(path=path, mark=mark, values=values, note=note, allowed=allowance)


def _describe_written_rates(values: Mapping[str, Any]) -> str:
    """Around which rate all arms that have a stage are swept, where they write other rates."""
    written = {arm: value for arm, value in values.items() if value != ABSENT}
    first = next(iter(written), "")
    if all(value == written[first] for value in written.values()):
        return ""
    return f"as written, and not used but for {first}'s, around which every arm is swept: "


def is_rate_path(path: str) -> bool:
    """Is a path that of the learning rate of a stage?"""
    return path == RATE_PATH or (path.startswith("stages.") and path.endswith(f".{RATE_PATH}"))


def _equal_line(path: str, values: Mapping[str, Any]) -> ControlLine:
    """The line of a field that is equal in every pair that is compared, or in all arms."""
    first, *others = values.values()
    if all(value == first for value in others):
        return ControlLine(path=path, mark=Mark.EQUAL, values=values)
    return ControlLine(path=path, mark=Mark.EQUAL, values=values, note=NOT_COMPARED)


def _allowance(path: str, design: Design, values: Mapping[str, Any]) -> str | None:
    """The reason why a field may differ, if the design gives one: of a list of tables, for each
    entry that does.
    """
    entries: dict[str, None] = {}
    for one, other in compared_pairs(design):
        if values[one] != values[other]:
            entries |= dict.fromkeys(entry_paths(path, values[one], values[other]))
    reasons = dict[str, None]()
    for entry in entries:
        own = [why for place, why in design.allow.items() if is_inside(entry, place)]
        if not own:
            return None
        reasons[own[0]] = None
    return "; ".join(reasons) or None


def is_inside(path: str, place: str) -> bool:
    """Is a path the place itself, or in it? To allow a field of a table is not to allow that
    there is the table.
    """
    return path == place or path.startswith(f"{place}.")


def _value(arm: Arm, path: str) -> Any:
    if path not in arm.leaves and any(leaf.startswith(f"{path}.") for leaf in arm.leaves):
        return TABLE_VALUE
    return arm.leaves.get(path, ABSENT)


def _moved_note(
    path: str, values: Mapping[str, Any], moved_notes: Mapping[str, Mapping[str, str]]
) -> str:
    """What moved the arms that differ from the baseline, the first of all."""
    first = next(iter(values.values()))
    notes = {}
    for arm, value in values.items():
        if value != first:
            notes[arm] = moved_notes.get(arm, {}).get(path)
    return describe_arm_notes(notes)


def describe_arm_notes(notes: Mapping[str, str | None]) -> str:
    """What is noted of arms: once where it is the same of all, else each with its arms."""
    arms_by_note: dict[str, list[str]] = {}
    for arm, note in notes.items():
        if note:
            arms_by_note.setdefault(note, []).append(arm)
    if len(arms_by_note) == 1 and all(notes.values()):
        return next(iter(arms_by_note))
    return "; ".join([f"{', '.join(arms)}: {note}" for note, arms in arms_by_note.items()])


def describe_confounds(lines: Iterable[ControlLine]) -> tuple[str, ...]:
    """Every confound that is not allowed, in three beats."""
    problems = []
    for line in lines:
        if line.mark == Mark.CONFOUND and line.allowed is None:
            problems.append(
                f"{line.path} is {_values_by_arm(line.values)}, but it is not the factor:"
                f" {line.note}; {_remedy(line.note)}"
            )
    return tuple(problems)


def _remedy(note: str) -> str:
    either = "name it in factor, or list it under allow with a reason"
    if note.startswith(NO_VALUE_STARTS):
        return either
    return f"set it equal, {either}"


def _values_by_arm(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{_shorten_value(value)} in {name}" for name, value in values.items())


def _shorten_value(value: Any) -> str:
    text = str(value) if value in (ABSENT, TABLE_VALUE) else repr(value)
    if len(text) <= MAX_VALUE_CHARACTERS:
        return text
    return f"{text[: MAX_VALUE_CHARACTERS - 1]}…"
