"""Tasks: data and a way to ask. A closed union of kinds, each with templates over the columns of
its rows.

What is asked is text, the same for every arm whatever its tokenizer. Every prompt is a field, and
so part of what a task is addressed by.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from paribus.spec.base import Count, NonNegative, Share, Spec, as_tuple, read_kind
from paribus.spec.corpus import MaxUnpacked, Paths
from paribus.spec.languages import InventedLanguage
from paribus.spec.task_readers import READERS
from paribus.spec.templates import Template

TaskSplit = Literal["train", "valid", "test"]
Normalisation = Literal["sum", "token", "byte", "unconditional"]
KeyForm = Literal["index", "number", "letter", "text"]
TooLong = Literal["leave out", "cut"]
ChoiceMeasure = Literal["accuracy", "bits per byte", "log loss"]
LabelMeasure = Literal["accuracy", "matthews", "macro f1"]
TagMeasure = Literal["accuracy", "span f1"]
GenerationMeasure = Literal[
    "exact match",
    "normalised match",
    "reward",
    "f1",
    "bleu",
    "chrf",
    "rouge-1",
    "rouge-2",
    "rouge-l",
    "bits per byte",
]
Texts = Annotated[tuple[str, ...], Field(min_length=2)]
LanguageTable = Annotated[InventedLanguage, Field(discriminator="kind"), BeforeValidator(read_kind)]
MAX_NAME = 100
CHOICE_ACCURACY = "accuracy"  # the measure of choices, unless another is asked for


class TaskData(Spec):
    """The base of all tasks: where the items come from, and which of them are asked."""

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    """What the task is called. If left out: the name of its file or of its reader."""
    reader: str | None = None
    """The format of the files, such as `blimp`. It gives the templates that are left out. If left
    out: rows of .jsonl, .csv, .tsv or .parquet.
    """
    paths: Paths | None = None
    """Files, folders, globs or tars with the items that are asked. A path is relative to the file
    that names it.
    """
    train: Paths | None = None
    """Files with items for demonstrations and fine-tuning. They are never asked."""
    valid: Paths | None = None
    """Files with items for choices that are made before the test, such as a learning rate."""
    train_share: Share = 0.0
    """Without files for it: the share of the items in `paths` that is used for training, by a hash
    of their text.
    """
    valid_share: Share = 0.0
    """Without files for it: the share of the items in `paths` that is used for validation."""
    language: Annotated[tuple[LanguageTable, ...], BeforeValidator(as_tuple)] | None = None
    """An invented language instead of files, such as `recall`, or several. The columns are
    `language`, `question`, `answer` and `options`. One alone needs no list.
    """
    id: Template | None = None
    """The name of an item, which must be its own. If left out: a hash of its text."""
    document: Template | None = None
    """Items with the same value are no independent evidence: an interval is over these. If left
    out: every item stands for itself.
    """
    n_items: Count | None = None
    """Number of items, chosen by a hash of their names. If left out: all."""
    separator: str = "\n\n"
    """What stands between two demonstrations, and before the item."""
    too_long: TooLong = "leave out"
    """What happens to an item that does not fit every model that is asked: it is left out for all,
    or the beginning of its context is cut at the same byte for all.
    """
    max_unpacked: MaxUnpacked = None
    """Bytes that packed files may come to. If left out: in proportion to their size on disk."""

    @model_validator(mode="after")
    def _require_data(self) -> TaskData:
        _require_one_source(self)
        for split in ("train", "valid"):
            if getattr(self, split) is not None and getattr(self, f"{split}_share"):
                raise ValueError(
                    f"{split} names files and {split}_share is set; give one of the two"
                )
        if self.train_share + self.valid_share >= 1:
            raise ValueError(
                f"train_share {self.train_share:g} and valid_share {self.valid_share:g} leave"
                " nothing to ask; use shares that sum below 1"
            )
        return self


def _require_one_source(task: TaskData) -> None:
    """ValueError unless a task has files, or a language, or a reader that needs neither."""
    if task.reader is not None and task.reader not in READERS:
        raise ValueError(f"has the reader {task.reader!r}; use one of {', '.join(READERS)}")
    reads_files = task.reader is None or READERS[task.reader].suffixes
    for language in task.language or ():
        if language.weight != 1:
            raise ValueError(
                f"has a language of weight {language.weight:g}, but all questions of a task are"
                " asked; leave it out"
            )
        if language.max_turns != 1:
            raise ValueError(
                f"has a language with max_turns {language.max_turns}, but a task asks one question"
                " at a time; leave it out"
            )
    if task.language is not None:
        if task.reader is not None or task.paths is not None:
            raise ValueError("language is given beside reader or paths; give one of them")
    elif reads_files and task.paths is None:
        raise ValueError("has no paths; give files with items, or a language")
    elif not reads_files and task.paths is not None:
        raise ValueError(
            f"reader {task.reader!r} takes its items from the text of the run, and paths is given;"
            " leave paths out"
        )


class ChoicesTask(TaskData):
    """Which of several options follows the context? The one with the highest score is chosen."""

    kind: Literal["choices"] = "choices"
    context: Template = ""
    """What stands before the option. It may be empty."""
    options: Annotated[tuple[Template, ...], Field(min_length=2)] | Template
    """A template per option, or one template with a column that holds a list."""
    key: Template
    """The right option, in the form that `key_form` says."""
    key_form: KeyForm = "index"
    """How `key` names the option: by its index from 0, its number from 1, its letter from A, or its
    text.
    """
    normalisation: Normalisation = "byte"
    """What the primary score of an option is: the sum of its log-probabilities, that sum per token,
    per byte, or minus the sum after the unconditional context. All four are kept.
    """
    unconditional: str = "Answer:"
    """The context of the unconditional score."""
    measure: Annotated[
        ChoiceMeasure, Field(exclude_if=lambda measure: measure == CHOICE_ACCURACY)
    ] = CHOICE_ACCURACY
    """The primary measure: how often the right option is chosen, the bits of the right option per
    byte, or the bits of its share of all options, `log loss`. Accuracy is kept beside it.
    """

    @model_validator(mode="after")
    def _require_context(self) -> ChoicesTask:
        if self.normalisation == "unconditional" and not self.context:
            raise ValueError(
                "has normalisation 'unconditional' and no context, so that every option has the"
                " score 0; give a context, or use 'sum'"
            )
        return self


class LabelsTask(TaskData):
    """The label of a text, or of a pair of texts, out of a fixed set."""

    kind: Literal["labels"] = "labels"
    text: Template
    """The text."""
    second: Template | None = None
    """The second text of a pair. If left out: there is one text."""
    label: Template
    """The label of a row, one of `labels`."""
    labels: Texts
    """All labels as they are written in the files."""
    context: Template | None = None
    """How the label is asked for in words. If left out: the text, the second text, and `Label:`."""
    options: Texts | None = None
    """The labels in words, in the order of `labels`. If left out: the labels after a space."""
    normalisation: Normalisation = "byte"
    """What the primary score of an option is, as in `choices`."""
    unconditional: str = "Label:"
    """The context of the unconditional score."""
    measure: LabelMeasure = "accuracy"
    """The primary measure. Accuracy is kept beside it."""

    @model_validator(mode="after")
    def _require_options(self) -> LabelsTask:
        if self.options is not None and len(self.options) != len(self.labels):
            raise ValueError(
                f"options and labels have {len(self.options)} and {len(self.labels)} texts; give an"
                " option for each label"
            )
        if len(set(self.labels)) < len(self.labels):
            raise ValueError("labels has one of them twice; give each once")
        return self


class TagsTask(TaskData):
    """The tag of each word of a sentence."""

    kind: Literal["tags"] = "tags"
    words: Template = "{words}"
    """The column that holds the list of words."""
    tags: Template = "{tags}"
    """The column that holds the list of tags, one per word."""
    labels: Texts
    """All tags."""
    measure: TagMeasure = "accuracy"
    """The primary measure: accuracy over words, or F1 over the spans that BIO tags mark."""

    @model_validator(mode="after")
    def _require_span_tags(self) -> TagsTask:
        if self.measure == "span f1":
            for label in self.labels:
                if label != "O" and (label[:2] not in ("B-", "I-") or len(label) == 2):
                    raise ValueError(
                        f"has the tag {label!r}, which marks no span; for 'span f1' use O and tags"
                        " such as B-PER and I-PER"
                    )
        return self


class GenerationTask(TaskData):
    """What text follows the source? It is generated greedily and compared with the references."""

    kind: Literal["generation"] = "generation"
    source: Template
    """What the text is generated from."""
    references: Annotated[tuple[Template, ...], Field(min_length=1)] | Template
    """Right answers: a template each, or one template with a column that holds a list."""
    measure: GenerationMeasure = "exact match"
    """The primary measure. The others that need no further package are kept beside it. `exact
    match` is to the letter; `normalised match` is SQuAD's, without case, punctuation and articles.
    `reward` is the share of letters that stand in their places, as own samples are ranked.
    """
    max_tokens: Count | None = None
    """Most tokens that are generated. If left out: as many as the longest reference has."""
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Texts that end an answer: it is cut before the first of them."""
    n_words: Count | None = None
    """Words of an answer: it is cut after as many. If left out: it is not."""
    answer_after: str = ""
    """Of what is generated and of the references, only what follows the last occurrence of this
    text is compared.
    """
    merge_sources: bool = False
    """Whether rows with the same source are one item, with the references of all of them."""


class ZeroShot(Spec):
    """The item alone."""

    kind: Literal["zero-shot"] = "zero-shot"


class FewShot(Spec):
    """The item after demonstrations from the train split, the same for every model."""

    kind: Literal["few-shot"] = "few-shot"
    n_demonstrations: Count = 4
    """The largest number of demonstrations. An item has as many whole ones as fit every model."""
    seed: NonNegative = 0
    """Seed of the demonstrations."""


Task = ChoicesTask | LabelsTask | TagsTask | GenerationTask
TaskKind = Annotated[Task, Field(discriminator="kind"), BeforeValidator(read_kind)]
Protocol = ZeroShot | FewShot
ProtocolKind = Annotated[Protocol, Field(discriminator="kind"), BeforeValidator(read_kind)]
