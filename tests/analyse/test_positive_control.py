"""The positive control: outside the family, one-sided, and how large the margin is beside it."""

import re
from dataclasses import replace
from math import inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade_study import GAINS, SEEDS, add_first_stage, add_lengths, make_study
from noise_draws import N_DRAWS
from scipy.stats import t, ttest_1samp

from paribus.analyse import always_valid_t, study_findings, study_verdicts
from paribus.analyse.positive_control import control_margins, judge_control, margin_share_of_control
from paribus.analyse.verdict import Verdict
from paribus.record import Study
from paribus.report.control_plot import control_plot
from paribus.report.latex import latex_table
from paribus.report.markdown import markdown_report
from paribus.report.positive_control import (
    describe_control,
    describe_margin_share,
    equivalence_caveat,
)
from paribus.report.report_data import ReportData, gather_report_data
from paribus.report.trust import TrustCheck, trust_checks
from paribus.report.verdicts import verdict_texts as said_verdicts

LOSSES = {1: 0.11, 2: 0.08, 3: 0.14, 4: 0.10}


def second(root: Path, gains: dict[str, float] = GAINS, **design: Any) -> Study:
    """The study made by hand as one of the second edition."""
    study = make_study(root, gains=gains)
    plan = study.read_plan()
    plan["design"] |= design
    study.write_plan({**plan, "edition": 2})
    return study


def ground(material: ReportData, name: str) -> TrustCheck:
    return next(one for one in trust_checks(material) if one.name == name)


def test_a_control_works_where_a_one_sided_test_at_5_percent_says_so() -> None:
    found = judge_control("blind", "arm", LOSSES, 4)
    values = list(LOSSES.values())
    by_hand = np.mean(values) - t.ppf(0.95, 3) * np.std(values, ddof=1) / 2
    assert (found.effect, found.low) == (pytest.approx(np.mean(values)), pytest.approx(by_hand))
    assert found.p == pytest.approx(ttest_1samp(values, 0, alternative="greater").pvalue)
    assert (found.works, found.word, found.level) == (True, "works", 0.95)
    turned = judge_control("blind", "arm", {seed: -loss for seed, loss in LOSSES.items()}, 4)
    assert (turned.works, turned.word) == (False, "did not work")
    assert turned.p == pytest.approx(1 - found.p)


@pytest.mark.parametrize("n", [5, 10])
def test_a_control_that_costs_nothing_works_in_one_study_of_twenty(n: int) -> None:
    draws = np.random.default_rng(251).normal(size=(N_DRAWS, n)).tolist()
    worked = [judge_control("blind", "arm", dict(enumerate(one)), n).works for one in draws]
    assert 0.036 <= np.mean(worked) <= 0.064


def test_looks_and_open_seeds_are_read_with_their_own_bound() -> None:
    spread = np.std(list(LOSSES.values()), ddof=1) / 2
    looked = judge_control("blind", "arm", LOSSES, 4, family_alpha=0.01)
    assert looked.low == pytest.approx(looked.effect - t.ppf(0.99, 3) * spread)
    opened = judge_control("blind", "arm", LOSSES, 4, open_ended=True)
    assert opened.low == pytest.approx(opened.effect - always_valid_t(4) * spread)


def test_a_control_without_enough_seeds_or_without_noise_does_not_work() -> None:
    few = judge_control("blind", "arm", {1: 0.5, 2: 0.6}, 5)
    assert (few.works, few.low) == (False, -inf)
    assert (
        few.description
        == "The control blind did not work: 2 of 5 seeds have a score in both, and 3 are needed."
    )
    same = judge_control("blind", "arm", dict.fromkeys(range(5), 0.5), 5)
    assert (same.works, same.reason) == (
        False,
        "it loses the same in every seed, so the seed does not reach its runs",
    )
    equal = judge_control("blind", "arm", dict.fromkeys(range(5), 0.0), 5, resolution=0.5)
    assert (equal.works, equal.reason) == (
        False,
        "it scores exactly what the baseline does in every seed",
    )


