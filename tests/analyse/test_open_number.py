"""An open number of seeds: a verdict may be read at any, from a bound that holds at all of them."""

import shutil
from math import inf, sqrt
from pathlib import Path

import pytest
from sized_study import make_sized_study

from paribus.analyse import always_valid_t, study_findings
from paribus.errors import SpecError


@pytest.mark.parametrize("n", [4, 7])
def test_intervals_come_from_the_bound_for_any_number(tmp_path: Path, n: int) -> None:
    found = study_findings(make_sized_study(tmp_path, n, seeds="open"))
    assert found.open_ended
    assert found.seeds == tuple(range(1, n + 1))
    assert found.remarks == ("at one rate for all arms, not tuned",)
    made = found.arm("input hidden").judgement.comparison
    assert made is not None
    half = always_valid_t(n, 0.05 / 2) * made.sd / sqrt(n)
    assert (made.low, made.high) == pytest.approx((made.effect - half, made.effect + half))
    assert made.verdict.word == "worse"
    assert "the number of seeds was left open, and the interval holds at any" in made.description
    assert (
        found.look_description
        == f"The number of seeds is open: the verdict is read at {n}, and may be at any number"
    )


def test_three_seeds_can_be_read_and_say_nothing(tmp_path: Path) -> None:
    found = study_findings(make_sized_study(tmp_path, 3, seeds="open"))
    made = found.arm("input hidden").judgement.comparison
    assert made is not None
    assert (made.low, made.high, made.verdict.word) == (-inf, inf, "inconclusive")


def test_a_verdict_is_read_at_the_seeds_whose_runs_are_all_there(tmp_path: Path) -> None:
    study = make_sized_study(tmp_path, 7, seeds="open")
    gone = next(cell for cell in study.read_cells() if (cell.arm, cell.seed) == ("prefix", 6))
    shutil.rmtree(tmp_path / gone.run)
    found = study_findings(study)
    assert found.seeds == (1, 2, 3, 4, 5)
    assert {row["seed"] for row in found.reported_rows} == set(found.seeds)


def test_fewer_than_three_whole_seeds_are_no_verdict(tmp_path: Path) -> None:
    study = make_sized_study(tmp_path, 5, seeds="open")
    gone = next(cell for cell in study.read_cells() if (cell.arm, cell.seed) == ("prefix", 2))
    shutil.rmtree(tmp_path / gone.run)
    with pytest.raises(
        SpecError, match=r"not yet run: .*prefix, seed 2.*; `paribus run DESIGN` resumes"
    ):
        study_findings(study)
    (study.folder / "cells.json").write_text("[]")
    with pytest.raises(
        SpecError, match=r"not yet run: causal, seed 1; .*`paribus run DESIGN` resumes"
    ):
        study_findings(study)


def test_a_run_that_failed_is_unstable_there_too(tmp_path: Path) -> None:
    found = study_findings(make_sized_study(tmp_path, 6, failed=[("prefix", 6)], seeds="open"))
    judgement = found.arm("prefix").judgement
    assert (judgement.verdict.word, len(judgement.seeds)) == ("unstable", 6)
    assert judgement.comparison is not None
    assert judgement.comparison.n == 5


def test_nothing_is_said_of_new_documents_whose_interval_holds_at_one_number_alone(
    tmp_path: Path,
) -> None:
    text = study_findings(make_sized_study(tmp_path, 5, seeds="open")).arm("prefix").new_documents
    assert text is not None
    assert text.interval is None
    assert text.description.startswith("no statement about other text: the number of seeds is open")
