"""What a handmade study says of ranks that are planted."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from handmade_study import GAINS, SEEDS, make_study, plan_table

from paribus.analyse import RowTable
from paribus.analyse.findings import Findings
from paribus.analyse.study_findings import study_findings
from paribus.analyse.study_ranks import StudyRanks, study_ranks
from paribus.report.rank_effect import OBSERVED_NOTE, describe_study_ranks
from paribus.spec.yardstick import ProbeYardstick

PROBE = {"kind": "probe", "probe": {"kind": "rank"}, "quantity": "effective rank"}
COLUMN = "rank: effective rank.test"
SIZES = {"causal": 16, "prefix": 32, "input hidden": 8}  # of heads, all of them under one mask
RANKS = {"causal": 20.0, "prefix": 21.0, "input hidden": 5.0}


def study_with_ranks(folder: Path, ranks: Mapping[str, float], *, sizes: bool) -> Findings:
    """A study that shows ranks; with `sizes`, its arms differ in the size of heads alone."""
    plan = plan_table("small")
    rescaled = ProbeYardstick.model_validate({**PROBE, "variant": "scores at sd 1"})
    shown = ProbeYardstick.model_validate(PROBE)
    others = [one.model_dump(mode="json") for one in (rescaled, shown)]
    for arm, d_head in SIZES.items() if sizes else ():
        architecture = plan["arms"][arm]["run"]["architecture"]
        architecture["mask"] = "causal"
        architecture["attention"]["d_head"] = d_head
    changes = {"arms": plan["arms"], "design": {**plan["design"], "others": others}}
    findings = study_findings(make_study(folder, changes=changes))
    return with_ranks(findings, {(arm, seed): ranks[arm] for arm in ranks for seed in SEEDS})


def with_ranks(findings: Findings, ranks: Mapping[tuple[str, int], float]) -> Findings:
    rows = [{**row, COLUMN: ranks.get((row["arm"], row["seed"]))} for row in findings.table]
    return replace(findings, table=RowTable(rows))


def ranks_of(findings: Findings) -> StudyRanks:
    ranks = study_ranks(findings)
    assert ranks is not None
    return ranks


def test_a_study_of_head_sizes_has_one_intervention(tmp_path: Path) -> None:
    ranks = ranks_of(study_with_ranks(tmp_path / "sizes", RANKS, sizes=True))
    (effect,) = ranks.effects
    assert effect.intervention == "head size, causal"
    assert (effect.move.lowest, effect.move.highest) == ("input hidden", "prefix")
    assert list(effect.slopes) == list(SEEDS)
    assert effect.word == "rank helps"
    # from rank 5 to 20 and beyond, two doublings and a little: about what hiding the input costs
    assert effect.effect == pytest.approx(-GAINS["input hidden"] / 2, rel=0.1)
    assert ranks.differences == ()
    assert len(describe_study_ranks(ranks)) == 1


def test_runs_without_a_rank_are_left_out(tmp_path: Path) -> None:
    findings = study_with_ranks(tmp_path / "sizes", RANKS, sizes=True)
    known = {(arm, seed): RANKS[arm] for arm in RANKS for seed in SEEDS}
    del known["prefix", SEEDS[0]]
    (effect,) = ranks_of(with_ranks(findings, known)).effects
    assert list(effect.slopes) == list(SEEDS[1:])
    without_arm = {place: rank for place, rank in known.items() if place[0] != "prefix"}
    assert ranks_of(with_ranks(findings, without_arm)).effects == ()


def test_masks_alone_are_no_intervention_and_their_ranks_are_described(tmp_path: Path) -> None:
    ranks = ranks_of(study_with_ranks(tmp_path / "masks", RANKS, sizes=False))
    assert ranks.effects == ()
    (sentence,) = describe_study_ranks(ranks)
    assert '"causal" 20 (20 to 20, 4 runs)' in sentence
    assert sentence.endswith(OBSERVED_NOTE)


def test_a_study_that_shows_no_rank_says_nothing_of_it(tmp_path: Path) -> None:
    assert study_ranks(study_findings(make_study(tmp_path / "plain"))) is None
