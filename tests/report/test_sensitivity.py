"""Same verdict if something else is made equal, what the arms cost, and how masks are drawn."""

import io
import json
import re

import numpy as np
import pytest
from extra_runs import add_runs, remove_cell
from handmade_study import GAINS, add_first_stage, make_study, set_arm_rates, sweep_record
from rich.console import Console

from paribus.cli.terminal.verdict_lines import print_verdicts
from paribus.masks import coarse_mask, parse_rule, svg_path
from paribus.report.arm_costs import cost_lines
from paribus.report.csv_tables import curve_rows
from paribus.report.latex import latex_table
from paribus.report.markdown import markdown_report
from paribus.report.mask_gallery import SIDE, mask_gallery
from paribus.report.page import render_page
from paribus.report.report_data import gather_report_data
from paribus.report.sensitivity import sensitivity_lines, sensitivity_to_seconds

BASE_RATE = 0.002
WORDS = {"better", "worse", "equivalent", "identical", "inconclusive", "unstable"}


def test_what_is_equal_by_construction_is_said_once_for_all_arms(tmp_path):
    found = sensitivity_lines(gather_report_data(make_study(tmp_path)))
    assert [one.by for one in found] == [
        "training FLOPs",
        "tokens read",
        "tokens scored",
        "the base rate, 0.004",
    ]
    assert {(one.arm, one.same) for one in found} == {("", "yes")}


def test_an_arm_that_read_more_is_compared_where_the_others_end(tmp_path):
    material = gather_report_data(make_study(tmp_path, speeds={"prefix": 2.0}))
    read = next(
        one
        for one in sensitivity_lines(material)
        if one.by == "tokens read" and one.arm == "prefix"
    )
    assert read.same == "not annealed"
    assert read.text.startswith("not annealed: gain ")
    assert read.text.endswith(" at 15.4k, on validation text; no verdict")
    assert not set(re.findall(r"[a-z]+", read.text)) & WORDS
    hidden = next(
        one
        for one in sensitivity_lines(material)
        if one.by == "tokens read" and one.arm == "input hidden"
    )
    assert hidden.text == "by construction: the totals are equal"


def lines_by(material, arm):
    found = sensitivity_lines(material)
    return {one.by: one for one in found if one.arm in ("", arm) and "rate" not in one.by}


def test_totals_of_chains_are_those_of_all_stages(tmp_path):
    study = add_first_stage(
        make_study(tmp_path), {"prefix": {"training_flops": 2e7, "tokens_scored": 37.0}}
    )
    found = lines_by(gather_report_data(study), "prefix")
    assert (found["tokens read"].same, found["training FLOPs"].same) == ("yes", "not known")
    assert found["training FLOPs"].text == (
        'not equal: 4.27 GFLOP in all stages, 9.07 GFLOP for "causal"; no run of the last stage'
        " ended at an equal total"
    )
    assert found["tokens scored"].same == "not known"
    assert found["tokens scored"].text.startswith("not equal: 9.9k in all stages, 22.7k for")
    alike = lines_by(gather_report_data(add_first_stage(make_study(tmp_path / "b"))), "prefix")
    assert {one.same for one in alike.values()} == {"yes"}


def test_a_shorter_last_stage_after_a_costlier_first_is_compared_where_totals_meet(tmp_path):
    more = {"causal": {"tokens_read": 640.0}}  # 128 × 60 more tokens: 15 steps of the last stage
    study = add_first_stage(make_study(tmp_path), more)
    add_runs(study, "causal", "length", n_steps=15, gain=0.3)
    found = lines_by(gather_report_data(study), "prefix")["tokens read"]
    assert found.same == "no"
    assert found.text.startswith("worse at 46.1k: −0.29")


def test_seconds_of_chains_are_those_of_the_last_stage(tmp_path):
    found = sensitivity_to_seconds(gather_report_data(add_first_stage(make_study(tmp_path))))
    assert [one.text for one in found] == ["the totals are equal (the last stage alone)"]


def test_arms_with_other_questions_have_no_curves_in_common(tmp_path):
    study = make_study(tmp_path)
    plan = study.read_plan()
    plan["arms"]["prefix"]["run"]["stages"][-1]["objective"] = {"kind": "causal"}
    study.write_plan(plan)
    found = [one for one in sensitivity_lines(gather_report_data(study)) if one.arm == "prefix"]
    assert {one.text for one in found if one.by == "tokens read"} == {
        "not comparable: the arms' curves answer different questions"
    }


