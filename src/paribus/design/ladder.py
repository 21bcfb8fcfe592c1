"""Rungs of a ladder: every arm at another size, matched there as at its own, and how long it is
trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from paribus.analyse.laws.points import ROUNDED
from paribus.design.arms import Arm, arms_of, describe_problems
from paribus.design.computation import require_different_computations
from paribus.design.pair_sizes import (
    NEAR,
    UnequalSize,
    UnequalSizes,
    matrix_ratios,
    unequal_sizes,
)
from paribus.design.quantities import PlannedArm, full_quantity_name
from paribus.design.ready_arms import (
    CorpusOpener,
    match_sizes,
    plan_arm,
    require_declared_match,
)
from paribus.errors import SpecError
from paribus.model.initialise import initial_std
from paribus.record import ControlLine, Mark
from paribus.record.control_table import BUDGET_TOLERANCE
from paribus.spec import Architecture, ResolvedArchitecture, parameters, resolve
from paribus.spec.begin_reading import BeginOpener
from paribus.spec.design import ArmPair, Design, control_arm, ladder_pairs, leaves_of
from paribus.spec.ladder import RATE_RULE, Ladder
from paribus.spec.ladder_faults import MIN_SIZES, MIN_SPREAD
from paribus.spec.match import UNEQUAL_FROM
from paribus.spec.merging import merge_tables
from paribus.spec.mup import growth_problems, head_width, uses_mup

DEPTH_TOLERANCE = 0.1  # of a number of layers that should be in proportion to the width
TOKENS_LINE = "tokens_read in all"  # of the control table
KEY_HEADS = "architecture.attention.n_kv_heads"
MIN_STEPS = 20  # of a point: a shorter schedule is hardly one


@dataclass(frozen=True, eq=False)
class Rung:
    """Every arm at one size, the baseline first, and how many tokens its runs read."""

    size: int  # d_model of the base
    arms: tuple[PlannedArm, ...]
    tokens: tuple[int, ...]
    unequal_sizes: UnequalSizes  # of the matched pairs that are compared
    is_predicted: bool = False

    def n_steps(self, arm: PlannedArm, n_tokens: int) -> int:
        """The steps in which an arm reads so many tokens."""
        return max(1, round(n_tokens / arm.step_cost.tokens_read))


def plan_rungs(
    design: Design,
    arms: Sequence[PlannedArm],
    unequal: UnequalSizes,
    open_begin: BeginOpener,
    open_text: CorpusOpener,
) -> tuple[Rung, ...]:
    """The rungs of a design's ladder, none where it has none; SpecError where an arm cannot be made
    at some size, or where a law could not be fitted to what is left. The first arm is the baseline;
    `unequal` has the pairs of unequal size as the design writes them.
    """
    ladder = design.ladder
    if ladder is None:
        return ()
    if any(uses_mup(arm.run.last_architecture) for arm in arms):
        _require_width_alone(ladder)
        _require_one_head_size(design, ladder, arms)
    sizes, problems = list(ladder.sizes), list[str]()
    if ladder.prediction is not None:
        sizes.append(ladder.prediction.size)
    rungs: list[Rung] = []
    for size in sizes:
        try:
            rungs.append(_rung(design, ladder, size, arms, (open_begin, open_text)))
        except SpecError as fault:
            problems += [f"ladder at d_model {size}: {problem}" for problem in fault.problems]
    if problems:
        raise SpecError(problems)
    _require_same_shares(design, rungs)
    _require_same_sizes(design, rungs, unequal)
    _require_same_layers(design, arms, rungs)
    _require_enough_steps(ladder, rungs)
    _require_equal_budgets(design, rungs)
    _require_fittable(ladder, [rung for rung in rungs if not rung.is_predicted])
    return tuple(rungs)


def ladder_lines(design: Design, arms: Sequence[PlannedArm]) -> tuple[ControlLine, ...]:
    """Lines of the control table for how sizes grow: one rule for all arms but the control."""
    ladder = design.ladder
    if ladder is None:
        return ()
    control = control_arm(design)
    off = "" if control is None else f"{control} is not on the ladder"
    lines: list[ControlLine] = []
    for path, rule in ladder.rules.items():
        mark, notes = Mark.EQUAL, [off]
        if path == RATE_RULE and ladder.rate_sizes:
            mark = Mark.TUNED
            notes = [
                f"swept at d_model {', '.join(map(str, ladder.rate_sizes))}; a level for each arm,"
                " and one power of the parameters for all",
                off,
            ]
        values = dict.fromkeys([arm.name for arm in arms], rule)
        note = "; ".join(filter(None, notes))
        lines.append(ControlLine(path=path, mark=mark, values=values, note=note))
    return tuple(lines)


def rung_rate(ladder: Ladder, rate: float, size: int, base_size: int) -> float:
    """An arm's rate at a size, from its rate at the size of the base."""
    return rate * (size / base_size) ** ladder.rate_power


