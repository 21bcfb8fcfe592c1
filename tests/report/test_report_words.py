"""Verdicts and numbers as a reader meets them."""

import re
from math import inf
from pathlib import Path

import pytest

from paribus.analyse import Multiplier
from paribus.report.intervals import compute_words, multiplied
from paribus.report.limits import limits, source_words
from paribus.report.material import gathered
from paribus.report.numbers import decimals, each, listed, plain, scaled, signed, some, true_minus
from paribus.report.page import page
from paribus.report.prose import latex, markdown
from paribus.report.telling import telling
from paribus.report.verdicts import verdicts
from small_study import GAINS, SEEDS, made, rewritten, with_lengths, with_rates

WORSE, BETTER = {**GAINS, "prefix": -0.3}, {**GAINS, "prefix": 0.3}


def said(root: Path, **options):
    return verdicts(gathered(made(root, **options)))


@pytest.mark.parametrize(
    ("gains", "headline"),
    [
        (BETTER, "prefix does better than causal, by more than the margin"),
        (WORSE, "prefix does worse than causal, by more than the margin"),
        (GAINS, "prefix does better than causal, by less than the margin"),
    ],
)
def test_the_headline_says_who_does_better(tmp_path, gains, headline):
    first, _ = said(tmp_path, gains=gains)
    assert first.headline == headline
    assert first.numbers.startswith("gain +0." if gains is not WORSE else "gain −0.")
    assert "97.5 % interval" in first.numbers
    assert first.numbers.endswith("4 paired seeds")


def test_the_positive_control_comes_last_and_is_named_as_such(tmp_path):
    first, last = said(tmp_path)
    assert (first.arm, first.is_control) == ("prefix", False)
    assert (last.arm, last.is_control, last.word) == ("input hidden", True, "worse")


def paired(root: Path, **options):
    """The small study, in which the control is judged against the baseline and prefix against the control."""
    study = with_lengths(made(root, **options), {"causal": 0.2})
    pairs = [["prefix", "input hidden"], ["input hidden", "causal"], ["prefix", "causal"]]
    rewritten(study, design={**study.plan()["design"], "comparisons": pairs})
    return gathered(study)


def test_a_pair_is_told_with_what_it_is_judged_against(tmp_path):
    material = paired(tmp_path)
    first, second, last = verdicts(material)
    assert first.headline == "prefix does better than input hidden, by more than the margin"
    assert second.headline.startswith("prefix does better than causal")
    assert last.headline.startswith("input hidden does worse than causal")
    told = markdown(material)
    assert "98.33 % interval" in told
    assert " for prefix against input hidden" in told
    assert "better, by more than the margin (against input hidden)" in latex(material)
    text = page(material)
    assert "gain of prefix against input hidden" in text
    assert "Right of zero is better than the arm that each is judged against." in text
    assert "input hidden → prefix" in text
    assert first.compute == "In compute: not said, for input hidden was not trained at other lengths."
    assert "read off causal's annealed lengths" in second.compute


def test_an_arm_without_a_pair_is_in_the_table_without_a_verdict(tmp_path):
    study = made(tmp_path)
    rewritten(study, design={**study.plan()["design"], "comparisons": [["input hidden", "causal"]]})
    assert "prefix & 2.4" in latex(gathered(study))
    assert r"& -- & -- & -- \\" in latex(gathered(study))


def test_failures_are_told_before_the_numbers(tmp_path):
    first, _ = said(tmp_path, failed=[("prefix", 2)])
    assert first.word == "unstable"
    assert first.failures.startswith(
        "prefix trained in 3 of 4, causal in 4 of 4; the numbers are of the seeds in which"
    )


def test_a_mean_over_some_of_the_seeds_says_so(tmp_path):
    material = gathered(made(tmp_path, failed=[("prefix", 2), *(("input hidden", seed) for seed in SEEDS)]))
    table = latex(material)
    assert re.search(r"^prefix & \d\.\d{4} \(3 of 4\) & ", table, re.MULTILINE)
    assert "input hidden & -- (0 of 4) & " in table
    assert re.search(r"^causal & \d\.\d{4} & ", table, re.MULTILINE)
    assert "(3 of 4)</td>" in page(material)


def test_an_unstable_verdict_is_one_word_in_a_typeset_table(tmp_path):
    table = latex(gathered(made(tmp_path, failed=[("prefix", 2)])))
    assert next(line for line in table.splitlines() if line.startswith("prefix")).endswith(r" & unstable \\")


def test_items_of_an_arm_that_gains_nowhere_are_titled_so(tmp_path):
    told = {one.arm: one for one in telling(gathered(made(tmp_path)))}
    assert told["input hidden"].best_title == "where it loses least"
    assert told["input hidden"].worst_title == "where it loses most"
    better = {one.arm: one for one in telling(gathered(made(tmp_path / "b", gains=BETTER)))}["prefix"]
    assert (better.best_title, better.worst_title) == ("where it gains most", "where it gains least")
    assert "where it loses least" in page(gathered(made(tmp_path / "c")))


def test_rates_that_were_not_tuned_are_said_once(tmp_path):
    words = gathered(made(tmp_path)).found.arms[0].judgement.words
    assert "on these items; at one rate for all arms, not tuned" in words
    assert "at these rates" not in words


def test_an_anonymous_page_names_no_files_of_text(tmp_path):
    study = made(tmp_path)
    plan = study.plan()
    for arm in plan["arms"].values():
        arm["run"]["stages"][-1]["corpus"]["sources"] = [{"kind": "files", "paths": ["notes.txt"]}]
    study.write_plan(plan)
    assert "all of it was text from the files notes.txt." in " ".join(limits(gathered(study)))
    assert "all of it was text from files." in " ".join(limits(gathered(study, anonymous=True)))


