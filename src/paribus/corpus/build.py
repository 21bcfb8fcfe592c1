"""From sources to shards: documents are read, dealt to their splits and written as bytes, then
as tokens.

Nothing of the size of the corpus is held in memory. Who reads, and how many read at once, does not
change a byte.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from paribus.corpus.cache import (
    Index,
    SourceIndex,
    TextCounts,
    build_folder,
    corpus_fingerprint,
    find_cached_index,
    read_whole_index,
    record_file,
    source_key,
    spec_table,
    store_folder,
    text_fingerprint,
)
from paribus.corpus.dataset import TokenisedCorpus, open_corpus
from paribus.corpus.documents import SourceNotes, batch_documents
from paribus.corpus.encoding import MAX_TOKENIZER_TEXT, LostText, encode_shard, tokenizer_text
from paribus.corpus.parallel import map_in_order, worker_count
from paribus.corpus.progress import Progress
from paribus.corpus.shards import (
    PIECES_PER_DOCUMENT,
    TURN_FORMS,
    Shard,
    ShardWriter,
    n_stored_ids,
)
from paribus.corpus.sources import source_documents
from paribus.corpus.splits import SPLITS, Split, assign_splits
from paribus.corpus.tokenizer import (
    N_BYTES,
    Tokenizer,
    byte_tokenizer,
    read_tokenizer_file,
    train_tokenizer,
)
from paribus.errors import SpecError
from paribus.record.file_names import TOKENIZER_FILE
from paribus.spec.corpus import (
    BPETokenizer,
    ByteTokenizer,
    Corpus,
    Source,
    TokenizerFile,
    document_form,
    gives_labels,
)
from paribus.watcher import Watcher


def prepare_corpus(
    corpus: Corpus, cache: Path, show_progress: bool = True, n_workers: int | None = None
) -> TokenisedCorpus:
    """The corpus from the cache, or read, tokenised and put there first."""
    key = source_key(corpus)
    index = find_cached_index(cache, key)
    if index is None:
        progress = Progress(is_shown=show_progress)
        with build_folder(cache) as folder:
            index = _write_shards(corpus, folder, progress, worker_count(n_workers))
            if store_folder(folder, cache, index, key):
                progress.note(
                    f"{cache / index.fingerprint} was damaged, or of an earlier form, and is built"
                    " anew"
                )
    return open_corpus(
        corpus, cache / index.fingerprint, index, corpus_fingerprint(corpus, index.fingerprint)
    )


def find_recorded_corpus(corpus: Corpus, fingerprint: str, cache: Path) -> TokenisedCorpus | None:
    """The text with this fingerprint where the cache has it, whatever lies at its paths by now."""
    for folder in sorted(cache.glob("*")):
        if corpus_fingerprint(corpus, folder.name) == fingerprint:
            index = read_whole_index(folder)
            return None if index is None else open_corpus(corpus, folder, index, fingerprint)
    return None


def _write_shards(corpus: Corpus, folder: Path, progress: Watcher, n_workers: int) -> Index:
    """Every shard of a corpus, and what there is to know about them."""
    sources = [
        _read_source(corpus, source, folder / str(number), progress, n_workers)
        for number, source in enumerate(corpus.sources)
    ]
    tokenizer = _make_tokenizer(corpus, folder, progress)
    if not isinstance(corpus.tokenizer, ByteTokenizer) or corpus.form in TURN_FORMS:
        sources = [
            _encode_source(corpus, number, one, folder, tokenizer, progress)
            for number, one in enumerate(sources)
        ]
    (folder / TOKENIZER_FILE).write_text(tokenizer.json, "utf-8")
    name = text_fingerprint(corpus, [source.digest for source in sources], tokenizer.json)
    files = {path.name: record_file(path) for path in sorted(folder.iterdir())}
    spec = spec_table(corpus, {"weight"})
    return Index(fingerprint=name, spec=spec, sources=tuple(sources), files=files)


def _read_source(
    corpus: Corpus, source: Source, stem: Path, progress: Watcher, n_workers: int
) -> SourceIndex:
    """A source's text by split, one byte a token."""
    notes, digest = SourceNotes(), hashlib.sha256()
    n_pieces = PIECES_PER_DOCUMENT[document_form(source)]
    with ExitStack() as stack:
        writers: dict[Split, ShardWriter] = {}
        for split in SPLITS:
            writer = ShardWriter(_split_stem(stem, split), N_BYTES)
            writers[split] = stack.enter_context(writer)
        pool = stack.enter_context(ThreadPoolExecutor(n_workers))
        batches = batch_documents(source_documents(source, notes, progress, n_workers), notes)
        for piece_digests, text_by_split in map_in_order(
            pool,
            lambda parcel: assign_splits(parcel, corpus.valid, corpus.test),
            batches,
            n_workers,
        ):
            digest.update(piece_digests)
            for split, text in text_by_split.items():
                writers[split].append(text.text_bytes, text.is_sentence_start, text.piece_lengths)
    counts: dict[Split, TextCounts] = {}
    for split, writer in writers.items():
        n_documents = writer.n_pieces // n_pieces
        counts[split] = TextCounts(n_documents, writer.n_tokens, writer.n_tokens)
    if not any(count.n_documents for count in counts.values()):
        raise SpecError(
            f"corpus source {source.kind!r} is empty: {_describe_empty_source(notes)}; give it text"
        )
    return SourceIndex(
        kind=source.kind,
        digest=digest.hexdigest(),
        **vars(notes),
        **vars(LostText()),
        splits=counts,
    )


