"""What is read: sources, their mixture, how text becomes tokens, and what is held out.

A source gives running text, pairs of (source, target), conversations or preferences; all sources of
a corpus give the same. Texts with labels are pairs, whose targets are the labels.
"""

from __future__ import annotations

import math
import operator
import re
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from paribus.spec.base import Positive, Share, Spec, as_tuple, read_kind
from paribus.spec.languages import InventedLanguage, Language, LanguageForm

# The special tokens of conversations: who speaks, and where a turn ends.
ROLES = ("system", "user", "assistant")
END_OF_TURN = "end of turn"
N_ROLE_TOKENS = len(ROLES) + 1
N_SENTINELS = 96
# ids that are no text: pad, end, start, mask, three modes, sentinels, roles and the end of a turn
N_SPECIAL_TOKENS = 7 + N_SENTINELS + N_ROLE_TOKENS
_SPECIAL_TOKEN_NAMES = ("begin", "pad", "end", "start", "mask", *"RSX", *ROLES, END_OF_TURN)
_SENTINEL_NAME = re.compile(r"gap \d+", re.ASCII)

MAX_SOURCES = 256
TEXT_SEPARATOR = "\n"  # between the two texts of a labelled pair, which are read as one

FilePortion = Literal["slice", "all"]
DecodeErrors = Literal["strict", "replace"]


def _is_none(value: Any) -> bool:
    return value is None


# Bytes that the files of a source may come to when they are unpacked; None: in proportion to their
# size on disk. It changes no text and is written only where it is set, so that the names of texts
# and runs stay what they were.
MaxUnpacked = Annotated[int | None, Field(ge=1, exclude_if=lambda n_bytes: n_bytes is None)]
Paths = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(as_tuple)]

ColumnNumber = Annotated[int, Field(ge=-64, le=64)]


class PythonDocs(Spec):
    """Docstrings and help topics of the standard library and the installed torch, numpy and
    scipy.
    """

    kind: Literal["python-docs"] = "python-docs"
    part: FilePortion = "slice"
    """A fixed tenth of the files, ready in seconds, or all of them."""
    weight: Positive = 1.0
    """The source's share of the rows is its weight over the sum of all weights."""


class PythonCode(Spec):
    """Python files of the standard library and the installed torch, numpy and scipy."""

    kind: Literal["python-code"] = "python-code"
    part: FilePortion = "slice"
    """A fixed tenth of the files, ready in seconds, or all of them."""
    weight: Positive = 1.0
    """The source's share of the rows is its weight over the sum of all weights."""


class PythonSummaries(Spec):
    """Pairs from Python files: a function without its docstring, and the first line of that
    docstring.
    """

    kind: Literal["python-summaries"] = "python-summaries"
    part: FilePortion = "slice"
    """A fixed tenth of the files, ready in seconds, or all of them."""
    weight: Positive = 1.0
    """The source's share of the rows is its weight over the sum of all weights."""


class PythonLabels(Spec):
    """Docstrings from Python files, each labelled with what it documents: a module, a class, a
    method or a function.
    """

    kind: Literal["python-labels"] = "python-labels"
    part: FilePortion = "slice"
    """A fixed tenth of the files, ready in seconds, or all of them."""
    weight: Positive = 1.0
    """The source's share of the rows is its weight over the sum of all weights."""


class PythonTags(Spec):
    """Statements from Python files, word by word, each name tagged with what it does there: it is
    called, read, assigned, a parameter, an attribute, and so on.
    """

    kind: Literal["python-tags"] = "python-tags"
    part: FilePortion = "slice"
    """A fixed tenth of the files, ready in seconds, or all of them."""
    weight: Positive = 1.0
    """The source's share of the rows is its weight over the sum of all weights."""


class Files(Spec):
    """Running text from files, folders, globs and tars.

    A document is a .txt or .md file, a line of .jsonl, or a row of .csv or .tsv.
    """

    kind: Literal["files"] = "files"
    paths: Paths
    """Files, folders, globs or tars. A path is relative to the file that names it. One alone
    needs no list.
    """
    text: str = "text"
    """The key of a .jsonl line, or the column of a table, that holds the text."""
    max_document: Annotated[int, Field(ge=64, le=2**28)] = 16384
    """Bytes of a document. A longer .txt or .md file is cut at blank lines."""
    errors: DecodeErrors = "strict"
    """What happens to bytes that are not UTF-8: refused, or replaced and counted."""
    max_unpacked: MaxUnpacked = None
    """Bytes that packed files may come to. If left out: in proportion to their size on disk."""
    weight: Positive = 1.0
    """The source's share of the rows is its weight over the sum of all weights."""


class PairFiles(Spec):
    """Pairs from two columns of .csv or .tsv, or two keys of .jsonl."""

    kind: Literal["pairs"] = "pairs"
    paths: Paths
    """Files, folders, globs or tars. A path is relative to the file that names it. One alone
    needs no list.
    """
    source: str = "source"
    """The column or key that holds the source."""
    target: str = "target"
    """The column or key that holds the target."""
    errors: DecodeErrors = "strict"
    """What happens to bytes that are not UTF-8: refused, or replaced and counted."""
    max_unpacked: MaxUnpacked = None
    """Bytes that packed files may come to. If left out: in proportion to their size on disk."""
    weight: Positive = 1.0
    """The source's share of the rows is its weight over the sum of all weights."""


