"""The text of a run from the command line: built, shown, sampled, and refused."""

import json
from pathlib import Path

import pytest

import paribus as pb
from paribus.corpus import DocumentSample, sample_documents

SPEC = """
architecture = "nobody looks at this"
[corpus]
tokenizer = { kind = "bpe", n_vocab = 280 }
valid = 0.2
test = 0.1
[[corpus.sources]]
kind = "copy"
form = "text"
n_documents = 100
weight = 3
[[corpus.sources]]
kind = "files"
paths = "texts"
[training]
n_steps = 50
n_sequences = 4
length = 32
"""
PAIRS = """
corpus = { sources = [{ kind = "reverse", n_documents = 60 }] }
training = { n_steps = 30, n_sequences = 2, length = 50 }
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "run.toml").write_text(SPEC)
    (tmp_path / "pairs.toml").write_text(PAIRS)
    (tmp_path / "texts").mkdir()
    lines = [f"the {number}th document with \x1b[31mwords\x1b[0m" for number in range(40)]
    rows = "".join(json.dumps({"text": line}) + "\n" for line in [*lines, "  "])
    (tmp_path / "texts" / "a.jsonl").write_text(rows)
    (tmp_path / "texts" / "b.pdf").write_text("passed over")
    return tmp_path


def test_what_is_built_is_told_with_its_place_and_found_again(ask, here: Path) -> None:
    first = ask("corpus", "build", "run.toml")
    assert first.status == 0, first.err
    assert "copy: 100 documents, " in first.out
    assert "files: 40 documents, " in first.out
    assert "tokenizer    bpe(n_vocab=280), 280 ids of text and 107 special tokens" in first.out
    built = pb.build_corpus("run.toml")
    assert f"fingerprint  {built.fingerprint[:12]}" in first.out
    assert f"folder       {built.folder}" in first.out
    assert built.folder.parent == here / ".cache" / "paribus"
    assert "tokenising copy: done" in first.err
    assert ask("corpus", "build", "run.toml").err == ""


def test_a_design_is_shown_by_the_text_of_its_base(ask, here: Path) -> None:
    design = {
        "question": "why?",
        "factor": "architecture.mask",
        "base": "run.toml",
        "baseline": "a",
        "arms": {"a": {}},
    }
    (here / "mine.json").write_text(json.dumps(design))
    for action in ("show", "build", "sample"):
        told = ask("corpus", action, "mine.json", "--json")
        assert told.status == 0, told.err
        assert told.out == ask("corpus", action, "run.toml", "--json").out


def test_a_table_tells_what_each_source_holds_and_how_often_it_is_read(ask, here: Path) -> None:
    shown = ask("corpus", "show", "run.toml")
    assert shown.status == 0, shown.err
    rows = [line.split() for line in shown.out.splitlines()]
    built = pb.build_corpus("run.toml")
    copy, files = built.epochs(1, 50, 4, 32)
    (train,) = (row for row in rows if row[:1] == ["copy"])
    assert train[1:4] == ["75", "%", "train"]
    assert train[-1] == f"{copy:.3g}"
    (train,) = (row for row in rows if row[:1] == ["files"])
    assert train[1:4] == ["25", "%", "train"]
    assert train[-1] == f"{files:.3g}"
    assert [row[0] for row in rows if row[:1] in (["valid"], ["test"])] == ["valid", "test"] * 2
    assert "read         50 steps × 4 × 32 = 6.4k tokens" in shown.out
    assert "note: files: 1 empty documents left out, 1 files of other kinds skipped" in shown.out


def test_json_has_exact_numbers(ask, here: Path) -> None:
    told = json.loads(ask("corpus", "show", "run.toml", "--json").out)
    built = pb.build_corpus("run.toml")
    assert (told["fingerprint"], told["n_text"], told["n_vocab"]) == (built.fingerprint, 280, 387)
    assert [source["epochs"] for source in told["sources"]] == pytest.approx(
        built.epochs(1, 50, 4, 32)
    )
    for number, source in enumerate(told["sources"]):
        for split, counts in source["splits"].items():
            held = built.index.sources[number].splits[split]
            assert (counts["n_documents"], counts["n_tokens"], counts["n_bytes"]) == (
                held.n_documents,
                held.n_tokens,
                held.n_bytes,
            )
            assert counts["tokens_per_byte"] == pytest.approx(held.n_tokens / held.n_bytes)
    assert told["sources"][1]["n_empty"] == 1
    assert json.loads(ask("corpus", "build", "run.toml", "--json").out) == told


def test_without_a_training_nothing_is_said_of_reading(ask, here: Path) -> None:
    told = ask("corpus", "show", "run.toml", "--set", "corpus.tokenizer=bytes").out
    assert "epochs" in told
    (here / "alone.toml").write_text(SPEC.partition("[training]")[0])
    alone = ask("corpus", "show", "alone.toml").out
    assert "epochs" not in alone
    assert "steps" not in alone
    assert (
        json.loads(ask("corpus", "show", "alone.toml", "--json").out)["sources"][0]["epochs"]
        is None
    )


def test_a_run_that_would_be_refused_is_told_so(ask, here: Path) -> None:
    shown = ask("corpus", "show", "run.toml", "--set", "training.length=100000")
    assert shown.status == 0
    assert "note: a run would be refused: corpus.sources.0 (copy) has " in shown.out
    assert "not one row of length 100000" in shown.out


def test_pairs_that_are_cut_are_counted(ask, here: Path) -> None:
    built = pb.build_corpus("pairs.toml")
    n_cut = built.n_truncated_pairs("train", 50)
    assert n_cut > 0
    said = (
        f"note: {n_cut} pairs are longer than 50 tokens: the beginnings of their sources are"
        " left out"
    )
    assert said in ask("corpus", "show", "pairs.toml").out


def test_a_sample_is_shown_with_nothing_a_terminal_would_obey(ask, here: Path) -> None:
    out = ask("corpus", "sample", "run.toml", "-n", "20", "--split", "valid").out
    assert "\x1b" not in out
    assert "files, valid document " in out
    assert "document with \\x1b[31mwords" in out
    assert out.count(" tokens\n") == 20


def test_a_sample_of_pairs_has_an_arrow_to_the_target(ask, here: Path) -> None:
    lines = ask("corpus", "sample", "pairs.toml", "-n", "1", "--seed", "3").out.splitlines()
    assert lines[0].startswith("reverse, train document ")
    assert lines[1].startswith("  ")
    assert lines[2] == f"→ {lines[1].strip().removesuffix('=')[::-1]}"


def test_the_same_seed_gives_the_same_sample_and_json_all_of_it(ask, here: Path) -> None:
    words = ("corpus", "sample", "run.toml", "--json", "-n", "5", "--seed")
    assert ask(*words, "1").out == ask(*words, "1").out != ask(*words, "2").out
    told = json.loads(ask(*words, "1").out)
    built = pb.build_corpus("run.toml")
    expected = list(sample_documents(built, "train", 5, 1, 10**9))
    assert [
        DocumentSample(**one | {"pieces": tuple(one["pieces"]), "lengths": tuple(one["lengths"])})
        for one in told
    ] == expected


def test_more_than_there_are_is_all_there_are_each_once(here: Path) -> None:
    built = pb.build_corpus("run.toml")
    drawn = [(one.source, one.number) for one in sample_documents(built, "test", 10**15, 0)]
    n_documents = [reader.shard.n_documents for reader in built.readers["test"]]
    assert sorted(drawn) == [
        (source, number) for source, n in enumerate(n_documents) for number in range(n)
    ]


def test_a_source_is_drawn_by_its_share(here: Path) -> None:
    built = pb.build_corpus("run.toml")
    sources = [next(sample_documents(built, "train", 1, seed)).source for seed in range(200)]
    assert 0.6 < sources.count(0) / 200 < 0.9


def test_a_narrow_page_says_what_it_left_out(ask, here: Path, monkeypatch) -> None:
    monkeypatch.setattr("paribus.cli.terminal.console._PIPE_WIDTH", 48)
    out = ask("corpus", "show", "run.toml").out
    assert "no room for share, bytes" in " ".join(out.split())
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 48


BAD = [
    (
        ("shwo",),
        (
            "ACTION is 'shwo', which is not an action; did you mean 'show'? use build,"
            " show or sample"
        ),
    ),
    (
        ("run.toml",),
        "ACTION is 'run.toml', which is not an action; use build, show or sample",
    ),
    (
        ("show", "none.toml"),
        "none.toml cannot be read: No such file or directory; give a file that describes a run",
    ),
    (("show", "gpt2"), "gpt2 is no .toml or .json file; give one that describes a run"),
    (
        ("show", "run.toml", "-n", "3"),
        "-n is given to 'show', but only 'sample' takes it; leave it out",
    ),
    (
        ("build", "run.toml", "--seed", "0"),
        "--seed is given to 'build', but only 'sample' takes it; leave it out",
    ),
    (("sample", "run.toml", "--split", "vlid"), "--split is 'vlid'; use train, valid or test"),
    (
        ("sample", "run.toml", "--split", "test", "--set", "corpus.test=0.0"),
        "split 'test' has no document; hold out",
    ),
    (
        ("show", "run.toml", "--set", "corpus.sources=[{kind='files'}]"),
        "corpus.sources.0.paths is missing; give it",
    ),
    (
        ("show", "run.toml", "--set", "corpus.tokenizer.n_vocab=9000"),
        "tokenizer.n_vocab is 9000, but the training te",
    ),
    (
        ("show", "run.toml", "--set", "corpus.sources=[{kind='files', paths='none'}]"),
        "paths 'none' does not exist;",
    ),
]


@pytest.mark.parametrize(("words", "complaint"), BAD)
def test_what_cannot_be_done_is_refused(
    ask, here: Path, words: tuple[str, ...], complaint: str
) -> None:
    refused = ask("corpus", *words)
    assert (refused.status, refused.out) == (2, "")
    assert f"error: {complaint}" in refused.err


@pytest.mark.parametrize(
    "words", [(), ("sample", "run.toml", "-n", "0"), ("show", "run.toml", "more.toml")]
)
def test_a_wrong_number_of_words_is_a_mistake_in_what_was_asked(
    ask, here: Path, words: tuple[str, ...]
) -> None:
    assert ask("corpus", *words).status == 2


def test_a_cache_elsewhere_is_used(ask, here: Path) -> None:
    assert ask("corpus", "build", "pairs.toml", "--cache", here / "elsewhere").status == 0
    assert (here / "elsewhere" / "keys").is_dir()
    assert not (here / ".cache").exists()