def test_of_an_arm_that_never_trained_there_are_no_numbers_to_speak_of(tmp_path):
    first, _ = said(tmp_path, failed=[("prefix", seed) for seed in SEEDS])
    assert (first.failures, first.numbers) == ("prefix trained in 0 of 4, causal in 4 of 4.", "")


def test_an_unstable_arm_is_not_told_that_it_gains(tmp_path):
    first, _ = said(tmp_path, gains=BETTER, failed=[("prefix", 2)])
    assert first.word == "unstable"
    assert first.meaning == "Whichever failed more often can neither win nor be called equal, whatever the numbers say."
    assert first.advice == ""


def test_compute_is_told_as_a_multiple_or_not_at_all():
    assert compute_words("b", "a", None) == "In compute: not said."
    flat = compute_words("b", "a", Multiplier(None, None, None, "does not clearly improve with more tokens"))
    assert flat == "In compute: not said, for a does not clearly improve with more tokens."
    told = compute_words("b", "a", Multiplier(0.48, 0.47, 0.5))
    assert told == (
        "In compute: a would need about 0.48 times its tokens to score like b (interval 0.47 to 0.50; read off a's "
        "annealed lengths)."
    )


def test_what_lies_beyond_the_full_length_is_marked_as_extrapolated():
    told = compute_words("b", "a", Multiplier(1.234, 0.9, 1.5))
    assert told.endswith(
        "(interval 0.90 to 1.50; read off a's annealed lengths, above 1 extrapolated by the slope at full length)."
    )
    assert multiplied(Multiplier(1.234, 0.9, 1.5)) == "1.23 (extrapolated); 0.90 to 1.50"
    assert "extrapolated" not in compute_words("b", "a", Multiplier(0.8, 0.7, 0.9))


@pytest.mark.parametrize(
    ("found", "words", "cell"),
    [
        (Multiplier(0.0, 0.0, 0.0), "less than 0.25 times its tokens to score like b, further than", "below 0.25"),
        (Multiplier(inf, inf, inf), "more than 2 times its tokens to score like b, further than its", "above 2"),
        (Multiplier(inf, 0.8, inf), "more than 2 times its tokens to score like b (at least 0.80; ", "at least 0.80"),
        (Multiplier(0.3, 0.0, 0.5), "about 0.30 times its tokens to score like b (at most 0.50; ", "at most 0.50"),
        (Multiplier(1.1, 0.0, inf), "(no interval between 0.25 and 2; ", "no interval between 0.25 and 2"),
        (Multiplier(1.1, None, None), "(no interval yet; ", "no interval yet"),
    ],
)
def test_no_end_of_a_multiplier_is_told_as_infinite(found, words, cell):
    told = compute_words("b", "a", found)
    assert words in told
    assert cell in multiplied(found)
    assert "inf" not in told + multiplied(found)


def test_what_is_not_shown_names_size_text_and_yardstick(tmp_path):
    told = " ".join(limits(gathered(made(tmp_path))))
    for word in ("37.1k parameters read 15.4k tokens", "translation", "halves.test", "all trained at one"):
        assert word in told


def test_sources_are_told_in_words_with_the_last_part_of_their_path(tmp_path):
    assert source_words({"kind": "python-docs"}) == "the documentation of Python and its installed libraries"
    assert source_words({"kind": "sort"}) == "an invented language (sort)"
    given = {"kind": "files", "paths": ["data/ada/a.txt", "b.md"]}
    assert source_words(given) == "text from the files a.txt and b.md"


def test_rates_that_differ_are_not_told_as_one(tmp_path):
    told = " ".join(limits(gathered(with_rates(made(tmp_path), {"prefix": 0.008}))))
    assert "its own best learning rate: each trained at the rate written for it." in told


@pytest.mark.parametrize(
    ("value", "text"), [(0.0123, "+0.012"), (-0.0123, "−0.012"), (-0.0001, "0.000"), (0.0, "0.000")]
)
def test_a_zero_has_no_sign(value, text):
    assert signed(value, 3) == text


def test_numbers_are_short():
    assert [scaled(number) for number in (7, 1024, 124439808)] == ["7", "1.02k", "124M"]
    assert scaled(2.5e9, "FLOP") == "2.5 GFLOP"
    assert [decimals(width) for width in (0.0, 0.5, 0.012, 1e-9)] == [4, 3, 3, 6]
    assert plain(-1.26, 1) == "−1.3"
    assert true_minus("gain -0.5 at 1e-05, arm-2") == "gain −0.5 at 1e-05, arm-2"
    assert [some(1, "seed"), some(2, "seed")] == ["1 seed", "2 seeds"]
    assert [listed(["a"]), listed(["a", "b", "c"]), listed([])] == ["a", "a, b and c", ""]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ((3, 1, 2), "3 for a, 1 for b and 2 for c"),
        ((4, 1, 3, 2), "1 for b to 4 for a"),
        ((2, 1, 2, 2), "1 for b and 2 for 3 of them"),
        ((2, 1, 1, 3), "1 for b and c, 2 for a and 3 for d"),
        ((5, 5, 5, 5), "5 for all"),
    ],
)
def test_of_many_numbers_the_ends_are_named_or_those_that_are_alike(values, told):
    assert each(dict(zip("abcd", values, strict=False)), str) == told
