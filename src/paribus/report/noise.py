"""Where the noise comes from: the components of variance as a table, and what making a run again changes."""

from __future__ import annotations

from collections.abc import Iterator

from paribus.analyse.findings import UNIT
from paribus.analyse.variance import Component, NoiseSources
from paribus.report.material import Material
from paribus.report.numbers import listed, percent, rough, significant

TITLE = "Where the noise comes from"
HEADING = ("component", f"standard deviation, {UNIT}", "share of the variance", "degrees of freedom", "p")
NONE = "–"
METHOD = (
    "A two-way table of the baseline at its tuned rate, one run for each start and order, without replicates; "
    "components by the method of moments, random effects, F tests against the rest. An estimate below 0 stands as 0. "
    "The rest holds what start and order do together."
)


def noise_lines(material: Material) -> list[tuple[str, ...]]:
    """A line a component; none where nothing was measured."""
    noise = material.found.noise
    if noise is None:
        return []
    total = sum(max(one.variance, 0.0) for one in noise.components)
    lines = [_line(one, total) for one in noise.components]
    return lines if noise.rerun is None else [*lines, _line(noise.rerun, 0.0)]


def _line(one: Component, total: float) -> tuple[str, ...]:
    share = percent(max(one.variance, 0.0) / total) if total else NONE
    sd = significant(one.sd) if one.variance >= 0 else "0 (estimate below 0)"
    return one.name, sd, share, str(one.df), NONE if one.p is None else rough(one.p)


def noise_words(material: Material) -> str:
    """What was made, in a sentence or two; nothing where nothing was."""
    noise = material.found.noise
    return "" if noise is None else " ".join(_sentences(noise, material))


def _sentences(noise: NoiseSources, material: Material) -> Iterator[str]:
    if noise.why:
        yield f"The noise of {noise.arm} was to be taken apart, and is not: {noise.why}."
        return
    if noise.components:
        parts = listed([f"{rough(one.sd)} for the {one.name}" for one in noise.components])
        yield f"Of {noise.arm}, {noise.n_starts} starts under {noise.n_orders} orders of the text spread by {parts}."
    if noise.rerun is not None:
        yield _rerun_words(noise.rerun, material)


def _rerun_words(rerun: Component, material: Material) -> str:
    """Whether a seed fixes a run; if it does not, beside the spread of the paired gains."""
    times = f"made {rerun.df + 1} times"
    if rerun.variance == 0.0:
        return f"The same run, {times}, ended the same to the last bit."
    made = {material.found.label(arm): arm.judgement.comparison for arm in material.found.arms}
    spreads = [f"{rough(one.sd)} for {name}" for name, one in made.items() if one is not None]
    beside = f"; paired gains spread by {listed(spreads)}" if spreads else ""
    return f"The same run, {times}, spreads by {rough(rerun.sd)} {UNIT}: a seed does not fix it{beside}."
