"""What a step reads, scores and costs equals what training counts of itself."""

from pathlib import Path

import pytest
from trained_study import LENGTH, make_small_plan

from paribus.record import existing_study, last_row


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
