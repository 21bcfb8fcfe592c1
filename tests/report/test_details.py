"""The numbers behind the verdict, the gains by rate, and secondary yardsticks."""

from dataclasses import replace
from pathlib import Path

import pytest
from handmade_study import GAINS, MANY_ARMS, add_lengths, make_study, set_arm_rates, sweep_record

from paribus.analyse import RowTable, pairing
from paribus.analyse.judgement import trained_count
from paribus.analyse.side_checks import sign_flip
from paribus.report.details import detail_lines, details_heading
from paribus.report.markdown import markdown_report
from paribus.report.page import render_page
from paribus.report.rate_gains import describe_sweep_cost, rate_gain_lines, rate_table
from paribus.report.report_data import gather_report_data
from paribus.report.tables import secondary_tables

EVERY = (
    "verdict",
    "gain, bits per byte",
    "spread of paired gains",
    "interval",
    "what decides on the margin",
    "p",
    "adjusted p",
    "gain with each seed left out",
    "effect with 80 % power, at the largest sd these seeds allow",
    "trained",
    "trained, what it is judged against",
    "gain on new documents",
    "to expect there, the wider of the two intervals",
    "its variance between seeds",
    "its variance between documents",
    "compute multiplier",
)


def test_all_that_was_computed_is_shown_with_its_level(tmp_path: Path) -> None:
    material = gather_report_data(add_lengths(make_study(tmp_path), {"causal": 0.2}))
    lines = {line[0]: line[1:] for line in detail_lines(material)}
    assert tuple(lines) == EVERY
    assert details_heading(material) == ("", "prefix", "input hidden")
    assert lines["verdict"] == ("better", "worse")
    assert lines["interval"][0].endswith(", at 97.5 %")
    assert lines["gain on new documents"][0].endswith(", at 97.5 %")
    assert lines["trained"][0] == "4 of 4; 95 % interval 39.8 % to 100 %"
    assert lines["compute multiplier"][1] == "below 0.27"  # 8 of 30 steps
    assert lines["what decides on the margin"][0].endswith(", at 95 %, inside ±0.02000")
    made_of = material.findings.arm("prefix").judgement.comparison
    assert made_of is not None
    assert lines["adjusted p"][0] == f"{made_of.p_adjusted:.3g}"
    told = render_page(material)
    assert "The numbers behind the verdict" in told
    assert "| adjusted p |" in markdown_report(material)


def test_a_variance_that_is_clipped_says_so(tmp_path: Path) -> None:
    material = gather_report_data(make_study(tmp_path))
    arm = material.findings.arms[0]
    assert arm.new_documents is not None
    assert arm.new_documents.interval is not None
    clipped = replace(arm.new_documents.interval, seed_variance=0.0, item_variance=0.25)
    new_documents = replace(arm.new_documents, interval=clipped)
    arms = (replace(arm, new_documents=new_documents), *material.findings.arms[1:])
    findings = replace(material.findings, arms=arms)
    lines = {line[0]: line[1] for line in detail_lines(replace(material, findings=findings))}
    assert (
        lines["its variance between seeds"] == "0: the estimate is not above 0, and clipped there"
    )
    assert lines["its variance between documents"] == "0.25"