def _describe_empty_source(notes: SourceNotes) -> str:
    return (
        f"no document with a letter in it, {notes.n_empty} without, {notes.n_passed_over} files"
        " passed over"
    )


def _split_stem(stem: Path, split: Split) -> Path:
    return stem.with_name(f"{stem.name}.{split}")


def _make_tokenizer(corpus: Corpus, folder: Path, progress: Watcher) -> Tokenizer:
    match corpus.tokenizer:
        case ByteTokenizer():
            return byte_tokenizer()
        case TokenizerFile():
            return read_tokenizer_file(corpus.tokenizer)
        case BPETokenizer():
            shards = []
            for n, source in enumerate(corpus.sources):
                stem = folder / f"{n}.train"
                shards.append(Shard.from_files(stem, N_BYTES, document_form(source)))
            with progress.stage(
                "training the tokenizer",
                min(MAX_TOKENIZER_TEXT, sum(shard.n_tokens for shard in shards)),
            ):
                return train_tokenizer(corpus.tokenizer, tokenizer_text(shards, progress))


def _encode_source(
    corpus: Corpus,
    number: int,
    source: SourceIndex,
    folder: Path,
    tokenizer: Tokenizer,
    progress: Watcher,
) -> SourceIndex:
    """A source's splits in tokens; their bytes are gone from the folder afterwards, but for texts
    with labels: what a label is called does not depend on the tokenizer.
    """
    losses, counts = LostText(), dict[Split, TextCounts]()
    with progress.stage(
        f"tokenising {source.kind}", sum(count.n_bytes for count in source.splits.values())
    ):
        for split, count in source.splits.items():
            stem, aside = folder / f"{number}.{split}", folder / f"text.{split}"
            for path in list(folder.glob(f"{stem.name}.*")):
                path.rename(folder / path.name.replace(stem.name, aside.name, 1))
            form = document_form(corpus.sources[number])
            shard = Shard.from_files(aside, N_BYTES, form)
            with ShardWriter(stem, n_stored_ids(tokenizer.n_text, form)) as writer:
                encode_shard(shard, tokenizer, writer, progress, losses)
            for path in list(folder.glob(f"{aside.name}.*")):
                if gives_labels(corpus.sources[number]):
                    path.rename(folder / path.name.replace(aside.name, f"{stem.name}.text", 1))
                else:
                    path.unlink()
            counts[split] = TextCounts(count.n_documents, writer.n_tokens, count.n_bytes)
    return replace(source, splits=counts, **vars(losses))
