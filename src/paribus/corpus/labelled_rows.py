"""Rows of labelled texts: one text a row with its label, or with a tag at the last token of each
word.

The labels are those of the training split, in the order of their names. A text that does not fit
its row loses its end, at the same token in every architecture: one position is left for what may
stand before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from paribus.batch import TextBatch
from paribus.corpus.dataset import TokenisedCorpus, target_shuffle_key
from paribus.corpus.order import shuffled_indices
from paribus.corpus.shards import Shard
from paribus.corpus.shuffled_tags import ShuffledTags
from paribus.corpus.splits import SPLITS, Split
from paribus.corpus.tokenizer import N_BYTES
from paribus.corpus.words import WORD_SEPARATOR, encode_words
from paribus.errors import SpecError
from paribus.runtime import derive_seed
from paribus.spec.corpus import (
    ByteTokenizer,
    LabelledFiles,
    PythonLabels,
    PythonTags,
    TaggedFiles,
)
from paribus.spec.objectives import HeadObjective

NO_LABEL = -1  # at a token that is asked nothing
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class LabelledDocument:
    """A text and its label; of a sentence, its words and their tags, with a space between any
    two.
    """

    text: str
    label: str

    @property
    def words(self) -> list[str]:
        return self.text.split(WORD_SEPARATOR)

    @property
    def tags(self) -> list[str]:
        return self.label.split(WORD_SEPARATOR)


@dataclass(frozen=True, eq=False)
class LabelledCorpus:
    """The texts of a corpus with their labels, which are asked of a head."""

    dataset: TokenisedCorpus
    objective: HeadObjective

    @property
    def kind(self) -> Literal["labels", "tags"]:
        return self.objective.kind

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The labels of the training split, in the order of their names."""
        return tuple(sorted(self._labels_of("train")))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def require_labels(self) -> None:
        """SpecError where the corpus has no labels of this kind, another number of them, a split
        without a text, or a label in a held-out split alone.
        """
        if self.kind == "labels":
            wanted, kinds = LabelledFiles | PythonLabels, "'labelled' or 'python-labels'"
        else:
            wanted, kinds = TaggedFiles | PythonTags, "'tagged' or 'python-tags'"
        for number, source in enumerate(self.dataset.spec.sources):
            if not isinstance(source, wanted):
                raise SpecError(
                    f"objective.kind is {self.kind!r}, but corpus.sources.{number} is of the kind"
                    f" {source.kind!r}; use {kinds}"
                )
        for split in ("train", "valid"):
            for number, shard in enumerate(self._shards(split)):
                if not shard.n_documents:
                    raise SpecError(
                        f"corpus.sources.{number} has no labelled text in split {split!r}; give"
                        " more texts, or hold out another share"
                    )
        if len(self.names) != self.objective.n_labels:
            raise SpecError(
                f"objective.n_labels is {self.objective.n_labels}, but the training text has"
                f" {len(self.names)} labels: {_listed(self.names)}; use {len(self.names)}"
            )
        for split in ("valid", "test"):
            unknown = sorted(self._labels_of(split) - set(self.names))
            if unknown:
                raise SpecError(
                    f"split {split!r} has the label {unknown[0]!r}, which the training split has"
                    " not; leave such texts out, or hold out another share"
                )

    def documents(self, split: Split) -> Iterator[LabelledDocument]:
        """Every text of a split, source by source, in the order in which they were read."""
        for source, shard in enumerate(self._shards(split)):
            for number in range(shard.n_documents):
                yield self._document(split, source, number)

    def text_batch(
        self, split: Split, data_seed: int, k: int, n_sequences: int, length: int
    ) -> TextBatch:
        """Global batch k: n texts in rows of this length, in the order in which they are read."""
        mixture = self.dataset.source_mixture(split, data_seed)
        sources_B = mixture.row_sources(k * n_sequences, n_sequences)
        before = mixture.rows_before(k * n_sequences)
        tokens_BT = np.full((n_sequences, length), self.dataset.vocabulary.pad)
        is_real_BT = np.zeros((n_sequences, length), bool)
        n_labels = 1 if self.kind == "labels" else length
        labels_BM = np.full((n_sequences, n_labels), NO_LABEL)
        for number in range(len(self._shards(split))):
            rows_B = np.flatnonzero(sources_B == number)
            documents = self._documents_at(
                split, number, data_seed, before[number] + np.arange(len(rows_B))
            )
            for row, own in zip(rows_B.tolist(), documents.tolist(), strict=True):
                ids, labels = self._encode(self._document(split, number, own), length - 1)
                tokens_BT[row, : len(ids)] = ids
                is_real_BT[row, : len(ids)] = True
                labels_BM[row, : len(labels)] = labels
        zeros = torch.zeros(n_sequences, length, dtype=torch.int64)
        return TextBatch(
            k=k,
            rows_B=torch.arange(n_sequences),
            tokens_BT=torch.from_numpy(tokens_BT),
            documents_BT=zeros,
            sentences_BT=zeros,
            real_BT=torch.from_numpy(is_real_BT),
            labels_BM=torch.from_numpy(labels_BM),
        )

    def n_truncated(self, split: Split, length: int) -> int:
        """How many texts of a split do not fit a row of this length."""
        n_texts = 0
        for document in self.documents(split):
            n_texts += len(self.dataset.encode(document.text)) > length - 1
        return n_texts

    def _document(self, split: Split, source: int, number: int) -> LabelledDocument:
        """A text with its label or its tags; with others in training, where these are shuffled."""
        document = _read_document(self._shards(split)[source], number)
        if self._shuffled_tags and split == "train":
            return replace(document, label=self._shuffled_tags[source].tags(number))
        return document

    @cached_property
    def _shuffled_tags(self) -> tuple[ShuffledTags, ...]:
        """The tags of training, by source; none where they are not shuffled."""
        shuffled = []
        for source, shard in enumerate(self._shards("train")):
            key = target_shuffle_key(self.dataset.spec, "train", source)
            if key is not None and self.kind == "tags":
                shuffled.append(ShuffledTags(shard, key))
        return tuple(shuffled)

    def _encode(self, document: LabelledDocument, room: int) -> tuple[IntArray, IntArray]:
        """The tokens of a text as far as they fit, and its label, or the tag at each token."""
        if self.kind == "labels":
            ids = np.array(self.dataset.encode(document.text)[:room], np.int64)
            return ids, np.array([self._numbers[document.label]])
        encoded = encode_words(self.dataset.tokenizer, document.words)
        ids = encoded.ids[:room]
        labels = np.full(len(ids), NO_LABEL)
        for place, tag in zip(encoded.last_tokens.tolist(), document.tags, strict=True):
            if 0 <= place < len(ids):
                labels[place] = self._numbers[tag]
        return ids, labels

    def _documents_at(self, split: Split, source: int, data_seed: int, rows: IntArray) -> IntArray:
        """The document of each row of a source, which are read epoch by epoch."""
        n_documents = self._shards(split)[source].n_documents
        epochs, numbers = np.divmod(rows, n_documents)
        documents = np.zeros_like(rows)
        for epoch in np.unique(epochs).tolist():
            own = epochs == epoch
            key = derive_seed(data_seed, "corpus", str(source), "documents", epoch)
            documents[own] = shuffled_indices(numbers[own], n_documents, key)
        return documents

    def _shards(self, split: Split) -> tuple[Shard, ...]:
        return self._text_shards[split]

    @cached_property
    def _text_shards(self) -> dict[Split, tuple[Shard, ...]]:
        """The bytes of texts and labels, by split and source."""
        # Bytes are their own tokens; under another tokenizer they lie beside these.
        in_place = isinstance(self.dataset.spec.tokenizer, ByteTokenizer)
        ending = "" if in_place else ".text"
        shards: dict[Split, tuple[Shard, ...]] = {}
        for split in SPLITS:
            own = []
            for number in range(len(self.dataset.spec.sources)):
                stem = self.dataset.folder / f"{number}.{split}{ending}"
                key = None  # tags move one by one
                if self.kind == "labels":
                    key = target_shuffle_key(self.dataset.spec, split, number)
                own.append(Shard.from_files(stem, N_BYTES, "pairs", key))
            shards[split] = tuple(own)
        return shards

    def _labels_of(self, split: Split) -> set[str]:
        """Every label, or every tag; shuffled ones are the same ones."""
        targets = set[bytes]()
        for shard in self._shards(split):
            bounds = shard.offsets.astype(np.int64).tolist()
            for first, last in zip(bounds[1::2], bounds[2::2], strict=True):
                targets.add(shard.tokens[first:last].tobytes())
        labels = set[str]()
        for target in targets:
            document = LabelledDocument("", target.decode())
            if self.kind == "labels":
                labels.add(document.label)
            else:
                labels.update(document.tags)
        return labels


def _read_document(shard: Shard, number: int) -> LabelledDocument:
    text, label = [
        shard.tokens[first:last].tobytes().decode() for first, last in shard.piece_bounds(number)
    ]
    return LabelledDocument(text, label)


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(map(repr, names[:8]))
    if len(names) > 8:
        return f"{shown}, …"
    return shown
