"""The kept losses of rate transfer say what the page on scaling prints; kept sweeps give the rates
that the page of results prints.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from math import log2, sqrt
from statistics import fmean

import pytest
from kept_studies import RESULTS, rows_of

from paribus.analyse import refine_vertex
from paribus.analyse.interval import interval
from paribus.analyse.rate_fit import fit_rates
from paribus.spec.measure import LIKELIHOOD

N_BESIDE = 2  # rates on either side of the best that a parabola goes through
SCALING = RESULTS.parent / "scaling.md"

Losses = dict[float, dict[int, float]]  # by rate, then by seed


def losses_by(name: str, *fields: str) -> dict[tuple[str, ...], Losses]:
    """The losses of each setting."""
    found: dict[tuple[str, ...], Losses] = defaultdict(lambda: defaultdict(dict))
    for row in rows_of(RESULTS / "rate-transfer" / name):
        setting = tuple(row[field] for field in fields)
        found[setting][float(row["rate"])][int(row["seed"])] = float(row["valid_nats"])
    return found


def best_rates(losses: Losses) -> list[float]:
    """log₂ of the best rate of each seed."""
    rates = sorted(losses)
    means = [fmean(losses[rate].values()) for rate in rates]
    best = means.index(min(means))
    near = rates[best - N_BESIDE : best + N_BESIDE + 1]
    assert len(near) == 2 * N_BESIDE + 1
    vertices: list[float] = []
    for seed in sorted(losses[near[0]]):
        vertex = fit_rates({rate: [losses[rate][seed]] for rate in near}).vertex
        assert vertex is not None
        vertices.append(vertex)
    return vertices


def ratio(own: list[float], first: list[float]) -> str:
    """A ratio of best rates as it is printed."""
    moved = [one - other for one, other in zip(own, first, strict=True)]
    low, high = interval(moved)
    return f"{2 ** fmean(moved):.2f} ({2**low:.2f} to {2**high:.2f})"


@pytest.mark.parametrize(
    ("init", "label"), [("normal", 'standard (`init = "normal"`)'), ("mup", "μP")]
)
def test_the_table_of_rate_transfer_follows_from_its_losses(init: str, label: str):
    losses: Mapping[tuple[str, ...], Losses] = losses_by("widths.csv", "init", "d_model")
    rates = [best_rates(losses[init, width]) for width in ("64", "256", "512")]
    best = [f"{2 ** fmean(own):.3g}" for own in rates]
    ratios = [ratio(own, rates[0]) for own in rates[1:]]
    assert f"| {' | '.join([label, *best, *ratios])} |" in SCALING.read_text().splitlines()


def test_the_best_rate_does_not_fall_from_6m_to_24m_tokens():
    losses = losses_by("durations.csv", "d_model", "tokens")
    text = SCALING.read_text()
    for width in ("64", "96"):
        shorter, longer = (best_rates(losses[width, tokens]) for tokens in ("6000000", "24000000"))
        printed = ratio(longer, shorter).replace(" (", " times (")
        assert printed in text
        for own in (shorter, longer):
            assert f"{2 ** fmean(own):.4f}" in text


@pytest.mark.parametrize("study", ["rates-22m", "rates-90m-128", "rates-90m-256"])
def test_the_table_of_swept_rates_follows_from_the_rows_of_its_sweeps(study: str) -> None:
    folder = RESULTS / study
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in rows_of(folder / "rows.csv"):
        if row["purpose"] == "sweep":
            points[row["arm"]].append((float(row["rate"]), float(row["halves.valid"])))
    kept = json.loads((folder / "rates.json").read_text())
    page = (RESULTS / "README.md").read_text("utf-8")
    assert set(points) == set(kept)
    for arm, own in kept.items():
        optimum = refine_vertex(
            points[arm], own["grid"], unigram=own["unigram"], measure=LIKELIHOOD
        )
        assert optimum.rate == pytest.approx(own["optimum"]["rate"], rel=1e-6)
        assert float(f"{optimum.rate:.3g}") == own["rate"]
        assert optimum.interval is not None
        low, high = optimum.interval
        assert f"{own['rate']:.3g} ({low:.3g} to {high:.3g})" in page


def test_how_rates_move_with_width_and_text_follows_from_the_four_rates_of_each_arm() -> None:
    octaves: dict[tuple[str, str, str], tuple[float, float]] = {}
    for study, text in (("rates-22m", "22"), ("rates-90m-128", "90"), ("rates-90m-256", "90")):
        for arm, own in json.loads((RESULTS / study / "rates.json").read_text()).items():
            low, high = own["optimum"]["interval"]
            kind, width = arm.rsplit(" ", 1)
            octaves[kind, width, text] = (log2(own["rate"]), log2(high / low) / 3.92)
    page = (RESULTS / "README.md").read_text("utf-8")
    for kind, named in (
        ("causal LM", "causal mask, every token scored"),
        ("causal", "causal mask, second part scored"),
        ("prefix", "prefix mask, second part scored"),
    ):
        (a, e_a), (b, e_b), (c, e_c), (d, e_d) = (
            octaves[kind, width, text] for width in ("128", "256") for text in ("22", "90")
        )
        half = 1.96 * sqrt(e_a**2 + e_b**2 + e_c**2 + e_d**2) / 2
        cells = [
            f"× {2**mean:.2f} ({2 ** (mean - half):.2f} to {2 ** (mean + half):.2f})"
            for mean in ((c + d - a - b) / 2, (b + d - a - c) / 2)
        ]
        off = 2 ** (abs(a - b - c + d) / 4)
        assert f"| {named} | {' | '.join(cells)} | {off:.2f} |" in page.splitlines()
