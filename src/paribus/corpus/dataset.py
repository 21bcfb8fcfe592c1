"""A corpus ready to be read: its vocabulary, and global batch k as a pure function of (data
seed, k).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from paribus.batch import N_SPECIAL_TOKENS, TextBatch, Vocabulary
from paribus.corpus.cache import Index
from paribus.corpus.order import SourceMixture
from paribus.corpus.pair_rows import PairRows, TurnIds
from paribus.corpus.shards import Shard, n_stored_ids
from paribus.corpus.splits import SPLITS, Split
from paribus.corpus.token_rows import RunningText, TokenRows
from paribus.corpus.tokenizer import Tokenizer, open_tokenizer
from paribus.errors import SpecError
from paribus.record.file_names import TOKENIZER_FILE
from paribus.runtime import derive_seed
from paribus.spec.corpus import Corpus, Files, Source, TokenizerFile, document_form, gives_labels
from paribus.spec.languages import LanguageForm
from paribus.vocabulary import TextFrame


@dataclass(frozen=True, eq=False)
class TokenisedCorpus:
    """Tokens on disk and how to read them; `fingerprint` names exactly this text in exactly
    these shares.
    """

    spec: Corpus
    folder: Path
    index: Index
    fingerprint: str
    tokenizer: Tokenizer
    vocabulary: Vocabulary
    readers: dict[Split, tuple[RunningText | PairRows, ...]]

    def text_batch(
        self, split: Split, data_seed: int, k: int, n_sequences: int, length: int
    ) -> TextBatch:
        """Global batch k: n sequences of this length, in the order in which they are read."""
        assert k >= 0
        assert n_sequences >= 1
        readers = self._checked_readers(split, length)
        mixture = self.source_mixture(split, data_seed)
        sources_B = mixture.row_sources(k * n_sequences, n_sequences)
        before = mixture.rows_before(k * n_sequences)
        places, parts = [], []
        for number, reader in enumerate(readers):
            rows_B = np.flatnonzero(sources_B == number)
            epochs, numbers = np.divmod(
                before[number] + np.arange(len(rows_B)), reader.n_rows(length)
            )
            for epoch in np.unique(epochs).tolist():
                places.append(rows_B[epochs == epoch])
                parts.append(reader.rows(data_seed, epoch, numbers[epochs == epoch], length))
        return _assemble_batch(k, np.argsort(np.concatenate(places)), parts)

    def epochs(self, data_seed: int, k: int, n_sequences: int, length: int) -> tuple[float, ...]:
        """How often the training text of each source has been read when batch k begins."""
        before = self.source_mixture("train", data_seed).rows_before(k * n_sequences)
        if any(map(gives_labels, self.spec.sources)):
            readers = self.readers["train"]  # one text a row, whatever room its label would take
        else:
            readers = self._checked_readers("train", length)
        epochs = []
        for rows, reader in zip(before, readers, strict=True):
            epochs.append(rows / reader.n_rows(length))
        return tuple(epochs)

    def n_rows(self, split: Split, length: int) -> tuple[int, ...]:
        """Rows in one epoch of each source."""
        return tuple(reader.n_rows(length) for reader in self.readers[split])

    def n_truncated_pairs(self, split: Split, length: int) -> int:
        """How many pairs lose the beginnings of their sources in rows of this length; running
        text has none.
        """
        n_pairs = 0
        for reader in self.readers[split]:
            if isinstance(reader, PairRows):
                n_pairs += reader.n_truncated(length)
        return n_pairs

    def n_unscored_pairs(self, split: Split, length: int) -> int:
        """How many pairs are read but not asked in rows of this length: they show no source."""
        n_pairs = 0
        for reader in self.readers[split]:
            if isinstance(reader, PairRows):
                n_pairs += reader.n_unscored(length)
        return n_pairs

    @property
    def longest_document(self) -> int:
        """Tokens of the longest document of running text to train on, with its `eos`."""
        readers = self.readers["train"]
        return max(one.longest_document for one in readers if isinstance(one, RunningText))

    @property
    def longest_source(self) -> int:
        """Tokens of the longest source to train on, or of the longest labelled text."""
        readers = self.readers["train"]
        return max(one.longest_source for one in readers if isinstance(one, PairRows))

    def longest_pairs(self, length: int) -> list[tuple[int, int]]:
        """Tokens of source and target of the longest pairs to train on, of every source."""
        pairs: list[tuple[int, int]] = []
        for reader in self.readers["train"]:
            assert isinstance(reader, PairRows)
            pairs += reader.longest_pairs(length)
        return sorted(pairs)

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text)

    def decode(self, ids: Sequence[int] | Tensor) -> str:
        """The text of ids; special tokens are left out."""
        if isinstance(ids, Tensor):
            ids = ids.tolist()
        return self.tokenizer.decode(ids)

    def source_mixture(self, split: Split, data_seed: int) -> SourceMixture:
        """Which source each row of a split is from."""
        return SourceMixture(
            [source.weight for source in self.spec.sources],
            derive_seed(data_seed, "corpus", "mixture", split),
        )

    def require_rows(self, split: Split, length: int) -> None:
        """SpecError unless every source has something to ask in a split, in rows of this length."""
        for number, (source, reader) in enumerate(
            zip(self.spec.sources, self.readers[split], strict=True)
        ):
            if fault := _describe_lack(reader, source, split, length):
                raise SpecError(f"corpus.sources.{number} ({source.kind}) has {fault}")

    def _checked_readers(self, split: Split, length: int) -> tuple[RunningText | PairRows, ...]:
        self.require_rows(split, length)
        return self.readers[split]


def open_corpus(corpus: Corpus, folder: Path, index: Index, fingerprint: str) -> TokenisedCorpus:
    """What lies in a folder of the cache, opened."""
    tokenizer = open_tokenizer(folder / TOKENIZER_FILE)
    own_special_tokens = None
    if isinstance(corpus.tokenizer, TokenizerFile):
        own_special_tokens = corpus.tokenizer.special_tokens
    vocabulary = vocabulary_of(tokenizer, own_special_tokens)
    readers: dict[Split, tuple[RunningText | PairRows, ...]] = {}
    for split in SPLITS:
        own = []
        for n, source in enumerate(corpus.sources):
            form = document_form(source)
            n_ids = n_stored_ids(tokenizer.n_text, form)
            key = target_shuffle_key(corpus, split, n)
            shard = Shard.from_files(folder / f"{n}.{split}", n_ids, form, key)
            own.append(_reader(shard, f"{n}", vocabulary, form))
        readers[split] = tuple(own)
    return TokenisedCorpus(
        spec=corpus,
        folder=folder,
        index=index,
        fingerprint=fingerprint,
        tokenizer=tokenizer,
        vocabulary=vocabulary,
        readers=readers,
    )


def target_shuffle_key(corpus: Corpus, split: Split, source: int) -> int | None:
    """The key by which the targets of a source are shuffled, the same in every run; None where
    each stays beside its own source.
    """
    if corpus.shuffled_targets and split == "train":
        return derive_seed(0, "corpus", f"{source}", "targets")
    return None


def _describe_lack(
    reader: RunningText | PairRows, source: Source, split: Split, length: int
) -> str | None:
    """Why a source has nothing to ask in rows of this length, and what would do; None where it
    has.
    """
    if reader.n_rows(length) == 0:
        if isinstance(reader, RunningText):
            there = f"{reader.n_tokens} tokens"
        else:
            there = "no pair"
        if isinstance(source, Files):
            smaller = "cut it into smaller documents by max_document, "
        else:
            smaller = ""
        return (
            f"{there} of {split} text, not one row of length {length}; read more text, {smaller}"
            "hold out another share, or use shorter rows"
        )
    if isinstance(reader, RunningText):
        return None
    min_lengths = reader.min_row_lengths
    if min_lengths is None:
        return (
            f"no pair of {split} text with a token in its source; use a tokenizer that writes them"
        )
    if length >= min_lengths.for_any_pair:
        return None
    return (
        f"no pair of {split} text whose target leaves room for a source in a row of length"
        f" {length}; use a length of {min_lengths.for_any_pair}, which fits one, or"
        f" {min_lengths.for_every_pair}, which fits all"
    )


def slice_batch(batch: TextBatch, first: int, last: int) -> TextBatch:
    """Rows first … last-1 of a reading: what one rank or micro-batch sees of the global batch."""

    def rows(values: Tensor | None) -> Tensor | None:
        if values is None:
            return None
        return values[first:last]

    return replace(
        batch,
        rows_B=batch.rows_B[first:last],
        tokens_BT=batch.tokens_BT[first:last],
        documents_BT=batch.documents_BT[first:last],
        sentences_BT=batch.sentences_BT[first:last],
        real_BT=rows(batch.real_BT),
        target_starts_B=rows(batch.target_starts_B),
        rejected_BT=rows(batch.rejected_BT),
        rejected_real_BT=rows(batch.rejected_real_BT),
        labels_BM=rows(batch.labels_BM),
    )


def vocabulary_of(
    tokenizer: Tokenizer,
    own_special_tokens: Mapping[str, int] | None = None,
    frame: TextFrame | None = None,
) -> Vocabulary:
    """A tokenizer's ids, and our special tokens after them, unless it has its own among them."""
    n_added = N_SPECIAL_TOKENS
    if own_special_tokens is not None:
        largest = max(own_special_tokens.values(), default=0)
        n_added = max(largest + 1 - tokenizer.n_text, 0)
    counts = np.concatenate([tokenizer.bytes_of_ids, np.zeros(n_added, np.int64)])
    return Vocabulary(tokenizer.n_text, torch.from_numpy(counts), own_special_tokens, frame)