def test_the_control_is_outside_the_family_and_stands_in_every_table(tmp_path: Path) -> None:
    study = second(tmp_path)
    found = study_findings(study)
    assert [(arm.name, arm.against) for arm in found.arms] == [("prefix", "causal")]
    assert found.n_comparisons == 1
    assert found.control is not None
    assert (found.control.name, found.control.kind, found.control_worked) == (
        "input hidden",
        "input",
        True,
    )
    scores = {(row["arm"], row["seed"]): row["halves.test"] for row in found.reported_rows}
    wanted = {seed: scores["input hidden", seed] - scores["causal", seed] for seed in SEEDS}
    assert found.control.losses == pytest.approx(wanted)
    last = study_verdicts(study)[-1]
    assert (last["arm"], last["verdict"], last["low"]) == ("input hidden", "works", None)
    assert (last["gain"], last["high"]) == (-found.control.effect, -found.control.low)
    material = gather_report_data(study)
    said = describe_control(material)
    assert said.startswith('The positive control works: "input hidden" loses 0.5')
    assert "one-sided at 95 %, 4 paired seeds" in said
    assert said.replace("_", r"\_") in markdown_report(material)
    assert 'The positive control works: "input hidden" loses' in latex_table(material)
    assert ground(material, "Positive control").mark == "yes"
    assert [one.arm for one in said_verdicts(material)] == ["prefix"]


def test_a_control_that_gains_has_a_bound_of_its_gain(tmp_path: Path) -> None:
    material = gather_report_data(second(tmp_path, gains={**GAINS, "input hidden": 0.5}))
    found = material.findings.control
    assert found is not None
    assert found.low < found.effect < 0
    said = describe_control(material)
    assert said.startswith('The positive control did not work: "input hidden" gains 0.5')
    bound = re.search(r"\(a gain of at most ([0-9.]+), one-sided at 95 %", said)
    assert bound is not None
    assert float(bound[1]) == pytest.approx(-found.low, abs=1e-3)
    assert "loss" not in said
    for text in (markdown_report(material), latex_table(material)):
        assert "(a gain of at most" in text


def test_the_control_is_drawn_on_the_scale_of_the_arms(tmp_path: Path) -> None:
    material = gather_report_data(second(tmp_path / "a"))
    found = material.findings.control
    assert found is not None
    (plot,) = control_plot(material)
    assert plot.key == "effect-control"
    assert f"control: input hidden: loss {found.effect:.4f}" in plot.spec["description"]
    assert 'The positive control works: "input hidden" loses' in plot.caption
    drawn = [(row[0], float(row[2].replace("−", "-"))) for row in plot.numbers]
    lost = [("control: input hidden", -loss) for loss in found.losses.values()]
    assert [name for name, _ in drawn] == ["prefix"] * 4 + ["control: input hidden"] * 4
    assert [gain for _, gain in drawn[4:]] == pytest.approx([gain for _, gain in lost], abs=1e-5)
    pairs = [["prefix", "causal"], ["input hidden", "causal"]]
    assert (
        control_plot(gather_report_data(second(tmp_path / "b", comparisons=pairs))) == []
    )  # one of the arms already
    assert control_plot(gather_report_data(make_study(tmp_path / "c"))) == []


def test_a_control_whose_pair_is_written_is_judged_as_well(tmp_path: Path) -> None:
    pairs = [["prefix", "causal"], ["input hidden", "causal"]]
    found = study_findings(second(tmp_path, comparisons=pairs))
    assert found.n_comparisons == 2
    assert found.arm("input hidden").judgement.verdict.word == "worse"
    assert found.control is not None
    assert found.control.works


def test_a_control_that_did_not_work_says_that_the_experiment_detects_nothing(
    tmp_path: Path,
) -> None:
    material = gather_report_data(second(tmp_path, gains={**GAINS, "input hidden": 0.3}))
    told = ground(material, "Positive control")
    assert told.mark == "no"
    assert 'The positive control did not work: "input hidden" gains 0.3' in told.text
    assert told.text.endswith(
        "At this size and length the experiment cannot detect even an effect that must be there."
    )


