"""The numbers behind the verdict: all that was computed of each arm, for a reader who wants to check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isinf

from paribus.analyse import Comparison, Crossed, Pairing, Pooled, Trained
from paribus.analyse.detection import detectable_effect, detectable_spreads
from paribus.analyse.expected_gain import ExpectedGain, expected_gain
from paribus.analyse.findings import UNIT, Arm
from paribus.analyse.spent import flops_by_purpose
from paribus.report.intervals import NONE, between, margin_cell, multiplied, percent_level
from paribus.report.material import Material
from paribus.report.numbers import decimals, flops, percent, plain, rough, signed, significant


def heading(material: Material) -> tuple[str, ...]:
    return ("", *(material.found.label(arm) for arm in material.found.arms))


def numbers_behind(material: Material) -> list[tuple[str, ...]]:
    """A line a number, a column an arm; a line that no arm has is left out."""
    arms = material.found.arms
    lines = [
        (name, *(value(arm) for arm in arms)) for name, value in (*_lines(material), *_noise(material.found.pooled))
    ]
    return [line for line in lines if set(line[1:]) - {NONE}]


def _lines(material: Material) -> Sequence[tuple[str, Callable[[Arm], str]]]:
    return (
        ("verdict", lambda arm: arm.judgement.verdict.word),
        (f"gain, {UNIT}", _compared(lambda made: signed(made.effect, _digits(made)))),
        ("spread of paired gains", _compared(lambda made: significant(made.sd))),
        ("interval", _compared(_interval)),
        ("what decides on the margin", _compared(margin_cell)),
        ("p", _compared(lambda made: _p(made.p))),
        ("adjusted p", _compared(lambda made: _p(made.p_adjusted))),
        ("sign-flip p", _compared(lambda made: _p(made.sign_flip))),
        ("sign test, on the median", _compared(lambda made: NONE if made.sign_test is None else made.sign_test.words)),
        ("gain with each seed left out", _compared(_left_out)),
        (
            "an effect seen four times in five, at noise as large as these seeds allow",
            _compared(lambda made: _seen(made, material)),
        ),
        ("trained", lambda arm: _trained(arm.judgement.arm_trained)),
        ("trained, what it is judged against", lambda arm: _trained(arm.judgement.baseline_trained)),
        ("McNemar's p of failing as often", lambda arm: _p(arm.judgement.mcnemar)),
        ("pairing, ρ", lambda arm: _rho(arm.pairing)),
        ("of the noise of unpaired runs, left", lambda arm: _left(arm.pairing)),
        ("learning rate", lambda arm: _rate(arm.name, material)),
        ("learning rate, what it is judged against", lambda arm: _rate(arm.against, material)),
        ("what tuning could move", _movable),
        ("half an octave below the tuned rates", lambda arm: _bracket(arm, "below")),
        ("half an octave above the tuned rates", lambda arm: _bracket(arm, "above")),
        ("contexts cut", lambda arm: _cut(arm.name, material)),
        ("contexts cut, what it is judged against", lambda arm: _cut(arm.against, material)),
        ("gain on new documents", _crossed(_new)),
        ("to expect there, the wider of the two intervals", _hull),
        ("its variance between seeds", _crossed(lambda found: significant(found.seed_variance))),
        ("its variance between documents", _crossed(lambda found: significant(found.item_variance))),
        ("compute multiplier", lambda arm: multiplied(arm.multiplier)),
    )


def _noise(pooled: Pooled | None) -> Sequence[tuple[str, Callable[[Arm], str]]]:
    """One noise for all arms, and by what to judge it."""
    if pooled is None:
        return ()
    return (
        ("one noise for all arms", lambda arm: f"{significant(pooled.residual_sd)}, {pooled.df} degrees of freedom"),
        ("the arm's own", lambda arm: _sd(pooled.own_sds, arm.name)),
        ("own, of what it is judged against", lambda arm: _sd(pooled.own_sds, arm.against)),
        ("spread of the arm's scores", lambda arm: _sd(pooled.arm_sds, arm.name)),
        ("spread of scores, what it is judged against", lambda arm: _sd(pooled.arm_sds, arm.against)),
    )


def _sd(sds: Mapping[str, float], arm: str) -> str:
    return significant(sds[arm]) if arm in sds else NONE


def _compared(told: Callable[[Comparison], str]) -> Callable[[Arm], str]:
    return lambda arm: NONE if arm.judgement.comparison is None else told(arm.judgement.comparison)


def _crossed(told: Callable[[Crossed], str]) -> Callable[[Arm], str]:
    return lambda arm: NONE if arm.other_text is None or arm.other_text.interval is None else told(
        arm.other_text.interval
    )  # fmt: skip


def _hull(arm: Arm) -> str:
    found = expected_gain(arm)
    return between(found.low, found.high, _digits(found)) if found is not None and found.is_hull else NONE


def _digits(made: Comparison | Crossed | ExpectedGain) -> int:
    return decimals((made.high - made.low) / 2)


def _interval(made: Comparison) -> str:
    return f"{between(made.low, made.high, _digits(made))}, at {percent_level(made.level)}"


def _left_out(made: Comparison) -> str:
    return between(*made.leave_one_out, _digits(made))


def _p(value: float | None) -> str:
    return NONE if value is None else significant(value)


def _trained(found: Trained) -> str:
    return f"{found}; 95 % interval {percent(found.low)} to {percent(found.high)}"


def _rho(found: Pairing | None) -> str:
    if found is None:
        return NONE
    return f"{plain(found.rho, 2)}; 95 % interval {plain(found.low, 2)} to {plain(found.high, 2)}"


def _new(found: Crossed) -> str:
    digits = _digits(found)
    ends = between(found.low, found.high, digits)
    return f"{signed(found.effect, digits)}; {ends}, at {percent_level(found.level)}"


def _seen(made: Comparison, material: Material) -> str:
    if isinf(detectable_spreads(material.found)):
        return NONE
    return rough(detectable_effect(made, material.found))


def _left(found: Pairing | None) -> str:
    return NONE if found is None else percent(found.variance_ratio)


def _rate(name: str, material: Material) -> str:
    """The rate an arm trained at, where not all had one, with the interval of its vertex where there is one."""
    rates = material.found.rates
    if rates is None:
        return NONE if material.one_rate else significant(material.rate(name))
    ends = rates[name]["optimum"].get("interval")
    interval = "" if ends is None else f"; 95 % interval {significant(ends[0])} to {significant(ends[1])}"
    return f"{significant(rates[name]['rate'])}{interval}"


def _movable(arm: Arm) -> str:
    """The loss if the best rate of either arm were at an end of its interval."""
    if arm.movable is None:
        return NONE
    return "not known" if isinf(arm.movable) else rough(arm.movable)


def _bracket(arm: Arm, side: str) -> str:
    """The verdict, the gain and its interval at rates beside the tuned ones, where the design asks for them."""
    if side not in arm.brackets:
        return NONE
    own = arm.brackets[side]
    made = own.comparison
    if made is None:
        return own.verdict.word
    return f"{own.verdict.word}; {signed(made.effect, _digits(made))}, {between(made.low, made.high, _digits(made))}"


def _cut(name: str, material: Material) -> str:
    """How many contexts lost their beginnings, where any did."""
    heads = {arm: next((one.head for one in own.values()), None) for arm, own in material.found.answers.items()}
    head = heads[name]
    cut = any(one is not None and one.n_cut for one in heads.values())
    return f"{head.n_cut} of {head.n_items}" if cut and head is not None else NONE


def gains_by_rate(material: Material) -> list[tuple[str, ...]]:
    """A line a rate that arm and baseline were both swept at: each arm's mean gain there."""
    grid = sorted({rate for arm in material.found.arms for rate in arm.by_rate})
    return [(significant(rate), *(_at(arm, rate) for arm in material.found.arms)) for rate in grid]


def rate_table(material: Material) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """These with their heading; of many comparisons turned, a line each."""
    heads, lines = ("rate", *heading(material)[1:]), gains_by_rate(material)
    if not material.many:
        return heads, lines
    turned = list(zip(heads, *lines, strict=True))
    return turned[0], turned[1:]


def _at(arm: Arm, rate: float) -> str:
    if rate not in arm.by_rate:
        return NONE
    gain = arm.by_rate[rate]
    return "did not train" if gain is None else signed(gain, 4)


def sweep_words(material: Material) -> str:
    """How much of the study's FLOPs finding the rates took; nothing where no sweep is on record."""
    spent = flops_by_purpose(material.rows)
    if not spent["sweep"]:
        return ""
    share = percent(spent["sweep"] / sum(spent.values()))
    return f"Finding the rates took {flops(spent['sweep'])}, {share} of what the study's training took."
