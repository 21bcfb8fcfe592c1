"""Claims resolve: each has a source that is described, and a shipped design that judges the pairs
it is about. Its status follows from the rows of the study that is kept.
"""

import csv
import json
import re
import tomllib
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import t

from paribus.design.arms import arms_of
from paribus.design.control import judge_pairs
from paribus.design.design_files import designs_folder, shipped_designs
from paribus.design.judged_pairs import judged_differences
from paribus.design.pair_sizes import unequal_sizes
from paribus.design.ready_arms import match_sizes
from paribus.record import JudgedDifference
from paribus.record.file_names import PLAN_FILE
from paribus.record.plan import parse_plan
from paribus.spec.design import compared_pairs
from paribus.spec.design_reading import load_design
from paribus.spec.must import parse_claim
from paribus.spec.probes import PROBES

ROOT = Path(__file__).parents[2]
SOURCES = re.findall(r"^## (\S+)$", (ROOT / "docs/references.md").read_text("utf-8"), re.MULTILINE)
CLAIM_FILE = tomllib.loads((ROOT / "designs/claims.toml").read_text("utf-8"))
CLAIMS, QUESTIONS = CLAIM_FILE["claims"], CLAIM_FILE["questions"]
MECHANISMS = CLAIM_FILE["mechanisms"]
# "depends on X" is one more
STATUSES = {"supported", "contradicted", "undecided", "manipulation not shown", "not run"}
STATUSES |= {"not tested as made"}
VERDICTS = {"better", "worse", "equivalent", "not worse", "inconclusive", "unstable", "no verdict"}
VERDICTS |= {"at floor", "at ceiling", "manipulation not shown", "bimodal"}
UNDECIDED = {"inconclusive", "unstable", "no verdict", "withheld", "at floor", "at ceiling"}
UNDECIDED |= {"manipulation not shown", "bimodal"}
FIELDS = {"source", "claim", "tested_by", "pairs", "supported_by", "status", "verdict"}
OPTIONAL_FIELDS = {"compound", "reported", "elsewhere", "must"}
OF_A_KEPT_STUDY = {"regime", "kept"}
KEPT = [claim for claim in CLAIMS if "kept" in claim]
JUDGED = [claim for claim in KEPT if claim["status"] != "not tested as made"]

Claim = dict[str, Any]
Row = dict[str, str]


def name_claim(claim: Claim) -> str:
    return claim["claim"][:40]


