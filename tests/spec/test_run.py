"""A run as it is written: its tables, what follows from them, and where each fault lies, also
inside lists.
"""

import json
import re

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import models

from paribus.corpus.tokenizer import read_tokenizer_file
from paribus.errors import SpecError
from paribus.record import run_name as run_name
from paribus.spec import Corpus, Experts, Files, PythonDocs
from paribus.spec.corpus import N_SPECIAL_TOKENS
from paribus.spec.objectives import MaskedLM, Mixture, SpanCorruption
from paribus.spec.run import addressed_stages, load_objective, load_run, load_text

RUN = {"architecture": "gpt2", "training": {"n_steps": 3, "length": 17}}


def problems(**tables):
    with pytest.raises(SpecError) as caught:
        load_run(RUN | tables)
    return caught.value.problems


def test_what_is_not_said_follows_from_the_rest():
    run = load_run(RUN)
    assert run.stages[0].corpus == Corpus()
    assert (run.architecture.n_vocab, run.architecture.max_length) == (256 + N_SPECIAL_TOKENS, 17)


def test_a_preset_by_name_can_be_changed_by_path():
    run = load_run(RUN, {"architecture.n_layers": 2, "training.n_steps": 5})
    assert (
        run.architecture.n_layers,
        run.architecture.d_model,
        run.stages[0].training.n_steps,
    ) == (2, 768, 5)
    assert RUN["architecture"] == "gpt2"
    run = load_run(RUN, {"architecture.n_layers": 2, "architecture": "llama"})
    assert (run.architecture.n_layers, run.architecture.d_model) == (2, 4096)


def test_changes_beside_a_new_kind_are_obeyed_in_any_order():
    changes = {
        "architecture.feed_forward.n_experts": 4,
        "architecture.feed_forward.n_active": 2,
        "architecture.feed_forward.n_shared": 1,
        "architecture.feed_forward.kind": "experts",
    }
    run = load_run(RUN, changes)
    assert run == load_run(RUN, dict(reversed(changes.items())))
    feed_forward = run.architecture.feed_forward
    assert isinstance(feed_forward, Experts)
    assert (feed_forward.n_experts, feed_forward.n_active, feed_forward.n_shared) == (4, 2, 1)


def test_changes_beside_a_new_kind_of_objective_are_obeyed_in_any_order():
    changes = {"rate": 0.25, "kind": "masked"}
    assert load_objective("causal", changes) == MaskedLM(rate=0.25)


INSIDE_LISTS = [
    (
        {"corpus": {"sources": [{"kind": "files"}]}},
        "corpus.sources.0.paths is missing; give it a value",
    ),
    (
        {"corpus": {"sources": ["python-docs", "files"]}},
        "corpus.sources.1.paths is missing; give it a value",
    ),
    (
        {"corpus": {"sources": [{"kind": "files", "paths": "a", "txt": "b"}]}},
        "corpus.sources.0.txt is not a key here; did you mean 'text'? keys are kind, paths, text,",
    ),
    (
        {"corpus": {"sources": [{"kind": "files", "paths": ["a", 3]}]}},
        "corpus.sources.0.paths.1 is 3 (int); use text",
    ),
    (
        {"corpus": {"sources": ["copy", "web"]}},
        "corpus.sources.1.kind is 'web'; use one of python-docs, python-code,",
    ),
    (
        {"corpus": {"sources": [{"paths": "a"}]}},
        "corpus.sources.0.kind is missing; say which kind it is",
    ),
    (
        {"corpus": {"sources": [{"kind": "copy", "weight": 0}]}},
        "corpus.sources.0.weight is 0 (int); use more than 0",
    ),
    (
        {"corpus": {"sources": [{"kind": "copy", "min_length": 9, "max_length": 5}]}},
        "corpus.sources.0 min_length is 9, above max_length 5; use at most that",
    ),
    (
        {
            "objective": {
                "kind": "mixture",
                "components": ["causal", {"objective": {"kind": "spans", "rte": 0.2}}],
            }
        },
        (
            "objective.components.1.objective.rte is not a key here; did you mean 'rate'? keys are"
            " kind, mean_span, rate"
        ),
    ),
    (
        {
            "objective": {
                "kind": "mixture",
                "components": [{"objective": "causal", "weight": 1e308}] * 2,
            }
        },
        "objective components have weights up to 1e+308, whose sum is not finite; use smaller ones",
    ),
    (
        {"objective": {"kind": "mixture", "components": [{"objective": "seq2seq", "mode": "S"}]}},
        (
            "objective.components.0 mode is 'S', which 'seq2seq' cannot use; leave it out, or"
            " use it with prefix, spans"
        ),
    ),
    (
        {"objective": {"kind": "mixture", "components": []}},
        "objective.components is an empty list; give at least one component",
    ),
]
NO_LIST = [
    (
        {"corpus": {"sources": {"kind": "files"}}},
        "corpus.sources.paths is missing; give it a value",
    ),
    ({"corpus": {"sources": "files"}}, "corpus.sources.paths is missing; give it a value"),
    (
        {"corpus": {"sources": 3}},
        "corpus.sources is 3 (int); use the name of a kind, or a table with a kind",
    ),
    (
        {"objective": {"kind": "masked", "masked": 0.5, "rate": 3}},
        "objective.rate is 3 (int); use less than 1",
    ),
    (
        {"objective": {"kind": "masked", "masked": 3}},
        "objective.masked is 3 (int); use 1 or less",
    ),
    (
        {"objective": {"kind": "masked", "masked": 0.8, "replaced": 0.3}},
        (
            "objective masked 0.8 and replaced 0.3 are more than the tokens chosen; use shares that"
            " sum to at most 1"
        ),
    ),
    (
        {"objective": {"kind": "masked", "masked": 0, "replaced": 0}},
        (
            "objective masked 0 and replaced 0 let the model read every token that it is"
            " asked for; hide some"
        ),
    ),
    (
        {"objective": {"kind": "prefix", "least": 0.9, "most": 0.1}},
        "objective least is 0.9, above most 0.1; use at most that",
    ),
    (
        {"objective": {"kind": "last_token", "least": 0.3, "most": 0.45, "grid": 2}},
        "objective grid is 2, which has no split between 0.3 and 0.45; use a finer one",
    ),
    ({"architecture": 3}, "architecture is 3 (int); name a preset, or give a table"),
    (
        {"architecture": "gtp2"},
        "architecture.preset is 'gtp2', which does not exist; did you mean 'gpt2'?",
    ),
    ({"architecture": None}, "architecture is missing; name a preset, or give a table"),
    (
        {"training": {"n_steps": 1, "optimizer": {"eps": 1e-300}}},
        (
            "training.optimizer.eps is 1e-300, which may count as 0 in float32; use 1.1754944e-38"
            " or more"
        ),
    ),
    (
        {"training": {"n_steps": 1, "optimizer": {"kind": "adafactor", "min_root": 1e-20}}},
        (
            "training.optimizer.min_root is 1e-20, whose square may count as 0 in float32; use"
            " 1.0842022e-19 or more"
        ),
    ),
]


