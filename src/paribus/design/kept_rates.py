"""Rates of arms that are read from finished sweeps, so that no study has to sweep them again.

`tune = { rates = ["rates-short", "rates-long"] }` names folders of studies that were swept. An arm
there that is the same as one here, but for its width and for how long it is trained, tells the rate
of this one:

    ln rate = a + b · ln N + c · ln D

by least squares over the sweeps of that arm; N is its parameters outside of embeddings, D the
tokens that it reads. Without two sizes there is no b, and without two durations no c: then the arm
has to be of that size, or as long. All arms are read from sweeps at the same places that were made
alike, so their rates count as tuned alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, inf, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from paribus.analyse import Optimum
from paribus.analyse.rate_fit import MAX_OCTAVES
from paribus.analyse.schemas import RatesSchema
from paribus.design.quantities import PlannedArm
from paribus.errors import RecordError, SpecError
from paribus.record.address import without_places
from paribus.record.disk import read_json
from paribus.record.file_names import PLAN_FILE, RATES_FILE
from paribus.record.plan import PlanRecord, parse_plan
from paribus.record.plan_formats import REPAIR
from paribus.record.shape import parse_table
from paribus.spec.contrasts import default_contrasts
from paribus.spec.design import Design, arm_levels, declared_contrasts, judged_pairs
from paribus.spec.factor import leaves_of
from paribus.spec.training import BOOKKEEPING, SEEDS, steps_of_share

RATE_DIGITS = 3  # of a rate that a fit names
MAX_FACTOR = 2.0  # beyond what was swept, in size and in tokens
SAME_SIZE = 0.05  # within this share two sizes, or two durations, are one
SIGMAS = 3.92  # standard errors in a 95 % interval
WARMUP_STEP = 0.05  # shares of a warm-up are told apart by this
WIDTHS = ("d_model", "n_heads", "n_kv_heads", "d_ff", "d_expert")  # what a width scales
MAX_NAMED = 4  # fields in which the nearest arm of a sweep differs

Table = dict[str, Any]


@dataclass(frozen=True)
class SweptArm:
    """An arm of a finished sweep."""

    study: str
    fingerprint: str  # of its plan
    name: str
    recipe: Table  # its run, without what may differ
    n_parameters: int
    n_tokens: float
    d_model: int
    rate: float
    optimum: Mapping[str, Any]
    protocol: Table  # how it was swept

    @property
    def place(self) -> tuple[int, float]:
        return self.d_model, self.n_tokens

    @property
    def error(self) -> float:
        """The standard error of ln rate; that of an octave where the sweep does not say."""
        low, high = self.optimum.get("interval") or (1.0, 4.0**MAX_OCTAVES)
        return log(high / low) / SIGMAS


def read_kept_rates(design: Design, arms: Sequence[PlannedArm]) -> dict[str, Table]:
    """What is kept of each arm's rate, as a sweep would keep it; nothing if the design names no
    sweeps.
    """
    if design.tune is None or not design.tune.rates:
        return {}
    if any(len(arm.run.stages) > 1 for arm in arms):
        raise SpecError("tune.rates is given, but rates of several stages have to be swept here")
    swept = [arm for folder in design.tune.rates for arm in _swept_arms(Path(folder))]
    _require_fair_sweeps(design, swept)
    sweeps = {arm.name: _sweeps_of(arm, swept) for arm in arms}
    unjudged = set(sweeps) - _judged_arms(design)
    records, places, missing = {}, dict[str, list[tuple[int, float]]](), list[str]()
    for arm in arms:
        own, remark = sweeps[arm.name], ""
        if not own and arm.name in unjudged:
            own, remark = sweeps[design.baseline], f"at the rates of {design.baseline}, not swept"
        if not own:
            missing.append(_missing_sweep(arm, swept))
            continue
        places[arm.name] = sorted(one.place for one in own)
        records[arm.name] = _record(arm, own, remark)
    if missing:
        raise SpecError(missing)
    first, *others = places
    for name in others:
        if not _are_alike(places[name], places[first]):
            raise SpecError(
                f"tune.rates: {first} was swept at {_describe(places[first])}, and {name} at"
                f" {_describe(places[name])}; arms are tuned alike if they were swept at the same"
                " widths and durations"
            )
    return records


def describe_kept_rates(design: Design, records: Mapping[str, Table]) -> str:
    """Where the rates come from, and which they are."""
    assert design.tune is not None
    names = ", ".join(Path(folder).name for folder in design.tune.rates)
    rates = ", ".join(f"{own['rate']:g} for {arm}" for arm, own in records.items())
    return f"read from the sweeps {names}, by a line in ln N and ln D: {rates}"


def _swept_arms(folder: Path) -> Iterator[SweptArm]:
    try:
        plan = parse_plan(read_json(folder / PLAN_FILE), folder / PLAN_FILE)
        rates = read_json(folder / RATES_FILE)
        parse_table(RatesSchema, rates, folder / RATES_FILE, REPAIR)
    except (RecordError, OSError) as fault:
        raise SpecError(
            f"tune.rates names {folder}, which is no folder of a finished sweep: {fault}; name one"
            f" with {PLAN_FILE} and {RATES_FILE}"
        ) from None
    tune = plan.design.tune
    if tune is None:
        raise SpecError(f"tune.rates names {folder}, whose study was not swept")
    share = tune.share if tune.last_share is None else tune.last_share
    for name, own in rates.items():
        arm = plan.arms.get(name)
        if arm is None or len(arm.run.stages) > 1 or not own["points"]:
            continue
        n_steps = steps_of_share(arm.n_steps, share)
        yield SweptArm(
            study=folder.name,
            fingerprint=plan.fingerprint,
            name=name,
            recipe=_recipe(arm.run.table, arm.text),
            n_parameters=arm.price.non_embedding_parameters,
            n_tokens=arm.work.tokens_read * n_steps,
            d_model=arm.run.architecture["d_model"],
            rate=own["rate"],
            optimum=own["optimum"],
            protocol=_protocol(plan) | {"own loss": own.get("own_loss", False)},
        )


def _protocol(plan: PlanRecord) -> Table:
    tune = plan.design.tune
    assert tune is not None
    return {
        "n_rates": tune.n_rates,
        "n_seeds": tune.n_seeds,
        "split": tune.split,
        "yardstick": without_places({"task": plan.design.primary.measure.table})["task"],
    }


def _require_fair_sweeps(design: Design, swept: Sequence[SweptArm]) -> None:
    """SpecError where sweeps were not made alike, count twice, have seen the text that is reported,
    or did not find an optimum.
    """
    seen = set[tuple[str, str]]()
    for arm in swept:
        if arm.protocol != swept[0].protocol:
            raise SpecError(
                f"tune.rates: {swept[0].study} was swept with {swept[0].protocol}, and"
                f" {arm.study} with {arm.protocol}; rates are tuned alike if they are found alike"
            )
        if (arm.fingerprint, arm.name) in seen:
            raise SpecError(
                f"tune.rates names the sweep of {arm.name} in {arm.study} twice; name each folder"
                " once"
            )
        seen.add((arm.fingerprint, arm.name))
        if arm.protocol["split"] == design.primary.measure.split:
            raise SpecError(
                f"tune.rates: {arm.study} was swept on the split {arm.protocol['split']!r}, on"
                " which the primary yardstick reports; rates must be chosen on text that no verdict"
                " is read from"
            )
        if not arm.optimum["inside"]:
            raise SpecError(
                f"tune.rates: the sweep of {arm.name} in {arm.study} has its best rate at the edge"
                " of its grid; sweep it over more rates"
            )


def _judged_arms(design: Design) -> set[str]:
    """Every arm that some verdict is about, in a pair or a contrast."""
    names = {name for pair in judged_pairs(design) for name in pair}
    contrasts = declared_contrasts(design)
    if not names and not contrasts:
        contrasts = default_contrasts(arm_levels(design), design.baseline)
    for weights in contrasts.values():
        names |= {name for name, weight in weights.items() if weight}
    return names


def _are_alike(one: Sequence[tuple[int, float]], other: Sequence[tuple[int, float]]) -> bool:
    """Are two lists of widths and durations the same, as near as whole steps come?"""
    if len(one) != len(other):
        return False
    for (width, tokens), (its_width, its_tokens) in zip(one, other, strict=True):
        if width != its_width or abs(log(tokens / its_tokens)) > SAME_SIZE:
            return False
    return True


def _recipe(run: Mapping[str, Any], text: str) -> Table:
    """A run without its rate and its seeds, its widths as shares of d_model and what is counted in
    steps as a share of them; the text by its fingerprint.
    """
    table = leaves_of({name: run[name] for name in run if name != "stages"})
    d_model = run["architecture"]["d_model"]
    for path, value in table.items():
        if path.rpartition(".")[2] in WIDTHS and isinstance(value, int):
            table[path] = float(f"{value / d_model:.2g}")
    (stage,) = run["stages"]
    training = {**stage["training"]}
    share = training["warmup"] / training["n_steps"]
    training["warmup"] = round(share / WARMUP_STEP) * WARMUP_STEP
    training["optimizer"] = {**training["optimizer"], "rate": None}
    for name in (*BOOKKEEPING, *SEEDS, "n_steps"):
        training.pop(name, None)
    rest = {name: stage[name] for name in stage if name not in ("training", "corpus")}
    return table | leaves_of({**rest, "training": training}) | {"text": text}


def _sweeps_of(arm: PlannedArm, swept: Sequence[SweptArm]) -> list[SweptArm]:
    recipe = _recipe(arm.run.model_dump(mode="json"), arm.dataset.fingerprint)
    return [one for one in swept if one.recipe == recipe]


def _missing_sweep(arm: PlannedArm, swept: Sequence[SweptArm]) -> str:
    recipe = _recipe(arm.run.model_dump(mode="json"), arm.dataset.fingerprint)

    def differences(one: SweptArm) -> list[str]:
        names = dict.fromkeys([*recipe, *one.recipe])
        return [name for name in names if recipe.get(name) != one.recipe.get(name)]

    nearest = min(swept, key=lambda one: len(differences(one)), default=None)
    if nearest is None:
        return f"tune.rates: no arm was swept there, so {arm.name} has no rate"
    fields = differences(nearest)
    more = f" and {len(fields) - MAX_NAMED} more" if len(fields) > MAX_NAMED else ""
    return (
        f"tune.rates: no sweep is of {arm.name} but for its width and its steps; the nearest,"
        f" {nearest.name} of {nearest.study}, differs in {', '.join(fields[:MAX_NAMED])}{more};"
        " sweep it, or leave out tune.rates"
    )


def _record(arm: PlannedArm, swept: Sequence[SweptArm], remark: str) -> Table:
    """The rate by the line through the sweeps, with what its error could cost."""
    n_parameters, n_tokens = arm.price.non_embedding_parameters, arm.total("tokens_read")
    sizes = [one.n_parameters for one in swept]
    durations = [one.n_tokens for one in swept]
    columns, here, beyond = [np.ones(len(swept))], [1.0], 1.0
    for what, values, own in (
        ("parameters outside of embeddings", sizes, float(n_parameters)),
        ("tokens", durations, n_tokens),
    ):
        factor = max(own / max(values), min(values) / own, 1.0)
        if max(values) <= min(values) * (1 + SAME_SIZE):
            limit = 1 + SAME_SIZE
        else:
            limit = MAX_FACTOR
            columns.append(np.log(values))
            here.append(log(own))
        if factor > limit:
            raise SpecError(
                f"tune.rates: {arm.name} has {own:,.0f} {what}, and its sweeps have"
                f" {_describe_range(values)}; rates are read up to a factor of {limit:g} beyond"
                " what was swept at two places or more: sweep it nearer"
            )
        beyond = max(beyond, factor)
    design_matrix, y = np.stack(columns, 1), np.log([one.rate for one in swept])
    if np.linalg.matrix_rank(design_matrix) < len(columns):
        places = _describe(sorted({one.place for one in swept}))
        raise SpecError(
            f"tune.rates: {arm.name} was swept at {places}, too few places for a line in size and"
            " tokens; sweep it at one more"
        )
    weights = np.array(here) @ np.linalg.pinv(design_matrix)
    rate = float(f"{exp(float(weights @ y)):.{RATE_DIGITS}g}")
    residuals = y - design_matrix @ (np.linalg.pinv(design_matrix) @ y)
    n_free = len(swept) - len(columns)
    spread = sqrt(float(residuals @ residuals) / n_free) if n_free else 0.0
    errors = np.maximum([one.error for one in swept], spread)
    half_octaves = min(SIGMAS / 2 * float(np.linalg.norm(weights * errors)) / log(2), MAX_OCTAVES)
    curvatures = [one.optimum["coefficients"] for one in swept]
    curvature = max(inf if own is None else own[0] for own in curvatures)
    remarks = [remark] if remark else []
    for one in swept:
        if one.optimum.get("remark"):
            remarks.append(f"{one.study}: {one.optimum['remark']}")
    if beyond > 1 + SAME_SIZE:
        remarks.append(f"read {beyond:.2g} times beyond what was swept")
    optimum = Optimum(
        rate=rate,
        inside=True,
        coefficients=None,
        left_out=(),
        remark="; ".join(remarks),
        best=rate,
        interval=(rate * 2**-half_octaves, rate * 2**half_octaves),
        excess=None if curvature == inf else curvature * half_octaves**2,
    )
    return {
        "rate": rate,
        "grid": [],
        "points": [],
        "unigram": None,
        "own_loss": swept[0].protocol["own loss"],
        "optimum": asdict(optimum),
        "read": [
            {
                "study": one.study,
                "arm": one.name,
                "parameters": one.n_parameters,
                "tokens": one.n_tokens,
                "rate": one.rate,
            }
            for one in swept
        ],
    }


def _describe_range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"


def _describe(places: Sequence[tuple[int, float]]) -> str:
    return ", ".join(
        f"width {size} after {tokens / 1e6:.3g}M tokens" for size, tokens in sorted(places)
    )
