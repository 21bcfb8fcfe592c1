"""The interventions of a handmade study, with ranks that are planted."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from handmade_study import GAINS, SEEDS, make_study, plan_table

from paribus.analyse.findings import Findings
from paribus.analyse.study_findings import study_findings
from paribus.analyse.study_ranks import study_rank_effects

SIZES = {"causal": 16, "prefix": 32, "input hidden": 8}  # of heads, all of them under one mask
RANKS = {"causal": 20.0, "prefix": 21.0, "input hidden": 5.0}


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """A study whose arms differ in the size of their heads."""
    arms = plan_table("small")["arms"]
    for arm, d_head in SIZES.items():
        architecture = arms[arm]["run"]["architecture"]
        architecture["mask"] = "causal"
        architecture["attention"]["d_head"] = d_head
    folder: Path = tmp_path_factory.mktemp("sizes")
    return study_findings(make_study(folder, changes={"arms": arms}))


def of_all_seeds(ranks: Mapping[str, float]) -> dict[str, dict[int, float]]:
    return {arm: dict.fromkeys(SEEDS, rank) for arm, rank in ranks.items()}


def test_a_study_of_head_sizes_has_one_intervention(findings: Findings) -> None:
    (effect,) = study_rank_effects(findings, of_all_seeds(RANKS))
    assert effect.intervention == "head size, causal"
    assert (effect.move.lowest, effect.move.highest) == ("input hidden", "prefix")
    assert list(effect.slopes) == list(SEEDS)
    assert effect.word == "rank helps"
    # from rank 5 to 20 and beyond, two doublings and a little: about what hiding the input costs
    assert effect.effect == pytest.approx(-GAINS["input hidden"] / 2, rel=0.1)


def test_runs_without_a_rank_are_left_out(findings: Findings) -> None:
    ranks = of_all_seeds(RANKS)
    del ranks["prefix"][SEEDS[0]]
    (effect,) = study_rank_effects(findings, ranks)
    assert list(effect.slopes) == list(SEEDS[1:])
    del ranks["prefix"]
    assert study_rank_effects(findings, ranks) == ()


def test_masks_alone_are_no_intervention(tmp_path: Path) -> None:
    found = study_findings(make_study(tmp_path / "masks"))
    assert study_rank_effects(found, of_all_seeds(RANKS)) == ()