@pytest.mark.parametrize(("tables", "message"), INSIDE_LISTS + NO_LIST)
def test_a_fault_is_named_by_its_path_as_it_was_written(tables, message):
    assert any(problem.startswith(message) for problem in problems(**tables)), problems(**tables)


def test_a_mixture_is_a_list_of_parts():
    parts = [
        {"objective": "masked", "weight": 2},
        {"objective": {"kind": "spans", "rate": 0.5}, "mode": "X"},
    ]
    (stage,) = load_run({**RUN, "objective": {"kind": "mixture", "components": parts}}).stages
    assert isinstance(stage.objective, Mixture)
    assert [part.objective for part in stage.objective.components] == [
        MaskedLM(),
        SpanCorruption(rate=0.5),
    ]
    assert [(part.weight, part.mode) for part in stage.objective.components] == [
        (2.0, None),
        (1.0, "X"),
    ]


@pytest.mark.parametrize("name", ["gpt2", "run.yaml"])
def test_a_run_is_read_from_toml_or_json_alone(name):
    message = (
        f"{name} is no .toml or .json file; give one that describes a run, with tables"
        " architecture, corpus,"
    )
    with pytest.raises(SpecError, match=re.escape(message)):
        load_run(name)


def test_a_run_that_is_not_there_is_named():
    said = (
        r"^none.toml cannot be read: No such file .*; give a file that describes a run \(looked for"
        r" /.*/none.toml\)$"
    )
    with pytest.raises(SpecError, match=said):
        load_run("none.toml")


def test_the_text_of_a_run_is_read_without_its_architecture(tmp_path):
    (tmp_path / "run.toml").write_text(
        'architecture = "none"\n[corpus]\nsources = { kind = "files", paths = "a" }'
    )
    text = load_text(tmp_path / "run.toml")
    assert text.corpus.sources == (Files(paths=(str(tmp_path / "a"),)),)
    assert text.training is None
    assert load_text(tmp_path / "run.toml", {"corpus.sources": "python-docs"}).corpus.sources == (
        PythonDocs(),
    )
    assert load_text(RUN).training == load_run(RUN).stages[0].training


def test_without_a_source_the_text_is_the_one_read_by_default():
    assert load_text().corpus == Corpus()
    assert load_text(None, {"corpus.tokenizer": "bpe"}).corpus.tokenizer.kind == "bpe"


def test_the_faults_of_a_text_are_named_like_those_of_a_run():
    with pytest.raises(SpecError) as caught:
        load_text({"corpus": {"sources": [{"kind": "files"}]}, "trainig": {}})
    assert caught.value.problems == (
        (
            "trainig is not a key here; did you mean 'training'? keys are architecture, corpus,"
            " objective, training, stages, begin"
        ),
        "corpus.sources.0.paths is missing; give it a value",
    )


DESIGN = {
    "question": "why?",
    "base": {"corpus": {"valid": 0.25}, "architecture": "gpt2"},
    "arms": {"a": {}},
}