def test_a_study_of_the_second_edition_without_a_control_says_so(tmp_path: Path) -> None:
    material = gather_report_data(second(tmp_path, control=None))
    told = ground(material, "Positive control")
    assert (told.mark, told.text) == (
        "mind",
        "The design has none: nothing that had to come out worse.",
    )
    assert describe_control(material) == describe_margin_share(material) == ""


def test_a_margin_of_the_control_is_a_share_of_its_loss_in_each_seed() -> None:
    found = judge_control("blind", "input", LOSSES, 4)
    assert control_margins(found, 0.25) == pytest.approx({1: 0.0275, 2: 0.02, 3: 0.035, 4: 0.025})
    turned = judge_control("blind", "input", {seed: -loss for seed, loss in LOSSES.items()}, 4)
    assert control_margins(turned, 0.25) is None


def test_the_margin_is_told_as_a_part_of_what_the_input_is_worth(tmp_path: Path) -> None:
    material = gather_report_data(second(tmp_path / "strong"))
    assert material.findings.control is not None
    share = 0.02 / material.findings.control.effect
    assert (
        describe_margin_share(material)
        == f"The margin is {100 * share:.1f} % of what the input is worth here"
    )
    assert ground(material, "Margin and control").mark == "yes"
    assert equivalence_caveat(material) == ""
    weak = gather_report_data(second(tmp_path / "weak", gains={**GAINS, "input hidden": -0.025}))
    told = ground(weak, "Margin and control")
    assert told.mark == "mind"
    assert "so `equivalent` says little" in told.text
    within = equivalence_caveat(weak)
    assert within.startswith("within a margin of ")
    assert within.endswith(" % of what the input is worth here")
    (arm,) = weak.findings.arms
    equal = replace(
        arm, judgement=replace(arm.judgement, verdict=Verdict("equivalent", "within 0.02"))
    )
    (one,) = said_verdicts(replace(weak, findings=replace(weak.findings, arms=(equal,))))
    assert one.headline == f'"prefix" and "causal" do equally well, {within}'


def test_an_arm_that_hides_no_input_is_a_control_without_that_warning(tmp_path: Path) -> None:
    study = second(
        tmp_path, gains={**GAINS, "prefix": -0.021, "input hidden": 0.004}, control="prefix"
    )
    material = gather_report_data(study)
    assert material.findings.control is not None
    assert material.findings.control.kind == "arm"
    assert describe_margin_share(material).endswith(' of what "prefix" costs here')
    assert ground(material, "Margin and control").mark == "yes"


def test_a_share_of_no_effect_is_none() -> None:
    found = judge_control("blind", "input", LOSSES, 4)
    assert margin_share_of_control(found, 0.02) == pytest.approx(0.02 / found.effect)
    assert margin_share_of_control(None, 0.02) is None
    assert margin_share_of_control(found, None) is None
    turned = judge_control("blind", "input", {seed: -loss for seed, loss in LOSSES.items()}, 4)
    assert margin_share_of_control(turned, 0.02) is None


def test_the_bound_of_a_seed_is_that_of_its_standard_error() -> None:
    found = judge_control("blind", "arm", {1: 1.0, 2: 2.0, 3: 3.0}, 3)
    assert found.low == pytest.approx(2 - t.ppf(0.95, 2) / sqrt(3))


def by_length(root: Path, **design: Any) -> Study:
    """The study whose control is the baseline at half its training, which costs it 0.04 for
    each e-fold of tokens.
    """
    study = add_lengths(second(root), {"causal": 0.04}, {1: 0.004, 2: -0.003, 3: 0.001, 4: -0.002})
    plan = study.read_plan()
    plan["design"] |= {"control": {"length": 0.5}, **design}
    study.write_plan(plan)
    return study


