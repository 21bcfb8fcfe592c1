"""How large two compared arms are beside each other, whatever they are matched by.

A match names a quantity, and a quantity may drown: among the parameters of a million words an
encoder is nothing, and so it is in the work for a million tokens. So every pair is measured in the
same three quantities as well: the parameters beside the tables of tokens and positions, those of
them that a token uses, and the work of the layers for one row of training. Arms that are near in
none of them are of unequal size, unless their factor is a size, or brings one with it as it comes
by default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

from paribus.design.arms import Arm
from paribus.design.control import factor_paths
from paribus.design.matching.size_match import SizeMatch, match_size
from paribus.design.trials import differing_fields
from paribus.errors import SpecError
from paribus.masks import SequenceLayout
from paribus.record import ControlLine, Mark
from paribus.spec import Architecture, resolve
from paribus.spec.architecture import Experts
from paribus.spec.design import MATCH_PATH, ArmPair, Design, Table, leaves_of
from paribus.spec.flops import forward_flops
from paribus.spec.match import UNEQUAL_FROM, Match, match_lengths
from paribus.spec.parameters import parameters
from paribus.spec.price import count_parameters
from paribus.spec.reading import parse_architecture
from paribus.spec.size import architecture_size

NEAR = 0.05  # sizes that differ by less are near; what kinds bring with them, such as a router
TIMES_FROM = 0.005  # sizes that differ by more are another number of times the baseline's
NOT_DECLARED = "sizes that are unequal on purpose are a factor: "
WAYS_NOT_DECLARED = "matches that move other fields, or match by another size, are a factor: "
COARSE, FINE = 16, 8  # settings of an own size on each side: half octaves, then sixteenths
EXPERT_WIDTH = "architecture.feed_forward.d_expert"
DENSE_WIDTH = "architecture.feed_forward.d_ff"
CURE_BY_MATCH = "match.by = 'non_embedding_parameters'"


@dataclass(frozen=True)
class SizeRatios:
    """How often the second arm's sizes the first has, beside the tables of tokens and positions."""

    parameters: float
    active: float  # of them, what a token uses
    flops: float  # of the layers, for one row of training, half of it a prefix or a source

    @property
    def distance(self) -> float:
        """How far apart the two are in the quantity in which they are nearest, as a logarithm."""
        return min(abs(log(one)) for one in (self.parameters, self.active, self.flops))

    @property
    def are_near(self) -> bool:
        return self.distance <= log(1 + NEAR)

    @property
    def are_equal(self) -> bool:
        """Is nothing to be said of them?"""
        return max(abs(self.parameters - 1), abs(self.flops - 1)) <= UNEQUAL_FROM

    @property
    def by_quantity(self) -> tuple[tuple[str, float], ...]:
        return ("parameters", self.parameters), ("FLOPs", self.flops)

    @property
    def description(self) -> str:
        return UnequalSize(self.by_quantity, is_declared=False).description


def size_ratios(first: Architecture, second: Architecture, length: int) -> SizeRatios:
    """The sizes of two architectures beside each other, for rows of a length."""
    one, other = _own_sizes(first, length), _own_sizes(second, length)
    return SizeRatios(*[own / against for own, against in zip(one, other, strict=True)])


def matrix_ratios(first: Architecture, second: Architecture) -> tuple[float, float]:
    """How often the second's weights of matrices the first has, all of them and those that a token
    uses: gains and biases grow more slowly with the width than matrices do, and tables, too.
    """
    one, other = _matrix_weights(first), _matrix_weights(second)
    return one[0] / other[0], one[1] / other[1]


def _matrix_weights(architecture: Architecture) -> tuple[float, float]:
    matrices = []
    for parameter in parameters(resolve(architecture)).values():
        if parameter.role in ("query", "inward", "residual", "router"):
            matrices.append(parameter)
    return sum(p.count for p in matrices), sum(p.count * p.share for p in matrices)


