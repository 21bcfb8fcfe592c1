"""With what every architecture is measured: a closed union of yardsticks over held-out text.

What is asked is text, cut by bytes, so that it is the same for every arm whatever its tokenizer.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from paribus.errors import SpecError
from paribus.spec.base import MAX_SIZE, Count, Spec, read_kind, with_tuples
from paribus.spec.corpus import Corpus, gives_pairs
from paribus.spec.measure import (
    LIKELIHOOD,
    PSEUDO_LIKELIHOOD,
    TASK_MEASURES,
    LikelihoodKind,
    Measure,
    inside_name,
    minus_parent,
)
from paribus.spec.merging import in_setting_order, set_at_path
from paribus.spec.objectives import MaskedLM, Objective, components_of
from paribus.spec.probe_variants import DRAWN, place_fault, quantity_fault, variant_fault
from paribus.spec.probes import ProbeKind
from paribus.spec.reading import describe_faults
from paribus.spec.tasks import LabelMeasure, ProtocolKind, TaskKind, ZeroShot

HeldOutSplit = Literal["valid", "test"]
ByteSize = Annotated[int, Field(ge=8, le=MAX_SIZE)]  # two characters of UTF-8 at least


class HeldOutYardstick(Spec):
    """The base of yardsticks: so many items of one split, or all there are."""

    scores: ClassVar[Measure] = LIKELIHOOD
    label: ClassVar[LikelihoodKind] = "likelihood"
    split: HeldOutSplit = "test"
    """Which held-out documents are measured."""
    n_items: Count = 200
    """Number of items, or all there are if there are fewer."""


class HalvesYardstick(HeldOutYardstick):
    """The base of those that part documents in two; a longer one is cut to `max_bytes` before that.

    By default a half and its special tokens fit an arm that was trained on 256 bytes.
    """

    max_bytes: ByteSize = 240
    """A longer document is cut to this many bytes. By default a half fits an arm trained on 256
    bytes.
    """
    min_bytes: ByteSize = 16
    """A shorter document is left out."""

    @model_validator(mode="after")
    def _require_order(self) -> HalvesYardstick:
        if self.min_bytes > self.max_bytes:
            raise ValueError(
                f"min_bytes is {self.min_bytes}, above max_bytes {self.max_bytes}; use at most that"
            )
        return self


class DocumentHalves(HalvesYardstick):
    """log p(second half | first half) of documents."""

    kind: Literal["halves"] = "halves"


class HeldOutPairs(HeldOutYardstick):
    """log p(target | source) of pairs."""

    kind: Literal["pairs"] = "pairs"
    max_target_bytes: Count = 240
    """A pair with a longer target is left out."""


class PseudoHalves(HalvesYardstick):
    """Σ log p(token | others) over the second half: each token masked in turn. No likelihood."""

    scores: ClassVar[Measure] = PSEUDO_LIKELIHOOD
    label: ClassVar[LikelihoodKind] = "pseudo-likelihood"
    kind: Literal["pseudo"] = "pseudo"


class TaskYardstick(Spec):
    """A task: the score of a run over its items, above the floor that needs no model."""

    kind: Literal["task"] = "task"
    task: TaskKind
    """The task: a table, a file with one, the name of a built-in one, or `READER:PATH`."""
    protocol: ProtocolKind = ZeroShot()
    """How it is asked, the same for every arm."""
    split: HeldOutSplit = "test"
    """Which items are asked. A sweep asks those that the task holds out for validation."""
    minus_parent: Annotated[bool, Field(exclude_if=lambda value: not value)] = False
    """Whether the score of the stage before the last is taken off, item by item: what the last
    stage has changed.
    """
    unseen: Annotated[bool, Field(exclude_if=operator.not_)] = False
    """Refuse the plan where a stage after pretraining trains on this task: on the same invented
    language in one of its phrasings, on one of its files, or on the Python that its items come
    from.
    """

    @model_validator(mode="after")
    def _require_sums(self) -> TaskYardstick:
        measure = task_measure(self.task.model_dump())
        if self.minus_parent and not measure.adds_up:
            raise ValueError(
                f"minus_parent is true, but {measure.kind!r} does not add up over items; use a"
                " measure that does, such as 'accuracy', 'exact match' or 'reward'"
            )
        return self

    @property
    def scores(self) -> Measure:
        """What its scores are."""
        return table_measure(self.model_dump())


class HeadYardstick(Spec):
    """The labels or tags that a fine-tuned head gives to held-out texts of its own corpus."""

    kind: Literal["head"] = "head"
    measure: LabelMeasure = "accuracy"
    """What is reported of the answers."""
    split: HeldOutSplit = "test"
    """Which held-out texts are asked."""

    @property
    def scores(self) -> Measure:
        """What its scores are."""
        return TASK_MEASURES[self.measure]


class ProbeYardstick(Spec):
    """A quantity that a probe finds inside of a run. It is shown with its interval and never
    judged.
    """

    kind: Literal["probe"] = "probe"
    probe: ProbeKind
    """The probe: its kind, or a table of its fields."""
    quantity: str
    """What is shown: the mean over layers and heads, or of a curve over depth or over examples its
    last value.
    """
    stack: Literal["stack", "encoder"] = "stack"
    """Which stack is looked at, where a quantity is not of the whole model."""
    branch: Literal["attention", "cross"] = "attention"
    """Which attention is looked at, by the probes `rank` and `flow`."""
    variant: str = ""
    """What is changed in the model, as the rows of the probe name it, such as `scores at sd 1`. If
    empty, nothing. Of `in-context` the known learner, the number of examples, or both, as in
    `ridge, 4 examples`.
    """
    split: HeldOutSplit = "test"
    """Which held-out documents are read, by probes that draw none of their own."""

    @model_validator(mode="after")
    def _require_rows(self) -> ProbeYardstick:
        fault = (
            quantity_fault(self.probe, self.quantity)
            or place_fault(self.probe, self.quantity, self.stack, self.branch)
            or variant_fault(self.probe, self.quantity, self.variant)
        )
        if fault is None and self.split != "test" and self.probe.kind in DRAWN:
            fault = (
                f"split is {self.split!r}, but the probe {self.probe.kind!r} draws documents of its"
                " own; leave it out"
            )
        if fault is not None:
            raise ValueError(fault)
        return self

    @property
    def scores(self) -> Measure:
        """What its scores are."""
        return TASK_MEASURES[inside_name(self.probe.kind, self.quantity)]


Yardstick = DocumentHalves | HeldOutPairs | PseudoHalves
YardstickKind = Annotated[Yardstick, Field(discriminator="kind"), BeforeValidator(read_kind)]
# what the arms of a design are measured with
DesignYardstick = Yardstick | TaskYardstick | HeadYardstick
DesignYardstickKind = Annotated[
    DesignYardstick, Field(discriminator="kind"), BeforeValidator(read_kind)
]
# what is shown beside it
OtherYardstick = DesignYardstick | ProbeYardstick
OtherYardstickKind = Annotated[
    OtherYardstick, Field(discriminator="kind"), BeforeValidator(read_kind)
]


MEASURES: Mapping[str, Measure] = {
    "halves": DocumentHalves.scores,
    "pairs": HeldOutPairs.scores,
    "pseudo": PseudoHalves.scores,
}  # by the kind that a record names
TASK = "task"  # the kind of a yardstick that is a task
HEAD = "head"  # the kind of one that asks a fine-tuned head
PROBE = "probe"  # the kind of one that looks inside
CHOICES = "choices"  # a kind of task, whose table names a measure where it is not accuracy


def table_measure(table: Mapping[str, Any]) -> Measure:
    """What the scores of a yardstick are, as a record holds it."""
    if table["kind"] == TASK:
        measure = task_measure(table["task"])
        if table.get("minus_parent"):
            return minus_parent(measure)
        return measure
    if table["kind"] == HEAD:
        return TASK_MEASURES[table["measure"]]
    if table["kind"] == PROBE:
        return TASK_MEASURES[inside_name(table["probe"]["kind"], table["quantity"])]
    return MEASURES[table["kind"]]


def column_of(yardstick: Mapping[str, Any]) -> str:
    """What a yardstick's column is called: its kind, or the name of its task, and its split; with
    the measure of choices that is not accuracy, and with what is taken off, where anything is.
    """
    if yardstick["kind"] == TASK:
        name = yardstick["task"]["name"]
        if yardstick["task"]["kind"] == CHOICES and "measure" in yardstick["task"]:
            name = f"{name}: {yardstick['task']['measure']}"
        if yardstick.get("minus_parent"):
            name = f"{name} minus the parent's"
        return f"{name}.{yardstick['split']}"
    if yardstick["kind"] == PROBE:
        return f"{_probe_name(yardstick)}.{yardstick['split']}"
    return f"{yardstick['kind']}.{yardstick['split']}"


def _probe_name(yardstick: Mapping[str, Any]) -> str:
    """What a probe shows, and where, if it is not in the attention of the main stack as it is."""
    words = [f"{yardstick['probe']['kind']}: {yardstick['quantity']}"]
    if yardstick["stack"] != "stack":
        words.append(yardstick["stack"])
    if yardstick["branch"] != "attention":
        words.append(yardstick["branch"])
    return ", ".join(filter(None, (*words, yardstick["variant"])))


def task_measure(task: Mapping[str, Any]) -> Measure:
    """What the scores of a task are: as it says, or accuracy."""
    return TASK_MEASURES[task.get("measure", "accuracy")]


def tuning_table(table: Mapping[str, Any], split: str) -> dict[str, Any]:
    """The yardstick that rates are tuned with, as a record holds it: the primary on another
    split.
    """
    return {**table, "split": split}


def default_yardstick(corpus: Corpus, objective: Objective) -> Yardstick:
    """The yardstick for what a run reads and is asked: pairs, halves, or pseudo where it only
    fills masks.
    """
    if any(map(gives_pairs, corpus.sources)):
        return HeldOutPairs()
    fills = all(isinstance(part.objective, MaskedLM) for part in components_of(objective))
    if fills:
        return PseudoHalves()
    return DocumentHalves()


class _YardstickTable(Spec):
    yardstick: YardstickKind


def load_yardstick(kind: str, changes: Mapping[str, Any] | None = None) -> Yardstick:
    """A yardstick by its kind, with changes to its fields."""
    table: dict[str, Any] = {"yardstick": {"kind": kind}}
    for path in in_setting_order(changes or {}):
        set_at_path(table, f"yardstick.{path}", (changes or {})[path])
    try:
        return _YardstickTable.model_validate(table).yardstick
    except ValidationError as fault:
        raise SpecError(list(describe_faults(fault, table, _YardstickTable))) from None


def read_design_yardstick(table: Mapping[str, Any]) -> OtherYardstick:
    """A yardstick of a design as it was written down."""
    if table["kind"] == PROBE:
        return ProbeYardstick.model_validate(with_tuples(table))
    if table["kind"] == TASK:
        return TaskYardstick.model_validate(with_tuples(table))
    if table["kind"] == HEAD:
        return HeadYardstick.model_validate(dict(table))
    return read_yardstick(table)


def read_yardstick(table: Mapping[str, Any]) -> Yardstick:
    """A yardstick as it was written down."""
    return load_yardstick(
        table["kind"], {name: value for name, value in table.items() if name != "kind"}
    )
