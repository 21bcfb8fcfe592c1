"""Learning curves, a thin line a seed; the difference along training, with a pointwise band; rate curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import altair as alt

from paribus.analyse import bits, held_out
from paribus.analyse.curves import BAND, NOT_ANNEALED
from paribus.analyse.findings import UNIT, Arm
from paribus.analyse.rate_fit import parabola_points
from paribus.report.charts import Plot, arm_colours, arm_dashes, colour, data, layered, spec_of
from paribus.report.effect import APART, partners
from paribus.report.material import Material
from paribus.report.numbers import count, score, signed, significant

HEIGHT = 300
TOKENS = alt.X(
    "tokens:Q", scale=alt.Scale(type="log", nice=False), title="tokens read",
    axis=alt.Axis(format="~s", grid=False, tickCount=6, labelOverlap=True),
)  # fmt: skip
BITS = alt.Y("bits:Q", title=f"{UNIT}, validation text", scale=alt.Scale(zero=False))


def learning(material: Material) -> Plot | None:
    """Held-out bits a byte along training; arms that are asked other questions than the baseline are left out."""
    arms = [arm for arm in material.order if material.asked_alike(arm)]
    points = [point for arm in arms for point in _points(arm, material)]
    drawn = [arm for arm in arms if any(one["arm"] == arm for one in points)]
    if not drawn:
        return None
    besides = _left_out("trained on another question", [arm for arm in material.order if arm not in arms])
    besides += _left_out("without a run that trained", [arm for arm in arms if arm not in drawn])
    x, y = TOKENS, BITS
    base, shade, dash = (
        alt.Chart(data(points, material.order)),
        arm_colours(material.order, drawn),
        arm_dashes(material.order, drawn),
    )
    lines = base.mark_line(strokeWidth=1.2, opacity=0.75).encode(x=x, y=y, color=shade, strokeDash=dash, detail="run:N")
    told = [alt.Tooltip(name) for name in ("arm:N", "seed:N", "run:N", "read:N", "score:N")]
    dots = base.mark_circle(size=70, opacity=0).encode(x=x, y=y, color=shade, tooltip=told)
    ends = "; ".join(f"{arm} ends at {_ends(arm, points)}" for arm in drawn)
    return Plot(
        "learning", "Learning curves",
        f"A thin line a seed, on validation text under the training's own question. Lower is better; {NOT_ANNEALED}."
        f"{besides}",
        spec_of(layered(lines, dots), f"Learning curves: {ends}.", HEIGHT), ("arm", "seed", "tokens", UNIT),
        tuple((one["arm"], str(one["seed"]), str(one["tokens"]), one["score"]) for one in points),
    )  # fmt: skip


def _left_out(why: str, arms: Sequence[str]) -> str:
    return f" Left out, {why}: {', '.join(arms)}." if arms else ""


def _points(arm: str, material: Material) -> list[dict[str, Any]]:
    names = {(row["arm"], row["seed"]): row["run"] for row in material.found.reported}
    return [
        {
            "arm": arm, "seed": seed, "run": names[arm, seed], "tokens": row["tokens_read"], "bits": bits(row),
            "read": count(row["tokens_read"]), "score": score(bits(row)),
        }
        for seed, rows in sorted(material.found.runs[arm].items())
        for row in held_out(rows)
    ]  # fmt: skip


def _ends(arm: str, points: Sequence[dict[str, Any]]) -> str:
    own = [one for one in points if one["arm"] == arm]
    last = max(one["tokens"] for one in own)
    return ", ".join(one["score"] for one in own if one["tokens"] == last)


def differences(material: Material) -> list[Plot]:
    """The gain along training; a positive control that would flatten the others has a plot of its own."""
    arms = [arm for arm in material.found.arms if arm.curve and material.asked_alike(arm.name, arm.against)]
    control = [arm for arm in arms if arm.name == material.control]
    others = [arm for arm in arms if arm.name != material.control]
    if control and others and _reach(control) > APART * _reach(others):
        return [
            _difference("difference", "The gain along training", others, material),
            replace(
                _difference("difference-control", "The same for the positive control", control, material),
                caption=f"To be read as the plot above; {NOT_ANNEALED}.",
            ),
        ]
    return [_difference("difference", "The gain along training", arms, material)] if arms else []


def _reach(arms: Sequence[Arm]) -> float:
    """How far from zero the second half of training goes."""
    return max(abs(step.effect) for arm in arms for step in arm.curve[len(arm.curve) // 2 :])


def _difference(key: str, title: str, arms: Sequence[Arm], material: Material) -> Plot:
    steps = [
        {
            "arm": arm.name, "pair": material.found.label(arm), "tokens": step.step, "gain": step.effect,
            "low": step.low, "high": step.high, "read": count(step.step), "mean gain": signed(step.effect, 4),
            "band": f"{signed(step.low, 4)} to {signed(step.high, 4)}",
        }
        for arm in arms for step in arm.curve
    ]  # fmt: skip
    x = TOKENS
    names = list(dict.fromkeys(arm.name for arm in arms))
    base, shade, dash = (
        alt.Chart(data(steps, material.order)),
        arm_colours(material.order, names),
        arm_dashes(material.order, names),
    )
    title_y = f"gain in {UNIT}"
    band = base.mark_area(opacity=0.16).encode(
        x=x, y=alt.Y("low:Q", title=title_y), y2="high:Q", color=shade, detail="pair:N"
    )
    line = base.mark_line(strokeWidth=2).encode(
        x=x, y=alt.Y("gain:Q", title=title_y), color=shade, strokeDash=dash, detail="pair:N"
    )
    told = [alt.Tooltip(name) for name in ("pair:N", "read:N", "mean gain:N", "band:N")]
    dots = base.mark_circle(size=40).encode(x=x, y=alt.Y("gain:Q", title=title_y), color=shade, tooltip=told)
    zero = alt.Chart(data([{"zero": 0}])).mark_rule(color=colour("muted"), strokeDash=[3, 3]).encode(y="zero:Q")
    last = "; ".join(f"{material.found.label(arm)} ends at {signed(arm.curve[-1].effect, 4)}" for arm in arms)
    return Plot(
        key, title, f"Mean over seeds on validation text; {BAND}. Above zero is better than {partners(arms)}; "
        f"{NOT_ANNEALED}.",
        spec_of(layered(band, zero, line, dots), f"{title}: {last}.", HEIGHT - 60),
        ("arm", "tokens", "mean gain", "95 % band"),
        tuple((one["pair"], str(one["tokens"]), one["mean gain"], one["band"]) for one in steps),
    )  # fmt: skip


def rates(material: Material) -> Plot | None:
    """What every arm scored at every rate of its sweep, the parabola, and the rate that was taken."""
    found = material.found.rates
    if found is None:
        return None
    points = [
        {"arm": arm, "rate": rate, "bits": loss, "score": score(loss), "at": significant(rate)}
        for arm in material.order for rate, loss in found[arm]["points"] if loss is not None
    ]  # fmt: skip
    grid = sorted({rate for own in found.values() for rate in _grid(own)})
    x = alt.X("rate:Q", scale=alt.Scale(type="log", base=2, nice=False), title="learning rate",
              axis=alt.Axis(format=".3~g", values=grid, grid=False, labelOverlap=True))  # fmt: skip
    y, shade = (
        alt.Y("bits:Q", title=f"{UNIT}, validation text", scale=alt.Scale(zero=False)),
        arm_colours(material.order),
    )
    told = [alt.Tooltip(name) for name in ("arm:N", "at:N", "score:N")]
    dots = (
        alt.Chart(data(points, material.order))
        .mark_circle(size=50, opacity=0.8)
        .encode(x=x, y=y, color=shade, tooltip=told)
    )
    fits = [one for arm in material.order for one in _parabola(arm, found[arm])]
    lines = (
        alt.Chart(data(fits, material.order))
        .mark_line(strokeWidth=1.2, opacity=0.7)
        .encode(x=x, y=y, color=shade, strokeDash=arm_dashes(material.order))
    )
    taken = [{"arm": arm, "rate": found[arm]["rate"]} for arm in material.order]
    rules = alt.Chart(data(taken, material.order)).mark_rule(strokeDash=[2, 3]).encode(x=x, color=shade)
    said = "; ".join(f"{arm} {significant(found[arm]['rate'])}" for arm in material.order)
    return Plot(
        "rates", "Rate curves", "Every point is a run of a sweep, whose seeds are not reported; the curve is the "
        "parabola in log₂ rate over the rates it was fitted to, the dashed line the rate that was taken.",
        spec_of(layered(lines, rules, dots), f"Rate curves; taken were {said}.", HEIGHT), ("arm", "rate", UNIT),
        tuple((one["arm"], one["at"], one["score"]) for one in points),
    )  # fmt: skip


def _grid(swept: dict[str, Any]) -> list[float]:
    """The rates that every arm was swept at; an older study does not say which, and had no others."""
    return swept.get("grid") or [rate for rate, loss in swept["points"] if loss is not None]


def _parabola(arm: str, swept: dict[str, Any]) -> list[dict[str, Any]]:
    fit = swept["optimum"]["coefficients"]
    rated = swept["optimum"].get("fitted") or [rate for rate, loss in swept["points"] if loss is not None]
    if fit is None or not rated:
        return []
    return [{"arm": arm, "rate": rate, "bits": loss} for rate, loss in parabola_points(fit, rated)]
