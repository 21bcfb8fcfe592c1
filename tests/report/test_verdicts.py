"""Verdicts and numbers as a reader meets them."""

import re
from html import unescape
from io import StringIO
from math import inf
from pathlib import Path

import pytest
from handmade_study import GAINS, SEEDS, add_lengths, make_study, rewrite_plan, set_arm_rates
from rich.console import Console

from paribus.analyse import Multiplier
from paribus.analyse.verdict_table import verdict_table
from paribus.cli.terminal.verdict_lines import print_verdicts
from paribus.record.control_table import MATCH_SHIFT
from paribus.report.csv_tables import verdict_rows
from paribus.report.intervals import describe_compute, multiplier_cell
from paribus.report.item_examples import item_examples
from paribus.report.latex import latex_table
from paribus.report.limits import describe_source, limitations
from paribus.report.markdown import markdown_report
from paribus.report.numbers import (
    decimals_for_width,
    describe_each,
    format_plain,
    format_plural,
    format_scaled,
    format_signed,
    join_words,
    true_minus,
)
from paribus.report.page import render_page
from paribus.report.report_data import ReportData, gather_report_data
from paribus.report.verdict_notes import match_notes, verdict_notes
from paribus.report.verdicts import verdict_texts

WITHOUT_SCOPE = '"prefix" does better than "causal", by more than the margin'
WORSE, BETTER = {**GAINS, "prefix": -0.3}, {**GAINS, "prefix": 0.3}


def said(root: Path, **options):
    return verdict_texts(gather_report_data(make_study(root, **options)))


