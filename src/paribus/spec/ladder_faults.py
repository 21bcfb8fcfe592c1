"""What is wrong with a ladder as it is written: no law could be fitted, or not a fair one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paribus.spec.design import Table, arm_tables, control_arm
from paribus.spec.design_spec import Design
from paribus.spec.design_values import OPEN_SEEDS
from paribus.spec.factor import leaves_of, level_paths
from paribus.spec.ladder import Ladder
from paribus.spec.yardstick import OtherYardstick, ProbeYardstick

MIN_SIZES = 3  # that have two durations
MIN_RATE_SIZES = 3  # at which rates are swept
MIN_SPREAD = 4  # of these durations: the longer over the shorter


def ladder_faults(design: Design) -> Iterator[str]:
    """Why the ladder of a design is refused; nothing where it has none."""
    ladder = design.ladder
    if ladder is None:
        return
    yield from _rung_faults(ladder)
    if design.budget != "tokens_read":
        given = "missing" if design.budget is None else repr(design.budget)
        yield (
            f"budget is {given}, but all arms of a rung of the ladder read the same tokens; use"
            " budget = 'tokens_read'"
        )
    if design.seeds != OPEN_SEEDS and len(set(design.seeds)) < ladder.n_seeds:
        yield (
            f"ladder.n_seeds is {ladder.n_seeds}, and the design has {len(set(design.seeds))};"
            " lower ladder.n_seeds, or raise seeds"
        )
    if design.base.get("stages") or design.base.get("begin"):
        yield (
            "ladder: the base has several stages or begins from another run, and such runs have no"
            " other sizes; leave out stages and begin, or leave out ladder"
        )
    if not design.primary.measure.scores.is_likelihood:
        yield (
            f"primary.measure is {design.primary.measure.kind!r}, but the law of a ladder is one of"
            " a loss; use 'halves', 'pairs' or 'pseudo'"
        )
    yield from _rate_faults(design, ladder)
    if ladder.others and not ladder_others(design):
        yield (
            "ladder.others is true, but others has no yardstick that is not a probe; name one"
            " there, such as a task, or leave it out"
        )
    for name, table in design.arms.items():
        for path in leaves_of(table):
            if path in _GROWN:
                yield f"arms.{name}.{path} is set, but the ladder moves it in all arms; drop it"
    for name, factor in design.factors.items():
        for path in level_paths(factor):
            if path in _GROWN or (ladder.depth == "proportional" and path.endswith("n_layers")):
                yield f"factors.{name} is about {path}, which the ladder moves; leave one out"
    for name, table in arm_tables(design).items():
        if name != control_arm(design):
            yield from _fixed_widths(design, name, table)


def _fixed_widths(design: Design, name: str, table: Table) -> Iterator[str]:
    """Widths that an arm writes as a number where those of the others grow with the model: such an
    arm differs by another factor at each size, and by none where the number is that of the others.
    """
    match = table.get("match", design.match)
    moves = match.get("moves", ()) if isinstance(match, Mapping) else getattr(match, "moves", ())
    is_moved = name != design.baseline and "d_ff" in moves
    base = leaves_of(design.base)
    for path, value in leaves_of(table).items():
        field = path.rpartition(".")[2]
        is_fixed = isinstance(value, int) and value >= _WIDTHS.get(field, value + 1)
        if field in _DEPTHS and isinstance(value, int) and value > 0:
            is_fixed = design.ladder is not None and design.ladder.depth == "proportional"
        if not is_fixed or base.get(path) is not None or (is_moved and field in _MOVED_WIDTHS):
            continue
        if field in _MOVED_WIDTHS:
            cure = "leave it out, so that it follows the width, or move it by match"
        elif field == "n_kv_heads":
            cure = "use 1, which is one for all heads, or leave it out"
        else:
            cure = "write it in the base, as that of every arm"
        yield (
            f"arms.{name}.{path} is {value} at every size of the ladder, where that of the other"
            f" arms grows, so the arm would be another share of the width at each; {cure}, or leave"
            " out the ladder"
        )


def ladder_others(design: Design) -> tuple[OtherYardstick, ...]:
    """The further yardsticks that runs of the ladder are measured by."""
    if design.ladder is None or not design.ladder.others:
        return ()
    return tuple(one for one in design.others if not isinstance(one, ProbeYardstick))


def _rate_faults(design: Design, ladder: Ladder) -> Iterator[str]:
    """What is wrong with the sizes at which rates are swept."""
    swept = ladder.rate_sizes or ()
    if not swept:
        return
    if len(set(swept)) < MIN_RATE_SIZES or not set(swept) <= set(ladder.sizes):
        yield (
            f"ladder.rate_sizes is {list(swept)}; use {MIN_RATE_SIZES} or more of ladder.sizes,"
            f" {list(ladder.sizes)}"
        )
    if list(swept) != sorted(set(swept)):
        yield f"ladder.rate_sizes is {list(swept)}; write them in ascending order, each once"
    if design.tune is None:
        yield (
            "ladder.rate_sizes is set, but tune is false, so there is no sweep; say how to sweep in"
            " tune, or leave it out"
        )


def _rung_faults(ladder: Ladder) -> Iterator[str]:
    for field in ("sizes", "tokens_per_parameter"):
        values = getattr(ladder, field)
        if list(values) != sorted(set(values)):
            yield f"ladder.{field} is {list(values)}; write them in ascending order, each once"
    if len(set(ladder.sizes)) < MIN_SIZES:
        yield f"ladder.sizes is {list(ladder.sizes)}; a law needs {MIN_SIZES} sizes or more"
    ratios = sorted(ladder.tokens_per_parameter)
    if ratios[-1] / ratios[0] < MIN_SPREAD:
        given = ", ".join(f"{ratio:g}" for ratio in ladder.tokens_per_parameter)
        yield (
            f"ladder.tokens_per_parameter is [{given}]; a law needs durations that are a factor of"
            f" {MIN_SPREAD} or more apart, such as [{ratios[0]:g}, {MIN_SPREAD * ratios[0]:g}]: if"
            " tokens are in proportion to parameters, what size gains cannot be told from what"
            " tokens gain"
        )
    prediction = ladder.prediction
    if prediction is not None and prediction.size <= max(ladder.sizes):
        yield (
            f"ladder.prediction.size is {prediction.size}, not above the largest size"
            f" {max(ladder.sizes)}; predict a larger one, for a law is tested beyond its points"
        )


# Widths that grow with the model, each with the least number that is another share of it.
_WIDTHS = {"d_ff": 1, "d_expert": 1, "d_latent": 1, "d_query_latent": 1, "n_kv_heads": 2}
_DEPTHS = ("n_dense_layers",)  # which grow with the model where its depth does
_MOVED_WIDTHS = ("d_ff", "d_expert")
_GROWN = ("architecture.d_model", "architecture.attention.n_heads", "architecture.attention.d_head")
