"""Checks that may not be: those that would decide the verdict that hangs on them.

A check that is not shown takes the word from all that hangs on it. A check of the judged comparison
itself would leave one outcome of it to be read. So, of every pair and contrast that hangs on it:

- the two arms of a check may not differ in anything that the judged arms differ in. So a check
  compares neither the judged arms, nor the same runs under other names, nor arms that come near
  to them; and no chain of checks leads from one to the other. In a contrast of several
  factors, checks may compare its own arms, as long as they do not settle its sign;
- on the text that the verdict is read from, in whatever form it is asked, a check is a floor: the
  same for every arm that is compared there.

What a probe finds inside of a model is free: neither way is better.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from paribus.analyse import column_of
from paribus.design.arms import Arm
from paribus.design.quantities import PlannedArm
from paribus.design.trials import ABSENT
from paribus.errors import SpecError
from paribus.evaluate.tasks.run import PreparedTask
from paribus.record import JudgedDifference
from paribus.record.disk import file_sha256
from paribus.spec.contrasts import Weights
from paribus.spec.design import ArmPair, Design, declared_contrasts, judged_pairs
from paribus.spec.must import Must, hanging_contrasts, hanging_pairs
from paribus.spec.yardstick import (
    HeadYardstick,
    OtherYardstick,
    ProbeYardstick,
    TaskYardstick,
    Yardstick,
)
from paribus.train.parent import name_of_run

# which find losses, errors, right answers, or how far a loss still has to fall
SCORING_PROBES = ("context", "corruption", "descent", "gradients", "in-context")
ITEM_TEXTS = ("context", "source", "text", "words")  # of items of tasks, whatever their kind
MOST_PATHS = 3  # that a message names


def require_open_verdicts(
    design: Design,
    arms: Sequence[Arm],
    ready: Sequence[PlannedArm],
    judged: Sequence[JudgedDifference],
    tasks: Mapping[str, PreparedTask],
) -> None:
    """SpecError where checks decide a verdict that hangs on them."""
    if not design.must:
        return
    study = _CheckedStudy(design, arms, ready, tasks)
    problems = dict.fromkeys(study.own_run_faults())
    for subject in _subjects(design, judged):
        problems |= dict.fromkeys(study.subject_faults(subject))
    if problems:
        raise SpecError(list(problems))


@dataclass(frozen=True)
class _Subject:
    """A pair or a contrast that is judged, and the places of the checks that it hangs on."""

    name: str
    weights: Weights
    has_one_factor: bool
    checks: tuple[int, ...]

    @property
    def arms(self) -> tuple[str, ...]:
        return tuple([arm for arm, weight in self.weights.items() if weight])


def _subjects(design: Design, judged: Sequence[JudgedDifference]) -> Iterator[_Subject]:
    pairs, contrasts = judged_pairs(design), declared_contrasts(design)
    kinds = {one.contrast: one.kind for one in judged}
    for pair in pairs:
        places = _places(design, pair, None)
        yield _Subject(f"{pair[0]} against {pair[1]}", {pair[0]: 1.0, pair[1]: -1.0}, True, places)
    for name, weights in contrasts.items():
        is_pair = sum(weight != 0 for weight in weights.values()) == 2
        has_one_factor = is_pair or kinds.get(name) in ("simple", "none")
        yield _Subject(name, weights, has_one_factor, _places(design, None, name))


def _places(design: Design, pair: ArmPair | None, contrast: str | None) -> tuple[int, ...]:
    places = []
    for place, must in enumerate(design.must):
        hangs = pair in hanging_pairs(must.scope, judged_pairs(design))
        hangs = hangs or contrast in hanging_contrasts(must.scope, declared_contrasts(design))
        if hangs:
            places.append(place)
    return tuple(places)


class _Floor(NamedTuple):
    """What a check asks of one arm: another run, or the same change for each arm, or a number."""

    column: str
    share: float | None
    points: float | None
    against: str  # a run, by its name
    change: str  # from the arm to the other, as text


class _CheckedStudy:
    """The arms, yardsticks and checks of a design."""

    def __init__(
        self,
        design: Design,
        arms: Sequence[Arm],
        ready: Sequence[PlannedArm],
        tasks: Mapping[str, PreparedTask],
    ):
        self.design, self.ready, self.tasks = design, ready, tasks
        self.arms = {arm.name: arm for arm in arms}
        self.runs = {arm.name: name_of_run(arm.run, arm.texts) for arm in ready}

    @cached_property
    def yardsticks(self) -> dict[str, OtherYardstick]:
        """By their columns, the primary one first."""
        measures = (self.design.primary.measure, *self.design.others)
        return {column_of(measure.model_dump(mode="json")): measure for measure in measures}

    def column(self, must: Must) -> str:
        return must.on or next(iter(self.yardsticks))

    def own_run_faults(self) -> Iterator[str]:
        """Checks that set a run against itself."""
        for place, must in enumerate(self.design.must):
            claim = must.claim
            if claim.against is not None and self.runs[claim.arm] == self.runs[claim.against]:
                yield (
                    f"must.{place}.that is {must.that!r}, and these are one run under two names;"
                    " name an arm that is another run"
                )

    def subject_faults(self, subject: _Subject) -> Iterator[str]:
        """Why the checks that a comparison hangs on decide it."""
        places = [place for place in subject.checks if self._is_scored(self.design.must[place])]
        fields = self._fields(subject.arms)
        crossing = []
        for place in places:
            claim = self.design.must[place].claim
            if claim.against is None:
                continue
            shared = sorted(self._fields((claim.arm, claim.against)).keys() & fields.keys())
            if shared:
                crossing.append((place, shared))
        if subject.has_one_factor or not self._are_within(subject, fields, crossing):
            for place, shared in crossing:
                yield self._describe_crossing(place, shared, subject)
                places.remove(place)
        elif self._settles(subject, fields, [place for place, _ in crossing]):
            names = ", ".join(repr(self.design.must[place].that) for place, _ in crossing)
            yield (
                f"must: {names} settle the sign of {subject.name}, which hangs on them, so that"
                " one outcome of it could be read; leave one of them out, or name other pairs"
                " under for"
            )
        yield from self._floor_faults(subject, [place for place in places if self._is_kin(place)])

    def _is_scored(self, must: Must) -> bool:
        """Is a check read from scores, and not from what is inside of a model?"""
        measure = self.yardsticks[self.column(must)]
        return not isinstance(measure, ProbeYardstick) or measure.probe.kind in SCORING_PROBES

    def _fields(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The fields that are not the same in all of some arms as they are written, each with its
        values as text.
        """
        leaves = [self.arms[name].leaves for name in names]
        fields = {}
        for path in dict.fromkeys(path for own in leaves for path in own):
            values = tuple([_text(own.get(path, ABSENT)) for own in leaves])
            if len(set(values)) > 1:
                fields[path] = values
        return fields

    def _describe_crossing(self, place: int, shared: Sequence[str], subject: _Subject) -> str:
        paths = ", ".join(shared[:MOST_PATHS])
        if len(shared) > MOST_PATHS:
            paths += f" and {len(shared) - MOST_PATHS} more"
        return (
            f"must.{place}.that is {self.design.must[place].that!r}, whose arms differ in {paths};"
            f" so do those of {subject.name}, which hangs on it, and one outcome of it alone could"
            " be read; check arms that are equal in that, look inside of them with a probe under"
            f" must.{place}.on, or name other pairs under must.{place}.for"
        )

    def _level(self, name: str, fields: Mapping[str, Any]) -> tuple[str, ...]:
        leaves = self.arms[name].leaves
        return tuple([_text(leaves.get(path, ABSENT)) for path in fields])

    def _are_within(
        self, subject: _Subject, fields: Mapping[str, Any], crossing: Sequence[tuple[int, Any]]
    ) -> bool:
        """Do checks compare nothing but the arms of a contrast, or arms at their levels?"""
        own = {self._level(name, fields) for name in subject.arms}
        for place, _ in crossing:
            for name in self.design.must[place].claim.arms:
                if self._level(name, fields) not in own:
                    return False
        return True

    def _settles(self, subject: _Subject, fields: Mapping[str, Any], places: Sequence[int]) -> bool:
        """Do checks lead from every arm that a contrast counts up to one that it counts down, and
        to every such; or the other way round?
        """
        above: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
        for place in places:
            better, worse = [
                self._level(name, fields) for name in self.design.must[place].claim.arms
            ]
            above.setdefault(better, set()).add(worse)
        ups = {self._level(name, fields) for name, own in subject.weights.items() if own > 0}
        downs = {self._level(name, fields) for name, own in subject.weights.items() if own < 0}
        return _covers(above, ups, downs) or _covers(above, downs, ups)

    def _floor_faults(self, subject: _Subject, places: Sequence[int]) -> Iterator[str]:
        """Checks on the text of the verdict that are not the same for every arm of a comparison."""
        by_floor: dict[_Floor, dict[str, int]] = {}
        for place in places:
            for floor in self._floors(place):
                by_floor.setdefault(floor, {})[self.design.must[place].claim.arm] = place
        for place in places:
            met = [set(by_floor[floor]) for floor in self._floors(place)]
            if any(set(subject.arms) <= own for own in met):
                continue
            missing = [name for name in subject.arms if name != self.design.must[place].claim.arm]
            must = self.design.must[place]
            yield (
                f"must.{place}.that is {must.that!r} on {self.column(must)}, which asks of the text"
                f" that the verdict on {subject.name} is read from, and this hangs on it; ask the"
                f" same of {', '.join(missing)}, ask of other text under must.{place}.on, or name"
                f" other pairs under must.{place}.for"
            )

    def _floors(self, place: int) -> tuple[_Floor, ...]:
        """A floor that is one run, and one that is the same change of each arm."""
        must = self.design.must[place]
        claim, column = must.claim, self.column(must)
        if claim.against is None:
            return (_Floor(column, claim.share, claim.points, "", ""),)
        changes = json.dumps(self._fields((claim.arm, claim.against)), sort_keys=True)
        return (
            _Floor(column, claim.share, claim.points, self.runs[claim.against], ""),
            _Floor(column, claim.share, claim.points, "", changes),
        )

    def _is_kin(self, place: int) -> bool:
        """Does a check ask of the text that verdicts are read from?"""
        primary, column = next(iter(self.yardsticks)), self.column(self.design.must[place])
        if column == primary:
            return True
        first, second = self._origins(primary), self._origins(column)
        return bool(first & second) or bool(self._items(primary) & self._items(column))

    def _origins(self, column: str) -> set[str]:
        """Where the items of a yardstick come from, whatever their split, form and number."""
        measure = self.yardsticks[column]
        if isinstance(measure, TaskYardstick):
            task = measure.task
            if task.language is not None:
                return {language.kind for language in task.language}
            if task.paths is not None:
                return set(map(_file_origin, task.paths))
        assert isinstance(measure, Yardstick | HeadYardstick | ProbeYardstick | TaskYardstick)
        origins: set[str] = set()
        for arm in self.ready:
            for source in arm.run.last.corpus.sources:
                paths = getattr(source, "paths", None)
                origins |= set(map(_file_origin, paths)) if paths else {source.kind}
        return origins

    def _items(self, column: str) -> set[str]:
        """The contexts of the items of a task."""
        if column not in self.tasks:
            return set()
        texts: set[str] = set()
        for item in self.tasks[column].originals:
            own = [getattr(item, name) for name in ITEM_TEXTS if hasattr(item, name)]
            texts |= {_text(one) for one in own if one}
        return texts


def _covers(
    above: Mapping[Any, set[Any]], starts: set[tuple[str, ...]], ends: set[tuple[str, ...]]
) -> bool:
    """Does every start lead to an end, and is every end led to?"""
    reached: set[Any] = set()
    for start in starts:
        own, waiting = set[Any](), [start]
        while waiting:
            for more in above.get(waiting.pop(), set()) - own:
                own.add(more)
                waiting.append(more)
        if not own & ends:
            return False
        reached |= own
    return ends <= reached


def _file_origin(path: str) -> str:
    """A file by what it holds, anything else by its path."""
    file = Path(path)
    return file_sha256(file) if file.is_file() else str(file.absolute())


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
