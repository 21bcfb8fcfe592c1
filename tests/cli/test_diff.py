"""What differs between two architectures, and what it does to their price."""

import json

import paribus as pb
from paribus.spec import Difference


def test_differing_fields_stand_beside_each_other(ask):
    answer = ask("diff", "gpt2", "unilm")
    assert answer.status == 0
    assert "stack.layers.0-11.mask   causal   prefix" in answer.out
    assert "training, one sequence · visible   817 GFLOP   831 GFLOP    1.02" in answer.out
    assert "parameters" not in answer.out


def test_the_same_model_is_called_so(ask):
    answer = ask("diff", "gpt2", "gpt2", "--set-b", "d_ff=3072")
    assert (answer.status, answer.out) == (
        0,
        "same model: gpt2 and gpt2, d_ff = 3072 resolve to the same architecture\n",
    )


def test_prices_are_compared_at_a_length_both_can_read(ask):
    assert (
        "At length 512, source length 512, 2 bytes"
        in ask("diff", "bart", "t5", "--set-a", "max_length=512").out
    )
    mixed = ask("diff", "gpt2", "t5").out
    assert (
        "Priced for one text of 1024 tokens: 512 of input, 512 of target. gpt2: read as one"
        " sequence" in mixed
    )


def test_a_difference_without_a_price_says_so(ask):
    out = ask("diff", "gpt2", "gpt2", "--set-b", "dropout=0.1").out
    assert "dropout   0      0.1\n" in out
    assert "both cost the same" in out


def test_a_change_to_both_is_no_difference(ask):
    assert ask("diff", "gpt2", "gpt2", "--set", "n_layers=2").out.startswith("same model")


def test_a_whole_stack_of_equal_blocks_is_said_once(ask):
    assert (
        "layers=12 × (mask=full, cross=none, attention=multi_head(" in ask("diff", "gpt2", "t5").out
    )


def test_json_lists_the_paths(ask):
    assert json.loads(ask("diff", "gpt2", "gpt2", "--json").out) == []
    (only,) = json.loads(
        ask(
            "diff", "gpt2", "gpt2", "--set-b", "placement=post", "--set-b", "dropout=0", "--json"
        ).out
    )
    assert only == {"path": "placement", "left": "pre", "right": "post"}


def test_a_page_too_narrow_for_both_sides_puts_them_in_turn(ask, monkeypatch):
    monkeypatch.setattr("paribus.cli.terminal.console._PIPE_WIDTH", 90)
    out = ask("diff", "gpt2", "t5").out
    assert "n_vocab                                     50257 → 32128\n" in out
    assert "\nencoder\n   none\n   layers=12 × (mask=full" in out
    assert max(map(len, out.splitlines())) <= 90


def test_the_function_gives_the_differences():
    assert pb.diff("gpt2", pb.load("gpt2", max_length=512)) == (
        Difference("max_length", 1024, 512),
    )