def test_an_unknown_table_of_a_run_is_named_with_those_there_are():
    with pytest.raises(SpecError) as caught:
        load_run({"architecure": "gpt2", "training": {"n_steps": 3}})
    said = "architecure is not a key here; did you mean 'architecture'? keys are "
    assert (
        caught.value.problems[0]
        == f"{said}architecture, corpus, objective, training, stages, begin"
    )


@pytest.mark.parametrize(("given", "limit"), [(False, None), (None, None), (2.5, 2.5)])
def test_the_gradient_may_be_without_a_limit(given, limit):
    (stage,) = load_run(RUN, {"training.optimizer.clip": given}).stages
    assert stage.training.optimizer.clip == limit


def test_a_field_without_its_table_is_named_with_it():
    said = (
        "n_layers is not a key here; did you mean 'architecture.n_layers'? keys are architecture,"
        " corpus,"
    )
    with pytest.raises(SpecError, match=re.escape(said)):
        load_run(RUN, {"n_layers": 3})


def test_the_text_of_a_design_is_that_of_its_base(tmp_path):
    assert load_text(DESIGN).corpus.valid == 0.25
    assert load_text(DESIGN, {"base.corpus.valid": 0.5}).corpus.valid == 0.5
    (tmp_path / "run.json").write_text(json.dumps(DESIGN["base"]))
    (tmp_path / "design.json").write_text(json.dumps({**DESIGN, "base": "run.json"}))
    assert load_text(tmp_path / "design.json").corpus.valid == 0.25
    assert load_text({"question": "why?", "base": "gpt2"}) == load_text()
    with pytest.raises(
        SpecError,
        match="base is None in a design; give a preset, a table, or a file that describes",
    ):
        load_text({"question": "why?"})


def test_a_design_is_not_trained_as_a_run(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(DESIGN))
    with pytest.raises(SpecError) as caught:
        load_run(path)
    assert caught.value.problems == (
        f"{path} is a design, which has many runs; use `paribus run {path}`",
    )
    with pytest.raises(
        SpecError,
        match="the table is a design, which has many runs; use `paribus run DESIGN`",
    ):
        load_run(DESIGN)


@pytest.mark.parametrize("kind", ["words", "scores"])
def test_a_tokenizer_file_is_counted_whatever_its_model_and_found_at_home(
    tmp_path, monkeypatch, kind
):
    monkeypatch.setenv("HOME", str(tmp_path))
    words = {"a": 0, "b": 1, "no": 2}
    model = (
        models.WordLevel(words, "no")
        if kind == "words"
        else models.Unigram([(word, -1.0) for word in words], 2)
    )
    library = Library(model)
    library.add_special_tokens(["<s>"])
    library.save(str(tmp_path / "t.json"))
    run = load_run(RUN | {"corpus": {"tokenizer": {"kind": "file", "path": "~/t.json"}}})
    assert (
        run.architecture.n_vocab
        == read_tokenizer_file(run.stages[0].corpus.tokenizer).n_text + N_SPECIAL_TOKENS
        == 4 + N_SPECIAL_TOKENS
    )


def test_a_tokenizer_file_with_a_word_twice_is_refused(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('{"model": {"vocab": {"a": 0, "b": 1, "a": 2}}}')
    with pytest.raises(
        SpecError, match=r"t\.json is not a tokenizer\.json: key 'a' appears twice; give one of"
    ):
        load_run(RUN | {"corpus": {"tokenizer": {"kind": "file", "path": str(path)}}})


@pytest.mark.parametrize("path", ["training", "architecture"])
def test_an_empty_table_over_a_run_s_own_is_refused(path):
    with pytest.raises(
        SpecError,
        match=rf"^{path} is set to {{}}, an empty table, which changes nothing of what is",
    ):
        load_run(RUN, {path: {}})


def test_the_address_of_a_run_lasts():
    training = {"n_steps": 7, "length": 11, "n_sequences": 3}
    run = load_run(
        {"architecture": {"preset": "gpt2"}, "objective": {"kind": "causal"}, "training": training}
    )
    assert run_name(addressed_stages(run, ["feed"])) == "f1d47e752d72de62"
    assert (
        run_name(addressed_stages(run.model_copy(update={"rerun": 2}), ["feed"]))
        == "b84312ac15b65070"
    )


def test_a_run_with_adamw_has_the_name_that_it_had_before_there_were_other_optimizers():
    """The kind is in the records of other optimizers alone."""
    (plain,) = load_run(RUN, {"training.optimizer": "adamw"}).stages
    (named,) = load_run(RUN, {"training.optimizer": "muon"}).stages
    assert "kind" not in plain.model_dump(mode="json")["training"]["optimizer"]
    assert named.model_dump(mode="json")["training"]["optimizer"]["kind"] == "muon"
    assert load_run(RUN).stages == (plain,)
    for stage in (plain, named):  # as records are read
        assert type(stage).model_validate_json(stage.model_dump_json()) == stage
