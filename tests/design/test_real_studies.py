"""T16 to T18: what a plan refuses, one arm against itself, and a handicap that is sized before
it is looked for.
"""

from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest
from trained_study import design_table, train_study

from paribus.analyse import compare, study_findings, study_rows
from paribus.errors import SpecError
from paribus.record import Study
from paribus.spec.design_reading import load_design

N_SEEDS, N_GROUPINGS, N_PAIRS = 20, 1000, 5
# the baseline's, and rates below it, the mildest first
RATE, HANDICAPS = (
    0.01,
    (0.009, 0.008, 0.007, 0.006, 0.005),
)
# Wider and from small weights, the seeds of an arm come out alike, and all of them below the
# unigram model.
LONG = {
    f"base.training.{name}": 40
    for name in ("n_steps", "valid_every", "row_every", "checkpoint_every")
} | {
    "base.training.optimizer.rate": RATE,
    "base.architecture.d_model": 32,
    "base.architecture.init": "normal",
    "primary.measure.n_items": 30,
}
PILOT, FRESH = [101, 102, 103, 104], [1, 2, 3, 4, 5]


def scores(kept: Study, arm: str) -> list[float]:
    return [row["pseudo.test"] for row in study_rows(kept) if row["arm"] == arm]


def beside(home: Path, cache: Path, name: str, rate: float, seeds: list[int]) -> Study:
    """The full mask at the baseline's rate, and the same at another."""
    changes: dict[str, Any] = {
        "arms.reverse": None,
        "arms.causal": None,
        "factor": "training.optimizer.rate",
    }
    changes |= {
        "arms.other": {"architecture": {"mask": "full"}, "training": {"optimizer": {"rate": rate}}}
    }
    return train_study(home, cache, LONG | changes | {"seeds": seeds}, name)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"tune": {"split": "test"}},
            "tune.split is 'test', on which the primary yardstick reports",
        ),
        ({"report": "best"}, "report is 'best'; use 'last'"),
    ],
)
def test_rates_chosen_on_reported_text_and_chosen_checkpoints_are_refused(
    changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(SpecError) as fault:
        load_design(design_table(changes))
    assert said in str(fault.value)


@pytest.mark.slow
def test_one_arm_against_itself_on_other_seeds_rarely_raises_an_alarm(
    tmp_path: Path, study_cache: Path
) -> None:
    seeds = list(range(1, N_SEEDS + 1))
    found = scores(beside(tmp_path, study_cache, "itself", RATE, seeds), "full")
    assert len(set(found)) == N_SEEDS
    rng = np.random.default_rng(17)
    alarms = 0
    for _ in range(N_GROUPINGS):
        drawn = rng.permutation(found)[: 2 * N_PAIRS]
        gains = [
            float(one - other) for one, other in zip(drawn[:N_PAIRS], drawn[N_PAIRS:], strict=True)
        ]
        alarms += compare(gains).verdict.word in ("better", "worse")
    assert 0.02 <= alarms / N_GROUPINGS <= 0.09


@pytest.mark.slow
def test_a_handicap_of_five_spreads_comes_out_worse(tmp_path: Path, study_cache: Path) -> None:
    for rate in HANDICAPS:
        pilot = beside(tmp_path, study_cache, f"pilot-{rate}", rate, PILOT)
        losses = [
            there - here
            for here, there in zip(scores(pilot, "full"), scores(pilot, "other"), strict=True)
        ]
        if fmean(losses) >= 5 * stdev(losses):
            break
    else:
        pytest.fail("no handicap was large enough in the pilot")
    kept = beside(tmp_path, study_cache, "handicap", rate, FRESH)
    assert study_findings(kept).arm("other").judgement.verdict.word == "worse"
