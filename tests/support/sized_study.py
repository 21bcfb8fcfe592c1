"""The study made by hand with as many seeds and arms as are asked for; every further arm has
the prefix arm's run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from handmade_study import GAINS, N_STEPS, make_study, write_run

from paribus.record import CellRecord, Study
from paribus.record.disk import write_json
from paribus.record.file_names import CELLS_FILE

WIDE_GAINS = {**GAINS, "a": 0.1, "b": -0.05}


def make_sized_study(
    root: Path,
    n_seeds: int,
    gains: Mapping[str, float] = GAINS,
    failed: Sequence[tuple[str, int]] = (),
    **design: Any,
) -> Study:
    """So many seeds from 1 on, arms that gain so much, and fields of the design as they are to
    be.
    """
    study = make_study(root, gains={arm: gains[arm] for arm in GAINS}, failed=failed)
    plan = study.read_plan()
    new = [arm for arm in gains if arm not in GAINS]
    plan["arms"] |= {arm: {**plan["arms"]["prefix"], "levels": {"arm": arm}} for arm in new}
    for line in plan["control"]:
        line["values"] |= dict.fromkeys(new, line["values"]["prefix"])
    plan["order"] += new
    plan["design"] |= {"seeds": list(range(1, n_seeds + 1)), **design}
    study.write_plan(plan)
    cells = [
        CellRecord(arm, seed, 0.004, "reported", f"{place:x}{seed:015x}", N_STEPS)
        for place, arm in enumerate(gains)
        for seed in range(1, n_seeds + 1)
    ]
    write_json(study.folder / CELLS_FILE, [asdict(cell) for cell in cells])
    for cell in cells:
        if not (root / cell.run).exists():
            write_run(
                root / cell.run, cell, gains[cell.arm], 1.0, plan, (cell.arm, cell.seed) in failed
            )
    return study
