"""The positive control in words: whether it works, and how large the margin is beside it."""

from __future__ import annotations

from collections.abc import Iterator
from math import isinf

from paribus.analyse.control import WEAK, ControlFinding, margin_share
from paribus.analyse.findings import UNIT
from paribus.report.material import Material
from paribus.report.numbers import decimals, percent_level, plain, some


def control_sentence(material: Material) -> str:
    """Whether the control works, with its numbers; empty where there is none outside the family."""
    found = material.found.control
    if found is None:
        return ""
    return f"The positive control {found.word}: {_numbers(found, material)}."


def control_means(found: ControlFinding) -> str:
    """What it says of the experiment that a control works, or did not."""
    if found.works:
        return "The yardstick reacts to what must make an arm worse."
    return "At this size and length, the experiment sees nothing."


def margin_words(material: Material) -> str:
    """How large the margin is beside what the control costs; empty where one of them is not to be had."""
    found, share = material.found.control, _margin_share(material)
    if found is None or share is None:
        return ""
    return f"The margin is {_percent(share)} of {found.worth}"


def is_weak(material: Material) -> bool:
    """Is the margin more than half of what the input is worth? Then `equivalent` says little."""
    found, share = material.found.control, _margin_share(material)
    return found is not None and share is not None and found.kind == "input" and share > WEAK


def equivalent_within(material: Material) -> str:
    """What stands beside `equivalent` where the margin is large beside what the input is worth; else nothing."""
    found, share = material.found.control, _margin_share(material)
    if found is None or share is None or not is_weak(material):
        return ""
    return f"within a margin of {_percent(share)} of {found.worth}"


def _percent(share: float) -> str:
    """0.822 → 82 %, 0.0398 → 4.0 %."""
    digits = 0 if share >= 0.1 else 1
    return f"{plain(100 * share, digits)} %"


def _margin_share(material: Material) -> float | None:
    return margin_share(material.found.control, material.found.margin)


def _numbers(found: ControlFinding, material: Material) -> str:
    if found.reason:
        return f"{found.name} had to come out worse, and {found.reason}"
    return " ".join(_parts(found, material))


def _parts(found: ControlFinding, material: Material) -> Iterator[str]:
    digits = decimals(abs(found.effect - found.low)) if not isinf(found.low) else 4
    verb = "loses" if found.effect >= 0 else "gains"
    yield f"{found.name} {verb} {plain(abs(found.effect), digits)} {UNIT} against {material.found.baseline}"
    bound = "no bound yet" if isinf(found.low) else f"a loss of at least {plain(found.low, digits)}"
    yield f"({bound}, one-sided at {percent_level(found.level)}, {some(len(found.losses), 'paired seed')})"