def _require_width_alone(ladder: Ladder) -> None:
    """SpecError where a ladder under μP moves depth, or rates that need not be moved."""
    rules: list[str] = []
    if ladder.rate_power:
        rules.append(f"ladder.rate_power is {ladder.rate_power:g}")
    if ladder.rate_sizes:
        rules.append(f"ladder.rate_sizes is {list(ladder.rate_sizes)}")
    if rules:
        raise SpecError(
            f"{' and '.join(rules)} with init 'mup', under which one rate serves all widths; leave"
            " it out, or use another init"
        )
    if ladder.depth != "fixed":
        raise SpecError(
            f"ladder.depth is {ladder.depth!r} with init 'mup', which transfers rates over width"
            " alone; use 'fixed', or another init"
        )


def _require_one_head_size(design: Design, ladder: Ladder, arms: Sequence[PlannedArm]) -> None:
    """SpecError where `d_head` changes the heads of an arm under μP."""
    if ladder.d_head is None:
        return
    own: dict[str, int] = {}
    for arm in arms:
        architecture = arm.run.last_architecture
        width = head_width(architecture)
        if uses_mup(architecture) and width is not None and arm.name != control_arm(design):
            own[arm.name] = width
    for name, width in own.items():
        if width != ladder.d_head:
            of = "each arm" if list(own.values()).count(width) == len(arms) else f"arms.{name}"
            raise SpecError(
                f"ladder.d_head is {ladder.d_head}, and {of} has heads of {width} dimensions with"
                f" init 'mup', which transfers rates at one size of heads; use {width}, leave"
                " ladder.d_head out, or use another init"
            )


def _rung(
    design: Design,
    ladder: Ladder,
    size: int,
    own_arms: Sequence[PlannedArm],
    openers: tuple[BeginOpener, CorpusOpener],
) -> Rung:
    """All arms but the control, which is trained at its own size alone."""
    open_begin, open_text = openers
    base, control = resolve(own_arms[0].run.last_architecture), control_arm(design)
    found = arms_of(_design_at(design, ladder, size, base), open_begin)
    arms = [arm for arm in found if arm.name != control]
    _require_growth(own_arms, arms)
    size_matches = match_sizes(arms)
    ready = []
    for arm, size_match in zip(arms, size_matches, strict=True):
        ready.append(plan_arm(arm, size_match, open_text))
    matched = {arm.name for arm in ready if arm.size_match is not None}
    pairs = [pair for pair in ladder_pairs(design) if matched & set(pair)]
    unequal = unequal_sizes(design, arms, size_matches, pairs)
    require_declared_match(arms, ready)
    _require_same_factor(design, own_arms, ready)
    if ladder.depth == "proportional":
        _require_proportion(ladder, size / base.d_model, own_arms, ready)
    if ladder.prediction is not None and size == ladder.prediction.size:
        return Rung(size, tuple(ready), (ladder.prediction.tokens,), unequal, is_predicted=True)
    durations = _durations(ladder, ready[0].price.non_embedding_parameters)
    return Rung(size, tuple(ready), durations, unequal)


def _require_same_factor(
    design: Design, own_arms: Sequence[PlannedArm], arms: Sequence[PlannedArm]
) -> None:
    """SpecError where two arms that differ are the same model at the size of a rung."""
    own, grown = ({arm.name: arm for arm in some} for some in (own_arms, arms))
    for arm, against in ladder_pairs(design):
        if own[arm].run != own[against].run and grown[arm].run == grown[against].run:
            raise SpecError(
                f"{arm} and {against} are the same model there; use sizes at which they differ, or"
                " leave out the ladder"
            )
    require_different_computations(design, arms)


