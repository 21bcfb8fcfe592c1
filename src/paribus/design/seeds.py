"""Under which seeds a design is carried out: its own, or where their number is open, as many as
are asked for.
"""

from __future__ import annotations

from paribus.errors import SpecError
from paribus.record import Study
from paribus.spec.design import OPEN_SEEDS, SWEEP_SEED, Design
from paribus.spec.design_reading import MIN_SEEDS

DEFAULT_N_SEEDS = 5  # of an open design, where nobody says how many
ORDER_SEED_OFFSET = (
    10_000  # added to a seed for the order of the text, so that start and order have a seed each
)


def init_seed(seed: int) -> int:
    """The seed of starting weights, questions and dropout under a reported or sweep seed: the
    number itself.
    """
    return seed


def order_seed(seed: int) -> int:
    """The seed of the data order under a reported or sweep seed."""
    return ORDER_SEED_OFFSET + seed


def reported_seeds(design: Design, n_seeds: int | None = None) -> tuple[int, ...]:
    """The reported seeds, every one of them below those of sweeps."""
    if design.seeds != OPEN_SEEDS:
        if n_seeds is not None:
            raise SpecError(
                f"--seeds is {n_seeds}, but the design lists {len(design.seeds)} seeds of its own;"
                " leave it out, or write seeds = 'open' into a new design"
            )
        return design.seeds
    n = DEFAULT_N_SEEDS if n_seeds is None else n_seeds
    if not MIN_SEEDS <= n < SWEEP_SEED:
        raise SpecError(
            f"--seeds is {n}; use {MIN_SEEDS} to {SWEEP_SEED - 1}, because sweeps use the seeds"
            " above"
        )
    return tuple(range(1, n + 1))


def possible_seeds(design: Design) -> tuple[int, ...]:
    """Every seed that could ever be reported."""
    if design.seeds == OPEN_SEEDS:
        return tuple(range(1, SWEEP_SEED))
    return design.seeds


def n_begun_seeds(study: Study, design_fingerprint: str) -> int:
    """How many seeds a study of this design has named so far."""
    seeds = set[int]()
    for cell in study.read_cells():
        if cell.plan == design_fingerprint and cell.purpose == "reported":
            seeds.add(cell.seed)
    return len(seeds)
