"""Can I trust it? Every ground turns when what it stands on does."""

from pathlib import Path
from typing import Any

from paribus.record.disk import read_json, write_json
from paribus.report.material import gathered
from paribus.report.trust import Ground, grounds
from small_study import ENVIRONMENT, GAINS, made, swept


def ground(name: str, root: Path, **options: Any) -> Ground:
    return next(one for one in grounds(gathered(made(root, **options))) if one.name == name)


def lines(mark: str, allowed: str | None) -> list[dict[str, Any]]:
    values = {"causal": 1, "prefix": 2, "input hidden": 1}
    return [{"path": "training.warmup", "mark": mark, "values": values, "note": "", "allowed": allowed}]


def test_no_confound_is_told_with_the_factor(tmp_path):
    found = ground("Confounds", tmp_path)
    assert (found.mark, found.text) == (
        "yes", "None: only architecture.mask differs, and what follows from it; 3 other fields are equal.",
    )  # fmt: skip


def test_an_allowed_confound_is_told_with_its_reason(tmp_path):
    found = ground("Confounds", tmp_path, changes={"control": lines("✗", "warmup is part of the recipe")})
    assert found.mark == "mind"
    assert "training.warmup: warmup is part of the recipe" in found.text


def test_a_confound_that_is_not_allowed_is_broken_ground(tmp_path):
    assert ground("Confounds", tmp_path, changes={"control": lines("✗", None)}).mark == "no"


def test_rates_that_were_not_tuned_are_to_be_kept_in_mind(tmp_path):
    assert ground("Learning rates", tmp_path).mark == "mind"


def test_tuned_rates_are_told(tmp_path):
    found = ground("Learning rates", tmp_path, rates=swept(list(GAINS)))
    assert found.mark == "yes"
    assert found.text.startswith("Tuned alike, each optimum inside the grid: 0.004 for causal")


def test_an_optimum_outside_the_grid_is_broken_ground(tmp_path):
    rates = swept(list(GAINS))
    rates["prefix"]["optimum"] = {**rates["prefix"]["optimum"], "inside": False}
    assert ground("Learning rates", tmp_path, rates=rates).mark == "no"


def test_the_control_must_have_come_out_worse(tmp_path):
    assert ground("Positive control", tmp_path / "a").mark == "yes"
    missed = ground("Positive control", tmp_path / "b", gains={**GAINS, "input hidden": 0.3})
    assert (missed.mark, "but is better" in missed.text) == ("no", True)


def test_a_failed_run_is_named(tmp_path):
    found = ground("Failed runs", tmp_path, failed=[("prefix", 3)])
    assert "1 of 12 runs did not train (prefix, seed 3)" in found.text


def test_text_met_twice_is_to_be_kept_in_mind(tmp_path):
    once = ground("Text", tmp_path / "a")
    assert (once.mark, "read 0.7 times: nothing was met twice" in once.text) == ("yes", True)
    values = {"causal": "1.5, 0.2", "prefix": "1.5, 0.2", "input hidden": "1.5, 0.2"}
    changes = {"control": [{"path": "epochs", "mark": "✓", "values": values, "note": "", "allowed": None}]}
    twice = ground("Text", tmp_path / "b", changes=changes)
    assert (twice.mark, "read 0.2 to 1.5 times" in twice.text) == ("mind", True)


def test_runs_of_two_environments_are_told(tmp_path):
    study = made(tmp_path)
    run = study.cells()[0].run
    write_json(tmp_path / run / "environment.json", [{**ENVIRONMENT, "torch": "2.15.0"}])
    found = next(one for one in grounds(gathered(study)) if one.name == "Machine and code")
    assert (found.mark, found.text) == ("mind", "Runs were made under different torch.")


def test_a_plan_that_changed_after_the_first_result_is_broken_ground(tmp_path):
    study = made(tmp_path)
    assert next(one for one in grounds(gathered(study)) if one.name == "As planned").mark == "yes"
    study.freeze("e" * 64, "another", "paired t", ENVIRONMENT["code"])
    changed = next(one for one in grounds(gathered(study)) if one.name == "As planned")
    assert (changed.mark, changed.text) == ("no", "Not as planned: design changed after the first result.")


def test_a_plan_without_a_lock_is_to_be_kept_in_mind(tmp_path):
    study = made(tmp_path)
    (study.folder / "plan.lock").unlink()
    assert next(one for one in grounds(gathered(study)) if one.name == "As planned").mark == "mind"
    assert read_json(study.folder / "plan.json")["name"] == "small"
