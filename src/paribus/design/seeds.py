"""Under which seeds a design is carried out: its own, or where their number is open, as many as are asked for."""

from __future__ import annotations

from paribus.errors import SpecError
from paribus.record import Study
from paribus.spec.design import OPEN, SWEEP_SEED, Design
from paribus.spec.sound import LEAST_SEEDS

FIRST = 5  # of an open design, where nobody says how many
ORDER = 10_000  # added to a seed for the order of the text, so that start and order have a seed each


def start_seed(seed: int) -> int:
    """The seed of starting weights, questions and dropout under a reported or sweep seed: the number itself."""
    return seed


def order_seed(seed: int) -> int:
    """The seed of the data order under a reported or sweep seed."""
    return ORDER + seed


def seeds_of(design: Design, n_seeds: int | None = None) -> tuple[int, ...]:
    """The reported seeds, every one of them below those of sweeps."""
    if design.seeds != OPEN:
        if n_seeds is not None:
            raise SpecError(
                f"--seeds is {n_seeds}, and the design has seeds of its own, {len(design.seeds)} of them; leave it "
                f"out, or write seeds = 'open' into a new design"
            )
        return design.seeds
    n = FIRST if n_seeds is None else n_seeds
    if not LEAST_SEEDS <= n < SWEEP_SEED:
        raise SpecError(f"--seeds is {n}; use {LEAST_SEEDS} to {SWEEP_SEED - 1}, for sweeps have those from there on")
    return tuple(range(1, n + 1))


def possible(design: Design) -> tuple[int, ...]:
    """Every seed that could ever be reported."""
    return tuple(range(1, SWEEP_SEED)) if design.seeds == OPEN else design.seeds


def n_begun(study: Study, design_fingerprint: str) -> int:
    """How many seeds a study of this design has named so far."""
    own = [cell for cell in study.cells() if cell.plan == design_fingerprint and cell.purpose == "reported"]
    return len({cell.seed for cell in own})