def _require_same_shares(design: Design, rungs: Sequence[Rung]) -> None:
    """SpecError where two arms are not of one ratio at every size, so that their difference would
    be another factor at each. Where a match brings one to its size at each, it says which.
    """
    problems = []
    for pair in ladder_pairs(design):
        arms = [_pair_at(rung, pair) for rung in rungs]
        models = [(one.run.last_architecture, two.run.last_architecture) for one, two in arms]
        for path, values in _words_and_numbers(*models[0]).items():
            problems.append(
                f"ladder: {path} is {values[0]!r} in {pair[0]} and {values[1]!r} in {pair[1]}, so"
                " one grows with the width and the other does not; use a number in both, or the"
                " same word"
            )
        problems += _describe_starts(pair, rungs, arms)
        if any(arm.size_match is not None for arm in arms[0]):
            continue
        fixed = _fixed_sizes(models)
        if list(fixed) == [KEY_HEADS] and 1 in fixed[KEY_HEADS]:
            continue  # one for all heads, however many there are
        for ratios in zip(*[matrix_ratios(one, two) for one, two in models], strict=True):
            if max(ratios) / min(ratios) > 1 + NEAR:
                problems.append(_describe_shares(pair, rungs, ratios, fixed))
                break
    if problems:
        raise SpecError(problems)


def _pair_at(rung: Rung, pair: ArmPair) -> tuple[PlannedArm, PlannedArm]:
    arms = {arm.name: arm for arm in rung.arms}
    return arms[pair[0]], arms[pair[1]]


def _describe_shares(
    pair: ArmPair,
    rungs: Sequence[Rung],
    ratios: Sequence[float],
    fixed: Mapping[str, Sequence[int]],
) -> str:
    said = [f"{path} is {' and '.join(map(str, values))}" for path, values in fixed.items()]
    sizes = ", ".join([str(rung.size) for rung in rungs])
    times = ", ".join([f"{ratio:.3g}" for ratio in ratios])
    return (
        f"ladder: at d_model {sizes}, {pair[0]} has {times} × the weights of {pair[1]}, so the arms"
        f" would differ otherwise at each size; at all of them {'; '.join(said) or 'no width'}: let"
        " each follow d_model, match the sizes of the arms, or leave out the ladder"
    )


def _describe_starts(
    pair: ArmPair, rungs: Sequence[Rung], arms: Sequence[tuple[PlannedArm, PlannedArm]]
) -> list[str]:
    """That one init draws weights of another width at each size and the other does not; 'mup' is
    a rule for all sizes, and may be compared with another.
    """
    inits = [arm.run.last_architecture.init for arm in arms[0]]
    if inits[0] == inits[1] or any(uses_mup(arm.run.last_architecture) for arm in arms[0]):
        return []
    ratios: dict[str, list[float]] = {}
    for one, other in arms:
        own, beside = _starting_stds(one), _starting_stds(other)
        for name in own.keys() & beside.keys():
            ratios.setdefault(name, []).append(own[name] / beside[name])
    spread = {name: max(own) / min(own) for name, own in ratios.items() if len(own) == len(arms)}
    name = max(spread, key=lambda name: (spread[name], name))
    if spread[name] <= 1 + NEAR:
        return []
    sizes = ", ".join([str(rung.size) for rung in rungs])
    times = ", ".join([f"{ratio:.3g}" for ratio in ratios[name]])
    return [
        f"ladder: architecture.init is {inits[0].kind!r} in {pair[0]} and {inits[1].kind!r} in"
        f" {pair[1]}; at d_model {sizes}, {name} starts {times} × as wide in {pair[0]}, so the arms"
        " would differ otherwise at each size; use inits that grow alike, or leave out the ladder"
    ]


def _starting_stds(arm: PlannedArm) -> dict[str, float]:
    """The standard deviation of each parameter that is drawn."""
    spec = resolve(arm.run.last_architecture)
    stds = {}
    for name, parameter in parameters(spec).items():
        if parameter.role not in ("gain", "bias"):
            stds[name] = initial_std(parameter, spec)
    return stds


