"""A plan: every arm made ready, the control table over all of them, and what it will cost and can see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import torch

from paribus.corpus import Built, build
from paribus.design.arms import Arm, arms_of
from paribus.design.asked import require_askable
from paribus.design.control import Findings, confounds, field_lines, judge_pairs
from paribus.design.lengths import require_lengths
from paribus.design.match import Matched, matched
from paribus.design.paths import idle, require_known_paths
from paribus.design.quantities import NEAR, QUANTITIES, Planned, machine, priced, quantities
from paribus.design.scaled import require_scalable
from paribus.design.seeds import seeds_of
from paribus.design.series import Series
from paribus.design.size import size
from paribus.design.text_lines import text_confounds
from paribus.design.work import Work, work
from paribus.errors import ConfoundError, SpecError
from paribus.record import ControlLine, environment
from paribus.record.frozen import design_fingerprint, plan_fingerprint
from paribus.runtime import cudnn_version, device_kind
from paribus.spec.corpus import Corpus
from paribus.spec.design import OPEN, Design, compared_pairs, words_of
from paribus.spec.match import Match, lengths
from paribus.spec.run import RunSpec
from paribus.spec.sound import require_sound

RULE = "{test}, Bonferroni over one family a report, {equal} for equivalence, last checkpoint"
TWO_TESTS = "two one-sided tests"
SIZES = ("parameters", "training_flops")
ONE_THREAD = {"n_threads": 1, "omp_num_threads": "1"}


@dataclass(frozen=True, eq=False)
class Plan:
    """What will be run, and the proof that nothing but the factor differs."""

    name: str
    scale: str | None
    design: Design
    arms: tuple[Planned, ...]  # the baseline first
    lines: tuple[ControlLine, ...]
    environment: dict[str, Any]
    seeds: tuple[int, ...]  # to be reported; of an open design, as many as it is to be carried to now
    series: Series | None = None  # where it is a later study of a series

    @property
    def n_comparisons(self) -> int:
        return words_of(self.design)

    @property
    def allowed(self) -> tuple[ControlLine, ...]:
        return tuple(line for line in self.lines if line.allowed is not None)

    @property
    def idle(self) -> tuple[str, ...]:
        """What the design allows though nothing there is a confound."""
        return idle(self.design, self.lines)

    def _repr_html_(self) -> str:
        """In a notebook: the control table, what differs first."""
        head = "".join(f"<th>{escape(name)}</th>" for name in ("", "field", *(arm.name for arm in self.arms), ""))
        ordered = sorted(self.lines, key=lambda line: line.mark.place)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in _cells(line)) + "</tr>" for line in ordered
        )
        return f"<p>{escape(self.design.question)}</p><table><tr>{head}</tr>{rows}</table>"

    @property
    def design_fingerprint(self) -> str:
        """Of the design as it comes out: arms, text, seeds, yardsticks, margins."""
        runs = {arm.name: (arm.run.model_dump(mode="json"), arm.built.fingerprint) for arm in self.arms}
        return design_fingerprint(self.design.model_dump(mode="json"), runs)

    @property
    def fingerprint(self) -> str:
        """Of the design, the rule of the verdict and the code: what must not change on the way."""
        return plan_fingerprint(self.design_fingerprint, self.rule, self.environment["code"])

    @property
    def rule(self) -> str:
        """How the verdict is read."""
        if self.design.seeds == OPEN:
            return RULE.format(test="paired t past a bound for any number of seeds", equal="the same interval")
        return RULE.format(test="paired t", equal=TWO_TESTS)


def _cells(line: ControlLine) -> tuple[Any, ...]:
    return line.mark, line.path, *line.values.values(), line.allowed or line.note


Texts = Callable[[Corpus], Built]


def planned(
    design: Design,
    name: str,
    scale: str | None,
    cache: Path,
    device: torch.device,
    show_progress: bool = True,
    n_jobs: int = 1,
    n_seeds: int | None = None,
) -> Plan:
    """Resolve every arm, refuse what is no fair comparison, match sizes and budgets; `n_seeds` of an open design."""
    require_sound(design)
    seeds = seeds_of(design, n_seeds)
    arms = arms_of(design)
    require_known_paths(design, arms)
    findings = judge_pairs(design, arms)
    _refuse(field_lines(design, arms, findings))
    sizes = _sized(design, arms)
    held: dict[str, Built] = {}

    def text(corpus: Corpus) -> Built:
        key = corpus.model_dump_json()
        held[key] = held.get(key) or build(corpus, cache, show_progress=show_progress)
        return held[key]

    ready = [_ready(arm, size, text) for arm, size in zip(arms, sizes, strict=True)]
    require_askable(design, ready)
    _require_chosen_sizes(design, arms, ready)
    ready = _budgeted(design, ready)
    require_scalable(design, ready)
    require_lengths(design, ready)
    lines = _lines(design, arms, ready, findings)
    _refuse(lines)
    here = surroundings(device, n_jobs)
    return Plan(name, scale, design, tuple(ready), (*lines, *machine(ready, here, device)), here, seeds)


def surroundings(device: torch.device, n_jobs: int) -> dict[str, Any]:
    """What the runs are made under: on a CPU, runs side by side have one thread each."""
    alone = environment(torch.get_num_threads(), device_kind(device), cudnn_version(device))
    return {**alone, **ONE_THREAD} if n_jobs > 1 and device.type == "cpu" else alone


def _refuse(lines: Sequence[ControlLine]) -> None:
    fields_apart = confounds(line for line in lines if line.path not in QUANTITIES)
    found = (*fields_apart, *text_confounds(lines))
    if found:
        raise ConfoundError(found, lines)


def _sized(design: Design, arms: Sequence[Arm]) -> list[Matched | None]:
    baseline = arms[0].run
    length = baseline.stages[-1].training.length
    sizes: list[Matched | None] = [None]
    problems: list[str] = []
    for arm in arms[1:]:
        asked = arm.match or Match(by="nothing")
        try:
            sizes.append(None if asked.by == "nothing" else _match(arm, baseline, asked, length))
        except SpecError as fault:
            problems.extend(f"arms.{arm.name}: {problem}" for problem in fault.problems)
    if problems:
        raise SpecError(problems)
    return sizes


def _match(arm: Arm, baseline: RunSpec, asked: Match, length: int) -> Matched:
    return matched(arm.run.architecture, baseline.architecture, asked, *lengths(asked, length))


def _ready(arm: Arm, size: Matched | None, text: Texts) -> Planned:
    run = arm.run if size is None else arm.run.model_copy(update={"architecture": size.architecture})
    built = text(run.stages[-1].corpus)
    for split in ("train", "valid"):
        built.require(split, run.stages[-1].training.length)
    cost = work(run, built)
    return Planned(arm.name, arm.levels, run, built, cost, priced(run, cost), size)


def _require_chosen_sizes(design: Design, arms: Sequence[Arm], ready: Sequence[Planned]) -> None:
    """SpecError where an arm is of another size, and nobody said whether that is meant."""
    baseline, *others = zip(arms, ready, strict=True)
    silent = [own for arm, own in others if arm.match is None]
    if silent:
        table = {own.name: _sizes(own) for own in (baseline[1], *silent)}
        _choose("match", SIZES, table, "{ by = 'parameters', moves = ['d_ff'] }")


def _budgeted(design: Design, arms: Sequence[Planned]) -> list[Planned]:
    """As many steps for each arm as its budget has."""
    if design.budget is None:
        totals = {arm.name: _totals(arm.work) for arm in arms}
        _choose("budget", tuple(next(iter(totals.values()))), totals, "'tokens_read'")
        return list(arms)
    goal = _totals(arms[0].work)[design.budget] * arms[0].n_steps
    return [_lasting(arm, max(1, round(goal / _totals(arm.work)[design.budget]))) for arm in arms]


def _sizes(arm: Planned) -> dict[str, float]:
    """Of the architecture alone: how much of its work an objective asks for is the budget's."""
    length = arm.run.stages[-1].training.length
    work = size(arm.run.architecture, "training_flops", length // 2, length - length // 2)
    return {"parameters": arm.price.parameters, "training_flops": work}


def _totals(cost: Work) -> dict[str, float]:
    return {
        "tokens_read": cost.tokens_read, "tokens_scored": cost.tokens_scored, "bytes_read": cost.bytes_read,
        "training_flops": cost.training_flops,
    }  # fmt: skip


def _choose(field: str, names: Sequence[str], table: dict[str, dict[str, float]], such_as: str) -> None:
    """Refuse to choose the question for the user where it makes a difference."""
    columns = {name: [own[name] for own in table.values()] for name in names}
    shares = {name: max(values) / min(values) - 1 for name, values in columns.items()}
    apart = {name: share for name, share in shares.items() if share > NEAR}
    if apart:
        told = ", ".join(f"{name} differ by {share:.1%}" for name, share in apart.items())
        nothing = ", or match = 'nothing' to compare them as written" if field == "match" else ""
        raise SpecError(
            f"{field} is missing, and the arms' {told}; which of them is made equal is the question you ask: "
            f"say so, such as {field} = {such_as}{nothing}"
        )


def _lasting(arm: Planned, n_steps: int) -> Planned:
    stage = arm.run.stages[-1]
    lasting = stage.model_copy(update={"training": stage.training.model_copy(update={"n_steps": n_steps})})
    return replace(arm, run=arm.run.model_copy(update={"stages": (lasting,)}))


def _lines(
    design: Design, arms: Sequence[Arm], ready: Sequence[Planned], findings: Findings
) -> tuple[ControlLine, ...]:
    moved = {arm.name: _moved(design, arm) for arm in ready}
    final = [replace(arm, run=own.run) for arm, own in zip(arms, ready, strict=True)]
    return (
        *field_lines(design, final, findings, moved, protocol(design)),
        *quantities(ready, design.budget, compared_pairs(design), design.allow),
    )


def _moved(design: Design, arm: Planned) -> dict[str, str]:
    found = {}
    if arm.matched is not None:
        note = f"moved so that {arm.matched.by.replace('_', ' ')} {arm.matched.agreement}"
        found = {f"architecture.{path}": note for path in arm.matched.moved}
    if design.budget is not None:
        found["training.n_steps"] = f"moved so that {design.budget.replace('_', ' ')} agree"
    return found


def protocol(design: Design) -> str | None:
    """How the rate of every arm is found, in words; None if it is as written."""
    if design.tune is None:
        return None
    part = "" if design.tune.share == 1 else f", over {design.tune.share:.0%} of the steps"
    return (
        f"{design.tune.n_rates} rates a factor 2 apart, then two half an octave beside the vertex, "
        f"{design.tune.n_seeds} seeds, vertex of a parabola within an octave, on {design.tune.split} text{part}"
    )
