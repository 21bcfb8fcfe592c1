"""What a plan was when it was frozen, and what it became after its first result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from paribus.canonical import canonical_hash
from paribus.errors import RecordError
from paribus.record.address import without_places

if TYPE_CHECKING:
    from paribus.record.plan import PlanRecord  # pydantic is for those who read a plan

MAX_NAMED = 5  # of the fields that changed at once
_MAX_CHARACTERS = 40  # of a value
# Fields that older plans lack: unused, they are no part of a design.
_NEWER_FIELDS = ("equal_noise", "contrasts", "lengths", "variance", "compound")
_UNHASHED_FIELDS = ("prompts", "question", "reference")  # of a design, what decides no number
_NOTHING = "nothing"
_OLDER_NAMES = {"made": "frozen_at"}  # of fields, in locks of earlier versions


def design_fingerprint(
    design: Mapping[str, Any],
    runs: Mapping[str, Sequence[Any]],
    with_places: bool = False,
    *,
    items: Mapping[str, str] | None = None,
    rates: Mapping[str, Any] | None = None,
) -> str:
    """Of a design as it comes out; `runs` holds each arm's run and the fingerprint of its text,
    `items` the fingerprint of the items of each task, `rates` what was read of finished sweeps.

    Where files lie is no part of it; `with_places` it is as it was in earlier versions.
    """
    empty_fields = [name for name in _NEWER_FIELDS if not design.get(name)]
    left_out = (*_UNHASHED_FIELDS, *empty_fields)
    fields = {name: value for name, value in design.items() if name not in left_out}
    whole: dict[str, Any] = {
        "design": fields,
        "runs": {arm: list(own) for arm, own in runs.items()},
    }
    if items:
        whole["items"] = dict(items)
    if rates:
        whole["rates"] = dict(rates)
    return canonical_hash(whole if with_places else without_places(whole))


def plan_fingerprint(design: str, rule: str, code: str) -> str:
    """Of a design, the rule of the verdict and the code: what must not change on the way."""
    return canonical_hash({"design": design, "rule": rule, "code": code})


@dataclass(frozen=True)
class PlanLock:
    """What a plan was when it was frozen; `changes` lists what it became after the first result."""

    fingerprint: str
    design: str
    rule: str
    code: str
    frozen_at: str
    changes: tuple[dict[str, Any], ...] = ()
    n_older: int = 0  # reported runs that were done, for another study, before this one named them

    @property
    def as_planned(self) -> bool:
        return not self.changes

    @property
    def latest_fingerprint(self) -> str:
        """The fingerprint of the plan as it stands."""
        if self.changes:
            return self.changes[-1]["to"]
        return self.fingerprint

    @property
    def without_field_values(self) -> PlanLock:
        """The lock without the values of the fields that changed."""
        return replace(self, changes=tuple({**change, "fields": []} for change in self.changes))

    @property
    def description(self) -> str:
        """What changed after the first result, how often, and from what to what; empty where
        nothing did.
        """
        if self.as_planned:
            return ""
        what = " and ".join(
            dict.fromkeys(name for change in self.changes for name in change["what"].split(", "))
        )
        n = len(self.changes)
        often = "" if n == 1 else " twice" if n == 2 else f" {n} times"
        if self.latest_fingerprint == self.fingerprint:
            back = ", and the plan is again what it was at first"
        else:
            back = ""
        # Of locks of before fields were kept there is nothing more to say.
        fields = "; ".join(field for change in self.changes for field in change.get("fields", ()))
        return (
            f"{what} changed{often} after the first result{back}{f': {fields}' if fields else ''}"
        )


def parse_plan_lock(table: Any, where: str, remedy: str) -> PlanLock:
    """A lock as it is written, every value of its kind; RecordError begins with `where`."""
    names = {field.name for field in fields(PlanLock)}
    fault = f"it is a {type(table).__name__}"
    if isinstance(table, dict):
        table = {_OLDER_NAMES.get(name, name): value for name, value in table.items()}
        odd = [
            name
            for name in ("fingerprint", "design", "rule", "code", "frozen_at")
            if not _is_text(table.get(name))
        ]
        odd += [name for name in table if name not in names]
        odd += [] if isinstance(table.get("n_older", 0), int) else ["n_older"]
        odd += [] if _are_changes(table.get("changes")) else ["changes"]
        if not odd:
            return PlanLock(**{**table, "changes": tuple(table["changes"])})
        fault = f"its {odd[0]} is missing or of another kind"
    raise RecordError(f"{where}: {fault}; {remedy}")


def _are_changes(value: Any) -> bool:
    """Locks of earlier versions do not say which fields changed."""
    return _are_tables(value) and all(
        all(_is_text(one.get(name)) for name in ("to", "what", "when"))
        and _are_texts(one.get("fields", []))
        for one in value
    )


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def add_change(before: PlanLock, after: PlanLock, fields: Sequence[str]) -> PlanLock:
    """The first lock with one more change to its name."""
    change = {
        "from": before.latest_fingerprint,
        "to": after.fingerprint,
        "what": describe_lock_difference(before, after),
        "when": after.frozen_at,
        "fields": list(fields),
    }
    return replace(
        before,
        design=after.design,
        rule=after.rule,
        code=after.code,
        changes=(*before.changes, change),
    )


def describe_lock_difference(before: PlanLock, after: PlanLock) -> str:
    """Which of design, rule and code are not the same."""
    old, new = asdict(before), asdict(after)
    return ", ".join(name for name in ("design", "rule", "code") if old[name] != new[name])


def plan_differences(before: PlanRecord, after: PlanRecord) -> tuple[str, ...]:
    """Where two plans part, `path from → to`: in their designs, or else in what their arms came
    out as.
    """
    return table_differences(_design(before), _design(after)) or table_differences(
        _arms(before), _arms(after)
    )


def table_differences(left: Mapping[str, Any], right: Mapping[str, Any]) -> tuple[str, ...]:
    """Where two tables part, `path from → to`: the first few, and how many more there are."""
    differences = list(_table_differences(dict(left), dict(right)))
    more = len(differences) - MAX_NAMED
    return (*differences[:MAX_NAMED], *([f"and {more} more"] if more > 0 else []))


def _design(plan: PlanRecord) -> dict[str, Any]:
    return {
        name: value
        for name, value in without_places(plan.design.table).items()
        if name not in _UNHASHED_FIELDS
    }


def _arms(plan: PlanRecord) -> dict[str, Any]:
    arms = {}
    for name, arm in plan.arms.items():
        arms[name] = {"run": arm.run.table, "text": arm.text, "earlier": arm.earlier_texts}
    return {"arms": without_places(arms)}


def _table_differences(left: Any, right: Any, path: str = "") -> Iterator[str]:
    if isinstance(left, dict) and isinstance(right, dict):
        for name in [*left, *(name for name in right if name not in left)]:
            inner = f"{path}.{name}" if path else str(name)
            yield from _table_differences(
                left.get(name, _NOTHING), right.get(name, _NOTHING), inner
            )
    elif _are_tables(left) and _are_tables(right) and len(left) == len(right):
        for place, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from _table_differences(one, other, f"{path}.{place}")
    elif left != right:
        yield f"{path} {_shorten_value(left)} → {_shorten_value(right)}"


def _are_tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _shorten_value(value: Any) -> str:
    text = value if value == _NOTHING else repr(value)
    if len(text) <= _MAX_CHARACTERS:
        return text
    return text[: _MAX_CHARACTERS - 1] + "…"