def _require_same_sizes(design: Design, rungs: Sequence[Rung], unequal: UnequalSizes) -> None:
    """SpecError where a match leaves two arms of equal size as written and not at some rung, or in
    other ratios: a tolerance that one size keeps within holds at no other. Sizes that came with
    something else are a factor that the design has given its reason for.
    """
    problems = []
    for rung, pair in product(rungs, ladder_pairs(design)):
        own, written = rung.unequal_sizes.get(pair), unequal.get(pair)
        turned = unequal.get((pair[1], pair[0]))
        if turned is not None:
            written = turned.inverse
        if all(arm.size_match is None for arm in _pair_at(rung, pair)):
            continue
        if written is not None and not written.is_declared:
            continue
        if not _is_same_size(own, written):
            cures = [size.cure for size in (own, written) if size is not None and size.cure]
            cure = cures[0] if cures else f"match.tolerance {UNEQUAL_FROM} or less"
            problems.append(
                f"ladder at d_model {rung.size}: {pair[0]} against {pair[1]} comes to"
                f" {_describe_size(own)} there and to {_describe_size(written)} as written, so the"
                f" arms would differ otherwise at each size; use {cure}, or leave out the ladder"
            )
    if problems:
        raise SpecError(problems)


def _is_same_size(one: UnequalSize | None, other: UnequalSize | None) -> bool:
    """Are two arms of one ratio at two sizes, as far as sizes count as equal?"""
    own, beside = [{} if size is None else dict(size.ratios) for size in (one, other)]
    if own.keys() != beside.keys():
        return False
    limit = UNEQUAL_FROM if len(own) == 1 else NEAR
    return all(abs(ratio / beside[by] - 1) <= limit for by, ratio in own.items())


def _describe_size(size: UnequalSize | None) -> str:
    return size.description if size is not None and size.ratios else "an equal size"


def _require_same_layers(
    design: Design, own_arms: Sequence[PlannedArm], rungs: Sequence[Rung]
) -> None:
    """SpecError where two arms differ in their layers, such as by a mask that alternates, and one
    has other shares of them at each size.
    """
    problems = dict[str, None]()
    for pair in ladder_pairs(design):
        both = [[_layer_shares(arm) for arm in _pair_at(rung, pair)] for rung in rungs]
        if all(one == other for one, other in both):
            continue
        for name, shares in zip(pair, zip(*both, strict=True), strict=True):
            if any(not _is_near(own, shares[0]) for own in shares):
                problems[_describe_layers(name, design, own_arms, rungs)] = None
    if problems:
        raise SpecError(list(problems))


def _layer_shares(arm: PlannedArm, n_times: float = 1) -> dict[str, float]:
    """The share of the layers of each stack that has each mask, in an arm of so many times its
    layers.
    """
    architecture = arm.run.last_architecture
    deeper: dict[str, Any] = {"n_layers": _grown(architecture.n_layers, n_times)}
    if architecture.encoder is not None:
        n_layers = _grown(architecture.encoder.n_layers, n_times)
        deeper["encoder"] = architecture.encoder.model_copy(update={"n_layers": n_layers})
    shares: dict[str, float] = {}
    for place, stack in enumerate(resolve(architecture.model_copy(update=deeper)).stacks):
        for block in stack.layers:
            key = f"{place} {block.mask} {block.cross}"
            shares[key] = shares.get(key, 0.0) + 1 / len(stack.layers)
    return shares


