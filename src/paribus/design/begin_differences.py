"""What two arms that begin with different weights differ in.

Whoever names another model to begin with names all that it is: its architecture, its tokenizer and
what it was trained on. Each of these counts by itself, as far as the record of the run that trained
it says. Only where two models differ in nothing that is known is it the weights alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from paribus.corpus.tokenizer import byte_tokenizer
from paribus.design.added_tables import (
    OwnField,
    mixture_factors,
    recorded_fields,
    stage_fields,
    wrong_target_fields,
)
from paribus.design.arms import Arm
from paribus.design.trials import (
    ABSENT,
    FieldFinding,
    differing_fields,
    entry_paths,
    has_path,
)
from paribus.record import Mark
from paribus.record.disk import file_sha256
from paribus.spec import Architecture, resolve
from paribus.spec.begin import BeginFrom
from paribus.spec.begin_reading import (
    DERIVED_SIZES,
    BeginOpener,
    BeginPoint,
    History,
    TrainedStage,
)
from paribus.spec.corpus import ByteTokenizer, TokenizerFile
from paribus.spec.design import Table
from paribus.spec.stages import Stage
from paribus.spec.training import BOOKKEEPING, SEEDS

BEGIN_PATH = "begin"
BEGIN_CONFOUND = "the arms begin with different weights"
BEGIN_FOLLOWS = "follows from what the arm begins from"


def begin_findings(
    first: Arm, second: Arm, declared: Sequence[str], written: Mapping[str, FieldFinding]
) -> dict[str, FieldFinding]:
    """What is found out about two arms, of which `written` is what they differ in as tables.

    Other weights are the factor, or a confound. The architecture and the tokenizer that come with
    them follow from that.
    """
    findings = dict(written)
    if first.run.begin is None and second.run.begin is None:
        return findings
    if _weights(first) == _weights(second):
        findings.pop(BEGIN_PATH, None)
        if _leaf(first, BEGIN_PATH) != _leaf(second, BEGIN_PATH):
            note = "the same weights under two names"
            findings[BEGIN_PATH] = FieldFinding(Mark.FOLLOWS, note)
        return findings
    if BEGIN_PATH in declared:
        findings[BEGIN_PATH] = FieldFinding(Mark.FACTOR)
    else:
        findings[BEGIN_PATH] = FieldFinding(Mark.CONFOUND, BEGIN_CONFOUND)
    has_one_tokenizer = _tokenizer_digest(first) == _tokenizer_digest(second)
    for path in dict.fromkeys((*first.leaves, *second.leaves, *written)):
        if not _is_taken_over(path, first, second):
            continue
        findings.pop(path, None)
        is_equal = _leaf(first, path) == _leaf(second, path)
        if not is_equal and not ("tokenizer" in path.split(".") and has_one_tokenizer):
            findings[path] = FieldFinding(Mark.FOLLOWS, BEGIN_FOLLOWS)
    return findings


def _is_taken_over(path: str, first: Arm, second: Arm) -> bool:
    """Is a field of a model, or of its tokenizer, which an arm has from what it begins from?"""
    names = path.split(".")
    if names[0] != "architecture" and "tokenizer" not in names:
        return False
    begun = [arm for arm in (first, second) if arm.run.begin is not None]
    return any(not has_path(arm.table, path) for arm in begun)


def begin_factors(
    first: Arm, second: Arm, is_declared: bool, opener: BeginOpener | None
) -> tuple[str, ...]:
    """The factors of two arms that begin with different weights, by path: `begin` where the weights
    are all that is known to differ, or where nobody knows what trained them.

    Where `begin` is only allowed, what it was trained on is allowed with it, and an architecture
    is not.
    """
    one, other = _BegunModel(first, opener), _BegunModel(second, opener)
    model = _differing_paths(one.table, other.table)
    model += [field.path.removeprefix("architecture.") for field in _model_fields(one, other, True)]
    factors = [f"{BEGIN_PATH}.architecture.{path}" for path in model]
    if _tokenizer_digest(first) != _tokenizer_digest(second):
        factors.append(f"{BEGIN_PATH}.tokenizer")
    if not is_declared:
        return tuple(factors)
    if one.history is None or other.history is None:
        trained = [own.history.stages for own in (one, other) if own.history is not None]
        wrong = [path for stages in trained for path in _wrong_targets(stages, 0, len(stages))]
        return BEGIN_PATH, *factors, *[f"{BEGIN_PATH}.{path}" for path in wrong]
    for path in _history_paths(one.history, other.history):
        is_of_model = path.partition("architecture.")[2] in model
        if not (is_of_model and "architecture." in path):
            factors.append(f"{BEGIN_PATH}.{path}")
    if one.history.earliest != other.history.earliest:
        factors.insert(0, BEGIN_PATH)
    return tuple(factors) or (BEGIN_PATH,)


def begin_details(first: Arm, second: Arm, opener: BeginOpener | None) -> tuple[OwnField, ...]:
    """What only one of two arms' models has, or of the stages that trained them, and what does not
    count by itself.
    """
    if _weights(first) == _weights(second):
        return ()
    one, other = _BegunModel(first, opener), _BegunModel(second, opener)
    fields = {field.path: field for field in _model_fields(one, other, False)}
    if one.history is not None and other.history is not None:
        lengths = len(one.history.stages), len(other.history.stages)
        for number, left, right in _aligned_stages(one.history, other.history):
            where = f"stages.{number}." if max(lengths) > 1 else ""
            for field in _trained_fields((one.arm, left), (other.arm, right), False):
                is_of_model = field.path in fields
                if not is_of_model:
                    fields[where + field.path] = replace(field, path=where + field.path)
    return tuple([replace(field, path=f"{BEGIN_PATH}.{field.path}") for field in fields.values()])


def _model_fields(one: _BegunModel, other: _BegunModel, counts: bool) -> Iterator[OwnField]:
    """The fields of two models that only the kinds of one have, those that count or the others."""
    for own, beside in ((one, other), (other, one)):
        places = "architecture", own.architecture, beside.architecture
        for field in recorded_fields(own.arm, *places):
            if field.counts == counts:
                yield field


def unknown_histories(first: Arm, second: Arm, opener: BeginOpener | None) -> tuple[str, ...]:
    """What no record says of the weights that two arms begin with, where these differ."""
    histories = [_BegunModel(arm, opener).history for arm in (first, second)]
    earliest = [history.earliest for history in histories if history is not None]
    if len(set(earliest)) < len(earliest):  # one beginning, whatever it is
        return ()
    known = [history.unknown for history in histories if history is not None]
    return tuple(filter(None, known))


class _BegunModel:
    """The model that an arm begins with: of one without weights, the one that it draws."""

    def __init__(self, arm: Arm, opener: BeginOpener | None) -> None:
        self._arm, self._opener = arm, opener

    @cached_property
    def _point(self) -> BeginPoint | None:
        if self._arm.run.begin is None:
            return None
        assert self._opener is not None, "an arm that begins from weights was read by an opener"
        return self._opener(BeginFrom(name=self._arm.table[BEGIN_PATH]))

    @property
    def arm(self) -> str:
        return self._arm.name

    @cached_property
    def architecture(self) -> Architecture:
        if self._point is None:
            return self._arm.run.architecture
        return self._point.last_architecture

    @cached_property
    def table(self) -> Table:
        """Its fields; not the sizes that follow from text and tokenizer."""
        return _model_table(self.architecture)

    @cached_property
    def history(self) -> History | None:
        """What trained it; None of one that is drawn."""
        return None if self._point is None else self._point.open_history()


def _model_table(architecture: Architecture) -> Table:
    table = resolved_table(architecture)
    return {name: value for name, value in table.items() if name not in DERIVED_SIZES}


def _history_paths(one: History, other: History) -> Iterator[str]:
    """The fields in which what trained two models differs, with the number of the stage where one
    of them has several. Where the weights before these stages are others, a stage more may be one
    that no record names, and only wrong targets of it count.
    """
    lengths = len(one.stages), len(other.stages)
    n_common = min(lengths)
    for number, left, right in _aligned_stages(one, other):
        where = f"stages.{number}." if max(lengths) > 1 else ""
        for path in _stage_paths(left, right):
            yield f"{where}{path}"
    longer, shorter = (one, other) if lengths[0] > lengths[1] else (other, one)
    if one.earliest != other.earliest:
        yield from _wrong_targets(longer.stages, 0, max(lengths) - n_common)
        return
    for number in range(n_common, max(lengths)):
        yield f"stages.{number}"
        for path in _added_paths(longer.stages, number, shorter.stages):
            yield f"stages.{number}.{path}"


def _aligned_stages(
    one: History, other: History
) -> Iterator[tuple[int, TrainedStage, TrainedStage]]:
    """The stages that are held against each other, each two with their number: from the first one
    on, or from the last one where the weights before them are others.
    """
    n_common = min(len(one.stages), len(other.stages))
    first, second = one.stages, other.stages
    if one.earliest != other.earliest:
        first, second = first[len(first) - n_common :], second[len(second) - n_common :]
    for number, (left, right) in enumerate(zip(first, second, strict=False)):
        yield number, left, right


def _wrong_targets(stages: Sequence[TrainedStage], start: int, stop: int) -> Iterator[str]:
    """The fields by which some stages were taught wrong targets."""
    for number in range(start, stop):
        where = f"stages.{number}." if len(stages) > 1 else ""
        for path in wrong_target_fields(stages[number].stage):
            yield f"{where}{path}"


def _stage_paths(one: TrainedStage, other: TrainedStage) -> Iterator[str]:
    """The fields in which two stages differ; texts by what they hold, wherever they lie."""
    left, right = _stage_table(one), _stage_table(other)
    is_same_text = one.text == other.text != ""
    if is_same_text:
        for table in (left, right):
            for source in table["corpus"]["sources"]:
                source.pop("paths", None)
    paths = _differing_paths(left, right)
    for path in paths:
        if not _are_defaults(path, one, other):
            yield path
    for field in _trained_fields(("", one), ("", other), True):
        if field.path not in paths:
            yield field.path
    for own, beside in ((one, other), (other, one)):
        added = mixture_factors("objective.kind", own.stage.objective, beside.stage.objective)
        yield from [path for path in added if path not in paths]
    if not is_same_text and not any(path.startswith("corpus") for path in paths):
        yield "corpus.text"  # files that were others then
    share, other_share = _schedule_share(one), _schedule_share(other)
    has_one_rate = one.n_planned_steps == other.n_planned_steps and all(
        trained.stage.training.schedule.kind == "constant" for trained in (one, other)
    )
    if share != other_share and not has_one_rate:
        yield "training.schedule.share"  # how far it had come


def _are_defaults(path: str, *stages: TrainedStage) -> bool:
    """Is a path a field of a source that has another kind in each stage, and there the value that
    each kind has by default? Words are counted in one language, and letters in another.
    """
    match path.split("."):
        case ["corpus", "sources", place, name] if name != "kind":
            lists = [stage.stage.corpus.sources for stage in stages]
            if len(lists[0]) != len(lists[1]):
                return False
            sources = [own[int(place)] for own in lists]
            defaults = [type(source).model_fields[name].default for source in sources]
            values = [getattr(source, name) for source in sources]
            return sources[0].kind != sources[1].kind and values == defaults
    return False


def _schedule_share(one: TrainedStage) -> float:
    return one.stage.training.n_steps / one.n_planned_steps


def _trained_fields(
    one: tuple[str, TrainedStage], other: tuple[str, TrainedStage], counts: bool
) -> Iterator[OwnField]:
    """The fields of two stages, each with its arm, that only the kinds of one have: those that
    count, or the others.
    """
    for (arm, own), (_, beside) in ((one, other), (other, one)):
        places: list[tuple[str, Any, Any]] = [
            ("architecture", own.architecture, beside.architecture)
        ]
        for name in ("corpus", "objective", "training"):
            places.append((name, getattr(own.stage, name), getattr(beside.stage, name)))
        for place in places:
            for field in recorded_fields(arm, *place):
                if field.counts == counts:
                    yield field


def _added_paths(
    stages: Sequence[TrainedStage], number: int, others: Sequence[TrainedStage]
) -> Iterator[str]:
    """The fields in which a stage more departs from what it is compared with, as a stage that only
    one of two arms has does; how far its schedule had come; and wrong targets.
    """
    own = stages[number]
    paths: dict[str, None] = {}
    if len(stages) > 1:
        architectures = [trained.architecture for trained in stages]
        planned, usual = [[_planned_stage(one) for one in each] for each in (stages, others)]
        paths |= dict.fromkeys(stage_fields(planned, architectures, number, usual))
    if own.stage.training.n_steps != own.n_planned_steps:
        paths["training.schedule.share"] = None
    yield from paths | dict.fromkeys(wrong_target_fields(own.stage))


def _planned_stage(trained: TrainedStage) -> Stage:
    """A stage with all the steps that it was to have."""
    training = trained.stage.training.model_copy(update={"n_steps": trained.n_planned_steps})
    return trained.stage.model_copy(update={"training": training})


def resolved_table(architecture: Architecture) -> Table:
    """Every field of an architecture, with the widths that it leaves to be derived."""
    table = architecture.model_dump(mode="json")
    block = resolve(architecture).stack.layers[-1].model_dump(mode="json")
    for part in ("attention", "feed_forward"):
        for name, value in table[part].items():
            if value is None:
                table[part][name] = block[part].get(name)
    return table


def _stage_table(trained: TrainedStage) -> Table:
    table = trained.stage.model_dump(mode="json", exclude={"kind", "architecture"})
    table["corpus"].pop("tokenizer")  # compared by its content
    table["architecture"] = _model_table(trained.architecture)
    optimizer = trained.stage.training.optimizer
    table["training"]["optimizer"] = {"kind": optimizer.kind, **table["training"]["optimizer"]}
    for name in (*BOOKKEEPING, *SEEDS):  # what moves no weight, or only by lot
        table["training"].pop(name)
    return table


def _differing_paths(one: Table, other: Table) -> list[str]:
    fields, _ = differing_fields(one, other)
    paths: list[str] = []
    for path, values in fields.items():
        paths += entry_paths(path, *values)
    return paths


def _weights(arm: Arm) -> tuple[str, str] | None:
    begin = arm.run.begin
    return None if begin is None else (begin.weights, begin.tokenizer)


def _tokenizer_digest(arm: Arm) -> str:
    """A digest of the tokenizer that an arm reads with, or what it is without a file."""
    if arm.run.begin is not None:
        return arm.run.begin.tokenizer
    tokenizer = arm.run.stages[0].corpus.tokenizer
    if isinstance(tokenizer, ByteTokenizer):
        return hashlib.sha256(byte_tokenizer().json.encode()).hexdigest()
    if isinstance(tokenizer, TokenizerFile) and Path(tokenizer.path).is_file():
        return file_sha256(Path(tokenizer.path))
    return tokenizer.model_dump_json()


def _leaf(arm: Arm, path: str) -> Any:
    """The value of a field; of a table, that of its fields."""
    if path in arm.leaves:
        return arm.leaves[path]
    inner = {leaf: value for leaf, value in arm.leaves.items() if leaf.startswith(f"{path}.")}
    return inner or ABSENT
