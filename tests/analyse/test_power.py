"""T10 and T11: what a number of seeds can see, against tables and by simulation."""

import re
from math import inf, sqrt
from pathlib import Path

import numpy as np
import pytest
from noise_draws import N_DRAWS

from paribus.analyse import (
    always_valid_t,
    detectable_effect,
    equivalence_margin,
    power,
    power_table,
    seeds_needed,
    upper_sd,
)
from paribus.analyse.power import log_likelihood_ratio
from paribus.errors import SpecError


@pytest.mark.parametrize(
    ("n", "seen", "margins"),
    [
        (3, (3.26, 4.62, 5.67), (2.66, 3.65)),
        (5, (1.68, 2.05, 2.29), (1.60, 1.94)),
        (8, (1.16, 1.34, 1.45), (1.15, 1.34)),
        (10, (1.00, 1.14, 1.22), (1.00, 1.15)),
        (20, (0.66, 0.74, 0.78), (0.68, 0.76)),
    ],
)
def test_the_table_of_what_seeds_can_say(
    n: int, seen: tuple[float, ...], margins: tuple[float, ...]
) -> None:
    assert [detectable_effect(n, m) for m in (1, 2, 3)] == pytest.approx(seen, abs=0.0055)
    assert [equivalence_margin(n, m) for m in (1, 2)] == pytest.approx(margins, abs=0.0055)


def test_the_table_in_the_documents_is_what_the_functions_say() -> None:
    text = (Path(__file__).parents[2] / "docs/statistics.md").read_text("utf-8")
    rows = re.findall(
        r"^\| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$",
        text,
        re.MULTILINE,
    )
    assert [int(n) for n, *_ in rows] == [3, 5, 8, 10, 20]
    for n, *numbers in rows:
        found = [
            *(detectable_effect(int(n), m) for m in (1, 2, 3)),
            *(equivalence_margin(int(n), m) for m in (1, 2)),
        ]
        assert [f"{number:.2f}" for number in found] == numbers


def test_the_table_of_open_numbers_in_the_documents_is_what_the_functions_say() -> None:
    text = (Path(__file__).parents[2] / "docs/statistics.md").read_text("utf-8")
    _, _, table = text.partition("| seeds, their number open |")
    rows = re.findall(
        r"^\| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$",
        table.split("\n\n")[0],
        re.MULTILINE,
    )
    assert [int(n) for n, *_ in rows] == [5, 8, 10, 20]
    for n, *numbers in rows:
        found = [
            ask(int(n), m, open_ended=True)
            for ask in (detectable_effect, equivalence_margin)
            for m in (1, 2)
        ]
        assert [f"{number:.2f}" for number in found] == numbers


def test_known_numbers() -> None:
    assert [detectable_effect(n) for n in (3, 5, 10)] == pytest.approx(
        [3.264, 1.682, 0.996], abs=5e-4
    )
    assert power(1.5, 5, 0.05) == pytest.approx(0.71070, abs=5e-6)
    assert [always_valid_t(n) for n in (5, 10)] == pytest.approx([5.357, 3.971], abs=5e-4)
    assert seeds_needed(1, 1, 5, 0.05) == 22


@pytest.mark.parametrize(("n", "effect"), [(5, 9.87), (10, 5.0), (3, 1000.0)])
def test_power_of_large_effects_is_a_number(n: int, effect: float) -> None:
    assert power(effect, n, 0.05) == pytest.approx(1)


def test_power_without_an_effect_is_the_level() -> None:
    assert power(0, 7, 0.03) == pytest.approx(0.03)


def test_advised_seeds_see_the_margin_about_as_often_as_promised() -> None:
    n0 = 5
    spreads = np.random.default_rng(43).normal(size=(N_DRAWS, n0)).std(axis=1, ddof=1)
    advised = [
        n for spread in spreads if (n := seeds_needed(1, float(spread), n0, 0.05)) is not None
    ]
    enough = {n: power(1, n, 0.05) >= 0.8 for n in set(advised)}
    assert 80 <= 100 * np.mean([enough[n] for n in advised]) <= 88


def test_the_upper_bound_of_the_noise_is_too_small_once_in_five() -> None:
    n = 5
    observed = np.random.default_rng(44).normal(size=(N_DRAWS, n)).std(axis=1, ddof=1)
    raised = [upper_sd(float(one), n) for one in observed]
    assert (
        56 <= 100 * np.mean(observed < 1) <= 62.5
    )  # 59.4: what an effect seen at the observed spread is worth
    assert 17.5 <= 100 * np.mean(np.array(raised) < 1) <= 22.5
    assert upper_sd(1, 5) == pytest.approx(
        sqrt(4 / 1.648777), rel=1e-6
    )  # the 20 % point of χ² with 4 df
    with pytest.raises(SpecError, match="2"):
        upper_sd(1, 2)


