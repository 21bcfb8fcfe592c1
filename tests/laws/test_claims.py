"""Claims resolve: each has a source that is described, and a shipped design that tests it."""

import re
import tomllib
from pathlib import Path

import pytest

from paribus.design.design_files import designs_folder, shipped_designs
from paribus.spec.design_reading import load_design

ROOT = Path(__file__).parents[2]
SOURCES = re.findall(r"^## (\S+)$", (ROOT / "docs/references.md").read_text("utf-8"), re.MULTILINE)
CLAIMS = tomllib.loads((ROOT / "designs/claims.toml").read_text("utf-8"))["claims"]
VERDICTS = {"better", "worse", "equivalent", "inconclusive", "unstable", "not run"}


def test_the_designs_lie_beside_their_claims() -> None:
    assert designs_folder() == ROOT / "designs"
    assert len(shipped_designs()) >= 7
    assert len(CLAIMS) >= len(shipped_designs())


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["claim"][:40])
def test_a_claim_names_its_source_the_design_that_tests_it_and_a_verdict(
    claim: dict[str, str],
) -> None:
    assert claim.keys() == {"source", "claim", "tested_by", "verdict"}
    assert claim["source"] in SOURCES
    assert claim["tested_by"] in shipped_designs()
    assert claim["verdict"].split(":")[0] in VERDICTS
    assert claim["claim"].endswith(".")
    if claim["verdict"] != "not run":
        assert (ROOT / claim["verdict"].rsplit("; ")[-1] / "rows.csv").is_file()


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["claim"][:40])
def test_no_claim_rests_on_runs_in_mid_schedule_or_on_a_sweep(claim: dict[str, str]) -> None:
    """A word at an equal total is claimed only of a study whose report says that its runs were
    annealed to it.
    """
    claimed = re.findall(
        r"at equal (?:FLOPs|seconds),? \w+|at the base rate,? \w+", claim["verdict"]
    )
    kept = ROOT / claim["verdict"].rsplit("; ")[-1] / "report.md"
    assert not claimed or "runs annealed to that length" in kept.read_text("utf-8")


def test_no_claim_is_made_twice_and_every_design_tests_one() -> None:
    said = [claim["claim"] for claim in CLAIMS]
    assert len(set(said)) == len(said)
    assert {claim["tested_by"] for claim in CLAIMS} == set(shipped_designs())


@pytest.mark.parametrize("name", shipped_designs())
def test_a_design_is_taken_from_a_source_that_is_described(name: str) -> None:
    assert load_design(designs_folder() / f"{name}.toml").reference in SOURCES


def test_every_source_is_described_once() -> None:
    assert len(set(SOURCES)) == len(SOURCES)