@pytest.mark.parametrize("shift", [0.1, 0.0, -0.1])
def test_a_sweep_says_nothing_of_the_verdict_at_the_base_rate(tmp_path, shift):
    rates = sweep_record(list(GAINS))
    rates["prefix"]["points"] = [[rate, score - shift] for rate, score in rates["prefix"]["points"]]
    study = set_arm_rates(make_study(tmp_path, rates=rates), dict.fromkeys(GAINS, BASE_RATE))
    own = [
        one
        for one in sensitivity_lines(gather_report_data(study))
        if one.by == "the base rate, 0.002"
    ]
    why = "the reported seeds were not all trained at it, at the reported length"
    assert [(one.arm, one.same, one.text) for one in own] == [("", "not known", why)]


def at_the_base_rate(root, **changes):
    """A tuned study whose reported seeds were trained at the base rate too."""
    study = set_arm_rates(
        make_study(root, rates=sweep_record(list(GAINS))), dict.fromkeys(GAINS, BASE_RATE)
    )
    for arm in GAINS:
        add_runs(study, arm, "bracket", rate=BASE_RATE, **changes)
    return study


def test_the_reported_seeds_at_the_base_rate_and_full_length_get_a_word(tmp_path):
    found = {
        one.arm: one
        for one in sensitivity_lines(gather_report_data(at_the_base_rate(tmp_path)))
        if "base rate" in one.by
    }
    assert (found["input hidden"].same, found["prefix"].same) == ("yes", "yes")
    assert found["input hidden"].text.startswith("worse: −0.5")
    assert found["input hidden"].text.endswith("the reported seeds at that rate")


def test_a_seed_that_is_missing_at_the_base_rate_leaves_it_unknown(tmp_path):
    study = at_the_base_rate(tmp_path)
    remove_cell(study, "bracket", "prefix", 2)
    found = {
        one.arm: one.same
        for one in sensitivity_lines(gather_report_data(study))
        if "base rate" in one.by
    }
    assert found == {"prefix": "not known", "input hidden": "yes"}


def test_shorter_runs_at_the_base_rate_leave_it_unknown(tmp_path):
    study = at_the_base_rate(tmp_path, n_steps=15)
    assert {
        one.same for one in sensitivity_lines(gather_report_data(study)) if "base rate" in one.by
    } == {"not known"}


def test_annealed_lengths_of_the_other_arm_are_compared_where_they_had_spent_as_much(tmp_path):
    study = make_study(tmp_path, speeds={"prefix": 0.5})
    add_runs(study, "causal", "length", n_steps=15, gain=0.3)
    found = {
        one.arm: one
        for one in sensitivity_lines(gather_report_data(study))
        if one.by == "tokens read"
    }
    assert found["prefix"].same == "no"
    assert re.fullmatch(
        r"worse at 7\.68k: −0\.29\d+, .*, runs annealed to that length", found["prefix"].text
    )


def test_a_length_that_had_spent_something_else_is_not_taken_for_it(tmp_path):
    study = make_study(tmp_path, speeds={"prefix": 0.5})
    add_runs(study, "causal", "length", n_steps=12, gain=0.3)
    found = next(
        one
        for one in sensitivity_lines(gather_report_data(study))
        if (one.by, one.arm) == ("tokens read", "prefix")
    )
    assert found.same == "not annealed"


def test_every_format_marks_what_was_read_in_mid_schedule(tmp_path):
    material = gather_report_data(make_study(tmp_path, speeds={"prefix": 2.0}))
    read = [
        one
        for one in (*sensitivity_lines(material), *sensitivity_to_seconds(material))
        if "on validation text" in one.text
    ]
    assert len(read) >= 3
    screen = Console(record=True, width=400, file=io.StringIO())
    print_verdicts(material, screen)
    said = {
        "md": markdown_report(material),
        "tex": latex_table(material),
        "terminal": screen.export_text(),
        "page": render_page(material),
    }
    for one in read:
        assert (one.text.startswith("not annealed: "), one.same in ("not annealed", "–")) == (
            True,
            True,
        )
        number = one.text.split(" at ")[0].removeprefix("not annealed: ")
        for text in said.values():
            marked = text.count(f"not annealed: {number}")
            assert text.count(number) == marked
    assert "not annealed: gain" in said["md"]
    assert "not annealed: gain" in said["page"]