def test_a_table_of_power_has_the_numbers_of_seeds_shown_and_the_plan_s_own() -> None:
    lines = power_table(6, 2)
    assert [line.n for line in lines] == [3, 5, 6, 8, 10, 20]
    assert lines[2] == (6, detectable_effect(6, 2), equivalence_margin(6, 2))
    assert [line.n for line in power_table(5)] == [3, 5, 8, 10, 20]
    assert power_table(5, 2, 0.01)[1].effect == detectable_effect(5, 2, alpha=0.01)
    assert power_table(5, open_ended=True)[0].effect == inf


def test_advice_beyond_sixty_seeds_is_none() -> None:
    assert seeds_needed(0.4, 1, 5) is None
    assert seeds_needed(0.4, 1, 5, limit=200) == 121
    assert seeds_needed(1, 0, 5) == 3


@pytest.mark.parametrize(("margin", "sd"), [(0, 1), (1, -1), (float("nan"), 1)])
def test_a_margin_and_a_spread_must_be_possible(margin: float, sd: float) -> None:
    with pytest.raises(
        SpecError, match=r"seeds_for: margin .*; give a margin above 0 and a spread of 0 or more"
    ):
        seeds_needed(margin, sd, 5)


@pytest.mark.parametrize(
    "ask", [lambda: power(1, 2), lambda: detectable_effect(2), lambda: equivalence_margin(2)]
)
def test_two_seeds_have_no_power_to_speak_of(ask) -> None:
    with pytest.raises(SpecError, match="seeds: 2 given, too few"):
        ask()


def test_three_seeds_are_never_evidence_enough_where_their_number_is_open() -> None:
    assert [always_valid_t(n) for n in (2, 3)] == [inf, inf]
    assert always_valid_t(4) < inf
    assert always_valid_t(5, 0.05 / 3) > always_valid_t(5)


@pytest.mark.parametrize("n", [4, 11])
def test_evidence_averages_one_where_there_is_no_effect(n: int) -> None:
    gains = np.random.default_rng(47).normal(size=(N_DRAWS, n))
    ts = gains.mean(axis=1) / gains.std(axis=1, ddof=1) * sqrt(n)
    weights = np.exp([log_likelihood_ratio(float(t), n) for t in ts])
    assert weights.mean() < 1 + 4 * weights.std() / sqrt(N_DRAWS)
    assert weights.mean() > 0.4  # heavy-tailed: most of its mean lies in draws that are seldom seen


@pytest.mark.parametrize("n", [5, 10])
def test_what_an_open_number_of_seeds_can_see_is_seen_so_often(n: int) -> None:
    effect, margin = (
        detectable_effect(n, 2, open_ended=True),
        equivalence_margin(n, 2, open_ended=True),
    )
    assert effect > detectable_effect(n, 2)
    d = np.random.default_rng(97).normal(size=(N_DRAWS, n))
    error, bound = d.std(axis=1, ddof=1) / sqrt(n), always_valid_t(n, 0.025)
    assert np.mean(np.abs(d.mean(axis=1) + effect) > bound * error) == pytest.approx(0.8, abs=0.026)
    assert np.mean(np.abs(d.mean(axis=1)) + bound * error < margin) == pytest.approx(0.8, abs=0.026)


def test_three_seeds_of_an_open_number_see_nothing_and_advice_counts_the_wider_bound() -> None:
    assert (detectable_effect(3, open_ended=True), equivalence_margin(3, open_ended=True)) == (
        inf,
        inf,
    )
    fixed, anytime = seeds_needed(1, 1, 5), seeds_needed(1, 1, 5, open_ended=True)
    assert fixed is not None
    assert anytime is not None
    assert anytime > fixed


def test_one_noise_for_many_arms_sees_more_and_so_often() -> None:
    n, k = 4, 5
    effect, margin = detectable_effect(n, n_arms=k), equivalence_margin(n, n_arms=k)
    assert (effect, margin) < (detectable_effect(n), equivalence_margin(n))
    rng = np.random.default_rng(101)
    means, spreads = (
        rng.normal(size=N_DRAWS) / sqrt(n),
        np.sqrt(rng.chisquare((n - 1) * (k - 1), N_DRAWS) / 12),
    )
    outer, inner = 2.178813, 1.782288  # t of 12 degrees of freedom, by a table
    assert np.mean(np.abs(means + effect) > outer * spreads / sqrt(n)) == pytest.approx(
        0.8, abs=0.026
    )
    assert np.mean(np.abs(means) + inner * spreads / sqrt(n) < margin) == pytest.approx(
        0.8, abs=0.026
    )
