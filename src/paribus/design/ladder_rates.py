"""Rates on a ladder: every arm is swept at a few sizes, and a power law gives the rates of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import exp
from typing import Any

from paribus.analyse.laws.rates import RateLaw, RatePoint, fit_rate_law
from paribus.design.kept_rates import RATE_DIGITS
from paribus.design.ladder import Rung, rung_rate
from paribus.design.plan import Plan
from paribus.design.quantities import PlannedArm
from paribus.errors import RecordError
from paribus.record import Study
from paribus.record.file_names import LADDER_RATES_FILE
from paribus.record.plan_formats import REPAIR
from paribus.spec import resolve
from paribus.spec.training import scaled_training

RungRates = Mapping[int, Mapping[str, float]]  # by size, then by arm


@dataclass(frozen=True)
class SizePlan:
    """The arms at one size of the ladder, ready to be swept there."""

    size: int
    plan: Plan


def size_plans(plan: Plan) -> list[SizePlan]:
    """The plan at each size that is swept; none where the ladder is not.

    Every arm is trained for the longest duration that all sizes have, of which a sweep takes its
    share, and the grid is centred on the rate that `rate_power` gives.
    """
    ladder = plan.design.ladder
    if ladder is None or not ladder.rate_sizes:
        return []
    base_size = resolve(plan.arms[0].run.last_architecture).d_model
    place = swept_duration(plan.rungs)
    plans: list[SizePlan] = []
    for rung in plan.rungs:
        if rung.size not in ladder.rate_sizes:
            continue
        arms: list[PlannedArm] = []
        for arm in rung.arms:
            rate = rung_rate(ladder, arm.run.last.training.optimizer.rate, rung.size, base_size)
            arms.append(_trained_for(arm, rung.n_steps(arm, rung.tokens[place]), rate))
        frozen = plan.design_fingerprint
        plans.append(SizePlan(rung.size, replace(plan, arms=tuple(arms), frozen_design=frozen)))
    return plans


def swept_duration(rungs: Iterable[Rung]) -> int:
    """Which of the durations a sweep is a share of: the longest that all sizes have."""
    return max(0, min(len(rung.tokens) for rung in rungs if not rung.is_predicted) - 1)


def ladder_rates_record(
    plan: Plan, sweeps: Mapping[int, Mapping[str, Mapping[str, Any]]]
) -> dict[str, Any]:
    """What the sweeps at each size found, the law fitted to it, and the rate of every arm at every
    size, as it is kept.
    """
    law = fit_rate_law(list(_rate_points(plan.rungs, sweeps)))
    return {
        "sweeps": {str(size): dict(own) for size, own in sweeps.items()},
        "law": {**asdict(law), "factor": exp(law.sd)},
        "rates": {str(size): dict(own) for size, own in rates_by_law(plan.rungs, law).items()},
    }


def rates_by_law(rungs: Sequence[Rung], law: RateLaw) -> dict[int, dict[str, float]]:
    """The rate of every arm at every size, the predicted one too, to a few digits."""
    rates: dict[int, dict[str, float]] = {}
    for rung in rungs:
        n_parameters = rung.arms[0].price.non_embedding_parameters
        own = {arm.name: law.rate(arm.name, n_parameters) for arm in rung.arms}
        rates[rung.size] = {name: float(f"{rate:.{RATE_DIGITS}g}") for name, rate in own.items()}
    return rates


def read_rung_rates(plan: Plan, study: Study) -> dict[int, dict[str, float]] | None:
    """The rates that sweeps have found before; None where there are none of these arms and sizes.
    RecordError where they cannot be read.
    """
    record = study.read_ladder_rates()
    if record is None:
        return None
    try:
        rates = {
            int(size): {str(arm): float(rate) for arm, rate in own.items()}
            for size, own in record["rates"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        raise RecordError(
            f"{study.folder / LADDER_RATES_FILE} holds no rates by size and arm; {REPAIR}"
        ) from None
    for rung in plan.rungs:
        if set(rates.get(rung.size, ())) != {arm.name for arm in rung.arms}:
            return None
    return rates


def _rate_points(
    rungs: Sequence[Rung], sweeps: Mapping[int, Mapping[str, Mapping[str, Any]]]
) -> Iterable[RatePoint]:
    """A size counts as the baseline's parameters outside of embeddings, for all arms alike."""
    for rung in rungs:
        n_parameters = rung.arms[0].price.non_embedding_parameters
        for arm, found in sweeps.get(rung.size, {}).items():
            yield RatePoint(arm=arm, parameters=n_parameters, rate=found["rate"])


def _trained_for(arm: PlannedArm, n_steps: int, rate: float) -> PlannedArm:
    stage = arm.run.last
    training = scaled_training(stage.training, n_steps)
    optimizer = training.optimizer.model_copy(update={"rate": rate})
    training = training.model_copy(update={"optimizer": optimizer})
    return replace(arm, run=arm.run.with_last(stage.model_copy(update={"training": training})))