def test_only_the_last_row_of_a_curve_is_annealed(tmp_path):
    rows = curve_rows(gather_report_data(make_study(tmp_path)))
    assert {row["step"] for row in rows if row["annealed"]} == {29}
    assert {row["step"] for row in rows if not row["annealed"]} == set(range(2, 29, 3))


def test_arms_with_rates_of_their_own_did_not_all_train_at_the_base_rate(tmp_path):
    study = set_arm_rates(make_study(tmp_path), {"prefix": 0.008}, ["training.optimizer.rate"])
    found = {
        one.arm: one
        for one in sensitivity_lines(gather_report_data(study))
        if one.by == "the base rate, 0.004"
    }
    assert (found["prefix"].same, found["prefix"].text) == ("–", '"prefix" trained at 0.008 alone')
    assert (found["input hidden"].same, found["input hidden"].text) == (
        "yes",
        'by construction: "input hidden" trained at it too',
    )


def test_seconds_are_compared_without_a_verdict(tmp_path):
    found = sensitivity_to_seconds(gather_report_data(make_study(tmp_path / "a")))
    assert [(one.arm, one.same, one.text) for one in found] == [("", "–", "the totals are equal")]
    study = make_study(tmp_path / "b")
    for cell in study.read_cells():
        path = study.root / cell.run / "rows.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        slow = 2.0 if cell.arm == "prefix" else 1.0
        path.write_text(
            "".join(json.dumps({**row, "seconds": slow * row["seconds"]}) + "\n" for row in rows)
        )
    found = {one.arm: one for one in sensitivity_to_seconds(gather_report_data(study))}
    assert found["prefix"].same == "–"
    assert found["prefix"].text.startswith("not annealed: gain ")
    told = render_page(gather_report_data(study))
    assert "Seconds depend on this machine and its load" in told
    assert "Gains at equal seconds: table" in told


def test_costs_are_those_of_the_plan(tmp_path):
    found = {
        line.name: line.values for line in cost_lines(gather_report_data(make_study(tmp_path)))
    }
    assert found["parameters"] == ("37.1k",) * 3
    assert found["KV cache per token"] == ("256 B",) * 3
    assert found["cache kept within an answer"] == ("yes",) * 3
    across = found["cache kept across turns"]
    assert across[0] == "yes"
    assert across[1] == "if the prefix stays"


def test_an_encoder_has_a_mask_and_a_cache_of_its_own(tmp_path):
    study = make_study(tmp_path)
    plan = study.read_plan()
    for arm, mask in (("prefix", "full"), ("input hidden", "causal")):
        plan["arms"][arm]["run"]["architecture"] |= {
            "mask": "causal",
            "encoder": {"n_layers": 2, "mask": mask},
        }
    study.write_plan(plan)
    material = gather_report_data(study)
    found = mask_gallery(material)
    assert [one.rule for one in found.pictures] == ["causal", "full"]
    assert found.of_arm == {"causal": (0,), "prefix": (1, 0), "input hidden": (0, 0)}
    assert found.pictures[0].holders == (
        "causal",
        "prefix, decoder",
        "input hidden, encoder",
        "input hidden, decoder",
    )
    across = {line.name: line.values for line in cost_lines(material)}["cache kept across turns"]
    assert across == ("yes", "no", "encoder only")


@pytest.mark.parametrize(
    "text", ["causal", "prefix", "causal & same_side", "window(3)", "full", "strided(3)"]
)
def test_an_outline_fills_exactly_what_is_visible(text):
    seen = coarse_mask(parse_rule(text), SIDE, 0.5)
    filled = np.zeros_like(seen)
    for x, y, width in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\3z", svg_path(seen)):
        filled[int(y), int(x) : int(x) + int(width)] = True
    assert (filled == seen).all()


def test_every_mask_is_in_the_gallery_once(tmp_path):
    found = mask_gallery(gather_report_data(make_study(tmp_path)))
    assert [one.rule for one in found.pictures] == ["causal", "prefix", "causal & same_side"]
    assert found.of_arm == {"causal": (0,), "prefix": (1,), "input hidden": (2,)}
