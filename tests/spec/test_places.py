"""Paths in a file are relative to that file; in a mapping or a change, to the working directory."""

import json
from pathlib import Path

import pytest

from paribus.errors import SpecError
from paribus.spec.design import arm_tables
from paribus.spec.design_reading import load_design
from paribus.spec.run import load_run, load_text

TRAINING = {"n_steps": 3, "n_sequences": 2, "length": 16}
SMALL = {"preset": "gpt2", "n_layers": 1, "d_model": 8, "attention": {"n_heads": 2}}


def files(*paths: str) -> dict:
    return {"sources": [{"kind": "files", "paths": list(paths)}]}


def run(corpus: dict) -> dict:
    return {"architecture": SMALL, "corpus": corpus, "training": TRAINING}


def written(place: Path, table: dict) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(table))
    return place


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, which no file of these tests lies in."""
    here = tmp_path / "elsewhere"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


def paths_of(corpus: dict | object) -> list[Path]:
    table = corpus if isinstance(corpus, dict) else corpus.model_dump()
    return [Path(path).resolve() for path in table["sources"][0]["paths"]]


@pytest.mark.parametrize("spelling", ["absolute", "relative"])
def test_the_paths_of_a_run_file_are_beside_it(tmp_path, spelling):
    path = written(
        tmp_path / "specs/run.json",
        run(files("notes.txt", "../more/*.md", "/data/a.txt", "~/b.txt")),
    )
    given = path if spelling == "absolute" else Path("../specs/run.json")
    found = load_run(given).stages[0].corpus.sources[0].paths
    assert [Path(one).resolve() for one in found[:2]] == [
        tmp_path / "specs/notes.txt",
        tmp_path / "more/*.md",
    ]
    assert found[2:] == ("/data/a.txt", "~/b.txt")


def test_one_path_alone_is_beside_its_file_too(tmp_path):
    table = {"corpus": {"sources": {"kind": "files", "paths": "notes.txt"}}}
    text = load_text(written(tmp_path / "specs/text.json", table))
    assert paths_of(text.corpus) == [tmp_path / "specs/notes.txt"]


def test_a_tokenizer_is_beside_the_file_that_names_it(tmp_path):
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/tokenizer.json").write_text(
        json.dumps({"model": {"vocab": {"a": 0, "b": 1}}})
    )
    corpus = {"tokenizer": {"kind": "file", "path": "tokenizer.json"}}
    assert (
        load_run(written(tmp_path / "specs/run.json", run(corpus))).architecture.n_vocab == 2 + 107
    )


def test_a_mapping_and_a_change_are_relative_to_the_working_directory(tmp_path):
    assert load_run(run(files("notes.txt"))).stages[0].corpus.sources[0].paths == ("notes.txt",)
    path = written(tmp_path / "specs/run.json", run(files("notes.txt")))
    changed = load_run(path, {"corpus.sources": [{"kind": "files", "paths": "other.txt"}]})
    assert changed.stages[0].corpus.sources[0].paths == ("other.txt",)


def design(**others: object) -> dict:
    return {
        "question": "?",
        "baseline": "one",
        "seeds": 3,
        "tune": False,
        "factor": "corpus.sources",
        "base": run(files("base.txt")),
        "arms": {"one": {}, "two": {"corpus": files("two.txt")}},
        **others,
    }


def test_the_paths_of_a_design_are_beside_it_wherever_they_stand(tmp_path):
    scales = {
        "smoke": {
            "base": {"corpus": files("smoke.txt")},
            "arms": {"two": {"corpus": files("small.txt")}},
        }
    }
    path = written(tmp_path / "designs/mine.json", design(scales=scales))
    whole, smoke = load_design(path), load_design(path, "smoke")
    assert paths_of(whole.base["corpus"]) == [tmp_path / "designs/base.txt"]
    assert paths_of(whole.arms["two"]["corpus"]) == [tmp_path / "designs/two.txt"]
    assert paths_of(smoke.base["corpus"]) == [tmp_path / "designs/smoke.txt"]
    assert paths_of(smoke.arms["two"]["corpus"]) == [tmp_path / "designs/small.txt"]


def test_the_paths_of_a_base_that_is_a_file_are_beside_that_file(tmp_path):
    written(tmp_path / "runs of mine/run.json", run(files("notes.txt")))
    path = written(tmp_path / "designs/mine.json", design(base="../runs of mine/run.json"))
    assert paths_of(load_design(path).base["corpus"]) == [tmp_path / "runs of mine/notes.txt"]
    assert paths_of(load_text(path).corpus) == [tmp_path / "runs of mine/notes.txt"]


def test_a_base_that_a_change_names_is_relative_to_the_working_directory(tmp_path, elsewhere):
    written(elsewhere / "own.json", run(files("notes.txt")))
    path = written(tmp_path / "designs/mine.json", design())
    assert load_design(path, changes={"base": "own.json"}).base["corpus"] == files("notes.txt")
    assert load_text(path, {"base": "own.json"}).corpus.sources[0].paths == ("notes.txt",)


@pytest.mark.parametrize(
    ("path", "values", "names"),
    [
        ("corpus.tokenizer.path", ["a.json", "b.json"], ["a.json", "b.json"]),
        ("corpus.tokenizer", ["bytes", {"kind": "file", "path": "b.json"}], ["bytes", "file"]),
    ],
)
def test_an_arm_is_called_by_the_path_that_was_written_and_reads_the_file_beside_the_design(
    tmp_path, path, values, names
):
    table = design(factors={"tokenizer": {"path": path, "levels": values}}, baseline=names[0])
    del table["arms"], table["factor"]
    arms = arm_tables(load_design(written(tmp_path / "designs/mine.json", table)))
    assert list(arms) == names
    assert Path(arms[names[1]]["corpus"]["tokenizer"]["path"]) == tmp_path / "designs/b.json"


def test_levels_that_are_tables_are_beside_the_design(tmp_path):
    levels = {"one": {"corpus": files("a.txt")}, "two": {"corpus": files("b.txt")}}
    table = design(factors={"text": {"levels": levels}})
    del table["arms"], table["factor"]
    arms = arm_tables(load_design(written(tmp_path / "designs/mine.json", table)))
    assert paths_of(arms["two"]["corpus"]) == [tmp_path / "designs/b.txt"]


@pytest.mark.parametrize(
    "table",
    [
        {"corpus": 3, "training": []},
        {"corpus": {"sources": 1, "tokenizer": {"path": 3}}},
        {
            "question": "?",
            "base": [],
            "arms": 3,
            "factors": {"a": 3, "b": {"path": 3, "levels": [1, 2]}},
        },
        {"question": "?", "base": 3, "arms": [], "factors": [], "scales": {"x": 1}},
    ],
)
def test_what_is_no_table_is_refused_as_it_is(tmp_path, table):
    path = written(tmp_path / "specs/odd.json", table)
    for load in (load_run, load_design):
        with pytest.raises(SpecError):
            load(path)


def test_an_error_says_where_it_looked(tmp_path, elsewhere):
    with pytest.raises(
        SpecError, match=rf"^gone.toml cannot be read: .* \(looked for {elsewhere}/gone.toml\)$"
    ):
        load_run("gone.toml")
    path = written(
        tmp_path / "specs/run.json", run({"tokenizer": {"kind": "file", "path": "gone.json"}})
    )
    with pytest.raises(
        SpecError, match=rf"corpus.tokenizer.path {tmp_path}/specs/gone.json cannot be read"
    ):
        load_run(path)
    table = run({"tokenizer": {"kind": "file", "path": "gone.json"}})
    with pytest.raises(
        SpecError, match=rf"give a tokenizer.json \(looked for {elsewhere}/gone.json\)"
    ):
        load_run(table)
    base = written(tmp_path / "designs/mine.json", design(base="gone.json"))
    with pytest.raises(SpecError, match=rf"{tmp_path}/designs/gone.json cannot be read"):
        load_design(base)
