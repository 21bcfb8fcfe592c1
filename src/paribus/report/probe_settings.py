"""What tells the probes of one kind in a study from each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paribus.analyse.study_probes import distinct_probes, probe_settings
from paribus.record.plan import PlanRecord
from paribus.report.toml_text import inline_toml

Settings = Mapping[str, Any]
AS_IN_TRAINING = "as in training"  # the length of texts where none is set


def plan_settings(plan: PlanRecord) -> list[dict[str, Any]]:
    """The settings of each distinct probe of a plan."""
    return [probe_settings(yardsticks[0]) for yardsticks in distinct_probes(plan)]


def describe_settings(settings: Settings, all_settings: Sequence[Settings]) -> str:
    """What tells a probe from the others of its kind, such as n_texts = 2; empty where it is the
    only one.
    """
    alike = [one for one in all_settings if one["kind"] == settings["kind"]]
    return ", ".join(_differing_fields(settings, alike))


def _differing_fields(settings: Settings, alike: Sequence[Settings]) -> Iterator[str]:
    for name, value in settings.items():
        if any(one.get(name) != value for one in alike):
            text = AS_IN_TRAINING if value is None else inline_toml(value)
            yield f"{name} = {text}"
