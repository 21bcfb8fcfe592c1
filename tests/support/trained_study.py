"""A study small enough to be run in seconds: masked prediction under three masks, on two
invented languages.

Every run learns: the languages share no letter, so a glance at the neighbours tells which one a row
is in, and a dozen steps bring each arm well below the unigram model.
"""

import contextlib
import copy
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from paribus.cli.run import run
from paribus.design import Plan, find_design, make_plan
from paribus.record import CellRecord, Study, existing_study
from paribus.record.checksums import remove_listed_file
from paribus.record.file_names import CELLS_FILE, PLAN_LOCK_FILE
from paribus.record.plan_lock import design_fingerprint, plan_fingerprint
from paribus.spec.merging import set_at_path
from paribus.workspace import Execution, Workspace

CPU = torch.device("cpu")
N_STEPS, RATE, N_SEQUENCES, LENGTH = 16, 0.05, 8, 32
SIZES = {"form": "text", "n_documents": 150, "min_length": 12, "max_length": 12}
LANGUAGES = [
    {"kind": "sort", "n_symbols": 2, **SIZES},
    {"kind": "arithmetic", "modulus": 2, **SIZES},
]
DESIGN_TABLE: dict[str, Any] = {
    "question": "Must a model look both ways to fill masks?",
    "factor": "architecture.mask",
    "baseline": "full",
    "seeds": 3,
    "tune": False,
    "primary": {"measure": {"kind": "pseudo", "n_items": 11, "max_bytes": 32}, "margin": 0.5},
    "base": {
        "architecture": {
            "preset": "gpt2",
            "positions": "rotary",
            "n_layers": 1,
            "d_model": 16,
            "attention": {"n_heads": 2},
            "init": "fan_in",
        },
        "corpus": {"sources": LANGUAGES},
        "objective": "masked",
        "training": {
            "n_steps": N_STEPS,
            "n_sequences": N_SEQUENCES,
            "length": LENGTH,
            "row_every": 4,
            "valid_every": 4,
            "valid_batches": 1,
            "checkpoint_every": 8,
            "optimizer": {"rate": RATE},
        },
    },
    "arms": {
        "reverse": {"architecture": {"mask": "reverse"}},
        "full": {"architecture": {"mask": "full"}},
        "causal": {"architecture": {"mask": "causal"}},
    },
}


def design_table(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """The table of the little design, with changes by path; None takes a path out."""
    table = copy.deepcopy(DESIGN_TABLE)
    for path, value in (changes or {}).items():
        if value is None:
            *outer, last = path.split(".")
            here = table
            for name in outer:
                here = here[name]
            here.pop(last)
        else:
            set_at_path(table, path, copy.deepcopy(value))
    return table


def replace_plan(
    study: Study, plan: dict[str, Any], cells: Sequence[CellRecord] | None = None
) -> None:
    """The study as if this had been its plan from the start: fingerprints, lock and cells
    follow.
    """
    runs = {name: (arm["run"], arm["text"]) for name, arm in plan["arms"].items()}
    design = design_fingerprint(plan["design"], runs)
    code = plan["environment"]["code"]
    plan = {
        **plan,
        "design_fingerprint": design,
        "fingerprint": plan_fingerprint(design, plan["rule"], code),
    }
    own = [replace(cell, plan=design) for cell in (study.read_cells() if cells is None else cells)]
    for name in (CELLS_FILE, PLAN_LOCK_FILE):
        remove_listed_file(study.folder, name)
    study.write_plan(plan)
    study.freeze(plan["fingerprint"], design, plan["rule"], code)
    study.add_cells(own)


def make_small_plan(cache: Path, changes: dict[str, Any] | None = None, n_jobs: int = 1) -> Plan:
    name, design = find_design(design_table(changes))
    return make_plan(
        design,
        name,
        None,
        Execution(Workspace(cache=cache, device="cpu"), n_jobs=n_jobs),
        show_progress=False,
    )


def train_study(
    home: Path, cache: Path, changes: dict[str, Any] | None = None, name: str = "little"
) -> Study:
    """The little study run to its end, in silence."""
    with contextlib.redirect_stdout(io.StringIO()):
        run(
            design_table(changes),
            name=name,
            execution=Execution(Workspace(home, cache=cache, device="cpu")),
        )
    return existing_study(home, name)