def _reader(
    shard: Shard, name: str, vocabulary: Vocabulary, form: LanguageForm
) -> RunningText | PairRows:
    if form == "text":
        return RunningText(shard, name, vocabulary.eos)
    if form == "pairs":
        return PairRows(shard, name, vocabulary.eos, vocabulary.pad)
    return PairRows(
        shard=shard,
        name=name,
        eos=vocabulary.end_of_turn,
        pad=vocabulary.pad,
        turn_ids=turn_ids(vocabulary),
    )


def turn_ids(vocabulary: Vocabulary) -> TurnIds:
    """How a vocabulary calls the turn tokens of a shard."""
    special_tokens = [*vocabulary.role_tokens.values(), vocabulary.end_of_turn]
    return TurnIds(vocabulary.n_text, np.array(special_tokens, np.int64))


def _assemble_batch(k: int, order: np.ndarray, rows_by_source: list[TokenRows]) -> TextBatch:
    """The rows of all sources, back in the order of the batch."""

    def join(arrays: list[np.ndarray]) -> Tensor:
        values = np.concatenate(arrays)[order]
        if values.dtype != np.bool_:
            values = values.astype(np.int64, copy=False)
        return torch.from_numpy(values)

    def join_optional(arrays: list[np.ndarray | None]) -> Tensor | None:
        given = [array for array in arrays if array is not None]
        if not given:
            return None
        return join(given)

    return TextBatch(
        k=k,
        rows_B=torch.arange(len(order)),
        tokens_BT=join([rows.tokens for rows in rows_by_source]),
        documents_BT=join([rows.documents for rows in rows_by_source]),
        sentences_BT=join([rows.sentences for rows in rows_by_source]),
        real_BT=join_optional([rows.is_real for rows in rows_by_source]),
        target_starts_B=join_optional([rows.target_starts for rows in rows_by_source]),
        rejected_BT=join_optional([rows.rejected for rows in rows_by_source]),
        rejected_real_BT=join_optional([rows.rejected_is_real for rows in rows_by_source]),
    )
