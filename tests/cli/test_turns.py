"""`paribus turns`: the costs of a conversation, printed and written."""

import csv
import io
import json
from pathlib import Path

import pytest
from tiny_model import tiny_architecture

import paribus as pb

LENGTHS = ("--turns", "3", "--user-tokens", "5", "--answer-tokens", "4")


def test_architectures_are_counted_without_being_built(ask):
    out = ask("turns", "gpt2", "llama", "t5", "--count").out
    assert out.startswith("10 turns of 64 tokens from the user and 64 of the answer. Counted;")
    assert "t5, encode each turn against gpt2: more in turns 1 to" in out


def test_json_has_every_turn(ask):
    table = json.loads(ask("turns", "gpt2", "unilm", "--count", *LENGTHS, "--json").out)
    assert [arm["name"] for arm in table["arms"]] == [
        "gpt2",
        "unilm, growing prefix",
        "unilm, first prompt as prefix",
    ]
    assert [turn["n_read"] for turn in table["arms"][1]["turns"]] == [5, 14, 23]
    assert table["n_repeats"] == 0


def test_csv_has_a_row_a_turn(ask):
    out = ask("turns", "gpt2", "--count", *LENGTHS, "--csv").out
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["n_read"] for row in rows] == ["5", "6", "6"]


def test_a_folder_holds_the_page_its_plots_and_the_numbers(ask, tmp_path: Path):
    options = ("--repeats", "1", "--device", "cpu", "--out", tmp_path / "out")
    answer = ask("turns", "--design", "turns", "--scale", "smoke", *options)
    assert answer.status == 0, answer.err
    names = {path.name for path in (tmp_path / "out").iterdir()}
    plots = {"first-token.svg", "next-token.svg", "tokens-read.svg", "flops.svg", "cache.svg"}
    assert names == {"turns.md", "turns.csv", "turns.json", *plots}
    page = (tmp_path / "out/turns.md").read_text()
    assert all(f"({name})" in page for name in plots)
    drawn = (tmp_path / "out/tokens-read.svg").read_text()
    assert "causal = causal with window = causal with latents" in drawn


def test_lengths_and_fields_of_a_design_may_be_set(ask):
    options = ("--count", "--json", "--turns", "2", "--set", "base.n_vocab=96")
    table = json.loads(ask("turns", "--design", "turns", "--scale", "smoke", *options).out)
    assert table["n_turns"] == 2
    assert table["arms"][0]["architecture"]["n_vocab"] == 96


def test_an_architecture_gets_the_length_that_it_needs():
    study = pb.turns(["gpt2", "t5"], pb.Conversation(n_turns=20))
    assert [arm.architecture["max_length"] for arm in study.arms] == [2560] * 3
    short = pb.turns("gpt2", pb.Conversation(n_turns=2))
    assert short.arms[0].architecture["max_length"] == 1024


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ((), "no RUN or ARCH is given; give at least one, or --design turns"),
        (("gpt2", "--design", "turns"), "--design has arms of its own; leave out RUN, ARCH"),
        (("gpt2", "--scale", "smoke"), "--scale is 'smoke', but there is no --design; give one"),
        (("gpt2", "--json", "--csv"), "--json and --csv are both given; give one"),
        (("gpt2", "--dtype", "int3"), "dtype is 'int3'; use float32"),
        (
            ("gpt2", "--count", "--repeats", "3"),
            "--repeats is 3 with --count, which builds nothing",
        ),
    ],
)
def test_what_cannot_be_obeyed_is_refused(ask, options, complaint):
    answer = ask("turns", *options)
    assert answer.status == 2
    assert complaint in answer.err


def test_a_model_that_sees_later_tokens_is_refused(ask):
    answer = ask("turns", "bert", "--count")
    assert answer.status == 1
    assert "so it cannot answer token by token" in answer.err


def test_a_checkpoint_is_measured_as_it_is(ask, tmp_path: Path):
    pb.save(pb.build(tiny_architecture("gpt2")), tmp_path / "mine")
    options = ("--turns", "2", "--user-tokens", "5", "--answer-tokens", "3", "--repeats", "2")
    table = json.loads(ask("turns", tmp_path / "mine", *options, "--device", "cpu", "--json").out)
    (arm,) = table["arms"]
    assert [turn["measured"]["n_read"] for turn in arm["turns"]] == [5, 6]
    long = ask("turns", tmp_path / "mine", "--count")
    assert long.status == 2
    assert "make a text of 1279, but max_length is 29" in long.err
    matched = ask("turns", "gpt2", tmp_path / "mine", "--match", "--count")
    assert "is a run, whose size cannot move; leave out --match" in matched.err
    changed = ask("turns", tmp_path / "mine", "--set", "n_layers=3", "--count")
    assert "is a run, in which nothing can be set; leave out --set" in changed.err