class LabelledFiles(Spec):
    """Texts with labels from columns of .csv or .tsv, or from keys of .jsonl.

    A label is text. As a pair, a text is the source and its label the target.
    """

    kind: Literal["labelled"] = "labelled"
    paths: Paths
    """Files, folders, globs or tars. A path is relative to the file that names it. One alone
    needs no list.
    """
    text: str = "text"
    """The column or key that holds the text."""
    second: Annotated[str | None, Field(exclude_if=lambda column: column is None)] = None
    """The column or key that holds the second text of a pair, which is read on a line of its own
    after the first. If left out: there is one text.
    """
    label: str = "label"
    """The column or key that holds the label. In .jsonl it may be a whole number."""
    errors: DecodeErrors = "strict"
    """What happens to bytes that are not UTF-8: refused, or replaced and counted."""
    max_unpacked: MaxUnpacked = None
    """Bytes that packed files may come to. If left out: in proportion to their size on disk."""
    weight: Positive = 1.0
    """The source's share of the rows is its weight over the sum of all weights."""


class TaggedFiles(Spec):
    """Sentences with a tag for each word, in columns as CoNLL writes them: a word a line, and an
    empty line after each sentence.

    As a pair, the words of a sentence are the source and its tags the target.
    """

    kind: Literal["tagged"] = "tagged"
    paths: Paths
    """Files, folders, globs or tars: .conll, .bio or .txt. A path is relative to the file that
    names it. One alone needs no list.
    """
    word: ColumnNumber = 0
    """Which column holds the word, counted from 0; -1 is the last one."""
    tag: ColumnNumber = -1
    """Which column holds the tag, counted from 0; -1 is the last one."""
    errors: DecodeErrors = "strict"
    """What happens to bytes that are not UTF-8: refused, or replaced and counted."""
    max_unpacked: MaxUnpacked = None
    """Bytes that packed files may come to. If left out: in proportion to their size on disk."""
    weight: Positive = 1.0
    """The source's share of the rows is its weight over the sum of all weights."""


class ConversationFiles(Spec):
    """Conversations from lines of .jsonl: `messages` with a role and a content each, or `prompt`
    and `response`, and `system` where there is one.
    """

    kind: Literal["conversations"] = "conversations"
    paths: Paths
    """Files, folders, globs or tars. A path is relative to the file that names it. One alone
    needs no list.
    """
    errors: DecodeErrors = "strict"
    """What happens to bytes that are not UTF-8: refused, or replaced and counted."""
    max_unpacked: MaxUnpacked = None
    """Bytes that packed files may come to. If left out: in proportion to their size on disk."""
    weight: Positive = 1.0
    """The source's share of the rows is its weight over the sum of all weights."""


class PreferenceFiles(Spec):
    """Preferences from lines of .jsonl: `chosen` and `rejected` after a `prompt`, or after
    `messages`, and `system` where there is one.
    """

    kind: Literal["preferences"] = "preferences"
    paths: Paths
    """Files, folders, globs or tars. A path is relative to the file that names it. One alone
    needs no list.
    """
    errors: DecodeErrors = "strict"
    """What happens to bytes that are not UTF-8: refused, or replaced and counted."""
    max_unpacked: MaxUnpacked = None
    """Bytes that packed files may come to. If left out: in proportion to their size on disk."""
    weight: Positive = 1.0
    """The source's share of the rows is its weight over the sum of all weights."""


class ByteTokenizer(Spec):
    """One token a byte."""

    kind: Literal["bytes"] = "bytes"


class BPETokenizer(Spec):
    """Byte-level BPE, trained on the corpus's own training text."""

    kind: Literal["bpe"] = "bpe"
    n_vocab: Annotated[int, Field(ge=257, le=2**20)] = 4096
    """Number of text token ids. Special tokens come on top."""


class TokenizerFile(Spec):
    """Any tokenizer.json of the tokenizers library."""

    kind: Literal["file"] = "file"
    path: Annotated[str, Field(min_length=1)]
    """The tokenizer.json. A path is relative to the file that names it."""
    special_tokens: Annotated[
        dict[str, Annotated[int, Field(ge=0)]] | None, Field(exclude_if=_is_none)
    ] = None
    """Ids of the special tokens that the tokenizer has itself, by our names: `begin`, `end`, `pad`,
    `start` (of a decoder), `mask`, `gap 0` and so on. If left out: ours are added after its ids.
    """

    @model_validator(mode="after")
    def _require_known_names(self) -> Self:
        for name in self.special_tokens or ():
            if name not in _SPECIAL_TOKEN_NAMES and not _SENTINEL_NAME.fullmatch(name):
                raise ValueError(
                    f"special_tokens has {name!r}, which is no special token; use"
                    f" {', '.join(_SPECIAL_TOKEN_NAMES)}, or 'gap 0', 'gap 1' and so on"
                )
        return self