def _is_near(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Are shares the same, as far as whole layers can be?"""
    if one.keys() != other.keys():
        return False
    return all(max(one[key], other[key]) <= (1 + NEAR) * min(one[key], other[key]) for key in one)


def _describe_layers(
    name: str, design: Design, own_arms: Sequence[PlannedArm], rungs: Sequence[Rung]
) -> str:
    """The number of layers of an arm at each size, and sizes at which it has the shares that it has
    as written.
    """
    ladder, (own,) = design.ladder, [arm for arm in own_arms if arm.name == name]
    assert ladder is not None
    depths = []
    for rung in rungs:
        (arm,) = [arm for arm in rung.arms if arm.name == name]
        depths.append(str(arm.run.last_architecture.n_layers))
    base = resolve(own_arms[0].run.last_architecture)
    step = ladder.d_head or base.d_model // base.stack.layers[0].attention.n_heads
    sizes = []
    for size in range(step, 2 * rungs[-1].size + 1, step):
        growth = size / base.d_model
        try:
            is_same = _is_near(_layer_shares(own, growth), _layer_shares(own))
        except SpecError:
            continue
        n_layers = own.run.last_architecture.n_layers
        if is_same and abs(_grown(n_layers, growth) / (growth * n_layers) - 1) <= DEPTH_TOLERANCE:
            sizes.append(str(size))
    cure = "a match that does not move depth"
    if ladder.depth == "proportional":
        several = f"sizes such as {', '.join(sizes)}, or " if len(sizes) >= MIN_SIZES else ""
        cure = f"{several}depth = 'fixed'"
    return (
        f"ladder: {name} has {', '.join(depths)} layers at d_model"
        f" {', '.join([str(rung.size) for rung in rungs])}, and other shares of them have each of"
        f" its masks, so the arms would differ otherwise at each size; use {cure}"
    )


def _words_and_numbers(first: Architecture, second: Architecture) -> dict[str, tuple[Any, Any]]:
    """The fields that are a word in one architecture, such as `sqrt_d_model`, and a number in the
    other.
    """
    tables = [leaves_of(one.model_dump(mode="json"), "architecture") for one in (first, second)]
    mixed = {}
    for path in tables[0].keys() & tables[1].keys():
        values = tables[0][path], tables[1][path]
        kinds = {type(value) for value in values}
        if str in kinds and kinds & {int, float}:
            mixed[path] = values
    return dict(sorted(mixed.items()))


def _fixed_sizes(models: Sequence[Sequence[Architecture]]) -> dict[str, list[int]]:
    """The widths, key heads and layers without experts that are the same numbers at every size, in
    the arms that write them. The dimensions of a head are so in any ladder.
    """
    fixed: dict[str, list[int]] = {}
    tables = []
    for both in models:
        tables.append([leaves_of(one.model_dump(mode="json"), "architecture") for one in both])
    for path in dict.fromkeys((*tables[0][0], *tables[0][1])):
        name = path.rpartition(".")[2]
        is_size = name.startswith("d_") or name in ("n_kv_heads", "n_dense_layers")
        values = [[table.get(path) for table in both] for both in tables]
        if name == "d_head" or not is_size or any(own != values[0] for own in values):
            continue
        written = [value for value in values[0] if type(value) is int and value > 0]
        if written:
            fixed[path] = written
    return fixed


def _require_proportion(
    ladder: Ladder, growth: float, own_arms: Sequence[PlannedArm], arms: Sequence[PlannedArm]
) -> None:
    """SpecError where whole layers are far from the proportion that the ladder asks for; where a
    match moves depth, they are as it says.
    """
    own = {arm.name: arm for arm in own_arms}
    for arm in arms:
        match = own[arm.name].size_match
        if match is not None and any(path.endswith("n_layers") for path in match.moved_fields):
            continue
        small = resolve(own[arm.name].run.last_architecture).stacks
        for before, after in zip(small, resolve(arm.run.last_architecture).stacks, strict=True):
            exact, n_layers = growth * len(before.layers), len(after.layers)
            if abs(n_layers / exact - 1) > DEPTH_TOLERANCE:
                raise SpecError(
                    f"ladder.depth is 'proportional', and {arm.name} would have {n_layers} layers"
                    f" for {exact:.3g}, so depth would not grow as the width does; use sizes at"
                    " which layers come out whole, more layers in the base, or depth = 'fixed'"
                )


def _require_growth(own_arms: Sequence[PlannedArm], arms: Sequence[Arm]) -> None:
    """SpecError where the rate that an arm has at its own size does not hold at that of a rung."""
    small = {arm.name: arm.run.last_architecture for arm in own_arms}
    problems: dict[str, list[str]] = {}
    for arm in arms:
        for problem in growth_problems(small[arm.name], arm.run.last_architecture):
            problems.setdefault(problem, []).append(arm.name)
    if problems:
        raise SpecError(describe_problems(problems, len(arms)))


def _design_at(design: Design, ladder: Ladder, size: int, base: ResolvedArchitecture) -> Design:
    """The design with a base of another size: one rule for all arms."""
    d_head = ladder.d_head or base.d_model // base.stack.layers[0].attention.n_heads
    if size % d_head:
        raise SpecError(
            f"{size} is no multiple of {d_head}, the dimensions of a head; choose another size, or"
            " another ladder.d_head"
        )
    attention = {"n_heads": size // d_head}
    if ladder.d_head is not None:
        attention["d_head"] = ladder.d_head
    grown: dict[str, Any] = {"d_model": size, "attention": attention}
    arms = dict(design.arms)
    if ladder.depth == "proportional":
        growth = size / base.d_model
        # written out, for a preset may say how many there are
        grown["n_layers"] = _grown(len(base.stack.layers), growth)
        if base.encoder is not None:
            grown["encoder"] = {"n_layers": _grown(len(base.encoder.layers), growth)}
        arms = {name: _deepened(arm, growth) for name, arm in arms.items()}
    table = merge_tables(design.base, {"architecture": grown})
    return design.model_copy(update={"base": table, "arms": arms, "ladder": None})


def _grown(n_layers: int, growth: float) -> int:
    return max(1, round(n_layers * growth))


def _deepened(table: Mapping[str, Any], growth: float) -> dict[str, Any]:
    """A table in which every number of layers has grown."""
    result: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            result[key] = _deepened(value, growth)
        elif key == "n_layers" and isinstance(value, int):
            result[key] = _grown(value, growth)
        else:
            result[key] = value
    return result


def _durations(ladder: Ladder, n_parameters: int) -> tuple[int, ...]:
    """Tokens that runs of a rung read."""
    durations = [round(ratio * n_parameters) for ratio in ladder.tokens_per_parameter]
    if ladder.max_tokens is None:
        return tuple(durations)
    return tuple(n_tokens for n_tokens in durations if n_tokens <= ladder.max_tokens)


def _require_fittable(ladder: Ladder, rungs: Sequence[Rung]) -> None:
    """SpecError where a size keeps no duration, or too few keep two that lie apart."""
    least = ROUNDED * MIN_SPREAD  # tokens are whole numbers, too
    bare, n_spread = [], 0
    for rung in rungs:
        if not rung.tokens:
            bare.append(str(rung.size))
        elif rung.tokens[-1] >= least * rung.tokens[0]:
            n_spread += 1
    if n_spread < MIN_SIZES:
        raise SpecError(
            f"ladder.max_tokens is {ladder.max_tokens}, so that durations a factor of {MIN_SPREAD}"
            f" or more apart are left at {n_spread} of {len(rungs)} sizes, and a law needs"
            f" {MIN_SIZES}; raise it, or add smaller sizes"
        )
    if bare:
        raise SpecError(
            f"ladder.max_tokens is {ladder.max_tokens}, which leaves no duration at d_model"
            f" {', '.join(bare)}; raise it, or leave out these sizes"
        )


def _require_equal_budgets(design: Design, rungs: Sequence[Rung]) -> None:
    """SpecError where whole steps of two arms that are compared do not read the tokens of a size;
    its shortest runs are the farthest from them.
    """
    if TOKENS_LINE in map(full_quantity_name, design.allow):
        return
    problems = list[str]()
    for rung, (arm, against) in product(rungs, ladder_pairs(design)):
        by_name = {own.name: own for own in rung.arms}
        for n_tokens in rung.tokens[:1]:
            totals = []
            for own in (by_name[arm], by_name[against]):
                totals.append(rung.n_steps(own, n_tokens) * own.step_cost.tokens_read)
            share = totals[0] / totals[1] - 1
            if abs(share) > BUDGET_TOLERANCE:
                problems.append(
                    f"ladder at d_model {rung.size}: tokens_read is {totals[0]:,.0f} in {arm} and"
                    f" {totals[1]:,.0f} in {against} ({share:+.1%}), as near to {n_tokens:,} as"
                    " whole steps come; use fewer sequences a step, more tokens_per_parameter, or"
                    f" list {TOKENS_LINE!r} under allow with a reason"
                )
    if problems:
        raise SpecError(problems)


def _require_enough_steps(ladder: Ladder, rungs: Sequence[Rung]) -> None:
    """SpecError where the shortest run of a size is hardly a schedule, in any arm."""
    problems = []
    for rung in rungs:
        if not rung.tokens:
            continue
        n_tokens = rung.tokens[0]
        n_steps, name = min((rung.n_steps(arm, n_tokens), arm.name) for arm in rung.arms)
        if n_steps >= MIN_STEPS:
            continue
        given = f"tokens_per_parameter begins with {ladder.tokens_per_parameter[0]:g}"
        if rung.is_predicted:
            given = f"prediction.tokens is {n_tokens}"
        problems.append(
            f"ladder.{given}, so that {name!r} at d_model {rung.size} would have fewer than"
            f" {MIN_STEPS} steps (here {n_steps}), too few for a schedule; raise it, or use fewer"
            " sequences a step"
        )
    if problems:
        raise SpecError(problems)
