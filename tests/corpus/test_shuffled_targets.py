"""Shuffled targets: in training another source's target stands beside each source, and nothing
else changes.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from labelled_texts import ARCHITECTURE, write_labelled, write_tagged
from small_corpus import all_documents, build_small_corpus, write_jsonl

from paribus.corpus import TokenisedCorpus, corpus_remarks
from paribus.corpus.labelled_rows import LabelledCorpus
from paribus.corpus.pair_rows import PairRows
from paribus.errors import SpecError
from paribus.spec import Corpus
from paribus.spec.objectives import TextLabels, WordTags
from paribus.spec.run import load_run

LENGTH = 60
COPY = {"kind": "copy", "n_documents": 400, "min_length": 3, "max_length": 9}
HELD_OUT = {"valid": 0.2, "test": 0.2}
SPLITS = ("train", "valid", "test")


def both(
    folder: Path, *sources: dict[str, Any], **fields: Any
) -> tuple[TokenisedCorpus, TokenisedCorpus]:
    """A corpus as it is, and with shuffled targets."""
    plain = build_small_corpus(folder, *sources, **HELD_OUT, **fields)
    shuffled = build_small_corpus(folder, *sources, **HELD_OUT, **fields, shuffled_targets=True)
    return plain, shuffled


def read_pairs(corpus: TokenisedCorpus, n_rows: int, seed: int = 1) -> list[tuple[str, str]]:
    """The sources and targets of the first rows of training."""
    batch = corpus.text_batch("train", seed, 0, n_rows, LENGTH)
    assert batch.real_BT is not None
    assert batch.target_starts_B is not None
    pairs = []
    for tokens, real, start in zip(
        batch.tokens_BT, batch.real_BT, batch.target_starts_B.tolist(), strict=True
    ):
        own = tokens[real]
        pairs.append((corpus.decode(own[:start]), corpus.decode(own[start:])))
    return pairs


@pytest.mark.parametrize("form", ["pairs", "conversations"])
@pytest.mark.parametrize("tokenizer", [{"kind": "bytes"}, {"kind": "bpe", "n_vocab": 270}])
def test_a_source_has_the_target_of_another(tmp_path, form, tokenizer):
    plain, shuffled = both(tmp_path, {**COPY, "form": form}, tokenizer=tokenizer)
    before, after = all_documents(plain, "train"), all_documents(shuffled, "train")
    assert [source for source, _ in before] == [source for source, _ in after]
    assert Counter(target for _, target in before) == Counter(target for _, target in after)
    n_same = sum(one == other for one, other in zip(before, after, strict=True))
    assert n_same < 8  # one is to be expected
    for split in ("valid", "test"):
        assert all_documents(plain, split) == all_documents(shuffled, split)


@pytest.mark.parametrize("form", ["pairs", "conversations"])
def test_rows_hold_the_pairs_that_documents_show(tmp_path, form):
    plain, shuffled = both(tmp_path, {**COPY, "form": form})
    n_rows = shuffled.n_rows("train", LENGTH)[0]
    rows = read_pairs(shuffled, n_rows)
    assert [source for source, _ in rows] == [source for source, _ in read_pairs(plain, n_rows)]
    shown = dict(all_documents(shuffled, "train"))
    for source, target in rows:
        opening = f"‹user›{source}‹end of turn›‹assistant›" if form == "conversations" else source
        assert target == shown[opening]
    assert sum(source[:-1] == target for source, target in rows) < 8
    assert dict(read_pairs(shuffled, n_rows, seed=2)) == dict(rows)  # every seed has these pairs


def test_the_tokens_of_the_cache_are_shared_and_the_name_of_the_text_is_its_own(tmp_path):
    plain, shuffled = both(tmp_path, COPY)
    assert plain.folder == shuffled.folder
    assert plain.fingerprint != shuffled.fingerprint
    again = build_small_corpus(tmp_path, COPY, **HELD_OUT, shuffled_targets=True)
    assert again.fingerprint == shuffled.fingerprint
    assert all_documents(again, "train") == all_documents(shuffled, "train")
    remarks = "the targets of training pairs are shuffled among their sources"
    assert remarks in list(corpus_remarks(shuffled, LENGTH))
    assert remarks not in list(corpus_remarks(plain, LENGTH))


def test_a_target_stays_within_its_source_of_the_corpus(tmp_path):
    reverse = {**COPY, "kind": "reverse", "n_symbols": 5}
    plain, shuffled = both(tmp_path, COPY, reverse)
    for number in range(2):
        before, after = (all_documents(one, "train", number) for one in (plain, shuffled))
        assert Counter(target for _, target in before) == Counter(target for _, target in after)
    keys = [reader.shard.shuffle_key for reader in shuffled.readers["train"]]
    assert None not in keys
    assert len(set(keys)) == 2


def test_an_order_that_is_not_kept_is_the_same(tmp_path, monkeypatch):
    _, shuffled = both(tmp_path, COPY)
    kept = all_documents(shuffled, "train")
    monkeypatch.setattr("paribus.corpus.shards.MAX_CACHED_ORDER", 0)
    assert all_documents(shuffled, "train") == kept


def test_counts_are_of_the_pairs_as_they_are_read(tmp_path):
    rows = [{"source": "s" * n, "target": f"{n:03}" + "t" * (n % 11)} for n in range(1, 80)]
    path = write_jsonl(tmp_path / "pairs.jsonl", rows)
    _, shuffled = both(tmp_path, {"kind": "pairs", "paths": str(path)})
    pairs = all_documents(shuffled, "train")
    fitting = [len(source) + len(target) + 1 <= 40 for source, target in pairs]
    assert shuffled.n_truncated_pairs("train", 40) == len(pairs) - sum(fitting)
    (reader,) = shuffled.readers["train"]
    assert isinstance(reader, PairRows)
    assert reader.min_row_lengths is not None
    assert reader.min_row_lengths.for_every_pair == max(len(target) for _, target in pairs) + 2


@pytest.mark.parametrize("tokenizer", [{"kind": "bytes"}, {"kind": "bpe", "n_vocab": 270}])
def test_labels_of_a_head_are_shuffled_as_pairs_are(tmp_path, tokenizer):
    source = {"kind": "labelled", "paths": str(write_labelled(tmp_path / "texts.jsonl"))}
    plain, shuffled = both(tmp_path, source, tokenizer=tokenizer)
    before, after = (LabelledCorpus(one, TextLabels(n_labels=2)) for one in (plain, shuffled))
    after.require_labels()
    for split in SPLITS:
        own, other = list(before.documents(split)), list(after.documents(split))
        assert [one.text for one in own] == [one.text for one in other]
        assert Counter(one.label for one in own) == Counter(one.label for one in other)
        assert (own == other) == (split != "train")
    documents = [(one.text, one.label) for one in after.documents("train")]
    assert documents == all_documents(shuffled, "train")
    batch = after.text_batch("train", 1, 0, 32, 24)
    assert batch.labels_BM is not None
    assert batch.real_BT is not None
    for tokens, real, label in zip(batch.tokens_BT, batch.real_BT, batch.labels_BM, strict=True):
        assert after.names[int(label[0])] == dict(documents)[shuffled.decode(tokens[real])]


@pytest.mark.parametrize("tokenizer", [{"kind": "bytes"}, {"kind": "bpe", "n_vocab": 270}])
def test_tags_of_a_head_are_shuffled_among_words(tmp_path, tokenizer):
    source = {"kind": "tagged", "paths": str(write_tagged(tmp_path / "words.conll"))}
    plain, shuffled = both(tmp_path, source, tokenizer=tokenizer)
    before, after = (LabelledCorpus(one, WordTags(n_labels=2)) for one in (plain, shuffled))
    after.require_labels()
    for split in SPLITS:
        own, other = list(before.documents(split)), list(after.documents(split))
        assert [one.words for one in own] == [one.words for one in other]
        assert [len(one.tags) for one in own] == [len(one.tags) for one in other]
        own_tags = [tag for one in own for tag in one.tags]
        other_tags = [tag for one in other for tag in one.tags]
        assert Counter(own_tags) == Counter(other_tags)
        same = np.array(own_tags) == np.array(other_tags)
        if split == "train":
            assert 0.4 < same.mean() < 0.6  # two tags, equally frequent
        else:
            assert same.all()
    plain_batch, batch = (one.text_batch("train", 1, 0, 16, 24) for one in (before, after))
    assert plain_batch.labels_BM is not None
    assert batch.labels_BM is not None
    assert ((plain_batch.labels_BM >= 0) == (batch.labels_BM >= 0)).all()
    assert not batch.labels_BM.equal(plain_batch.labels_BM)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"kind": "copy", "form": "text"}, "'copy' gives running text, which has no targets"),
        ({"kind": "python-docs"}, "'python-docs' gives running text"),
        ({"kind": "copy", "form": "preferences"}, "'copy' gives preferences, whose two targets"),
    ],
)
def test_what_has_no_single_target_is_refused(source, message):
    with pytest.raises(ValueError, match=f"shuffled_targets is true, but sources {message}"):
        Corpus.model_validate({"sources": [source], "shuffled_targets": True})


def test_own_samples_are_refused():
    talk = {"sources": [{**COPY, "form": "conversations"}], "shuffled_targets": True}
    stage = {"kind": "prefer", "objective": {"kind": "preference", "own_samples": {}}}
    table = {
        "architecture": {**ARCHITECTURE, "n_layers": 1},
        "training": {"n_steps": 2, "n_sequences": 2, "length": 16},
        "stages": [{"kind": "pretrain"}, {**stage, "corpus": talk}],
    }
    with pytest.raises(SpecError, match=r"stages.1.corpus.shuffled_targets is true, but with obj"):
        load_run(table)


def test_a_corpus_that_does_not_shuffle_does_not_say_so():
    assert "shuffled_targets" not in Corpus().model_dump(mode="json")
    corpus = Corpus.model_validate({"sources": ["copy"], "shuffled_targets": True})
    assert corpus.model_dump(mode="json")["shuffled_targets"] is True
