"""Same verdict if something else is made equal, what the arms cost, and how masks are drawn."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from paribus.analyse import Verdict
from paribus.masks import outline, parse, squares
from paribus.report.alike import by_seconds, otherwise
from paribus.report.icons import SIDE, gallery
from paribus.report.material import gathered
from paribus.report.page import page
from paribus.report.prices import costs, kept
from small_study import GAINS, made, swept, with_rates


def test_what_is_equal_by_construction_is_said_once_for_all_arms(tmp_path):
    found = otherwise(gathered(made(tmp_path)))
    assert [one.by for one in found] == ["training FLOPs", "tokens read", "tokens scored", "the base rate, 0.004"]
    assert {(one.arm, one.same) for one in found} == {("", "yes")}


def test_an_arm_that_read_more_is_compared_where_the_others_end(tmp_path):
    material = gathered(made(tmp_path, speeds={"prefix": 2.0}))
    read = next(one for one in otherwise(material) if one.by == "tokens read" and one.arm == "prefix")
    assert " at 15.4k: " in read.text
    assert read.text.endswith("on validation text")
    hidden = next(one for one in otherwise(material) if one.by == "tokens read" and one.arm == "input hidden")
    assert hidden.text == "by construction: the totals are equal"


def test_arms_with_other_questions_have_no_curves_in_common(tmp_path):
    study = made(tmp_path)
    plan = study.plan()
    plan["arms"]["prefix"]["run"]["stages"][-1]["objective"] = {"kind": "causal"}
    study.write_plan(plan)
    found = [one for one in otherwise(gathered(study)) if one.arm == "prefix"]
    assert {one.text for one in found if one.by == "tokens read"} == {
        "not comparable: the arms' curves answer different questions"
    }


def test_at_the_base_rate_a_sweep_gives_a_sign_and_no_verdict(tmp_path):
    rates = swept(list(GAINS))
    rates["prefix"]["points"] = [[rate, score - 0.1] for rate, score in rates["prefix"]["points"]]
    found = otherwise(gathered(made(tmp_path, rates=rates)))
    own = next(one for one in found if one.by.startswith("the base rate") and one.arm == "prefix")
    assert (own.same, own.text) == ("yes", "gain +0.1000 in 2 sweep seeds: a sign, no verdict")


@pytest.mark.parametrize("word", ["equivalent", "identical", "inconclusive", "unstable"])
def test_a_word_without_a_sign_is_not_contradicted_by_one(tmp_path, word):
    rates = swept(list(GAINS))
    for arm in ("prefix", "input hidden"):
        rates[arm]["points"] = [[rate, score + 0.1] for rate, score in rates[arm]["points"]]
    material = gathered(made(tmp_path, rates=rates))
    first, last = material.found.arms
    first = replace(first, judgement=replace(first.judgement, verdict=Verdict(word)))
    material = replace(material, found=replace(material.found, arms=(first, last)))
    found = {one.arm: one for one in otherwise(material) if one.by.startswith("the base rate")}
    assert found["prefix"].same == "–"
    assert found["prefix"].text.startswith("gain −0.1000 in 2 sweep seeds")
    assert found["input hidden"].same == "yes"


def test_arms_with_rates_of_their_own_did_not_all_train_at_the_base_rate(tmp_path):
    study = with_rates(made(tmp_path), {"prefix": 0.008}, ["training.optimizer.rate"])
    found = {one.arm: one for one in otherwise(gathered(study)) if one.by == "the base rate, 0.004"}
    assert (found["prefix"].same, found["prefix"].text) == ("–", "prefix trained at 0.008 alone")
    assert (found["input hidden"].same, found["input hidden"].text) == (
        "yes", "by construction: input hidden trained at it too",
    )  # fmt: skip


def test_seconds_are_compared_without_a_verdict(tmp_path):
    found = by_seconds(gathered(made(tmp_path / "a")))
    assert [(one.arm, one.same, one.text) for one in found] == [("", "–", "the totals are equal")]
    study = made(tmp_path / "b")
    for cell in study.cells():
        path = study.root / cell.run / "rows.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        slow = 2.0 if cell.arm == "prefix" else 1.0
        path.write_text("".join(json.dumps({**row, "seconds": slow * row["seconds"]}) + "\n" for row in rows))
    found = {one.arm: one for one in by_seconds(gathered(study))}
    assert found["prefix"].same == "–"
    assert found["prefix"].text.startswith("gain at ")
    told = page(gathered(study))
    assert "Seconds are this machine's under its load" in told
    assert "Gains at equal seconds: table" in told


def test_costs_are_those_of_the_plan(tmp_path):
    found = {line.name: line.values for line in costs(gathered(made(tmp_path)))}
    assert found["parameters"] == ("37.1k",) * 3
    assert found["KV cache a token"] == ("256 B",) * 3
    across = found["cached keys kept across turns"]
    assert across[0] == "yes"
    assert across[1] == "while the prefix is the first turn's; not if each turn joins it"


def test_an_encoder_has_a_mask_and_a_cache_of_its_own(tmp_path):
    study = made(tmp_path)
    plan = study.plan()
    for arm, mask in (("prefix", "full"), ("input hidden", "causal")):
        plan["arms"][arm]["run"]["architecture"] |= {"mask": "causal", "encoder": {"n_layers": 2, "mask": mask}}
    study.write_plan(plan)
    material = gathered(study)
    found = gallery(material)
    assert [one.rule for one in found.pictures] == ["causal", "full"]
    assert found.of_arm == {"causal": (0,), "prefix": (1, 0), "input hidden": (0, 0)}
    assert found.pictures[0].holders == ("causal", "prefix, decoder", "input hidden, encoder", "input hidden, decoder")
    assert [kept(material, arm) for arm in material.order] == [
        "yes", "no: the encoder reads each turn anew", "the encoder's; the decoder begins anew",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["causal", "prefix", "causal & same_part", "window(3)", "full", "strided(3)"])
def test_an_outline_fills_exactly_what_is_visible(text):
    seen = squares(parse(text), SIDE, 0.5)
    filled = np.zeros_like(seen)
    for x, y, width in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\3z", outline(seen)):
        filled[int(y), int(x) : int(x) + int(width)] = True
    assert (filled == seen).all()


def test_every_mask_is_in_the_gallery_once(tmp_path):
    found = gallery(gathered(made(tmp_path)))
    assert [one.rule for one in found.pictures] == ["causal", "prefix", "causal & same_part"]
    assert found.of_arm == {"causal": (0,), "prefix": (1,), "input hidden": (2,)}
