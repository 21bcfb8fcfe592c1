"""A series: a finished study of fixed seeds, and new ones of the same design with fresh seeds,
each judged alone.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from paribus.analyse import Comparison, Findings, study_findings
from paribus.errors import SpecError
from paribus.record import Study
from paribus.record.file_names import PLAN_FILE, STUDIES
from paribus.record.folder import named_folder
from paribus.record.plan import PlanRecord
from paribus.record.plan_file import read_plan
from paribus.record.plan_lock import table_differences
from paribus.spec.design import OPEN_SEEDS, SWEEP_SEED, Design

OWN_FIELDS = (
    "seeds",
    "looks",
    "question",
    "reference",
    "prompts",
)  # fields in which studies of a series may differ
_MEMBER_NAME = re.compile(r"(?P<first>.+)-(?P<number>[2-9]|[1-9]\d+)")


@dataclass(frozen=True)
class EarlierStudy:
    """A former study of a series: its numbers, which are shown and not judged."""

    study: str
    number: int
    seeds: tuple[int, ...]
    # of each comparison and contrast: its label, gain, interval and level
    gains: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Series:
    """Which study of a series a plan is; the rates that the first one was tuned to are its own."""

    first: str
    number: int
    earlier: tuple[EarlierStudy, ...]
    rates: dict[str, float] | None = None

    @property
    def table(self) -> dict[str, Any]:
        """As it is written into a plan."""
        return asdict(self)


@dataclass(frozen=True)
class SeriesMember:
    """One study of a series to be carried out: its name, its design with seeds of its own, and
    where it stands.
    """

    name: str
    design: Design
    series: Series
    first_plan: PlanRecord  # the plan of the first study


def series_member(root: Path, name: str, design: Design, n_seeds: int) -> SeriesMember:
    """The study of `n_seeds` fresh seeds: the one that was begun with so many, or the next of
    its series.

    A name that ends in a number, as NAME-3, asks for that one. SpecError where the studies before
    it are not done.
    """
    assert design.seeds != OPEN_SEEDS
    first, number_in_name = _first_and_number(root, name)
    _require_first_finished(root, first, design, n_seeds)
    names = _member_names(root, first)
    number = _study_number(root, names, n_seeds, number_in_name, first)
    studies = []
    for place, study_name in enumerate(names[: number - 1], 1):
        studies.append(_earlier_study(root, study_name, place))
    earlier = tuple(studies)
    seeds = _fresh_seeds(earlier, n_seeds, first)
    plan, rates = read_plan(_study(root, first)), _study(root, first).read_rates()
    if rates is None:
        own = None
    else:
        own = {arm: tuning["rate"] for arm, tuning in rates.items()}
    series = Series(first, number, earlier, own)
    return SeriesMember(
        _study_name(first, number), design.model_copy(update={"seeds": seeds}), series, plan
    )


def require_same_design(member: SeriesMember, plan: PlanRecord) -> None:
    """SpecError where a new study would differ from the first of its series in more than its
    seeds.
    """
    fields = table_differences(_common_fields(member.first_plan), _common_fields(plan))
    if fields:
        raise SpecError(
            f"{member.series.first} has another design: {'; '.join(fields)}; fresh seeds need the"
            " same design: restore it, or begin a new study with --name, without --seeds"
        )


def _common_fields(plan: PlanRecord) -> dict[str, Any]:
    """What studies of a series have in common: the design but for its seeds, and what the arms
    came out as.
    """
    design, arms = dict(plan.design.table), {}
    for name in OWN_FIELDS:
        design.pop(name, None)
    for name, arm in plan.arms.items():
        arms[name] = {"run": arm.run.table, "text": arm.text}
    return {"design": design, "arms": arms}


def _first_and_number(root: Path, name: str) -> tuple[str, int | None]:
    """The first study of the series that a name belongs to, and the number where the name says
    one.
    """
    name_match = _MEMBER_NAME.fullmatch(name)
    if name_match is None or not _study_exists(root, name_match["first"]):
        return name, None
    if _study_exists(root, name) and read_plan(_study(root, name)).series is None:
        return name, None  # a study of its own that happens to be called so
    return name_match["first"], int(name_match["number"])


def _require_first_finished(root: Path, first: str, design: Design, n_seeds: int) -> None:
    """SpecError unless the seeds that a design has of its own are all run."""
    if _study_exists(root, first) and _is_done(_study(root, first)):
        return
    raise SpecError(
        f"--seeds is {n_seeds}, but the design lists {len(design.seeds)} seeds of its own;"
        f" leave it out, or write seeds = 'open' into a new design. Once the study {first} is"
        " finished, --seeds N makes a new study with N fresh seeds and verdicts of its own"
    )


def _study_number(
    root: Path, names: list[str], n_seeds: int, wanted_number: int | None, first: str
) -> int:
    """Which study of a series so many fresh seeds are: one that was begun with as many, or the
    next.
    """
    last = len(names)
    if wanted_number is not None and wanted_number <= last:
        _require_same_n_seeds(_study(root, names[wanted_number - 1]), n_seeds)
        return wanted_number
    if wanted_number is not None and wanted_number > last + 1:
        raise SpecError(
            f"--name is {_study_name(first, wanted_number)}, but the last study of the series of"
            f" {first} is number {last}; use number {last + 1}"
        )
    latest = _study(root, names[-1])
    if last > 1 and (
        not latest.read_cells() or (wanted_number is None and _n_seeds(latest) == n_seeds)
    ):
        return last  # only planned, or the same command again
    if last > 1 and not _is_done(latest):
        _require_same_n_seeds(latest, n_seeds)
    return last + 1


def _require_same_n_seeds(study: Study, n_seeds: int) -> None:
    there = _n_seeds(study)
    if there != n_seeds:
        raise SpecError(
            f"--seeds is {n_seeds}, but {study.folder.name} was begun with {there} fresh seeds;"
            f" give --seeds {there}, because more seeds would be a second look"
        )


def _fresh_seeds(earlier: tuple[EarlierStudy, ...], n_seeds: int, first: str) -> tuple[int, ...]:
    """So many seeds after the highest that the series has used, below those of sweeps."""
    begin = 1 + max(max(study.seeds) for study in earlier)
    if begin + n_seeds > SWEEP_SEED:
        raise SpecError(
            f"--seeds is {n_seeds}, but the series of {first} has used the seeds below {begin};"
            f" {SWEEP_SEED - begin} are left below {SWEEP_SEED}, where the seeds of sweeps begin"
        )
    return tuple(range(begin, begin + n_seeds))


def _earlier_study(root: Path, name: str, number: int) -> EarlierStudy:
    findings = study_findings(_study(root, name))
    gains = []
    for arm in findings.arms:
        gains.append(_gain_table(findings.label(arm), arm.judgement.comparison))
    for contrast in findings.contrasts:
        if contrast.is_judged:
            gains.append(_gain_table(contrast.name, contrast.comparison))
    return EarlierStudy(name, number, tuple(findings.plan.design.declared_seeds), tuple(gains))


def _gain_table(label: str, comparison: Comparison | None) -> dict[str, Any]:
    """Effect and interval without a word."""
    if comparison is None:
        return {"of": label, "gain": None, "low": None, "high": None, "level": None}
    return {
        "of": label,
        "gain": comparison.effect,
        "low": comparison.low,
        "high": comparison.high,
        "level": comparison.level,
    }


def _is_done(study: Study) -> bool:
    """Has every reported run of a study come to an end, at all of its seeds?"""
    try:
        findings: Findings = study_findings(study)
    except SpecError:
        return False
    return len(findings.seeds) == _n_seeds(study)


def _n_seeds(study: Study) -> int:
    return len(read_plan(study).design.declared_seeds)


def _member_names(root: Path, first: str) -> list[str]:
    """The studies of a series there are, in order."""
    names = [first]
    while _study_exists(root, name := _study_name(first, len(names) + 1)):
        series = read_plan(_study(root, name)).series
        if series is None or series.first != first:
            raise SpecError(
                f"the study {name} already exists and is not in the series of {first}; move its"
                " folder away, or begin under another --name"
            )
        names.append(name)
    return names


def _study_name(first: str, number: int) -> str:
    if number == 1:
        return first
    return f"{first}-{number}"


def _study(root: Path, name: str) -> Study:
    return Study(root, named_folder(root / STUDIES, name, "study"))


def _study_exists(root: Path, name: str) -> bool:
    return (named_folder(root / STUDIES, name, "study") / PLAN_FILE).is_file()
