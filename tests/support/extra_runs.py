"""Runs beside the reported ones of a study made by hand: annealed to another length, or at
another rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from handmade_study import (
    ENVIRONMENT,
    GAINS,
    N_BYTES,
    N_ITEMS,
    N_STEPS,
    SEEDS,
    make_answer,
    make_row,
)
from run_state import write_state

from paribus.analyse import refine_vertex, study_rows
from paribus.record import (
    CellRecord,
    Evaluation,
    EvaluationHead,
    RowWriter,
    Study,
    evaluation_path,
    write_evaluation,
)
from paribus.record.disk import write_json
from paribus.record.study import Purpose

EVERY = 3  # steps from one row to the next
UNIGRAM = 4.0  # bits per byte
GRID = tuple(0.001 * 2.0**place for place in range(5))
SWEEP_SEEDS = (1001, 1002)


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
    split: str = "test",
) -> None:
    """Finished runs of an arm under some seeds, with their rows and answers; `gain` is over the
    baseline.
    """
    own = GAINS[arm] if gain is None else gain
    place = 100 + len(study.read_cells())
    cells = [
        CellRecord(arm, seed, rate, purpose, f"{place:08x}{seed:08x}", n_steps) for seed in seeds
    ]
    study.add_cells(cells)
    for cell in cells:
        _add_run(study, cell, own, speed, split)


def remove_cell(study: Study, purpose: Purpose, arm: str, seed: int) -> None:
    """The cells on disk but for one."""
    kept = [
        cell
        for cell in study.read_cells()
        if (cell.purpose, cell.arm, cell.seed) != (purpose, arm, seed)
    ]
    (study.folder / "cells.json").unlink()
    study.add_cells(kept)


def _add_run(study: Study, cell: CellRecord, gain: float, speed: float, split: str) -> None:
    folder = study.root / cell.run
    folder.mkdir()
    write_json(folder / "spec.json", {"stages": [{}]})
    write_json(folder / "environment.json", [ENVIRONMENT])
    with RowWriter(folder / "rows.jsonl") as rows:
        for step in sorted({*range(EVERY - 1, cell.n_steps, EVERY), cell.n_steps - 1}):
            rows.write(make_row(step, gain, speed, cell.seed))
    write_state(folder / "state", "finished")
    yardstick = {**study.read_plan()["design"]["primary"]["measure"], "split": split}
    unigram = UNIGRAM * math.log(2) * N_ITEMS * N_BYTES
    last = cell.n_steps - 1
    head = EvaluationHead(
        yardstick, "likelihood", {}, last, "0" * 64, 64, "1" * 64, N_ITEMS, 0, "7" * 64, unigram, {}
    )
    answers = tuple(make_answer(number, gain, cell) for number in range(N_ITEMS))
    write_evaluation(evaluation_path(folder, yardstick, head.items), Evaluation(head, answers))


def add_curved_lengths(study: Study, arms: Sequence[str], margin: str = "10 % compute") -> Study:
    """The same study with runs at 0.25 and 0.5 of the length on a convex curve, and a margin in
    compute.
    """
    plan = study.read_plan()
    plan["design"]["lengths"] = [0.25, 0.5, 1.0]
    plan["design"]["primary"]["margin"] = margin
    study.write_plan(plan)
    for place, arm in enumerate(arms, 1):
        add_runs(study, arm, "length", n_steps=8, gain=GAINS[arm] - 0.4 * place)
        add_runs(study, arm, "length", n_steps=15, gain=GAINS[arm] - 0.15 * place)
    return study


def add_sweeps(study: Study, best: Mapping[str, float]) -> Study:
    """The same study, made with `rates`, with the sweep of every arm on disk: a curve about a
    best rate of its own.

    The rates are tried as a real search tries them; reported runs are listed at the rate that it
    finds.
    """
    record = {}
    for arm in best:
        tries, found = GRID, None
        while found is None or found.rate is None:
            _try_rates(study, arm, tries, best[arm])
            points = _points(study, arm)
            found = refine_vertex(points, GRID, unigram=UNIGRAM)
            tries = found.tries
            assert not found.needs
        rate = float(f"{found.rate:.3g}")
        record[arm] = {
            "rate": rate,
            "grid": list(GRID),
            "points": points,
            "unigram": UNIGRAM,
            "optimum": asdict(found),
        }
    study.write_rates(record)
    cells = [
        replace(cell, rate=record[cell.arm]["rate"]) if cell.purpose != "sweep" else cell
        for cell in study.read_cells()
    ]
    (study.folder / "cells.json").unlink()
    study.add_cells(cells)
    return study


def _try_rates(study: Study, arm: str, rates: Sequence[float], best: float) -> None:
    for rate in rates:
        worse = 0.1 * math.log2(rate / best) ** 2
        add_runs(
            study,
            arm,
            "sweep",
            rate=rate,
            gain=GAINS[arm] - worse,
            seeds=SWEEP_SEEDS,
            split="valid",
        )


def _points(study: Study, arm: str) -> list[tuple[float, float | None]]:
    own = [row for row in study_rows(study) if (row["arm"], row["purpose"]) == (arm, "sweep")]
    return [(row["rate"], row["halves.valid"]) for row in own]