@pytest.mark.parametrize(
    ("gains", "headline"),
    [
        (BETTER, '"prefix" does better than "causal", by more than the margin'),
        (WORSE, '"prefix" does worse than "causal", by more than the margin'),
        (GAINS, '"prefix" does better than "causal", by less than the margin'),
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
    """The small study, in which the control is judged against the baseline and prefix against
    the control.
    """
    study = add_lengths(make_study(root, **options), {"causal": 0.2})
    pairs = [["prefix", "input hidden"], ["input hidden", "causal"], ["prefix", "causal"]]
    rewrite_plan(study, design={**study.read_plan()["design"], "comparisons": pairs})
    return gather_report_data(study)


def test_a_pair_is_told_with_what_it_is_judged_against(tmp_path):
    material = paired(tmp_path)
    first, second, last = verdict_texts(material)
    assert first.headline == '"prefix" does better than "input hidden", by more than the margin'
    assert second.headline.startswith('"prefix" does better than "causal"')
    assert last.headline.startswith('"input hidden" does worse than "causal"')
    told = markdown_report(material)
    assert "98.33 % interval" in told
    assert ' for "prefix" against "input hidden"' in told
    assert "better, by more than the margin (against input hidden)" in latex_table(material)
    text = render_page(material)
    assert "gain of prefix against input hidden" in text
    assert "Right of zero is better than the arm that each is judged against." in text
    assert "input hidden → prefix" in text
    assert (
        first.compute
        == 'In compute: not said, for "input hidden" was not trained at other lengths.'
    )
    assert 'read off the annealed lengths of "causal"' in second.compute


def test_an_arm_without_a_pair_is_in_the_table_without_a_verdict(tmp_path):
    study = make_study(tmp_path)
    rewrite_plan(
        study, design={**study.read_plan()["design"], "comparisons": [["input hidden", "causal"]]}
    )
    assert "prefix & 2.4" in latex_table(gather_report_data(study))
    assert r"& -- & -- & -- \\" in latex_table(gather_report_data(study))


def test_arms_that_the_design_compares_with_nothing_are_named(tmp_path):
    study = make_study(tmp_path)
    design = study.read_plan()["design"]
    rewrite_plan(study, design={**design, "comparisons": [["input hidden", "causal"]]})
    material = gather_report_data(study)
    note = (
        'No verdict on "prefix": it was trained and measured, but the design compares it with no'
        " other arm."
    )
    assert note in verdict_notes(material)
    assert f"{note}\n" in markdown_report(material)
    assert note in unescape(render_page(material))
    assert f"% {note}" in latex_table(material)
    rewrite_plan(study, design={**design, "control": "prefix", "comparisons": None})
    assert not any("No verdict on" in one for one in verdict_notes(gather_report_data(study)))


def test_that_a_design_has_too_few_lengths_is_said_once(tmp_path):
    study = add_lengths(make_study(tmp_path), {"causal": 0.04})
    assert not any("In compute" in one for one in verdict_notes(gather_report_data(study)))
    rewrite_plan(study, design={**study.read_plan()["design"], "lengths": [0.5, 1.0]})
    material = gather_report_data(study)
    words = markdown_report(material)
    assert words.count("In compute: ") == 1
    assert (
        "In compute: not said. What a gain is worth in tokens is read off runs of 3 lengths, and"
        " the design has fewer." in words
    )
    assert "compute multiplier" not in words


def test_the_name_of_an_arm_is_quoted_in_sentences_and_bare_in_tables(tmp_path):
    material = gather_report_data(make_study(tmp_path))
    words, typeset = markdown_report(material), latex_table(material)
    assert '**"prefix" does ' in words
    assert '"input hidden" had to come out worse, and did' in words
    assert "|  | causal | prefix | input hidden |" in words
    assert any(line.startswith("prefix & ") for line in typeset.splitlines())
    assert not any('"' in line for line in words.splitlines() if line.startswith("|  |"))


def test_failures_are_told_before_the_numbers(tmp_path):
    first, _ = said(tmp_path, failed=[("prefix", 2)])
    assert first.word == "unstable"
    assert first.failures.startswith(
        '"prefix" trained in 3 of 4, "causal" in 4 of 4; the numbers are of the seeds in which'
    )


def test_a_mean_over_some_of_the_seeds_says_so(tmp_path):
    material = gather_report_data(
        make_study(tmp_path, failed=[("prefix", 2), *(("input hidden", seed) for seed in SEEDS)])
    )
    table = latex_table(material)
    assert re.search(r"^prefix & \d\.\d{4} \(3 of 4\) & ", table, re.MULTILINE)
    assert "input hidden & -- (0 of 4) & " in table
    assert re.search(r"^causal & \d\.\d{4} & ", table, re.MULTILINE)
    assert "(3 of 4)</td>" in render_page(material)


def test_an_unstable_verdict_is_one_word_in_a_typeset_table(tmp_path):
    table = latex_table(gather_report_data(make_study(tmp_path, failed=[("prefix", 2)])))
    assert next(line for line in table.splitlines() if line.startswith("prefix")).endswith(
        r" & unstable \\"
    )


def test_items_of_an_arm_that_gains_nowhere_are_titled_so(tmp_path):
    told = {one.arm: one for one in item_examples(gather_report_data(make_study(tmp_path)))}
    assert told["input hidden"].best_title == "where it loses least"
    assert told["input hidden"].worst_title == "where it loses most"
    better = {
        one.arm: one
        for one in item_examples(gather_report_data(make_study(tmp_path / "b", gains=BETTER)))
    }["prefix"]
    assert (better.best_title, better.worst_title) == (
        "where it gains most",
        "where it gains least",
    )
    assert "where it loses least" in render_page(gather_report_data(make_study(tmp_path / "c")))


def test_rates_that_were_not_tuned_are_said_once(tmp_path):
    words = gather_report_data(make_study(tmp_path)).findings.arms[0].judgement.description
    assert "on these items; at one rate for all arms, not tuned" in words
    assert "at these rates" not in words


def test_an_anonymous_page_names_no_files_of_text(tmp_path):
    study = make_study(tmp_path)
    plan = study.read_plan()
    for arm in plan["arms"].values():
        arm["run"]["stages"][-1]["corpus"]["sources"] = [{"kind": "files", "paths": ["notes.txt"]}]
    study.write_plan(plan)
    assert "all of it was text from the files notes.txt." in " ".join(
        limitations(gather_report_data(study))
    )
    assert "all of it was text from files." in " ".join(
        limitations(gather_report_data(study, anonymous=True))
    )


def test_of_an_arm_that_never_trained_there_are_no_numbers_to_speak_of(tmp_path):
    first, _ = said(tmp_path, failed=[("prefix", seed) for seed in SEEDS])
    assert (first.failures, first.numbers) == (
        '"prefix" trained in 0 of 4, "causal" in 4 of 4.',
        "",
    )


def test_an_unstable_arm_is_not_told_that_it_gains(tmp_path):
    first, _ = said(tmp_path, gains=BETTER, failed=[("prefix", 2)])
    assert first.word == "unstable"
    assert (
        first.meaning
        == "Whichever failed more often can neither win nor be called equal, whatever the numbers"
        " say."
    )
    assert first.advice == ""


def test_compute_is_told_as_a_multiple_or_not_at_all():
    assert describe_compute("b", "a", None) == "In compute: not said."
    flat = describe_compute(
        "b", "a", Multiplier(None, None, None, "does not clearly improve with more tokens")
    )
    assert flat == 'In compute: not said, for "a" does not clearly improve with more tokens.'
    told = describe_compute("b", "a", Multiplier(0.48, 0.47, 0.5))
    assert (
        told
        == 'In compute: "a" reaches the final score of "b" after 48 % of its tokens (interval 0.47'
        ' to 0.50; read off the annealed lengths of "a").'
    )


def test_what_lies_beyond_the_full_length_is_marked_as_extrapolated():
    told = describe_compute("b", "a", Multiplier(1.234, 0.9, 1.5))
    assert told.endswith(
        '(interval 0.90 to 1.50; read off the annealed lengths of "a", above 1 extrapolated by the'
        " slope at full length)."
    )
    assert multiplier_cell(Multiplier(1.234, 0.9, 1.5)) == "1.23 (extrapolated); 0.90 to 1.50"
    assert "extrapolated" not in describe_compute("b", "a", Multiplier(0.8, 0.7, 0.9))


@pytest.mark.parametrize(
    ("found", "words", "cell"),
    [
        (
            Multiplier(0.0, 0.0, 0.0),
            '"a" reaches the final score of "b" before 25 % of its tokens, further than',
            "below 0.25",
        ),
        (
            Multiplier(inf, inf, inf),
            'more than 2 times its tokens to reach the final score of "b", further than its',
            "above 2",
        ),
        (
            Multiplier(inf, 0.8, inf),
            'more than 2 times its tokens to reach the final score of "b" (at least 0.80; ',
            "at least 0.80",
        ),
        (
            Multiplier(0.3, 0.0, 0.5),
            '"a" reaches the final score of "b" after 30 % of its tokens (at most 0.50; ',
            "at most 0.50",
        ),
        (
            Multiplier(1.1, 0.0, inf),
            "(no interval between 0.25 and 2; ",
            "no interval between 0.25 and 2",
        ),
        (Multiplier(1.1, None, None), "(no interval yet; ", "no interval yet"),
    ],
)
def test_no_end_of_a_multiplier_is_told_as_infinite(found, words, cell):
    told = describe_compute("b", "a", found)
    assert words in told
    assert cell in multiplier_cell(found)
    assert "inf" not in told + multiplier_cell(found)


def test_what_is_not_shown_names_size_text_and_yardstick(tmp_path):
    told = " ".join(limitations(gather_report_data(make_study(tmp_path))))
    for word in (
        "37.1k parameters read 15.4k tokens",
        "translation",
        "halves.test",
        "all trained at one",
    ):
        assert word in told


def test_sources_are_told_in_words_with_the_last_part_of_their_path(tmp_path):
    assert (
        describe_source({"kind": "python-docs"})
        == "the documentation of Python and its installed libraries"
    )
    assert describe_source({"kind": "sort"}) == "an invented language (sort)"
    given = {"kind": "files", "paths": ["data/ada/a.txt", "b.md"]}
    assert describe_source(given) == "text from the files a.txt and b.md"


def test_rates_that_differ_are_not_told_as_one(tmp_path):
    told = " ".join(
        limitations(gather_report_data(set_arm_rates(make_study(tmp_path), {"prefix": 0.008})))
    )
    assert "its own best learning rate: each trained at the rate written for it." in told


@pytest.mark.parametrize(
    ("value", "text"), [(0.0123, "+0.012"), (-0.0123, "−0.012"), (-0.0001, "0.000"), (0.0, "0.000")]
)
def test_a_zero_has_no_sign(value, text):
    assert format_signed(value, 3) == text


def test_numbers_are_short():
    assert [format_scaled(number) for number in (7, 1024, 124439808)] == ["7", "1.02k", "124M"]
    assert format_scaled(2.5e9, "FLOP") == "2.5 GFLOP"
    assert [decimals_for_width(width) for width in (0.0, 0.5, 0.012, 1e-9)] == [4, 3, 3, 6]
    assert format_plain(-1.26, 1) == "−1.3"
    assert true_minus("gain -0.5 at 1e-05, arm-2") == "gain −0.5 at 1e-05, arm-2"
    assert [format_plural(1, "seed"), format_plural(2, "seed")] == ["1 seed", "2 seeds"]
    assert [join_words(["a"]), join_words(["a", "b", "c"]), join_words([])] == [
        "a",
        "a, b and c",
        "",
    ]


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
    assert describe_each(dict(zip("abcd", values, strict=False)), str) == told


def of_edition(root: Path, edition: int, **options) -> ReportData:
    study = make_study(root, **options)
    plan = study.read_plan()
    plan["design"]["comparisons"] = [["prefix", "causal"]]
    study.write_plan({**plan, "edition": edition})
    return gather_report_data(study)


def test_the_word_and_the_headline_say_of_which_seeds_and_items_they_are(tmp_path):
    """In every format; a study of an earlier edition keeps its words."""
    failed = [(arm, 2) for arm in ("causal", "prefix", "input hidden")]
    report = of_edition(tmp_path / "now", 4, gains=BETTER, failed=failed)
    (one,) = verdict_texts(report)
    said_word = "better in 3 of 4 seeds"
    headline = WITHOUT_SCOPE.replace(",", " in 3 of 4 seeds on these items,")
    assert (one.label, one.headline) == (said_word, headline)
    page, terminal = unescape(render_page(report)), Console(file=StringIO(), width=400)
    print_verdicts(report, terminal)
    printed = terminal.file.getvalue()
    assert f"{said_word}  {headline}" in printed
    assert "The positive control works in 3 of 4 seeds: " in printed
    assert headline in page
    assert headline in markdown_report(report)
    tex = latex_table(report)
    assert said_word in tex
    assert "Each verdict is on these items." in tex
    first, control = verdict_rows(report)
    assert (first["verdict"], control["verdict"]) == (said_word, "works in 3 of 4 seeds")
    assert first["words"].startswith(f"{said_word}: ")
    before = of_edition(tmp_path / "before", 3, gains=BETTER, failed=failed)
    (old,) = verdict_texts(before)
    assert (old.label, old.headline) == ("better", WITHOUT_SCOPE)
    assert [row["verdict"] for row in verdict_rows(before)] == ["better", "works"]
    assert "on these items" not in latex_table(before)


def test_where_every_run_trained_only_the_items_are_said(tmp_path):
    (one,) = verdict_texts(of_edition(tmp_path, 4, gains=BETTER))
    assert one.label == "better"
    assert one.headline == WITHOUT_SCOPE.replace(",", " on these items,")


def test_what_a_match_has_moved_stands_beside_the_verdict_in_every_format(tmp_path):
    study = make_study(tmp_path)
    shift = "non-embedding parameters by +16.5 % and training FLOPs by +9.0 %"
    line = {"path": MATCH_SHIFT, "mark": "≈", "note": "", "allowed": None}
    line["values"] = {"causal": "–", "prefix": shift, "input hidden": "–"}
    assert match_notes(gather_report_data(study)) == []
    rewrite_plan(study, control=[*study.read_plan()["control"], line])
    material = gather_report_data(study)
    said = f"he match moved {shift} in prefix"
    (note,) = match_notes(material)
    assert note == f"T{said}: part of the effect may be that of this change."
    assert note in markdown_report(material).replace("\\", "")
    assert note in unescape(render_page(material))
    assert f"% {note}" in latex_table(material)
    shown = StringIO()
    print_verdicts(material, Console(file=shown, width=400))
    assert note in shown.getvalue()
    words = [row["words"] for row in verdict_rows(material) if row["arm"] == "prefix"]
    assert said in words[0]
    table = [row for row in verdict_table(material.findings) if row["arm"] == "prefix"]
    assert said in table[0]["words"]