def _own_sizes(architecture: Architecture, length: int) -> tuple[float, float, float]:
    spec = resolve(architecture)
    counts = count_parameters(spec)
    n_source = max(1, length // 2)
    if spec.encoder is None:
        work = forward_flops(spec, SequenceLayout(length, prefix=n_source), 0)
    else:
        work = forward_flops(spec, SequenceLayout(length - n_source), n_source)
    return counts.non_embedding, counts.active_non_embedding, work.dense


@dataclass(frozen=True)
class UnequalSize:
    """Two arms whose sizes agree in nothing that they are matched by, or are near in nothing that
    they could be; or that are brought to one size in two ways.
    """

    ratios: tuple[tuple[str, float], ...]  # by the quantity: how often the second's the first has
    is_declared: bool  # as a size of its own, by `match`; else it came with something else
    cure: str = ""  # of one that came with something else: the setting with which sizes are near
    ways: tuple[str, ...] = ()  # of two arms of one size: how a match brings each of them to it

    @property
    def name(self) -> str:
        """The factor that it is."""
        return "match" if self.ways else "size"

    @property
    def description(self) -> str:
        if self.ways:
            return " for ".join(self.ways)
        return " and ".join([f"{ratio:.3g} × the {by}" for by, ratio in self.ratios])

    def describe_beside(self, one: str, other: str) -> str:
        """How the first of two arms stands beside the second, as a clause."""
        if self.ways:
            return f"{one} is matched by {self.ways[0]}, and {other} by {self.ways[1]}"
        return f"{one} has {self.description} of {other}"

    @property
    def inverse(self) -> UnequalSize:
        """How often the first's sizes the second has."""
        ratios = tuple((by, 1 / ratio) for by, ratio in self.ratios)
        return replace(self, ratios=ratios, ways=self.ways[::-1])


UnequalSizes = Mapping[ArmPair, UnequalSize]
RatiosByPair = Mapping[ArmPair, SizeRatios]


def pair_ratios(
    arms: Sequence[Arm], size_matches: Sequence[SizeMatch | None], pairs: Sequence[ArmPair]
) -> dict[ArmPair, SizeRatios]:
    """The sizes of the two arms of each pair, in both orders."""
    architectures = _sized_architectures(arms, size_matches)
    length = arms[0].run.last.training.length
    ratios = {}
    for one, other in pairs:
        for pair in ((one, other), (other, one)):
            ratios[pair] = size_ratios(architectures[pair[0]], architectures[pair[1]], length)
    return ratios


def unequal_sizes(
    design: Design,
    arms: Sequence[Arm],
    size_matches: Sequence[SizeMatch | None],
    pairs: Sequence[ArmPair],
) -> dict[ArmPair, UnequalSize]:
    """The pairs of unequal size: by a `match` of their own, by `times`, or under a tolerance so
    wide that nothing is matched; by a quantity that something else drowns; as written, by a field
    of its own that one kind has. And those of equal size that two matches bring to it, where one
    match would do and would make another model of one of them.

    A pair is of equal size if it agrees in one quantity that it is matched by, and is near in what
    every pair is measured in. Arms that are compared as written have the sizes that follow from the
    factor, where no other value of such a field brings them near.
    """
    by_name = {arm.name: arm for arm in arms}
    matches = {arm.name: match_of(arm, design) for arm in arms}
    architectures = _sized_architectures(arms, size_matches)
    ratios = pair_ratios(arms, size_matches, pairs)
    length = arms[0].run.last.training.length
    unequal = {}
    for pair in pairs:
        sizes: list[tuple[str, float]] = []
        for match in filter(None, (matches[pair[0]], matches[pair[1]], design.match)):
            n_tokens = match_lengths(match, length)
            for by in match.sizes:
                try:
                    first, second = [
                        architecture_size(architectures[name], by, *n_tokens) for name in pair
                    ]
                except SpecError:  # an arm that is not matched so, and has no room for the text
                    continue
                sizes.append((by.replace("_", " "), first / second))
        least = UNEQUAL_FROM if _times(matches[pair[0]]) == _times(matches[pair[1]]) else TIMES_FROM
        own = ratios[pair]
        if sizes and all(abs(ratio - 1) > least for _, ratio in sizes):
            unequal[pair] = UnequalSize(tuple(sizes[:1]), is_declared=True)
        elif own.are_near:
            ways = _match_ways(
                (by_name[pair[0]], by_name[pair[1]]), matches, architectures, arms[0]
            )
            if ways:
                unequal[pair] = UnequalSize((), is_declared=True, ways=ways)
        elif sizes:
            unequal[pair] = UnequalSize(own.by_quantity, is_declared=False, cure=CURE_BY_MATCH)
        else:
            cure = _own_size_cure(by_name[pair[0]], by_name[pair[1]], own, length)
            if cure is not None:
                unequal[pair] = UnequalSize(own.by_quantity, is_declared=False, cure=cure)
    return unequal


def _sized_architectures(
    arms: Sequence[Arm], size_matches: Sequence[SizeMatch | None]
) -> dict[str, Architecture]:
    architectures = {}
    for arm, own in zip(arms, size_matches, strict=True):
        architectures[arm.name] = arm.run.architecture if own is None else own.architecture
    return architectures


def _match_ways(
    pair: tuple[Arm, Arm],
    matches: Mapping[str, Match | None],
    architectures: Mapping[str, Architecture],
    baseline: Arm,
) -> tuple[str, ...]:
    """What two matches move, and by what, if either arm can be matched as the other is, and is
    another model then; else nothing.
    """
    own, other = [matches[arm.name] for arm in pair]
    if own is None or other is None or not own.sizes or not other.sizes:
        return ()
    length, ways = baseline.run.last.training.length, list[str]()
    for match in (own, other):
        n_input, n_target = match_lengths(match, length)
        way = f"{_sizes_in_words(match)} with moves {' and '.join(match.moves)}"
        if "flops" in way:
            way = f"{way} for {n_input} + {n_target} tokens"
        ways.append(way)
    if ways[0] == ways[1]:
        return ()
    for arm, match, taken in ((pair[0], own, other), (pair[1], other, own)):
        tried = taken.model_copy(update={"times": match.times, "tolerance": match.tolerance})
        n_tokens = match_lengths(taken, length)
        try:
            found = match_size(arm.run.architecture, baseline.run.architecture, tried, *n_tokens)
        except SpecError:
            continue
        if found.architecture != architectures[arm.name]:
            return tuple(ways)
    return ()


def _times(match: Match | None) -> float:
    """How often the baseline's size a match asks for."""
    return 1.0 if match is None else match.times


def _own_size_cure(first: Arm, second: Arm, ratios: SizeRatios, length: int) -> str | None:
    """With what two arms that are compared as written would be near, or much nearer: a value of a
    field that only one of their kinds has, or all such fields of it together; None where there is
    nothing.
    """
    best: tuple[float, str] | None = None
    for arm, other in ((first, second), (second, first)):
        sizes = _own_sizes_written(arm, other)
        options = [{path: value} for path, value in sizes.items()]
        if len(sizes) > 1:
            options.append(sizes)
        for option in options:
            for distance, values in _settings(arm.run.architecture, option, other, length):
                changed = [
                    f"{path} = {value}" for path, value in values.items() if value != sizes[path]
                ]
                settings = " and ".join(changed)
                best = min(filter(None, (best, (distance, f"{settings} in {arm.name}"))))
    if best is None or best[0] > max(log(1 + NEAR), ratios.distance / 2):
        return None
    return best[1]


def _own_sizes_written(arm: Arm, other: Arm) -> dict[str, int]:
    """The whole numbers of an architecture that only this arm of the two has, and that somebody
    chose: not an encoder of as many layers as the main stack, which is how one comes. The width of
    experts stands for that of the dense layers which they take the place of, also unwritten.
    """
    own, beside = _architecture_table(arm), _architecture_table(other)
    _, dependents = differing_fields(own, beside)
    leaves, sizes = leaves_of(own), dict[str, int]()
    usual = {"architecture.encoder.n_layers": arm.run.architecture.n_layers}
    width = _expert_width(arm.run.architecture)
    if EXPERT_WIDTH in dependents and width is not None:
        leaves[EXPERT_WIDTH] = width
    for path in dependents:
        value = leaves.get(path)
        if not path.startswith("architecture.") or type(value) is not int or value < 1:
            continue
        if value != usual.get(path) and path != DENSE_WIDTH:
            sizes[path] = value
    return sizes


def _architecture_table(arm: Arm) -> Table:
    """The architecture of an arm, its own or that of what it begins from, under its path."""
    return {"architecture": arm.run.architecture.model_dump(mode="json")}


def _expert_width(architecture: Architecture) -> int | None:
    """The width of one expert; None where there is none."""
    for block in resolve(architecture).stack.layers:
        if isinstance(block.feed_forward, Experts):
            return block.feed_forward.d_expert
    return None


def _settings(
    architecture: Architecture, sizes: Mapping[str, int], other: Arm, length: int
) -> Iterator[tuple[float, dict[str, int]]]:
    """Other values of some sizes in their proportions, each with how far apart the two arms then
    are; coarse ones first, then those around the nearest of them.
    """
    tried: dict[tuple[int, ...], float | None] = {}

    def distance(octaves: float) -> tuple[float, dict[str, int]] | None:
        values = {path: _scaled(value, 2**octaves) for path, value in sizes.items()}
        key = tuple(values.values())
        if key not in tried:
            changed = _with_sizes(architecture, values)
            tried[key] = None
            if changed is not None:
                tried[key] = size_ratios(changed, other.run.architecture, length).distance
        found = tried[key]
        return None if found is None else (found, values)

    coarse = {n / 2: distance(n / 2) for n in range(-COARSE, COARSE + 1)}
    legal = {octaves: own for octaves, own in coarse.items() if own is not None}
    if not legal:
        return
    nearest = min(legal, key=lambda octaves: legal[octaves][0])
    yield legal[nearest]
    for n in range(-FINE, FINE + 1):
        own = distance(nearest + n / 16)
        if own is not None:
            yield own


def _scaled(value: int, factor: float) -> int:
    """A size times a factor, even where it was even: channels that turn come in pairs."""
    step = 2 if value % 2 == 0 else 1
    return max(step, round(value * factor / step) * step)


def _with_sizes(architecture: Architecture, sizes: Mapping[str, int]) -> Architecture | None:
    """An architecture with other values at some paths of a run; None where it is refused."""
    table = architecture.model_dump(mode="json")
    for path, value in sizes.items():
        *outer, last = path.split(".")[1:]
        inner = table
        for key in outer:
            inner = inner[key]
        inner[last] = value
    try:
        changed = parse_architecture(table)
        resolve(changed)
    except SpecError:
        return None
    return changed


def match_of(arm: Arm, design: Design) -> Match | None:
    """What an arm is matched by; None of the baseline, to which the others are brought."""
    if arm.name == design.baseline:
        return None
    return arm.match


def size_lines(design: Design, arms: Sequence[Arm], sizes: UnequalSizes) -> tuple[ControlLine, ...]:
    """A line on what the arms are matched by, where some are of unequal size on purpose, or are
    matched in two ways.
    """
    sizes = {pair: size for pair, size in sizes.items() if size.is_declared}
    if not sizes:
        return ()
    values = {arm.name: _describe_match(match_of(arm, design)) for arm in arms}
    note = "; ".join([size.describe_beside(*pair) for pair, size in sizes.items()])
    why = WAYS_NOT_DECLARED if all(size.ways for size in sizes.values()) else NOT_DECLARED
    if MATCH_PATH in factor_paths(design, arms):
        return (ControlLine(path=MATCH_PATH, mark=Mark.FACTOR, values=values, note=note),)
    return (
        ControlLine(
            path=MATCH_PATH,
            mark=Mark.CONFOUND,
            values=values,
            note=f"{why}{note}",
            allowed=design.allow.get(MATCH_PATH),
        ),
    )


def _describe_match(match: Match | None) -> str:
    if match is None or not match.sizes:
        return "as written"
    by = f"{_sizes_in_words(match)} to {match.tolerance:.2g}"
    return by if match.times == 1 else f"{match.times:g} × {by}"


def _sizes_in_words(match: Match) -> str:
    return " and ".join(match.sizes).replace("_", " ")
