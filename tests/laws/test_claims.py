"""Claims resolve: each has a source that is described, and a shipped design that judges the pairs
it is about. Its status follows from the rows of the study that is kept.
"""

import csv
import json
import re
import tomllib
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from paribus.design.design_files import designs_folder, shipped_designs
from paribus.spec.design_reading import load_design
from paribus.spec.probes import PROBES

ROOT = Path(__file__).parents[2]
SOURCES = re.findall(r"^## (\S+)$", (ROOT / "docs/references.md").read_text("utf-8"), re.MULTILINE)
CLAIM_FILE = tomllib.loads((ROOT / "designs/claims.toml").read_text("utf-8"))
CLAIMS, QUESTIONS = CLAIM_FILE["claims"], CLAIM_FILE["questions"]
MECHANISMS = CLAIM_FILE["mechanisms"]
STATUSES = {"supported", "contradicted", "undecided", "not tested as made", "not run"}
VERDICTS = {"better", "worse", "equivalent", "not worse", "inconclusive", "unstable", "no verdict"}
VERDICTS |= {"at floor", "at ceiling"}
UNDECIDED = {"inconclusive", "unstable", "no verdict", "withheld", "at floor", "at ceiling"}
FIELDS = {"source", "claim", "tested_by", "pairs", "supported_by", "status", "verdict"}
OF_A_KEPT_STUDY = {"regime", "kept"}
KEPT = [claim for claim in CLAIMS if "kept" in claim]
JUDGED = [claim for claim in KEPT if claim["status"] != "not tested as made"]

Claim = dict[str, Any]


def name_claim(claim: Claim) -> str:
    return claim["claim"][:40]


def kept_words(claim: Claim) -> list[str]:
    """The words of the kept study on the pairs of a claim."""
    words = {}
    with (ROOT / claim["kept"] / "verdicts.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            words[row["arm"], row["against"]] = row["verdict"]
    return [words.get(tuple(pair), "not judged") for pair in claim["pairs"]]


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
    assert claim.keys() - {"reported"} == expected
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
    if set(words) <= set(claim["supported_by"]):
        assert claim["status"] == "supported"
    elif against_it == {"equivalent"} and holds_what_is_reported(claim):
        assert claim["status"] == "undecided"
    elif against_it:  # it is about every pair, so one that comes out otherwise is enough
        assert claim["status"] == "contradicted"
    else:
        assert claim["status"] == "undecided"


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
    assert claim["status"] in STATUSES
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
