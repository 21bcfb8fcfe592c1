"""Numbers, values and settings as they are written and read."""

import pytest

from paribus.cli.terminal.arguments import load_architecture, parse_settings
from paribus.cli.terminal.field_format import format_bool, format_field, format_ranges
from paribus.errors import SpecError


def test_answers_are_yes_or_no():
    assert (format_bool(True), format_bool(False)) == ("yes", "no")


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([3], "3"),
        ([3, 4], "3, 4"),
        ([0, 1, 2], "0–2"),
        ([1, 3, 5, 7], "1, 3 … 7"),
        ([0, 1, 5], "0, 1, 5"),
    ],
)
def test_runs_of_numbers_are_written_short(numbers, text):
    assert format_ranges(numbers) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"kind": "alibi"}, "alibi"),
        ({"kind": "rotary", "theta": 1e6}, "rotary(theta=1e+06)"),
        (True, "true"),
        ({"tied": False, "inner": {"a": None}}, "tied=false, inner=(a=none)"),
        ([1, 1, 2], "2 × 1, 2"),
        ({"mask": "causal & window(2)"}, "mask=causal & window(2)"),
        ("absent", "absent"),
    ],
)
def test_values_are_spelled_like_masks(value, text):
    assert format_field(value) == text


def test_settings_are_toml_or_plain_text():
    given = [
        "n_layers=4",
        "mask=causal & window(8)",
        "head.tied = false",
        'positions={ kind = "rotary" }',
        "a=1\nb=2",
    ]
    assert parse_settings(given) == {
        "n_layers": 4,
        "mask": "causal & window(8)",
        "head.tied": False,
        "positions": {"kind": "rotary"},
        "a": "1\nb=2",
    }


def test_every_faulty_setting_is_named():
    with pytest.raises(SpecError) as caught:
        parse_settings(["n_layers", "=3", "a=1", "a=2"])
    assert caught.value.problems == (
        "--set is 'n_layers'; write path=value",
        "--set is '=3'; write path=value",
        "--set gives a twice; give it once",
    )


def test_a_mapping_can_be_asked_for():
    assert load_architecture({"preset": "gpt2"}).name == "mapping"
    assert load_architecture("gpt2").about == "GPT-2 (Radford et al. 2019): pre-norm, causal."
