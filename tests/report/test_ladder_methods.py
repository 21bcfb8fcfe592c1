"""The methods say all that is needed to make the runs of a ladder again."""

from dataclasses import replace

import numpy as np
import pytest
from handmade_ladder import LADDER_TABLE, RATIOS, make_ladder_report
from handmade_study import make_study

from paribus.report.ladder_methods import at_own_width, ladder_sentences
from paribus.report.laws import describe_fit, describe_off_law
from paribus.report.methods import methods
from paribus.report.report_data import ReportData, gather_report_data

SWEPT = {"law": {"power": -0.2571}}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    return make_ladder_report(tmp_path_factory.mktemp("runs"))


def with_ladder(report: ReportData, **fields: object) -> ReportData:
    """The report of a design whose ladder has these fields."""
    table = {**report.plan.design.table, "ladder": {**LADDER_TABLE, **fields}}
    design = report.plan.design.model_copy(update={"table": table})
    plan = report.plan.model_copy(update={"design": design})
    own = replace(report, findings=replace(report.findings, plan=plan))
    vars(own)["laws"] = report.laws  # fitted once
    return own


def said_of(report: ReportData) -> str:
    return " ".join(ladder_sentences(report))


def test_sizes_durations_and_seeds_are_said(report):
    said = said_of(with_ladder(report))
    assert said.startswith(
        "On the ladder, all arms are also trained at the widths 64, 96, 128 and 192, for 2, 8 and"
        " 32 tokens for each parameter of the baseline outside of embeddings (120k to 16M tokens),"
        " under 3 seeds. Each run has its whole schedule. Arms have as many layers as at the"
        " width 32, and more heads of the same size where they are wider."
    )
    assert "and at most" not in said


def test_arms_that_are_not_on_the_ladder_are_named(report):
    plan = report.plan.model_copy(update={"order": [*report.order, "input hidden"]})
    own = replace(report, findings=replace(report.findings, plan=plan))
    vars(own)["laws"] = report.laws
    assert said_of(own).startswith(
        'On the ladder, all arms but "input hidden" are also trained at the widths 64, 96, 128 and'
        " 192, for 2, 8 and 32 tokens"
    )


def test_a_limit_that_left_points_out_is_said(report):
    own = with_ladder(report, tokens_per_parameter=[*RATIOS, 128], max_tokens=20_000_000)
    assert "outside of embeddings, and at most 20M (120k to 16M tokens)" in said_of(own)


def test_layers_and_heads_may_grow_by_other_rules(report):
    own = with_ladder(report, depth="proportional", d_head=8)
    assert "Arms have layers in proportion to the width, and heads of 8 dimensions." in said_of(own)


def test_the_rate_follows_the_width_as_the_design_says(report):
    assert "The rate of an arm on the ladder is that at the width 32." in said_of(
        with_ladder(report)
    )
    assert "is that at the width 32 times (width / 32)^−0.5." in said_of(
        with_ladder(report, rate_power=-0.5)
    )


def test_rates_by_sweeps_are_said_with_their_power(report):
    own = with_ladder(report, rate_power=-0.5, rate_sizes=[64, 96, 128])
    said = said_of(replace(own, ladder_rates=SWEPT))
    assert (
        "The rate of each arm is also swept at the widths 64, 96 and 128, over the same share of"
        " the longest duration that all widths have, with grids centred at the written rate times"
        " (width / 32)^−0.5. The rates of the ladder follow a power of the baseline's parameters"
        " outside of embeddings that is fitted to these: a level for each arm, and one power for"
        " all, −0.257." in said
    )
    assert "one power for all." in said_of(own)  # the sweeps are not there yet


def test_the_runs_of_the_verdicts_are_told_from_those_of_the_ladder(report, tmp_path):
    said = methods(with_ladder(report, rate_power=-0.5))
    for words in (
        "At the width 32, all arms have 30 steps,",
        "At the width 32, all arms are trained at the learning rate 0.004,",
        "At the width 32, each arm is trained under 4 seeds;",
    ):
        assert words in said
    assert at_own_width(gather_report_data(make_study(tmp_path)), "All arms.") == "All arms."


def missed(report: ReportData, deviations: list[float], p: float) -> ReportData:
    """The report whose arms lie off their laws by so much."""
    laws = report.laws
    assert laws is not None
    assert not isinstance(laws, str)
    noises = [
        replace(noise, off_law=np.array([deviation**2]))
        for noise, deviation in zip(laws.fit.noises, deviations, strict=True)
    ]
    fit = replace(laws.fit, noises=tuple(noises), misfit_p_P=np.array([p]))
    own = with_ladder(report)
    vars(own)["laws"] = replace(laws, fit=fit)
    return own


def test_a_further_variance_is_a_standard_deviation_of_each_arm(report):
    own = missed(report, [0.12, 0.12, 0.2071], 0.00913)
    each = (
        'as a standard deviation of the loss, 12 % for "causal", 12 % for "prefix" and 21 % for'
        ' "same side"'
    )
    assert describe_off_law(own.laws) == each
    assert (
        "arm by arm; the p of all arms together is 0.00913. It is below 0.05, so the points of"
        " every arm get a further variance about its law, which accounts for their residuals:"
        f" {each}. Definitions:" in describe_fit(own.laws)
    )
    assert f"their points get a further variance about the law of the arm: {each}." in said_of(own)


def test_laws_that_fit_have_no_further_variance(report):
    own = missed(report, [0.0] * 3, 0.4)
    assert describe_off_law(own.laws) == ""
    assert (
        "the p of all arms together is 0.4. Below 0.05 the points of every arm would get a further"
        " variance about its law. Definitions:" in describe_fit(own.laws)
    )
    assert "further variance" not in said_of(own)


def test_points_that_count_by_their_variance_are_said(report):
    for p, words in ((0.5, "read; exponents"), (1e-9, "read, and each point counts by one over")):
        own = with_ladder(report)
        noise = replace(report.laws.rung_noise, p_P=np.array([p]))
        vars(own)["laws"] = replace(report.laws, rung_noise=noise)
        assert f"D the tokens {words}" in said_of(own)