def test_failures_pairing_and_turned_signs_are_shown_where_there_are_any(tmp_path: Path) -> None:
    material = gather_report_data(make_study(tmp_path))
    arm = material.findings.arms[0]
    own = arm.judgement
    assert own.comparison is not None
    many = replace(own.comparison, n=6, sign_flip=sign_flip([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    failed = replace(own, comparison=many, mcnemar=1.0, arm_trained=trained_count(3, 4))
    other = replace(
        arm, judgement=failed, pairing=pairing([1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 3.0, 2.0, 4.0, 5.0])
    )
    found = replace(material.findings, arms=(other, *material.findings.arms[1:]))
    lines = {line[0]: line[1:] for line in detail_lines(replace(material, findings=found))}
    assert lines["sign-flip p"] == ("0.0312", "–")
    assert lines["McNemar's p of failing as often"] == ("1", "–")
    assert lines["trained"][0] == "3 of 4; 95 % interval 19.4 % to 99.4 %"
    assert lines["pairing, ρ"] == ("0.90; 95 % interval 0.09 to 0.99", "–")
    assert lines["of the noise of unpaired runs, left"] == ("10 %", "–")


def test_rates_and_cut_contexts_are_shown_of_both_arms_where_they_differ(tmp_path: Path) -> None:
    material = gather_report_data(set_arm_rates(make_study(tmp_path), {"prefix": 0.008}))
    own = {
        seed: replace(one, head=replace(one.head, n_truncated=5))
        for seed, one in material.findings.evaluations["causal"].items()
    }
    found = replace(material.findings, evaluations={**material.findings.evaluations, "causal": own})
    lines = {line[0]: line[1:] for line in detail_lines(replace(material, findings=found))}
    assert lines["learning rate"] == ("0.008", "0.004")
    assert lines["learning rate, what it is judged against"] == ("0.004", "0.004")
    assert lines["contexts cut"] == ("0 of 12", "0 of 12")
    assert lines["contexts cut, what it is judged against"] == ("5 of 12", "5 of 12")


def test_the_gain_at_every_common_rate_is_a_table(tmp_path: Path) -> None:
    rates = sweep_record(list(GAINS))
    points = rates["prefix"]["points"]
    rates["prefix"]["points"] = [
        [rate, None if rate > 0.01 else score - 0.1] for rate, score in points
    ]
    material = gather_report_data(make_study(tmp_path, rates=rates))
    assert rate_gain_lines(material) == [
        ("0.001", "+0.1000", "0.0000"),
        ("0.002", "+0.1000", "0.0000"),
        ("0.004", "+0.1000", "0.0000"),
        ("0.008", "+0.1000", "0.0000"),
        ("0.016", "did not train", "0.0000"),
    ]
    assert rate_table(material) == (("rate", "prefix", "input hidden"), rate_gain_lines(material))
    assert "The gain at every common rate" in render_page(material)


def test_of_many_comparisons_the_rates_are_columns(tmp_path: Path) -> None:
    heading, lines = rate_table(
        gather_report_data(
            make_study(tmp_path, gains=MANY_ARMS, rates=sweep_record(list(MANY_ARMS)))
        )
    )
    assert heading == ("rate", "0.001", "0.002", "0.004", "0.008", "0.016")
    assert [line[0] for line in lines] == list(MANY_ARMS)[1:]


def test_what_the_sweep_took_is_told_as_a_share(tmp_path: Path) -> None:
    material = gather_report_data(make_study(tmp_path, rates=sweep_record(list(GAINS))))
    assert describe_sweep_cost(material) == ""
    flops = sum(row["dense_flops"] for row in material.findings.table)
    sweep = {**material.findings.table[0], "purpose": "sweep", "dense_flops": flops / 3}
    found = replace(material.findings, table=RowTable((*material.findings.table, sweep)))
    told = describe_sweep_cost(replace(material, findings=found))
    assert told.startswith("Finding the rates took ")
    assert told.endswith("FLOP, 25 % of what the study's training took.")


def test_other_yardsticks_have_paired_intervals_to_explore(tmp_path: Path) -> None:
    study = make_study(tmp_path)
    plan = study.read_plan()
    plan["design"]["others"] = [{**plan["design"]["primary"]["measure"], "split": "valid"}]
    study.write_plan(plan)
    material = gather_report_data(study)
    gained = {"causal": 0.0, "prefix": 0.1, "input hidden": -0.2}
    rows = [
        {
            **row,
            "halves.valid": None
            if (row["arm"], row["seed"]) == ("input hidden", 1)
            else 2.0 - gained[row["arm"]] * (1 + 0.1 * (row["seed"] % 2)),
        }
        for row in material.findings.table
    ]
    material = replace(material, findings=replace(material.findings, table=RowTable(tuple(rows))))
    ((name, lines),) = secondary_tables(material)
    assert name == "halves.valid"
    assert lines[0][3:] == ("–", "–", "–")
    gain, ends, n = lines[1][3:]
    assert (gain, n) == ("+0.1050", "4")
    low, high = (float(end.replace("+", "")) for end in ends.split(" to "))
    assert (low + high) / 2 == pytest.approx(0.105, abs=1e-4)
    assert lines[2][5] == "3"
    assert "95 % interval, exploratory" in render_page(material)
    assert "95 % interval, exploratory" in markdown_report(material)
