import pytest
from pydantic import ValidationError

from paribus.spec import (
    ArithmeticLanguage,
    BPETokenizer,
    ByteTokenizer,
    CopyLanguage,
    Corpus,
    Files,
    LinearLanguage,
    PairFiles,
    PythonCode,
    PythonDocs,
    PythonSummaries,
    RecallLanguage,
    TranslationLanguage,
    gives_pairs,
)


def test_nothing_written_reads_the_slice_of_the_installation_in_bytes():
    assert Corpus() == Corpus(
        sources=(PythonDocs(part="slice", weight=1.0),),
        tokenizer=ByteTokenizer(),
        valid=0.05,
        test=0.05,
    )


def test_a_kind_stands_for_its_table_and_one_for_a_list_of_one():
    given = Corpus.model_validate({"sources": "python-code", "tokenizer": "bytes"})
    assert given.sources == (PythonCode(),)
    given = Corpus.model_validate(
        {"sources": ["python-docs", {"kind": "files", "paths": "here", "weight": 3}]}
    )
    assert given.sources == (PythonDocs(), Files(paths=("here",), weight=3.0))


def test_a_corpus_written_as_json_is_read_back_equal():
    sources = [
        {"kind": "pairs", "paths": ["a.csv", "b.tsv"]},
        {"kind": "arithmetic", "operations": "+-*"},
    ]
    given = Corpus.model_validate(
        {"sources": sources, "tokenizer": {"kind": "bpe", "n_vocab": 307}}
    )
    assert given.tokenizer == BPETokenizer(n_vocab=307)
    assert Corpus.model_validate(given.model_dump(mode="json")) == given


def test_a_source_gives_pairs_or_running_text():
    pairs = (PythonSummaries(), PairFiles(paths=("a",)), CopyLanguage(), RecallLanguage())
    text = (PythonDocs(), PythonCode(), Files(paths=("a",)), CopyLanguage(form="text"))
    assert all(map(gives_pairs, pairs))
    assert not any(map(gives_pairs, text))


BAD = [
    (
        {"sources": ["copy", "python-docs"]},
        "'copy' gives pairs and 'python-docs' running text, which one batch cannot",
    ),
    (
        {"valid": 0.5, "test": 0.5},
        "valid 0.5 and test 0.5 leave nothing to train on; use shares that sum below 1",
    ),
    ({"sources": []}, "is an empty list; give at least one"),
    ({"sources": {"kind": "files"}}, "Field required"),
    ({"sources": {"kind": "files", "paths": []}}, "is an empty list; give at least one"),
    (
        {"sources": {"kind": "copy", "min_length": 7, "max_length": 5}},
        "min_length is 7, above max_length 5; use at most",
    ),
    (
        {"sources": {"kind": "recall", "n_symbols": 5}},
        "max_length is 16, but n_symbols 5 gives no more distinct keys",
    ),
    (
        {"sources": {"kind": "linear", "modulus": 9}},
        "9 is not a prime below 62; use one of 2, 3, 5",
    ),
    (
        {"sources": {"kind": "linear", "n_inputs": 4}},
        "min_length is 4, too few examples to know n_inputs 4 weights",
    ),
    ({"sources": {"kind": "copy", "n_symbols": 63}}, "less than or equal to 62"),
    ({"sources": {"kind": "web"}}, "does not match any of the expected tags"),
    (
        {"sources": [{"kind": "copy", "weight": 1e308}, {"kind": "sort", "weight": 9e307}]},
        (
            r"sources have weights up to 1e\+308, whose sum is not finite; use smaller ones,"
            r" such as"
            r" 1 and 2"
        ),
    ),
    (
        {"sources": [{"kind": "copy"}] * 257},
        "sources are 257; use at most 256, such as one glob for many files",
    ),
    ({"tokenizer": {"kind": "bpe", "n_vocab": 256}}, "greater than or equal to 257"),
]


@pytest.mark.parametrize(("table", "complaint"), BAD)
def test_what_cannot_be_meant_is_refused(table, complaint):
    with pytest.raises(ValidationError, match=complaint):
        Corpus.model_validate(table)


def test_as_many_sources_as_may_be_are_read():
    assert len(Corpus.model_validate({"sources": [{"kind": "copy"}] * 256}).sources) == 256


def test_lengths_have_defaults_that_fit_each_language():
    assert (CopyLanguage().min_length, CopyLanguage().max_length) == (20, 40)
    assert LinearLanguage().min_length > LinearLanguage().n_inputs
    assert TranslationLanguage().min_length >= 3
    assert (ArithmeticLanguage().min_length, ArithmeticLanguage().max_length) == (2, 2)
