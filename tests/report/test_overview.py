"""Many comparisons: a table before the sentences, and tables a page has room for."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from handmade_study import MANY_ARMS, SEEDS, add_lengths, make_study
from markupsafe import escape
from sized_study import WIDE_GAINS, make_sized_study

from paribus.analyse import compare
from paribus.analyse.criterion import Criterion
from paribus.report.arm_costs import cost_table
from paribus.report.charts import (
    CONTAINER,
    LEGEND_GAP,
    LETTER,
    SYMBOL,
    arm_colours,
    multiline_label_expression,
)
from paribus.report.effect_plot import effect_plots
from paribus.report.gain_chart import LEADING, LINE, break_name, row_labels
from paribus.report.images import plot_files
from paribus.report.markdown import markdown_report
from paribus.report.overview import comparison_headings, comparison_lines, describe_tally
from paribus.report.page import render_page, study_plots
from paribus.report.report_data import ReportData, gather_report_data
from paribus.report.tables import seed_table
from paribus.report.trust import trust_checks
from paribus.report.verdicts import verdict_texts


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    return gather_report_data(
        add_lengths(make_study(tmp_path_factory.mktemp("runs"), gains=MANY_ARMS), {"causal": 0.2})
    )


@pytest.fixture(scope="module")
def text(material: ReportData) -> str:
    return render_page(material)


def test_of_few_comparisons_there_is_no_table(tmp_path):
    few = gather_report_data(make_study(tmp_path))
    assert comparison_lines(few) == []
    assert (
        few.has_many_columns,
        'class="glance"' in render_page(few),
        "<h2>" in render_page(few),
    ) == (
        False,
        False,
        True,
    )


def test_every_comparison_has_a_line_and_the_control_comes_last(material):
    briefs = comparison_lines(material)
    assert [one.arm for one in briefs] == [
        "prefix",
        "long-window+near",
        "short-window+near",
        "input hidden",
    ]
    assert [one.word for one in briefs] == ["better", "better", "worse", "worse"]
    assert [one.is_control for one in briefs] == [False, False, False, True]
    assert briefs[-1].cells[0] == "input hidden against causal (the positive control)"
    assert briefs[-1].compute == "below 0.27"
    assert (
        describe_tally(briefs, material)
        == "3 comparisons and a positive control over 4 paired seeds: 2 better, 1 worse."
    )
    assert comparison_headings(briefs, material) == (
        "comparison",
        "verdict",
        "gain, bits per byte; 98.75 % interval",
        "compute multiplier",
    )


@pytest.mark.parametrize(
    ("margin", "advice"),
    [
        (
            0.02,
            (
                "60 fresh seeds, judged alone, for 10 margins (0.2); 18 fresh seeds, judged alone,"
                " for 20 margins (0.4); for the margin itself longer runs, another yardstick or a"
                " wider margin"
            ),
        ),
        (0.3, "29 fresh seeds, judged alone"),
        (None, "longer runs, another yardstick or a margin"),
    ],
)
def test_what_it_would_take_has_a_column_where_a_comparison_is_inconclusive(
    material, margin, advice
):
    first, *rest = material.findings.arms
    noisy = compare([0.3, -0.3, 0.15, -0.06], Criterion(margin=margin, n_comparisons=4))
    doubtful = replace(
        first, judgement=replace(first.judgement, comparison=noisy, verdict=noisy.verdict)
    )
    other = replace(material, findings=replace(material.findings, arms=(doubtful, *rest)))
    briefs = comparison_lines(other)
    assert comparison_headings(briefs, other)[-1] == "what it would take"
    assert (briefs[0].word, [one.advice for one in briefs]) == (
        "inconclusive",
        [advice, "", "", ""],
    )
    assert advice in markdown_report(other).partition("**")[0]


def test_of_a_comparison_without_numbers_its_word_is_told(tmp_path):
    failed = [("prefix", seed) for seed in SEEDS]
    brief = next(
        one
        for one in comparison_lines(
            gather_report_data(make_study(tmp_path, gains=MANY_ARMS, failed=failed))
        )
        if one.arm == "prefix"
    )
    assert (brief.word, brief.gain, brief.interval, brief.compute) == ("unstable", "–", "", "–")


def test_the_table_stands_before_the_plot_and_the_sentences_are_still_there(material, text):
    assert (
        text.index('class="glance"')
        < text.index("The verdicts in sentences")
        < text.index('id="plot-effect"')
    )
    for one in verdict_texts(material):
        assert f"{escape(one.headline)}</h3>" in text
    assert text.count('role="rowheader"') == len(material.findings.arms)
    assert '<br><span class="muted">the positive control</span>' in text


def test_the_markdown_begins_with_the_same_table(material):
    told = markdown_report(material)
    assert told.index("| comparison | verdict |") < told.index(
        '**"prefix" does better than "causal"'
    )
    assert "| long-window+near against causal | better" in told
    assert "Equal in all arms: parameters 37.1k; " in told


def test_costs_are_told_by_arm_and_what_is_equal_once(material, text):
    heading, lines, equal = cost_table(material)
    assert [line[0] for line in lines] == list(MANY_ARMS)
    assert heading == ("arm", "visible query–key pairs", "cache kept across turns")
    assert equal.startswith("Equal in all arms: parameters 37.1k; of them outside word tables ")
    assert equal in text


def test_seeds_are_columns_and_arms_and_gains_are_lines(material):
    heading, lines = seed_table(material, "halves.test")
    assert heading == ("", "seed 1", "seed 2", "seed 3", "seed 4", "mean", "spread")
    assert [line[0] for line in lines] == [
        *MANY_ARMS,
        *(f"gain of {name}" for name in list(MANY_ARMS)[1:]),
    ]
    assert {len(line) for line in lines} == {len(heading)}


def test_what_it_rests_on_names_the_ends_alone(material):
    told = {one.name: one.text for one in trust_checks(material)}
    assert re.search(
        r'in bits per byte, at the largest sd these seeds allow, \S+ for "[a-z +-]+" to \S+ for'
        r' "[a-z +-]+"\.',
        told["Seeds"],
    )
    documents = told["Other documents"].partition("on new documents, of 4 comparisons: ")[2]
    assert re.fullmatch(
        r'the lowest is that of "input hidden", .* \(98.75 %\); the highest is that of'
        r' "long-window\+near", .* \(98.75 %\)\. For .*',
        documents,
    )


def test_labels_of_the_effect_plot_are_broken_and_not_cut(material):
    assert break_name("causal") == ["causal"]
    assert break_name("encoder-decoder by layers") == ["encoder-decoder by", "layers"]
    assert break_name("mixed-layers+rotary") == ["mixed-layers", "+rotary"]
    assert break_name("against full+none") == ["against full+none"]
    assert break_name("masked under full+full") == ["masked under", "full+full"]
    assert break_name("against causal+full") == ["against", "causal+full"]
    assert break_name("against mixed-layers+rotary") == ["against", "mixed-layers", "+rotary"]
    assert break_name("x" * 40) == ["x" * 40]
    assert all(len(line) <= LINE for line in break_name("a-b " * 20))
    plot, *_ = effect_plots(material)
    assert "slice(datum.label, " in str(plot.spec)
    assert "'labelOffset': {'expr': '-7.5 * (length(" in str(plot.spec)


def test_a_label_of_several_lines_is_centred_on_its_row():
    axis = row_labels([["one"], ["two", "lines"]], 12, 160).to_dict()
    lines = multiline_label_expression([["one"], ["two", "lines"]])
    assert axis["labelExpr"] == lines
    assert axis["labelOffset"] == {"expr": f"-7.5 * (length({lines}) - 1)"}
    assert axis["labelLineHeight"] == LEADING == 15


def test_columns_of_a_legend_have_room_for_wider_letters(material):
    legend = arm_colours(["masked under causal+causal", "masked under full+full"]).to_dict()
    column = LETTER * 26 + SYMBOL  # of the longest name, with the gap beside it
    assert SYMBOL > LEGEND_GAP > 5 * LETTER
    assert f"/ {column})" in legend["legend"]["columns"]["expr"]
    spec = study_plots(material)["learning"].spec
    assert spec["config"]["legend"]["columnPadding"] == LEGEND_GAP


def test_every_arm_of_a_legend_is_named_in_full_in_a_file(material):
    names = [arm * 3 for arm in MANY_ARMS]
    legend = arm_colours(names).to_dict()["legend"]
    assert (legend["labelLimit"], CONTAINER in legend["columns"]["expr"]) == (0, True)
    told = plot_files({"learning": study_plots(material)["learning"]}, "svg")[
        "learning.svg"
    ].decode()
    assert all(f">{name}</text>" in told for name in MANY_ARMS)
    assert "…" not in told


def test_the_first_seeds_of_an_open_number_have_no_interval(tmp_path: Path) -> None:
    material = gather_report_data(make_sized_study(tmp_path, 3, WIDE_GAINS, seeds="open"))
    assert {one.interval for one in comparison_lines(material)} == {"no interval yet"}
    assert not re.search(r"\binf\b", markdown_report(material))