def tokenizer_with_roles(tokenizer: TokenizerFile, n_text: int) -> TokenizerFile:
    """A tokenizer that has special tokens of its own, of which `n_text` is the number of ids, with
    those of roles and of the end of a turn after all others; as it is where it has them.
    """
    if tokenizer.special_tokens is None:
        return tokenizer
    ids = dict(tokenizer.special_tokens)
    for name in (*ROLES, END_OF_TURN):
        if name not in ids:
            ids[name] = max(n_text, max(ids.values(), default=-1) + 1)
    return tokenizer.model_copy(update={"special_tokens": ids})


InstalledPython = PythonDocs | PythonCode | PythonSummaries | PythonLabels | PythonTags
TurnFiles = ConversationFiles | PreferenceFiles
TextFiles = Files | PairFiles | LabelledFiles | TaggedFiles
FileSource = TextFiles | TurnFiles
Source = InstalledPython | FileSource | InventedLanguage
SourceKind = Annotated[Source, Field(discriminator="kind"), BeforeValidator(read_kind)]
TokenizerKind = Annotated[
    ByteTokenizer | BPETokenizer | TokenizerFile,
    Field(discriminator="kind"),
    BeforeValidator(read_kind),
]


def gives_labels(source: Source) -> bool:
    """Whether a source gives texts with labels, or words with tags."""
    return isinstance(source, LabelledFiles | PythonLabels | TaggedFiles | PythonTags)


# What the documents of a source are, and how each is called.
DOCUMENT_FORMS: dict[LanguageForm, str] = {
    "pairs": "pairs",
    "conversations": "conversations",
    "preferences": "preferences",
    "text": "running text",
}


# What has no targets that could be shuffled, and why.
_UNSHUFFLED_FORMS: dict[LanguageForm, str] = {
    "text": "running text, which has no targets",
    "preferences": "preferences, whose two targets belong to one source",
}


def document_form(source: Source) -> LanguageForm:
    """What the documents of a source are."""
    match source:
        case PythonSummaries() | PairFiles():
            return "pairs"
        case LabelledFiles() | TaggedFiles() | PythonLabels() | PythonTags():
            return "pairs"
        case ConversationFiles():
            return "conversations"
        case PreferenceFiles():
            return "preferences"
        case Language():
            return source.form
        case PythonDocs() | PythonCode() | Files():
            return "text"


def gives_pairs(source: Source) -> bool:
    """Whether a source gives sources with their targets; otherwise it gives running text."""
    return document_form(source) != "text"


class Corpus(Spec):
    """Sources, read in shares by their weights; documents are held out by a hash of their
    content.
    """

    sources: Annotated[tuple[SourceKind, ...], BeforeValidator(as_tuple)] = (PythonDocs(),)
    """Where the text comes from. All sources give the same: running text, pairs, conversations or
    preferences. One alone needs no list.
    """
    tokenizer: TokenizerKind = ByteTokenizer()
    """How text becomes tokens."""
    valid: Share = 0.05
    """Share of documents for validation."""
    test: Share = 0.05
    """Share of documents held out for the verdict."""
    shuffled_targets: Annotated[bool, Field(exclude_if=operator.not_)] = False
    """Whether the targets of training pairs are dealt anew among the sources, once for the whole
    run: a control that learns what targets look like, and nothing of what they answer. Labels and
    responses are targets too; of tagged words, each tag moves by itself. Held-out pairs stay as
    they are.
    """

    @model_validator(mode="after")
    def _require_consistent(self) -> Corpus:
        if len(self.sources) > MAX_SOURCES:
            raise ValueError(
                f"sources are {len(self.sources):,}; use at most {MAX_SOURCES}, such as one"
                " glob for many files"
            )
        if self.valid + self.test >= 1:
            raise ValueError(
                f"valid {self.valid:g} and test {self.test:g} leave nothing to train on; use shares"
                " that sum below 1"
            )
        if not math.isfinite(sum(source.weight for source in self.sources)):
            largest = max(source.weight for source in self.sources)
            raise ValueError(
                f"sources have weights up to {largest:g}, whose sum is not finite; use smaller"
                " ones,"
                " such as 1 and 2"
            )
        forms: dict[LanguageForm, str] = {}
        for source in self.sources:
            forms[document_form(source)] = source.kind
        if len(forms) > 1:
            in_order: list[LanguageForm] = [form for form in DOCUMENT_FORMS if form in forms]
            one, other = in_order[:2]
            raise ValueError(
                f"sources {forms[one]!r} gives {DOCUMENT_FORMS[one]} and {forms[other]!r}"
                f" {DOCUMENT_FORMS[other]}, which one batch cannot hold; use either, or form ="
                f" {other!r} for an invented language"
            )
        if self.shuffled_targets and self.form in _UNSHUFFLED_FORMS:
            raise ValueError(
                f"shuffled_targets is true, but sources {self.sources[0].kind!r} gives"
                f" {_UNSHUFFLED_FORMS[self.form]}; use pairs or conversations, or leave it out"
            )
        return self

    @property
    def form(self) -> LanguageForm:
        """What its documents are."""
        return document_form(self.sources[0])