def kept_words(claim: Claim) -> list[str]:
    """The words of the kept study on the pairs of a claim."""
    words = {}
    with (ROOT / claim["kept"] / "verdicts.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            words[row["arm"], row["against"]] = row["verdict"]
    return [words.get(tuple(pair), "not judged") for pair in claim["pairs"]]


def assert_known_status(status: str) -> None:
    assert status in STATUSES or re.fullmatch(r"depends on \w[\w ]+", status), status


def reported_rows(kept: str) -> dict[str, dict[int, Row]]:
    """Arm → seed → its row of a kept study."""
    by_arm: dict[str, dict[int, Row]] = {}
    with (ROOT / kept / "rows.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["purpose"] == "reported":
                by_arm.setdefault(row["arm"], {})[int(row["seed"])] = row
    return by_arm


def paired_differences(kept: str, arm: str, against: str, column: str) -> NDArray[np.float64]:
    """A column of one arm less that of another, seed by seed."""
    rows = reported_rows(kept)
    differences = []
    for seed in sorted(rows[arm]):
        differences.append(float(rows[arm][seed][column]) - float(rows[against][seed][column]))
    return np.array(differences)


def mean_of(kept: str, arm: str, column: str) -> float:
    return fmean(float(row[column]) for row in reported_rows(kept)[arm].values())


def interval(values: NDArray[np.float64], level: float = 0.95) -> tuple[float, float, float]:
    """Mean and ends of the t interval."""
    mean, error = values.mean(), values.std(ddof=1) / np.sqrt(len(values))
    half = t.ppf((1 + level) / 2, len(values) - 1) * error
    return float(mean), float(mean - half), float(mean + half)


def is_shown(claim: Claim) -> bool:
    """Is what had to hold shown, one-sided at 5 % over paired seeds? Tasks: higher is better."""
    parsed = parse_claim(claim["must"]["that"])
    assert parsed.against is not None
    gains = paired_differences(claim["kept"], parsed.arm, parsed.against, claim["must"]["on"])
    return interval(gains, 0.9)[1] > 0


def gains_elsewhere(claim: Claim) -> NDArray[np.float64]:
    """Size by seed: the gain of a pair in the longest runs of a ladder."""
    other, losses = claim["elsewhere"], dict[tuple[str, int, int], tuple[float, float]]()
    with (ROOT / other["kept"] / "rows.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["purpose"] in ("ladder", "predicted") and int(row["size"]) in other["sizes"]:
                key = row["arm"], int(row["size"]), int(row["seed"])
                run = float(row["planned_tokens"]), float(row["halves.test"])
                losses[key] = max(run, losses.get(key, run))
    arm, against = other["pair"]
    gains = []
    for size in other["sizes"]:
        seeds = sorted(seed for name, own, seed in losses if (name, own) == (arm, size))
        gains.append([losses[against, size, one][1] - losses[arm, size, one][1] for one in seeds])
    return np.array(gains)


def mean_over_sizes(gains: NDArray[np.float64]) -> tuple[float, float]:
    """The mean over sizes, and half of its interval, from the noise of seeds within sizes."""
    n_sizes, n_seeds = gains.shape
    noise = np.sqrt(gains.var(axis=1, ddof=1).mean() / gains.size)
    return float(gains.mean()), float(t.ppf(0.975, n_sizes * (n_seeds - 1)) * noise)


def says_otherwise(claim: Claim) -> bool:
    """Do the rows of another study show a gain where the claim is that there is none?"""
    if "elsewhere" not in claim:
        return False
    assert "better" not in claim["supported_by"]
    mean, half = mean_over_sizes(gains_elsewhere(claim))
    return mean - half > 0


def said_words(claim: Claim) -> set[str]:
    """The words that a claim gives as its verdict: one for all pairs, or several."""
    return set(claim["verdict"].split(":")[0].split(" and "))


def rules_out_a_loss_of_the_margin(claim: Claim) -> bool:
    """Does the one-sided test against a loss of the margin reject, for every pair?"""
    lows = {}
    with (ROOT / claim["kept"] / "verdicts.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            lows[row["arm"], row["against"]] = row["plus_margin_low"]
    return all(float(lows[tuple(pair)]) > 0 for pair in claim["pairs"])


def holds_what_is_reported(claim: Claim) -> bool:
    """Does the source report a gain below the margin that every interval of the study holds?"""
    if "reported" not in claim:
        return False
    with (ROOT / claim["kept"] / "verdicts.csv").open(newline="", encoding="utf-8") as file:
        rows = {(row["arm"], row["against"]): row for row in csv.DictReader(file)}
    for pair in claim["pairs"]:
        row = rows[tuple(pair)]
        if abs(claim["reported"]) >= float(row["margin"]):
            return False
        if not float(row["low"]) < claim["reported"] < float(row["high"]):
            return False
    return True


def test_the_designs_lie_beside_their_claims() -> None:
    assert designs_folder() == ROOT / "designs"
    assert len(shipped_designs()) >= 7
    assert len(CLAIMS) + len(QUESTIONS) >= len(shipped_designs())


@pytest.mark.parametrize("claim", CLAIMS, ids=name_claim)
def test_a_claim_names_its_source_the_design_that_tests_it_and_a_verdict(claim: Claim) -> None:
    expected = FIELDS if claim["status"] == "not run" else FIELDS | OF_A_KEPT_STUDY
    assert claim.keys() - OPTIONAL_FIELDS == expected
    assert_known_status(claim["status"])
    assert claim["source"] in SOURCES
    assert claim["tested_by"] in shipped_designs()
    assert claim["claim"].endswith(".")
    if claim["status"] == "not run":
        assert claim["verdict"] == "not run"
    else:
        assert said_words(claim) <= VERDICTS
        assert (ROOT / claim["kept"] / "rows.csv").is_file()


@pytest.mark.parametrize("claim", CLAIMS, ids=name_claim)
def test_the_design_judges_the_pairs_that_a_claim_is_about(claim: Claim) -> None:
    design = load_design(designs_folder() / f"{claim['tested_by']}.toml")
    family = set(design.comparisons or ())
    if design.comparisons is None:
        family = {(name, design.baseline) for name in design.arms}
    assert claim["pairs"]
    for arm, against in claim["pairs"]:
        assert (arm, against) in family


@pytest.mark.parametrize("claim", JUDGED, ids=name_claim)
def test_the_status_follows_from_the_words_of_the_kept_study(claim: Claim) -> None:
    words = kept_words(claim)
    if claim["verdict"].startswith("not worse"):
        assert rules_out_a_loss_of_the_margin(claim)
        words = ["not worse"] * len(words)
    assert said_words(claim) == set(words)
    against_it = set(words) - set(claim["supported_by"]) - UNDECIDED
    if "must" in claim and not is_shown(claim):
        assert claim["status"] == "manipulation not shown"
    elif says_otherwise(claim):
        assert claim["status"] == "undecided"
    elif set(words) <= set(claim["supported_by"]):
        assert claim["status"] == "supported"
    elif against_it == {"equivalent"} and holds_what_is_reported(claim):
        assert claim["status"] == "undecided"
    elif against_it:  # it is about every pair, so one that comes out otherwise is enough
        assert claim["status"] == "contradicted"
    else:
        assert claim["status"] == "undecided"


@cache
def judged_in(source: str) -> dict[tuple[str | None, str | None], JudgedDifference]:
    """What each judged pair differs in, counted as for a plan of today: of the design in the plan
    of a kept study, or of a shipped design.
    """
    if (ROOT / source).is_dir():
        plan = json.loads((ROOT / source / PLAN_FILE).read_text("utf-8"))
        design = load_design(parse_plan(plan, Path(PLAN_FILE)).design.table)
    else:
        design = load_design(designs_folder() / f"{source}.toml")
    arms = arms_of(design)
    sizes = unequal_sizes(design, arms, match_sizes(arms), compared_pairs(design))
    judged = judged_differences(design, arms, judge_pairs(design, arms), sizes)
    return {(one.arm, one.against): one for one in judged}


@pytest.mark.parametrize("claim", CLAIMS, ids=name_claim)
def test_a_claim_says_which_of_its_pairs_differ_in_several_factors(claim: Claim) -> None:
    judged = judged_in(claim.get("kept", claim["tested_by"]))
    compound = []
    for arm, against in claim["pairs"]:
        difference = judged[arm, against]
        assert difference.kind in ("simple", "compound")
        if difference.is_compound:
            compound.append({"pair": [arm, against], "factors": list(difference.factors)})
    assert claim.get("compound", []) == compound


def earlier_tokens(claim: Claim, arm: str) -> float:
    """What an arm reads in the stages before its last, which its rows do not count."""
    plan = json.loads((ROOT / claim["kept"] / "plan.json").read_text("utf-8"))
    record, n_tokens = plan["arms"][arm], 0.0
    stages = record["run"].get("stages", [])[:-1]
    for work, stage in zip(record.get("earlier_work", []), stages, strict=True):
        n_tokens += work["tokens_read"] * stage["training"]["n_steps"]
    return n_tokens


@pytest.mark.parametrize("claim", KEPT, ids=name_claim)
def test_the_regime_is_that_of_the_kept_rows(claim: Claim) -> None:
    regime = claim["regime"]
    assert regime.keys() == {"parameters", "tokens_per_parameter", "text"}
    with (ROOT / claim["kept"] / "rows.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["purpose"] == "reported"]
    tokens = fmean(float(row["tokens_read"]) + earlier_tokens(claim, row["arm"]) for row in rows)
    report = (ROOT / claim["kept"] / "report.md").read_text("utf-8")
    assert regime["parameters"] in report
    n_parameters = float(regime["parameters"][:-1]) * {"k": 1e3, "M": 1e6}[regime["parameters"][-1]]
    assert tokens / n_parameters == pytest.approx(regime["tokens_per_parameter"], rel=0.01)


@pytest.mark.parametrize("claim", CLAIMS, ids=name_claim)
def test_no_claim_rests_on_runs_in_mid_schedule_or_on_a_sweep(claim: Claim) -> None:
    """A word at an equal total is claimed only of a study whose report says that its runs were
    annealed to it.
    """
    claimed = re.findall(
        r"at equal (?:FLOPs|seconds),? \w+|at the base rate,? \w+", claim["verdict"]
    )
    if claimed:
        kept = ROOT / claim["kept"] / "report.md"
        assert "runs annealed to that length" in kept.read_text("utf-8")


def test_no_claim_is_made_twice_and_every_design_tests_one_or_asks_an_open_question() -> None:
    said = [claim["claim"] for claim in (*CLAIMS, *MECHANISMS)]
    assert len(set(said)) == len(said)
    designs = {claim["tested_by"] for claim in CLAIMS}
    open_designs = {question["asked_by"] for question in QUESTIONS}
    assert not designs & open_designs
    assert designs | open_designs == set(shipped_designs())


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: one["asked_by"])
def test_an_open_question_names_what_comes_nearest_to_a_claim(question: Claim) -> None:
    fields = {"source", "question", "nearest", "asked_by", "status"}
    is_open = question["status"] == "not run"
    assert question.keys() == (fields if is_open else fields | {"kept"})
    assert question["source"] in SOURCES
    assert question["question"].endswith("?")
    if not is_open:
        assert question["status"].startswith(("answered: ", "not answered: "))
        assert (ROOT / question["kept"] / "rows.csv").is_file()


@pytest.mark.parametrize("claim", MECHANISMS, ids=name_claim)
def test_a_mechanism_names_its_source_its_probe_and_the_designs_that_are_looked_at(
    claim: Claim,
) -> None:
    fields = {"source", "claim", "probe", "looked_at_in", "status", "finding"}
    assert claim.keys() == (fields if claim["status"] == "not run" else fields | OF_A_KEPT_STUDY)
    assert claim["source"] in SOURCES
    assert claim["claim"].endswith(".")
    assert_known_status(claim["status"])
    assert set(claim["looked_at_in"]) <= set(shipped_designs())
    if claim["status"] == "not run":
        assert claim["finding"] == "not run"
    else:
        assert claim["looked_at_in"]
        assert claim["probe"] in PROBES
        assert (ROOT / claim["kept"]).is_dir()


@pytest.mark.parametrize("name", shipped_designs())
def test_a_design_is_taken_from_a_source_that_is_described(name: str) -> None:
    assert load_design(designs_folder() / f"{name}.toml").reference in SOURCES


def test_every_source_is_described_once() -> None:
    assert len(set(SOURCES)) == len(SOURCES)


def text_of(part: str) -> str:
    """What the one entry says whose claim begins so."""
    entries = [one for one in (*CLAIMS, *MECHANISMS) if one["claim"].startswith(part)]
    assert len(entries) == 1
    return entries[0].get("verdict") or entries[0]["finding"]


def test_what_a_ladder_says_of_reading_both_ways_is_what_its_rows_say() -> None:
    said = text_of("Reading the input in both directions brings no advantage")
    claim = next(one for one in CLAIMS if "elsewhere" in one)
    gains = gains_elsewhere(claim)
    mean, half = mean_over_sizes(gains)
    assert f"prefix gains {mean:.4f} ± {half:.4f}, in {(gains > 0).sum()} of {gains.size}" in said
    assert (gains[1:] > 0).all()
    assert "all 6 above 5M" in said
    assert "after the fact" in said
    assert says_otherwise(claim)


def test_what_was_not_learnt_in_tuning_is_what_the_rows_say() -> None:
    said, kept = text_of("After tuning on many tasks"), "docs/results/zero-shot-hour"
    claim = next(one for one in CLAIMS if "must" in one)
    arms = "encoder-decoder spans tuned", "encoder-decoder spans"
    mean, low, _ = interval(paired_differences(kept, *arms, claim["must"]["on"]), 0.9)
    assert f"gains it {mean:.1f} points (at least −{-low:.1f}, one-sided at 95 %)" in said
    nats = {arm: mean_of(kept, arm, "valid_nats") for arm in reported_rows(kept)}
    assert f"ends at {nats['encoder-decoder spans tuned']:.2f} nats" in said
    assert f"(at {nats['encoder-decoder LM tuned']:.2f} if it was pretrained as a prefix" in said
    assert f"the causal LM has {nats['causal LM tuned']:.2f} and the control" in said
    assert f"answers, {nats['causal LM tuned on shuffled targets']:.2f}." in said
    assert not is_shown(claim)
    learnt = {**claim, "must": {**claim["must"], "that": "causal spans tuned > causal spans"}}
    assert is_shown(learnt)  # the same check passes where tuning did teach


def test_masks_that_change_the_scored_tokens_too_do_so_in_the_rows() -> None:
    said, kept = text_of("After pretraining alone"), "docs/results/zero-shot-hour"
    scored = {arm: mean_of(kept, arm, "tokens_scored") for arm in ("causal LM", "prefix LM")}
    assert scored["causal LM"] == pytest.approx(82e6, rel=0.01)
    assert scored["prefix LM"] / scored["causal LM"] == pytest.approx(0.5, abs=0.01)
    assert "all of the 82M tokens that it reads, the prefix LM half of them" in said


@pytest.mark.parametrize("setting", ["8", "32 flat", "32"])
def test_ranks_and_scores_of_two_masks_are_what_the_rows_say(setting: str) -> None:
    said, kept = text_of("Reading the input in both directions does not"), "docs/results/rank-hour"
    causal, prefix = f"causal+{setting}", f"prefix+{setting}"
    column = "rank: effective rank.test"
    ranks = [mean_of(kept, arm, column) for arm in (causal, prefix)]
    gain, low, high = interval(-paired_differences(kept, prefix, causal, "halves.test"))
    numbers = f"{gain:.4f} ({low:.4f} to +{high:.4f})".replace("-", "−")
    assert (
        f"gains {numbers}" in said or f"gains {numbers}".replace(" (", " bits per byte (") in said
    )
    for rank in ranks:
        assert re.search(rf"\b{rank:.0f}\b", said)
    if setting != "32":
        assert f"{100 * (1 - ranks[1] / ranks[0]):.0f} % less" in said
