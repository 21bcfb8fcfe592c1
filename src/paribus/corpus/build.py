"""From sources to shards: documents are read, dealt to their splits and written as bytes, then as tokens.

Nothing of the size of the corpus is held in memory. Who reads, and how many read at once, does not change a byte.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from paribus.corpus.built import Built, built
from paribus.corpus.cache import (
    Count,
    Index,
    SourceIndex,
    cheap_key,
    described,
    fingerprint,
    keep,
    looked_up,
    text_fingerprint,
    workplace,
    written,
)
from paribus.corpus.documents import Notes, parcels
from paribus.corpus.encoding import MAX_LESSONS, Losses, encode_shard, lessons
from paribus.corpus.parallel import in_order, workers
from paribus.corpus.progress import Progress
from paribus.corpus.shards import Shard, ShardWriter
from paribus.corpus.sources import documents
from paribus.corpus.splits import SPLITS, Split, deal
from paribus.corpus.tokenizer import N_BYTES, Tokenizer, byte_tokenizer, loaded, trained
from paribus.errors import SpecError
from paribus.record.file_names import TOKENIZER_FILE
from paribus.spec.corpus import BytePairs, Bytes, Corpus, Source, TokenizerFile, gives_pairs


def build(corpus: Corpus, cache: Path, show_progress: bool = True, n_workers: int | None = None) -> Built:
    """The corpus from the cache, or read, tokenised and put there first."""
    key = cheap_key(corpus)
    index = looked_up(cache, key)
    if index is None:
        progress = Progress(show_progress)
        with workplace(cache) as folder:
            index = _written(corpus, folder, progress, workers(n_workers))
            if keep(folder, cache, index, key):
                progress.say(f"{cache / index.fingerprint} was damaged, or of an earlier form, and is built anew")
    return built(corpus, cache / index.fingerprint, index, fingerprint(corpus, index.fingerprint))


def _written(corpus: Corpus, folder: Path, progress: Progress, n_workers: int) -> Index:
    """Every shard of a corpus, and what there is to know about them."""
    sources = [
        _read(corpus, source, folder / str(number), progress, n_workers) for number, source in enumerate(corpus.sources)
    ]
    tokenizer = _tokenizer(corpus, folder, progress)
    if not isinstance(corpus.tokenizer, Bytes):
        sources = [_encoded(corpus, number, one, folder, tokenizer, progress) for number, one in enumerate(sources)]
    (folder / TOKENIZER_FILE).write_text(tokenizer.json, "utf-8")
    name = text_fingerprint(corpus, [source.digest for source in sources], tokenizer.json)
    files = {path.name: written(path) for path in sorted(folder.iterdir())}
    return Index(name, described(corpus, {"weight"}), tuple(sources), files)


def _read(corpus: Corpus, source: Source, stem: Path, progress: Progress, n_workers: int) -> SourceIndex:
    """A source's text by split, one byte a token."""
    notes, digest, n_pieces = Notes(), hashlib.sha256(), 2 if gives_pairs(source) else 1
    with ExitStack() as stack:
        writers: dict[Split, ShardWriter] = {
            split: stack.enter_context(ShardWriter(_stem(stem, split), N_BYTES)) for split in SPLITS
        }
        pool = stack.enter_context(ThreadPoolExecutor(n_workers))
        read = parcels(documents(source, notes, progress, n_workers), notes)
        for marks, dealt in in_order(pool, lambda parcel: deal(parcel, corpus.valid, corpus.test), read, n_workers):
            digest.update(marks)
            for split, part in dealt.items():
                writers[split].append(part.text, part.begins, part.lengths)
    counts: dict[Split, Count] = {
        split: Count(writer.n_pieces // n_pieces, writer.n_tokens, writer.n_tokens) for split, writer in writers.items()
    }
    if not any(count.n_documents for count in counts.values()):
        raise SpecError(f"corpus source {source.kind!r} is empty: {_nothing(notes)}; give it text")
    return SourceIndex(source.kind, digest.hexdigest(), **vars(notes), **vars(Losses()), splits=counts)


def _nothing(notes: Notes) -> str:
    return f"no document with a letter in it, {notes.n_empty} without, {notes.n_passed_over} files passed over"


def _stem(stem: Path, split: Split) -> Path:
    return stem.with_name(f"{stem.name}.{split}")


def _tokenizer(corpus: Corpus, folder: Path, progress: Progress) -> Tokenizer:
    match corpus.tokenizer:
        case Bytes():
            return byte_tokenizer()
        case TokenizerFile():
            return loaded(corpus.tokenizer)
        case BytePairs():
            shards = [
                Shard.opened(folder / f"{n}.train", N_BYTES, gives_pairs(source))
                for n, source in enumerate(corpus.sources)
            ]
            with progress.stage("training the tokenizer", min(MAX_LESSONS, sum(shard.n_tokens for shard in shards))):
                return trained(corpus.tokenizer, lessons(shards, progress))


def _encoded(
    corpus: Corpus, number: int, source: SourceIndex, folder: Path, tokenizer: Tokenizer, progress: Progress
) -> SourceIndex:
    """The same splits in tokens; their bytes are gone from the folder afterwards."""
    losses, counts = Losses(), dict[Split, Count]()
    with progress.stage(f"tokenising {source.kind}", sum(count.n_bytes for count in source.splits.values())):
        for split, count in source.splits.items():
            stem, aside = folder / f"{number}.{split}", folder / f"text.{split}"
            for path in list(folder.glob(f"{stem.name}.*")):
                path.rename(folder / path.name.replace(stem.name, aside.name, 1))
            shard = Shard.opened(aside, N_BYTES, gives_pairs(corpus.sources[number]))
            with ShardWriter(stem, tokenizer.n_text) as writer:
                encode_shard(shard, tokenizer, writer, progress, losses)
            for path in list(folder.glob(f"{aside.name}.*")):
                path.unlink()
            counts[split] = Count(count.n_documents, writer.n_tokens, count.n_bytes)
    return replace(source, splits=counts, **vars(losses))
