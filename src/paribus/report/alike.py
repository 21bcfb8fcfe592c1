"""Same verdict if the arms were made equal in something else? To explore: read off curves on validation text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from paribus.analyse import Total, alike
from paribus.analyse.findings import UNIT, Arm
from paribus.report.material import Material
from paribus.report.numbers import count, decimals, duration, flops, signed

WORDS: dict[Total, str] = {
    "dense_flops": "training FLOPs", "tokens_read": "tokens read", "tokens_scored": "tokens scored",
    "seconds": "seconds",
}  # fmt: skip
WRITERS: dict[Total, Callable[[float], str]] = {
    "dense_flops": flops, "tokens_read": count, "tokens_scored": count, "seconds": duration,
}  # fmt: skip
NOTHING_TO_COMPARE = "there is no verdict to compare with"
STEADY: tuple[Total, ...] = ("dense_flops", "tokens_read", "tokens_scored")


@dataclass(frozen=True)
class Otherwise:
    """What is said of one arm if something else is made equal."""

    arm: str  # empty: all of them
    by: str
    same: str  # yes, no, or a dash
    text: str


def otherwise(material: Material) -> list[Otherwise]:
    """By FLOPs and tokens, and at the base rate; what depends on the clock is told among the times."""
    if material.found.agreement.changed:
        return []
    arms = material.found.arms
    found = [_joined([_equal(arm, material, by) for arm in arms]) for by in STEADY]
    found.append(_joined([_base_rate(arm, material) for arm in arms]))
    return [one for lines in found for one in lines]


def by_seconds(material: Material) -> list[Otherwise]:
    """Gains where every run had taken as long; no verdict, for seconds are of a machine and of what else it did."""
    if material.found.agreement.changed:
        return []
    return _joined([replace(_equal(arm, material, "seconds"), same="–") for arm in material.found.arms])


def _joined(lines: list[Otherwise]) -> list[Otherwise]:
    """One line where the same is said of every arm."""
    alone = len({(one.same, one.text) for one in lines}) == 1 and len(lines) > 1
    return [replace(lines[0], arm="")] if alone else lines


def _equal(arm: Arm, material: Material, by: Total) -> Otherwise:
    found, runs = material.found, material.found.runs
    if arm.judgement.verdict.word == "no verdict":
        return Otherwise(arm.name, WORDS[by], "–", NOTHING_TO_COMPARE)
    if not material.asked_alike(arm.name, arm.against):
        return Otherwise(arm.name, WORDS[by], "–", "not comparable: the arms' curves answer different questions")
    got = alike(
        runs[arm.against], runs[arm.name], by, margin=found.margin, n_comparisons=found.n_comparisons,
        share=found.share, unit=UNIT, open_ended=found.open_ended,
    )  # fmt: skip
    if got.equal:
        why = "" if by == "seconds" else "by construction: "
        return Otherwise(arm.name, WORDS[by], "yes", f"{why}the totals are equal")
    if got.comparison is None:
        return Otherwise(arm.name, WORDS[by], "–", got.reason)
    word = got.comparison.verdict.word
    said = "gain" if by == "seconds" else word
    digits = decimals((got.comparison.high - got.comparison.low) / 2)
    at = WRITERS[by](got.at or 0.0)
    return Otherwise(
        arm.name, WORDS[by], "yes" if word == arm.judgement.verdict.word else "no",
        f"{said}{_than(arm, material)} at {at}: {signed(got.comparison.effect, digits)}, "
        f"{signed(got.comparison.low, digits)} to {signed(got.comparison.high, digits)}, on validation text"
        f"{', by the noise of these two arms alone' if found.equal_noise else ''}",
    )  # fmt: skip


def _than(arm: Arm, material: Material) -> str:
    """What an arm is judged against, where that is not the baseline."""
    return "" if arm.against == material.found.baseline else f" against {arm.against}"


def _base_rate(arm: Arm, material: Material) -> Otherwise:
    rate = material.stage(material.found.baseline)["training"]["optimizer"]["rate"]
    by = f"the base rate, {rate:g}"
    if arm.judgement.verdict.word == "no verdict":
        return Otherwise(arm.name, by, "–", NOTHING_TO_COMPARE)
    if material.found.rates is None:
        return _written_rate(arm, material, by)
    gain = next((gain for at, gain in arm.by_rate.items() if abs(at / rate - 1) < 1e-9), None)
    if gain is None:
        return Otherwise(arm.name, by, "–", "no sweep of both arms trained at it")
    sign = {"better": 1, "worse": -1}.get(arm.judgement.verdict.word)  # other words are of no sign
    same = "–" if sign is None else "yes" if gain * sign > 0 else "no"
    n_seeds = material.plan["design"]["tune"]["n_seeds"]
    return Otherwise(
        arm.name, by, same, f"gain{_than(arm, material)} {signed(gain, 4)} in {n_seeds} sweep seeds: a sign, no verdict"
    )


def _written_rate(arm: Arm, material: Material, by: str) -> Otherwise:
    """Where nothing was tuned: every arm trained at the rate written for it."""
    if material.one_rate:
        return Otherwise(arm.name, by, "yes", "by construction: all arms trained at it")
    if material.rate(arm.name) == material.rate(arm.against):
        return Otherwise(arm.name, by, "yes", f"by construction: {arm.name} trained at it too")
    return Otherwise(arm.name, by, "–", f"{arm.name} trained at {material.rate(arm.name):g} alone")
