"""Runs beside the reported ones of a study made by hand: annealed to another length, or at another rate."""

from __future__ import annotations

from collections.abc import Sequence

from paribus.record import Evaluation, Head, Placed, Rows, Study, answers_path, write_answers
from paribus.record.disk import write_json
from paribus.record.state import write_state
from paribus.record.study import Purpose
from small_study import ENVIRONMENT, GAINS, N_ITEMS, N_STEPS, SEEDS, _answer, _row

EVERY = 3  # steps from one row to the next


def add_runs(
    study: Study,
    arm: str,
    purpose: Purpose,
    *,
    n_steps: int = N_STEPS,
    rate: float = 0.004,
    gain: float | None = None,
    speed: float = 1.0,
    seeds: Sequence[int] = SEEDS,
) -> None:
    """Finished runs of an arm under some seeds, with their rows and answers; `gain` is over the baseline."""
    own = GAINS[arm] if gain is None else gain
    place = 100 + len(study.cells())
    cells = [Placed(arm, seed, rate, purpose, f"{place + seed:016x}", n_steps) for seed in seeds]
    study.add_cells(cells)
    for cell in cells:
        _add_run(study, cell, own, speed)


def without_cell(study: Study, purpose: Purpose, arm: str, seed: int) -> None:
    """The cells on disk but for one."""
    kept = [cell for cell in study.cells() if (cell.purpose, cell.arm, cell.seed) != (purpose, arm, seed)]
    (study.folder / "cells.json").unlink()
    study.add_cells(kept)


def _add_run(study: Study, cell: Placed, gain: float, speed: float) -> None:
    folder = study.root / cell.run
    folder.mkdir()
    write_json(folder / "spec.json", {"stages": [{}]})
    write_json(folder / "environment.json", [ENVIRONMENT])
    with Rows(folder / "rows.jsonl") as rows:
        for step in sorted({*range(EVERY - 1, cell.n_steps, EVERY), cell.n_steps - 1}):
            rows.write(_row(step, gain, speed, cell.seed))
    write_state(folder / "state", "finished")
    yardstick = study.plan()["design"]["primary"]["measure"]
    head = Head(yardstick, "likelihood", {}, cell.n_steps - 1, "0" * 64, 64, "1" * 64, N_ITEMS, 0, "7" * 64, None, {})
    answers = tuple(_answer(number, gain, cell) for number in range(N_ITEMS))
    write_answers(answers_path(folder, yardstick, head.items), Evaluation(head, answers))


def with_curved_lengths(study: Study, arms: Sequence[str], margin: str = "10 % compute") -> Study:
    """The same study with runs at 0.25 and 0.5 of the length on a convex curve, and a margin in compute."""
    plan = study.plan()
    plan["design"]["lengths"] = [0.25, 0.5, 1.0]
    plan["design"]["primary"]["margin"] = margin
    study.write_plan(plan)
    for place, arm in enumerate(arms, 1):
        add_runs(study, arm, "length", n_steps=8, gain=GAINS[arm] - 0.4 * place)
        add_runs(study, arm, "length", n_steps=15, gain=GAINS[arm] - 0.15 * place)
    return study
