"""`paribus fields`: every field of a run file and of a design, in words."""

import json

import pytest

import paribus as pb
from paribus.spec.reference import reference_page


def test_without_a_path_every_table_is_listed(ask):
    out = ask("fields").out
    for name in (
        "architecture ",
        "training.optimizer ",
        "design.primary ",
        "corpus.sources = 'files' ",
    ):
        assert f"\n{name}" in f"\n{out}"
    assert "paribus fields PATH shows one of them in full" in out


def test_a_table_is_shown_with_its_fields(ask):
    lines = ask("fields", "training").out.splitlines()
    (steps,) = [line for line in lines if line.startswith("  n_steps ")]
    assert steps.split("  ")[1:] != []
    for words in ("required", "whole number: 1 to 10,000,000", "Number of optimizer steps."):
        assert words in steps


def test_a_field_is_shown_with_type_values_and_default(ask):
    assert ask("fields", "training.z_loss").out.splitlines() == [
        "training.z_loss",
        "  what it does  Weight of the squared log-sum-exp of the logits in the loss.",
        "  type          number",
        "  values        0 or more",
        "  default       0",
    ]


def test_a_list_as_default_is_no_markup(ask):
    assert "[1, 2, 3, 4, 5]" in ask("fields", "design.seeds").out


def test_a_field_that_several_kinds_have_is_shown_for_each(ask):
    out = ask("fields", "architecture.attention.n_heads").out
    assert "Number of query heads." in out
    assert "Number of heads." in out


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("primary.margin", "The smallest difference that matters"),
        ("design.primary", "The one yardstick"),
        ("base.training.n_steps", "Number of optimizer steps."),
        ("arms.causal.architecture.mask", "Who sees whom"),
        ("factors.mask.levels", "At least two levels"),
        ("training.schedule.cosine", "Down to a floor"),
        ("training.schedule.floor", "as a share of the peak rate"),
        ("objective.masked", "BERT"),
        ("objective.masked.masked", "Share of those that are replaced by the mask token."),
        ("corpus.sources.0.paths", "relative to the file that names it"),
        ("others.halves.split", "Which held-out documents"),
        ("architecture.preset", "laid over"),
        ("scales", "--scale NAME"),
    ],
)
def test_paths_as_they_stand_in_files_are_understood(ask, path, words):
    assert words in ask("fields", path).out


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("training.optimiser.rate", "did you mean 'training.optimizer.rate'?"),
        ("training.schedul", "did you mean 'training.schedule'? keys of training are n_steps"),
        (
            "traning",
            "did you mean 'training'? tables are architecture, corpus, objective, training, stages,"
            " begin, task, protocol, design",
        ),
        ("training.optimizer.rate.x", "training.optimizer.rate.x is not a field"),
        ("design.base.foo", "design.base.foo is not a field"),
        ("", "'' is not a field; tables are"),
        (".", "'.' is not a field"),
        ("[red]x", "[red]x is not a field"),
    ],
)
def test_an_unknown_path_is_met_with_the_nearest(ask, path, words):
    answer = ask("fields", path)
    assert answer.status == 2
    assert words in answer.err


def test_another_program_reads_the_same(ask):
    found = json.loads(ask("fields", "training.optimizer", "--json").out)
    table, *others = found["tables"]
    assert len(others) == 2  # one for each kind
    assert table["fields"][0] == {
        "key": "rate",
        "type": "number",
        "values": "above 0",
        "default": "0.001",
        "about": "The peak learning rate.",
    }
    assert next(one["path"] for one in json.loads(ask("fields", "--json").out)) == "architecture"


def test_the_page_is_printed_whole_or_not_at_all(ask):
    assert ask("fields", "--markdown").out == reference_page()
    for words in (["training"], ["--json"]):
        answer = ask("fields", *words, "--markdown")
        assert answer.status == 2
        assert "--markdown prints the whole page" in answer.err


def test_the_function_prints_the_same(ask, capsys):
    pb.fields("training.optimizer.rate")
    assert capsys.readouterr().out == ask("fields", "training.optimizer.rate").out
