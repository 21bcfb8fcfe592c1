"""Arms made ready at their sizes: matched as the design says, with their text and what a step of
them costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from paribus.corpus import TokenisedCorpus
from paribus.design.arms import Arm
from paribus.design.matching.size_match import SizeMatch, match_size
from paribus.design.quantities import TOTALS_TOLERANCE, PlannedArm, run_price
from paribus.design.step_cost import measure_step_costs
from paribus.errors import SpecError
from paribus.spec.corpus import Corpus
from paribus.spec.match import Match, MatchBy, Move, match_lengths
from paribus.spec.run import RunSpec
from paribus.spec.size import architecture_size
from paribus.train.chain import prepare_texts

CorpusOpener = Callable[[Corpus], TokenisedCorpus]
REQUIRED_SIZES = ("parameters", "training_flops")
# what a message proposes: the first that the arms can be brought to
EXAMPLES: tuple[tuple[MatchBy, tuple[Move, ...]], ...] = (
    ("non_embedding_parameters", ("d_ff",)),
    ("training_flops", ("d_ff",)),
    ("active_parameters", ("d_ff",)),
    ("non_embedding_parameters", ("depth", "d_ff")),
    ("non_embedding_parameters", ("width", "d_ff")),
)


def match_sizes(arms: Sequence[Arm]) -> list[SizeMatch | None]:
    """The size that each arm is brought to, the baseline first; SpecError lists those that cannot
    be.
    """
    baseline = arms[0].run
    length = baseline.last.training.length
    sizes: list[SizeMatch | None] = [None]
    problems: list[str] = []
    for arm in arms[1:]:
        try:
            sizes.append(_match_arm(arm, baseline, length))
        except SpecError as fault:
            for problem in fault.problems:
                problems.append(f"arms.{arm.name}: {problem}")
    if problems:
        raise SpecError(problems)
    return sizes


def _match_arm(arm: Arm, baseline: RunSpec, length: int) -> SizeMatch | None:
    """The size that an arm is brought to; None where it is compared as written."""
    match = arm.match or Match(by="nothing")
    if not match.sizes:
        return None
    if arm.run.begin is not None:
        raise SpecError(
            f"match.by is {', '.join(map(repr, match.sizes))}, but the arm begins from"
            f" {arm.run.begin.name!r}, whose weights have their size; use 'nothing'"
        )
    return match_size(
        arm.run.architecture, baseline.architecture, match, *match_lengths(match, length)
    )


def plan_arm(arm: Arm, size_match: SizeMatch | None, open_text: CorpusOpener) -> PlannedArm:
    """An arm at its size, with its text, its price and the cost of a step."""
    if size_match is None:
        run = arm.run
    else:
        run = arm.run.model_copy(update={"architecture": size_match.architecture})
    texts = prepare_texts(run, open_text)
    for stage, text in zip(run.stages, texts, strict=True):
        for split in ("train", "valid"):
            text.require_rows(split, stage.training.length)
    costs = measure_step_costs(run, texts)
    return PlannedArm(
        name=arm.name,
        levels=arm.levels,
        run=run,
        texts=texts,
        step_costs=costs,
        price=run_price(run, costs[-1]),
        size_match=size_match,
    )


def require_declared_match(arms: Sequence[Arm], ready: Sequence[PlannedArm]) -> None:
    """SpecError where an arm is of another size, and nobody said whether that is meant."""
    (_, baseline), *others = zip(arms, ready, strict=True)
    table = {baseline.name: _sizes(baseline)}
    for arm, own in others:
        if arm.match is None:
            table[own.name] = _sizes(own)
    if len(table) > 1:
        others = [arm for arm, _ in others if arm.match is None]
        require_choice("match", REQUIRED_SIZES, table, partial(_match_example, others, arms[0]))


def _match_example(others: Sequence[Arm], baseline: Arm) -> str:
    """A match that brings every arm to the size of the baseline; the usual one where none does."""
    length = baseline.run.last.training.length
    for by, moves in EXAMPLES:
        match = Match(by=by, moves=moves)
        try:
            for arm in others:
                if arm.run.begin is None:
                    _match_arm(replace(arm, match=match), baseline.run, length)
        except SpecError:
            continue
        return _describe_example(by, moves)
    return _describe_example(*EXAMPLES[0])


def _describe_example(by: MatchBy, moves: Sequence[Move]) -> str:
    return f"{{ by = {by!r}, moves = [{', '.join(map(repr, moves))}] }}"


def _sizes(arm: PlannedArm) -> dict[str, float]:
    """Of the architecture alone: how much of its work an objective asks for is the budget's."""
    length = arm.run.last.training.length
    work = architecture_size(
        arm.run.last_architecture, "training_flops", length // 2, length - length // 2
    )
    return {"parameters": arm.price.parameters, "training_flops": work}


def require_choice(
    field: str,
    names: Sequence[str],
    table: dict[str, dict[str, float]],
    example: str | Callable[[], str],
) -> None:
    """Refuse to choose the question for the user where it makes a difference."""
    differences = []
    for name in names:
        values = [own[name] for own in table.values()]
        share = max(values) / min(values) - 1
        if share > TOTALS_TOLERANCE:
            differences.append(f"{name} differ by {share:.1%}")
    if differences:
        if field == "match":
            nothing = ", or match = 'nothing' to compare them as written"
        else:
            nothing = ""
        example = example if isinstance(example, str) else example()
        raise SpecError(
            f"{field} is missing, and the arms' {', '.join(differences)}; which of them is made"
            f" equal is the question you ask: say so, such as {field} = {example}{nothing}"
        )
