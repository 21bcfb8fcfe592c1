"""--seeds on a design whose own seeds are all run: a new study of fresh seeds, judged alone."""

import json
from pathlib import Path
from typing import Any

from trained_study import design_table

from paribus.record import existing_study

SHORT = {
    "seeds": 3,
    "base.training.n_steps": 2,
    "base.training.checkpoint_every": 2,
    "arms.reverse": None,
}


def words(verb: str, cache: Path, *more: str, changes: dict[str, Any] | None = None) -> list[str]:
    Path("little.json").write_text(json.dumps(design_table({**SHORT, **(changes or {})})))
    return [verb, "little.json", "--cache", str(cache), "--device", "cpu", *more]


def test_seeds_of_a_finished_design_make_a_new_study_of_fresh_ones(
    ask, tmp_path: Path, monkeypatch, study_cache: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = ask(*words("run", study_cache, "--seeds", "4"))
    assert refused.status == 2
    assert "--seeds is 4, but the design lists 3 seeds of its own; leave it out" in refused.err
    assert ask(*words("run", study_cache)).status == 0
    told = ask(*words("run", study_cache, "--seeds", "4"))
    assert told.status == 0, told.err
    assert (
        "Study 2 of a series: 4 fresh seeds, 4 to 7, judged alone; earlier seeds are shown"
        in told.out
    )
    assert "paribus report little-2" in told.out
    kept = existing_study(Path("runs"), "little-2")
    assert {cell.seed for cell in kept.planned_cells()} == {4, 5, 6, 7}
    plan = kept.read_plan()
    assert plan["design"]["seeds"] == [4, 5, 6, 7]
    assert [(one["study"], one["seeds"]) for one in plan["series"]["earlier"]] == [
        ("little", [1, 2, 3])
    ]
    assert {cell.seed for cell in existing_study(Path("runs"), "little").read_cells()} == {1, 2, 3}
    again = ask(*words("run", study_cache, "--seeds", "4"))
    assert "runs: 8 of 8 runs are there already" in again.out
    other = ask(*words("run", study_cache, "--seeds", "4", changes={"primary.margin": 0.25}))
    assert other.status == 2
    assert "little has another design: design.primary.margin 0.5 → 0.25" in other.err
    further = ask(*words("plan", study_cache, "--seeds", "5"))
    assert further.status == 0, further.err
    assert "Study 3 of a series: 5 fresh seeds, 8 to 12" in further.out
    told = ask("report", "little-2", "--format", "md")
    assert told.status == 0, told.err
    assert told.out.startswith("Study 2 of a series: 4 fresh seeds, 4 to 7, judged alone.")
    assert "Study 1 (little; 3 seeds, 1 to 3)" in told.out