def test_of_a_chain_a_control_by_length_has_a_share_of_the_last_stage(tmp_path: Path) -> None:
    study = add_first_stage(by_length(tmp_path))
    control = study_findings(study).control
    assert control is not None
    assert control.name == "causal at half of its last stage (tune; the earlier stages in full)"
    assert describe_control(gather_report_data(study)).startswith(
        'The positive control works: "causal" at half of its last stage (tune; the earlier stages'
        " in full) loses 0.0"
    )


def test_a_control_by_length_is_the_baseline_at_half_its_training(tmp_path: Path) -> None:
    study = by_length(tmp_path)
    found = study_findings(study)
    assert [arm.name for arm in found.arms] == ["prefix", "input hidden"]
    assert found.control is not None
    assert (found.control.name, found.control.kind) == ("causal at half of its training", "length")
    assert found.control.works
    lost = {
        seed: (0.04 + noise) * np.log(2)
        for seed, noise in {1: 0.004, 2: -0.003, 3: 0.001, 4: -0.002}.items()
    }
    assert found.control.losses == pytest.approx(lost)
    material = gather_report_data(study)
    assert (
        'The positive control works: "causal" at half of its training loses 0.0'
        in describe_control(material)
    )
    assert describe_margin_share(material).endswith(
        ' of what "causal" at half of its training costs here'
    )
    assert (
        ground(material, "Margin and control").mark == "yes"
    )  # the warning is for controls of the input
    assert equivalence_caveat(material) == ""


def test_a_margin_of_the_control_is_used_seed_by_seed(tmp_path: Path) -> None:
    primary = {
        **make_study(tmp_path / "a").read_plan()["design"]["primary"],
        "margin": "25 % of control",
    }
    found = study_findings(second(tmp_path / "b", primary=primary))
    assert found.control is not None
    wanted = {seed: 0.25 * loss for seed, loss in found.control.losses.items()}
    assert found.margins.against["causal"] == pytest.approx(wanted)
    made_of = found.arm("prefix").judgement.comparison
    assert made_of is not None
    assert made_of.margins == pytest.approx(tuple(wanted.values()))
    assert found.margin_description.startswith("25 % of control: 0.12")
    weak = study_findings(
        second(tmp_path / "c", gains={**GAINS, "input hidden": 0.3}, primary=primary)
    )
    assert weak.margin is None
    assert (
        weak.margin_description
        == "25 % of control, and the control did not work, so nothing is called equivalent"
    )


def test_what_a_control_loses_for_sure_is_its_bound_given_that_it_works() -> None:
    clear = {1: 0.9, 2: 1.0, 3: 1.1, 4: 1.0}
    found = judge_control("blind", "arm", clear, 4)
    assert found.sure_loss == pytest.approx(found.low, rel=1e-3)
    looked = judge_control("blind", "arm", clear, 4, family_alpha=0.01)
    assert 0 < looked.sure_loss < found.sure_loss
    lucky = judge_control("blind", "arm", {1: 0.5, 2: 1.0, 3: 1.5, 4: 1.0}, 4)
    assert lucky.works
    assert 0.0025 < lucky.p < 0.05
    assert (lucky.low > 0, lucky.sure_loss) == (True, 0)
    opened = judge_control("blind", "arm", LOSSES, 4, open_ended=True)
    assert 0 <= opened.sure_loss <= max(opened.low, 0)
    turned = judge_control("blind", "arm", {seed: -loss for seed, loss in clear.items()}, 4)
    assert (turned.works, turned.sure_loss) == (False, 0)


def test_a_control_that_lost_a_seed_gives_no_margin(tmp_path: Path) -> None:
    study = make_study(tmp_path, failed=[("input hidden", 2)])
    plan = study.read_plan()
    plan["design"]["primary"]["margin"] = "25 % of control"
    study.write_plan({**plan, "edition": 2})
    found = study_findings(study)
    assert found.control is not None
    assert found.control.works
    said = (
        "25 % of control, and the control has a score in 3 of 4 seeds, so nothing is called"
        " equivalent"
    )
    assert (found.margin, found.margin_description) == (None, said)
