"""Prices on the command line are the prices of the spec."""

import json
from dataclasses import asdict

import pytest

import paribus as pb
from paribus.errors import SpecError
from paribus.report.numbers import format_flops
from paribus.spec import load, presets, price, resolve


@pytest.mark.parametrize("name", presets())
def test_json_equals_the_price_of_the_spec(ask, name):
    (given,) = json.loads(
        ask("price", name, "--length", "37", "--prefix", "11", "--bytes", "4", "--json").out
    )
    spec = resolve(load(name))
    read = (37, None, 11) if spec.encoder is None else (26, 11, 0)
    expected = asdict(price(spec, *read, bytes_per_value=4))
    assert {key: given[key] for key in expected} == expected
    assert given["name"] == name


def test_json_counts_are_whole_numbers(ask):
    assert '"dense": 874944921600,' in ask("price", "gpt2", "--json").out


def test_the_table_says_both_ways_of_counting_and_at_which_lengths(ask):
    out = ask("price", "gpt2").out
    assert "875 GFLOP" in out
    assert "817 GFLOP" in out
    assert "124M" in out
    assert "dense: every query-key pair; visible: only the pairs that the mask lets through" in out
    assert "At length 1024, 2 bytes per cached value." in out


def test_a_prefix_and_a_source_are_named_where_they_matter(ask):
    out = ask("price", "unilm", "bart", "t5", "--length", "64", "--source-length", "32").out
    assert "unilm: at length 64, prefix 32, 2 bytes" in out
    assert "bart, t5: at length 32, source length 32, 2 bytes" in out
    parted = ask("price", "gpt2", "--set", "mask=causal & same_side", "--length", "64").out
    assert "length 64, prefix 32, 2 bytes" in parted


@pytest.mark.parametrize(
    ("options", "length", "n_input"),
    [
        ((), 1024, 512),
        (("--length", "512"), 512, 256),
        (("--length", "65"), 65, 32),
        (("--length", "64", "--prefix", "11"), 64, 11),
        (("--source-length", "7"), 519, 7),
        (("--length", "64", "--prefix", "9", "--source-length", "9"), 64, 9),
        (("--source", "40", "--target", "24"), 64, 40),
    ],
)
def test_all_are_priced_for_the_same_text_and_it_is_said(ask, options, length, n_input):
    plain, apart = json.loads(ask("price", "gpt2", "t5", *options, "--json").out)
    assert (plain["length"], plain["source_length"], plain["prefix"]) == (length, 0, n_input)
    assert (apart["length"], apart["source_length"]) == (length - n_input, n_input)
    out = ask("price", "gpt2", "t5", *options).out
    assert out.startswith(
        f"Priced for one text of {length} tokens: {n_input} of input, {length - n_input} of target."
        " gpt2: read as one sequence, trained to predict every token. t5: the encoder reads the"
        " input, and training predicts the target alone.\n"
    )


def test_a_token_costs_its_part_of_the_whole_text(ask):
    whole = price(resolve(load("t5")), 256, 256, 0).training.dense
    out = ask("price", "t5", "--length", "512").out
    (line,) = (line for line in out.splitlines() if line.startswith("training, one token · dense"))
    assert line.split("  ")[-1].strip() == format_flops(whole / 512)


def test_card_and_price_are_of_the_same_text(ask):
    for name in ("t5", "gpt2"):
        (shown,) = json.loads(ask("show", name, "--length", "512", "--json").out)
        (priced,) = json.loads(ask("price", name, "--length", "512", "--json").out)
        assert shown["price"] == {key: priced[key] for key in shown["price"]}


def test_a_page_too_narrow_for_all_gets_several_tables(ask, monkeypatch):
    monkeypatch.setattr("paribus.cli.terminal.console._PIPE_WIDTH", 80)
    out = ask("price", "gpt2", "t5", "mixtral", "bart").out
    assert out.count("non-embedding  ") == 2
    assert max(map(len, out.splitlines())) <= 80


def test_the_function_gives_the_price(ask):
    assert pb.price("gpt2", length=16) == price(resolve(load("gpt2")), 16)


BAD = [
    (("gpt2", 1025), "length is 1025, but max_length is 1024; use 1 to 1024, or set max_length"),
    (("t5", 5, 0), "source_length is 0, but max_length is 512; use 1 to 512, or set max_length"),
    (("gpt2", 5, None, 6), "prefix is 6 of length 5; use 0 to 5"),
    (("t5", 1), "length is 1, but an encoder-decoder reads input and target apart; use 2 or more"),
    (
        ("t5", 5, 5),
        (
            "length is 5, and 5 tokens of it are input, which leaves an encoder-decoder no target;"
            " use a len"
        ),
    ),
    (
        ("t5", 1026),
        (
            "length is 1026: 513 input and 513 target tokens, but max_length is 512 for each; use"
            " up to 1024"
        ),
    ),
    (
        ("t5", 9, 3, 4),
        "source_length is 3 and prefix is 4, but both are the input of one text; give one",
    ),
    (("gpt2", 5, 7), "source_length is 7, but there is no encoder to read a source; leave it out"),
]


@pytest.mark.parametrize(("given", "complaint"), BAD)
def test_lengths_the_model_could_not_read_are_refused(given, complaint):
    with pytest.raises(SpecError, match=complaint):
        pb.price(*given)


def test_a_source_length_nobody_could_use_is_refused(ask):
    assert ask("price", "gpt2", "bert", "--source-length", "7").status == 2
    assert ask("price", "gpt2", "t5", "--source-length", "7").status == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--source", "4"), "--target is missing; give both --source and --target"),
        (("--target", "4"), "--source is missing; give both --source and --target"),
        (
            ("--source", "4", "--target", "4", "--length", "9"),
            "--length is 9 beside --source and --target, which say how long the text is",
        ),
    ],
)
def test_a_text_is_given_in_one_way(ask, options, complaint):
    answer = ask("price", "gpt2", "t5", *options)
    assert answer.status == 2
    assert complaint in answer.err


def test_a_decoder_has_a_source_and_a_target_too(ask):
    (given,) = json.loads(ask("price", "gpt2", "--source", "40", "--target", "24", "--json").out)
    assert (given["length"], given["prefix"], given["source_length"]) == (64, 40, 0)
