"""What a step reads, scores and costs equals what training counts of itself."""

from pathlib import Path
from typing import Any

import pytest
from trained_study import LENGTH, make_small_plan

from paribus.design.step_cost import measure_step_cost
from paribus.objectives import possible_draws
from paribus.record import existing_study, last_row
from paribus.spec.objectives import LastToken, Mixture, MixtureComponent, PrefixLM
from paribus.train.loader import ProblemLoader


def test_the_work_of_a_plan_is_what_its_runs_then_count(
    study_cache: Path, finished_home: Path
) -> None:
    plan, study = make_small_plan(study_cache), existing_study(finished_home, "little")
    runs = {cell.arm: cell.run for cell in study.read_cells() if cell.seed == 1}
    for arm in plan.arms:
        last = last_row(finished_home / runs[arm.name] / "rows.jsonl")
        assert last is not None
        assert last["tokens_read"] == arm.step_cost.tokens_read * arm.n_steps
        assert last["tokens_scored"] == pytest.approx(arm.step_cost.tokens_scored * arm.n_steps)
        assert last["dense_flops"] == pytest.approx(arm.step_cost.training_flops * arm.n_steps)


def test_an_encoder_decoder_reads_its_source_beside_its_target(study_cache: Path) -> None:
    encoder = {
        "arms.causal.architecture": {"encoder": {"n_layers": 1}, "mask": "causal"},
        "factor": "architecture",
        "base.objective": "continuation",
        "arms.full": None,
        "arms.reverse": None,
        "baseline": "plain",
        "arms.plain.architecture": {"mask": "causal"},
        "match": "nothing",
        "budget": "bytes_read",
        "primary.measure": {"kind": "halves", "n_items": 5, "max_bytes": 16},
    }
    plain, other = make_small_plan(study_cache, encoder).arms
    assert plain.step_cost.n_target == other.step_cost.n_target == pytest.approx(LENGTH / 4)
    assert plain.step_cost.bytes_read == other.step_cost.bytes_read
    assert other.price.source_length == LENGTH * 3 // 4


def test_what_is_drawn_at_each_step_is_counted_as_often_as_it_comes(study_cache: Path) -> None:
    """The mean of so many steps as a run has, not of the draws of the first few."""
    changes: dict[str, Any] = {f"arms.{name}": None for name in ("reverse", "full", "causal")}
    changes |= {"arms.plain": {}, "arms.even.training.z_loss": 1e-4, "baseline": "plain"}
    changes |= {"base.objective": "prefix", "base.architecture.mask": "causal"}
    changes |= {"factor": "training.z_loss"}
    changes |= {"primary.measure": {"kind": "halves", "n_items": 5, "max_bytes": 16}}
    arm = make_small_plan(study_cache, changes).arms[0]
    stage = arm.run.last
    loader = ProblemLoader(
        dataset=arm.dataset, stage=stage, has_encoder=False, separates_documents=False
    )
    n_steps = 4_000
    scored = 0.0
    for k in range(n_steps):
        (problem,) = loader.problems_at(k)
        scored += float(problem.weights_BM.sum())
    assert arm.step_cost.tokens_scored == pytest.approx(scored / n_steps, rel=0.01)
    shorter = stage.model_copy(
        update={"training": stage.training.model_copy(update={"n_steps": 3})}
    )
    assert measure_step_cost(arm.run.architecture, shorter, arm.dataset).tokens_scored == (
        pytest.approx(arm.step_cost.tokens_scored)
    )


def test_draws_of_an_objective_have_their_shares() -> None:
    prefix = possible_draws(PrefixLM(), 32)
    assert [(own.least, own.most) for _, own in prefix] == [
        (n / 32, n / 32) for n in range(8, 25, 2)
    ]
    assert sum(share for share, _ in prefix) == pytest.approx(1)
    mixed = Mixture(
        components=(
            MixtureComponent(objective=PrefixLM(least=0.5, most=0.5), weight=3),
            MixtureComponent(objective=LastToken(least=0.5, most=0.75, grid=4)),
        )
    )
    assert [share for share, _ in possible_draws(mixed, 32)] == [0.75, 0.125, 0.125]
