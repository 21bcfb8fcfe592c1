"""One way to write a number, on the page and on the terminal."""

import pytest

from paribus.cli.terminal.plan_tables import format_line as on_the_terminal
from paribus.cli.terminal.price_table import SIZE_LINES
from paribus.report.arm_costs import _cost_line
from paribus.report.numbers import (
    compact,
    describe_each,
    distinguishing_digits,
    format_count,
    format_distinct,
    format_duration,
    format_flops,
    format_line_values,
    format_percent,
    format_scaled,
    format_size,
    percent_level,
    quote_arm,
    rough,
    score,
    signed_score,
    significant,
    whole_percent,
)
from paribus.report.tables import format_value as on_the_page
from paribus.spec import load, price, resolve


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (7, "7"),
        (2.5, "2.5"),
        (999, "999"),
        (1000, "1k"),
        (999_499, "999k"),
        (999_500, "1M"),
        (37_124, "37.1k"),
        (124439808, "124M"),
        (46.7e9, "46.7B"),
        (671026404352, "671B"),
        (1.5e15, "1500T"),
        (1e30, "1e+18T"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_counts_have_three_digits(number, text):
    assert format_count(number) == format_scaled(number) == text


def test_each_quantity_has_its_unit():
    assert format_flops(874944921600) == "875 GFLOP"
    assert format_flops(1.5e26) == "150 YFLOP"
    assert format_size(36864) == "36.9 kB"
    assert format_size(0) == "–"
    assert format_percent(0.50048) == "50 %"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.0123, "12.3 ms"),
        (3.42, "3.4 s"),
        (89, "89 s"),
        (90, "1.5 min"),
        (5399, "90.0 min"),
        (7200, "2.0 h"),
        (172_799, "48.0 h"),
        (172_800, "2.0 days"),
        (86400 * 730, "730.0 days"),
        (86400 * 731, "2.0 years"),
        (20807823.2 * 3600, "2,374 years"),
        (1e16, "317M years"),
        (float("inf"), "inf years"),
    ],
)
def test_durations_are_told_in_a_fitting_unit(seconds, text):
    assert format_duration(seconds) == text


def test_page_and_terminal_write_one_number_alike():
    mixtral = price(resolve(load("mixtral")), 512)
    (shown,) = SIZE_LINES[0].format_values([mixtral])
    (paged,) = _cost_line("parameters", [mixtral.parameters], format_count).values
    assert shown == paged == "46.7B"
    for path, values in (
        ("parameters", [46_702_792_704, 46_702_792_705]),
        ("training_flops", [1.5e12, 2e12]),
    ):
        assert on_the_terminal(path, values) == format_line_values(path, values, on_the_page)


def test_different_values_are_told_apart_and_equal_ones_stay_short():
    assert format_distinct([123_456, 123_457, 123_456], format_count) == [
        "123.456k",
        "123.457k",
        "123.456k",
    ]
    assert format_distinct([123_456, 123_456], format_count) == ["123k", "123k"]
    assert format_distinct([0.1 + 0.2, 0.3], format_count) == [
        "0.3",
        "0.3",
    ]  # the rounding of a sum
    assert distinguishing_digits([671_026_404_352, 671_026_404_353]) == 12
    assert distinguishing_digits([]) == 3


def test_of_many_values_that_only_look_alike_it_is_said():
    sizes = {"a": 13_811_000, "b": 13_812_000, "c": 13_813_000, "d": 24_500_000}
    assert describe_each(sizes, format_count) == "about 13.8M for 3 of them and 24.5M for d"
    pairs = {"a": 1.0, "b": 1.0, "c": 2.0, "d": 2.0}
    assert describe_each(pairs, format_count) == "1 for a and b; 2 for c and d"


def test_costs_are_equal_only_where_the_numbers_are():
    near = _cost_line("parameters", [123_456, 123_457], format_count)
    assert (near.equal, near.values) == (False, ("123.456k", "123.457k"))
    assert _cost_line("parameters", [123_456, 123_456], format_count).equal


def test_scores_have_four_decimals_and_differences_of_them_a_sign():
    assert (score(1.23456), score(-0.00001), score(None)) == ("1.2346", "0.0000", "–")
    assert (signed_score(0.25), signed_score(-0.25), signed_score(0.0)) == (
        "+0.2500",
        "−0.2500",
        "0.0000",
    )


def test_estimates_have_two_digits_and_other_numbers_three():
    assert (rough(0.01234), rough(4.62), rough(126.4)) == ("0.012", "4.6", "126")
    assert (significant(0.0034567), significant(1234.5), significant(2.0)) == (
        "0.00346",
        "1234",
        "2",
    )
    assert (rough(float("inf")), significant(1e7)) == ("inf", "1e+07")
    assert [compact(value) for value in (-0.32, 5773, 67864, -53.2, 2.41e-05)] == [
        "−0.32",
        "5773",
        "6.79e+04",
        "−53.2",
        "2.41e-05",
    ]


def test_shares_are_whole_and_levels_exact():
    assert (whole_percent(0.4231), whole_percent(1.0)) == ("42 %", "100 %")
    assert (percent_level(0.975), percent_level(0.98333333)) == ("97.5 %", "98.33 %")


def test_the_name_of_an_arm_stands_in_straight_quotation_marks() -> None:
    assert quote_arm("input hidden") == '"input hidden"'
