"""The numbers behind the verdict: all that was computed of each arm, for a reader who wants to check."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paribus.analyse import Comparison, Crossed, Multiplier, Pairing, Trained
from paribus.analyse.findings import UNIT, Arm
from paribus.report.material import Material
from paribus.report.numbers import decimals, percent, plain, scaled, signed

NONE = "–"


def heading(material: Material) -> tuple[str, ...]:
    return ("", *(material.found.label(arm) for arm in material.found.arms))


def numbers_behind(material: Material) -> list[tuple[str, ...]]:
    """A line a number, a column an arm; a line that no arm has is left out."""
    arms = material.found.arms
    lines = [(name, *(value(arm) for arm in arms)) for name, value in _lines()]
    return [line for line in lines if set(line[1:]) != {NONE}]


def _lines() -> Sequence[tuple[str, Callable[[Arm], str]]]:
    return (
        ("verdict", lambda arm: arm.judgement.verdict.word),
        (f"gain, {UNIT}", _compared(lambda made: signed(made.effect, _digits(made)))),
        ("spread of paired gains", _compared(lambda made: f"{made.sd:.3g}")),
        ("interval", _compared(_interval)),
        ("p", _compared(lambda made: _p(made.p))),
        ("adjusted p", _compared(lambda made: _p(made.p_adjusted))),
        ("sign-flip p", _compared(lambda made: _p(made.sign_flip))),
        ("gain with each seed left out", _compared(_left_out)),
        ("trained", lambda arm: _trained(arm.judgement.arm_trained)),
        ("trained, what it is judged against", lambda arm: _trained(arm.judgement.baseline_trained)),
        ("McNemar's p of failing as often", lambda arm: _p(arm.judgement.mcnemar)),
        ("pairing, ρ", lambda arm: _rho(arm.pairing)),
        ("gain on new documents", _crossed(_new)),
        ("its variance between seeds", _crossed(lambda found: f"{found.seed_variance:.3g}")),
        ("its variance between documents", _crossed(lambda found: f"{found.item_variance:.3g}")),
        ("compute multiplier", lambda arm: _multiplier(arm.multiplier)),
    )


def _compared(told: Callable[[Comparison], str]) -> Callable[[Arm], str]:
    return lambda arm: NONE if arm.judgement.comparison is None else told(arm.judgement.comparison)


def _crossed(told: Callable[[Crossed], str]) -> Callable[[Arm], str]:
    return lambda arm: NONE if arm.other_text is None or arm.other_text.interval is None else told(
        arm.other_text.interval
    )  # fmt: skip


def _digits(made: Comparison | Crossed) -> int:
    return decimals((made.high - made.low) / 2)


def _between(low: float, high: float, digits: int) -> str:
    return f"{signed(low, digits)} to {signed(high, digits)}"


def _interval(made: Comparison) -> str:
    return f"{_between(made.low, made.high, _digits(made))}, at {percent_level(made.level)}"


def percent_level(level: float) -> str:
    """0.975 → 97.5 %."""
    return f"{100 * level:.4g} %"


def _left_out(made: Comparison) -> str:
    return _between(*made.leave_one_out, _digits(made))


def _p(value: float | None) -> str:
    return NONE if value is None else f"{value:.3g}"


def _trained(found: Trained) -> str:
    return f"{found}; 95 % interval {percent(found.low)} to {percent(found.high)}"


def _rho(found: Pairing | None) -> str:
    if found is None:
        return NONE
    return f"{plain(found.rho, 2)}; 95 % interval {plain(found.low, 2)} to {plain(found.high, 2)}"


def _new(found: Crossed) -> str:
    digits = _digits(found)
    ends = _between(found.low, found.high, digits)
    return f"{signed(found.effect, digits)}; {ends}, at {percent_level(found.level)}"


def _multiplier(found: Multiplier | None) -> str:
    if found is None or found.factor is None:
        return NONE if found is None else f"not said: {found.reason}"
    low, high = ("below 0.25" if found.low is None else plain(found.low, 2),
                 "above 4" if found.high is None else plain(found.high, 2))  # fmt: skip
    return f"{plain(found.factor, 2)}; {low} to {high}"


def gains_by_rate(material: Material) -> list[tuple[str, ...]]:
    """A line a rate that arm and baseline were both swept at: each arm's mean gain there."""
    grid = sorted({rate for arm in material.found.arms for rate in arm.by_rate})
    return [(f"{rate:.3g}", *(_at(arm, rate) for arm in material.found.arms)) for rate in grid]


def _at(arm: Arm, rate: float) -> str:
    if rate not in arm.by_rate:
        return NONE
    gain = arm.by_rate[rate]
    return "diverged" if gain is None else signed(gain, 4)


def sweep_words(material: Material) -> str:
    """How much of the study's FLOPs finding the rates took; nothing where no sweep is on record."""
    spent = {"sweep": 0.0, "reported": 0.0}
    for row in material.rows:
        spent[row["purpose"]] += row["dense_flops"] or 0.0
    if not spent["sweep"]:
        return ""
    share = percent(spent["sweep"] / sum(spent.values()))
    return f"Finding the rates took {scaled(spent['sweep'], 'FLOP')}, {share} of what the study's training took."
