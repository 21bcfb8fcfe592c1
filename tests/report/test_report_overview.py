"""Many comparisons: a table before the sentences, and tables a page has room for."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from grown_study import WIDE, grown
from paribus.analyse import compare
from paribus.report.charts import CONTAINER, arm_colours
from paribus.report.effect import LINE, broken, effects
from paribus.report.images import images
from paribus.report.material import Material, gathered
from paribus.report.overview import headings, overview, tally
from paribus.report.page import drawn, page
from paribus.report.prices import costs_by_arm
from paribus.report.prose import markdown
from paribus.report.tables import seeds_by_arm
from paribus.report.trust import grounds
from paribus.report.verdicts import verdicts
from small_study import MANY, SEEDS, made, with_lengths


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    return gathered(with_lengths(made(tmp_path_factory.mktemp("runs"), gains=MANY), {"causal": 0.2}))


@pytest.fixture(scope="module")
def text(material: Material) -> str:
    return page(material)


def test_of_few_comparisons_there_is_no_table(tmp_path):
    few = gathered(made(tmp_path))
    assert overview(few) == []
    assert (few.many, 'class="glance"' in page(few), "<h2>" in page(few)) == (False, False, True)


def test_every_comparison_has_a_line_and_the_control_comes_last(material):
    briefs = overview(material)
    assert [one.arm for one in briefs] == ["prefix", "long-window+near", "short-window+near", "input hidden"]
    assert [one.word for one in briefs] == ["better", "better", "worse", "worse"]
    assert [one.is_control for one in briefs] == [False, False, False, True]
    assert briefs[-1].cells[0] == "input hidden against causal (the positive control)"
    assert briefs[-1].compute == "below 0.27"
    assert tally(briefs, material) == "3 comparisons and a positive control over 4 paired seeds: 2 better, 1 worse."
    assert headings(briefs, material) == (
        "comparison", "verdict", "gain, bits per byte; 98.75 % interval", "compute multiplier",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("margin", "advice"),
    [
        (
            0.02,
            "60 fresh seeds, judged alone, for 10 margins (0.2); 18 fresh seeds, judged alone, for 20 margins (0.4); "
            "for the margin itself longer runs, another yardstick or a wider margin",
        ),
        (0.3, "29 fresh seeds, judged alone"),
        (None, "longer runs, another yardstick or a margin"),
    ],
)
def test_what_it_would_take_has_a_column_where_a_comparison_is_inconclusive(material, margin, advice):
    first, *rest = material.found.arms
    noisy = compare([0.3, -0.3, 0.15, -0.06], margin=margin, n_comparisons=4)
    doubtful = replace(first, judgement=replace(first.judgement, comparison=noisy, verdict=noisy.verdict))
    other = replace(material, found=replace(material.found, arms=(doubtful, *rest)))
    briefs = overview(other)
    assert headings(briefs, other)[-1] == "what it would take"
    assert (briefs[0].word, [one.advice for one in briefs]) == ("inconclusive", [advice, "", "", ""])
    assert advice in markdown(other).partition("**")[0]


def test_of_a_comparison_without_numbers_its_word_is_told(tmp_path):
    failed = [("prefix", seed) for seed in SEEDS]
    brief = next(one for one in overview(gathered(made(tmp_path, gains=MANY, failed=failed))) if one.arm == "prefix")
    assert (brief.word, brief.gain, brief.interval, brief.compute) == ("unstable", "–", "", "–")


def test_the_table_stands_before_the_plot_and_the_sentences_are_still_there(material, text):
    assert text.index('class="glance"') < text.index("The verdicts in sentences") < text.index('id="plot-effect"')
    for one in verdicts(material):
        assert f"{one.headline}</h3>" in text
    assert text.count('role="rowheader"') == len(material.found.arms)
    assert '<br><span class="muted">the positive control</span>' in text


def test_the_markdown_begins_with_the_same_table(material):
    told = markdown(material)
    assert told.index("| comparison | verdict |") < told.index("**prefix does better than causal")
    assert "| long-window+near against causal | better" in told
    assert "Equal in all arms: parameters 37.1k; " in told


def test_costs_are_told_by_arm_and_what_is_equal_once(material, text):
    heading, lines, equal = costs_by_arm(material)
    assert [line[0] for line in lines] == list(MANY)
    assert heading == ("arm", "pairs of positions that see each other", "cached keys kept across turns")
    assert equal.startswith("Equal in all arms: parameters 37.1k; of them outside word tables ")
    assert equal in text


def test_seeds_are_columns_and_arms_and_gains_are_lines(material):
    heading, lines = seeds_by_arm(material, "halves.test")
    assert heading == ("", "seed 1", "seed 2", "seed 3", "seed 4", "mean", "spread")
    assert [line[0] for line in lines] == [*MANY, *(f"gain of {name}" for name in list(MANY)[1:])]
    assert {len(line) for line in lines} == {len(heading)}


def test_what_it_rests_on_names_the_ends_alone(material):
    told = {one.name: one.text for one in grounds(material)}
    assert re.search(
        r"in bits per byte, at noise as large as these seeds allow, \S+ for [a-z +-]+ to \S+ for [a-z +-]+\.",
        told["Seeds"],
    )
    documents = told["Other documents"].partition("on new documents lie between ")[2]
    assert re.fullmatch(r".* \(98.75 %\) for input hidden and .* \(98.75 %\) for long-window\+near\. For .*", documents)


def test_labels_of_the_effect_plot_are_broken_and_not_cut(material):
    assert broken("causal") == ["causal"]
    assert broken("encoder-decoder by layers") == ["encoder-decoder by", "layers"]
    assert broken("mixed-layers+rotary") == ["mixed-layers", "+rotary"]
    assert broken("against full+none") == ["against full+none"]
    assert broken("x" * 40) == ["x" * 40]
    assert all(len(line) <= LINE for line in broken("a-b " * 20))
    (plot, *_) = effects(material)
    assert "slice(datum.label, " in str(plot.spec)


def test_every_arm_of_a_legend_is_named_in_full_in_a_file(material):
    names = [arm * 3 for arm in MANY]
    legend = arm_colours(names).to_dict()["legend"]
    assert (legend["labelLimit"], CONTAINER in legend["columns"]["expr"]) == (0, True)
    told = images({"learning": drawn(material)["learning"]}, "svg")["learning.svg"].decode()
    assert all(f">{name}</text>" in told for name in MANY)
    assert "…" not in told


def test_the_first_seeds_of_an_open_number_have_no_interval(tmp_path: Path) -> None:
    material = gathered(grown(tmp_path, 3, WIDE, seeds="open"))
    assert {one.interval for one in overview(material)} == {"no interval yet"}
    assert not re.search(r"\binf\b", markdown(material))
